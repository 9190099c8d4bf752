"""The command that shows everything at once: ``demo``."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_sd.cli_options import Chains, Draws, Json, Quiet, Seed, Tune
from bayes_sd.cli_output import INTERRUPTED, spoken_warnings, tell, write_json


def demo(
    folder: Annotated[Path, typer.Option(help="Folder for the fit and the plots.")] = Path(
        "bayes-sd-demo"
    ),
    draws: Draws = 700,
    tune: Tune = 500,
    chains: Chains = 4,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Fit bundled measurements and answer questions; minutes."""
    if not quiet:
        tell("Loading the libraries.")
    with spoken_warnings() as said:
        from rich.console import Console

        from bayes_sd.demo import run_demo

        result = run_demo(
            folder,
            progressbar=not quiet,
            draws=draws,
            tune=tune,
            chains=chains,
            random_seed=seed,
            console=Console(stderr=json, highlight=False),
        )
    if result["interrupted"]:
        raise typer.Exit(INTERRUPTED)
    if json:
        write_json({"command": "demo", **result, "warnings": said})
