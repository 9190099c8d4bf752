"""Commands that make a fit and judge it: ``fit`` and ``check``."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from bayes_sd.cli_options import (
    Chains,
    Draws,
    FitFile,
    Json,
    Quiet,
    Seed,
    TargetAccept,
    Tune,
    words,
)
from bayes_sd.cli_output import (
    INTERRUPTED,
    at_work,
    heading,
    records,
    show,
    spoken_warnings,
    tell,
    write_json,
)
from bayes_sd.exceptions import ArgumentError, BayesSdError, FitFileError, FormatError

BUNDLED = ("scaling", "vllm-cpu", "vllm-cpu-moe", "h200")
Tables = Annotated[
    list[Path] | None,
    typer.Argument(help="Tables of runs: CSV, CSV.gz or Parquet.", metavar="TABLE"),
]
Bundled = Annotated[
    list[str] | None,
    typer.Option(
        help="Measured runs of the library: " + ", ".join(BUNDLED) + ". Repeatable.",
        metavar="NAME",
        autocompletion=words(*BUNDLED),
    ),
]


def read_table(path: Path) -> Any:
    """Read and check one table of runs, CSV or Parquet; every error names the file."""
    import pandas as pd

    from bayes_sd.frames import check_runs

    if not path.is_file():
        raise FormatError(
            f"{path} is not a file. Give a table of runs (CSV or Parquet), or --data scaling."
        )
    _refuse_other_files(path)
    try:
        if path.suffix.lower() == ".parquet":
            frame = pd.read_parquet(path)
        else:
            frame = pd.read_csv(path, dtype="str")
    except (OSError, ValueError) as error:
        kind = "Parquet" if path.suffix.lower() == ".parquet" else "CSV"
        raise FormatError(
            f"{path} cannot be read as {kind}: {str(error).strip()}. It must be a table of runs, "
            "one run a row, with the columns of bayes_sd.schema."
        ) from error
    try:
        check_runs(frame)
    except BayesSdError as error:
        raise type(error)(f"{path}: {error}") from error
    return frame


def _refuse_other_files(path: Path) -> None:
    """Refuse files that are known not to be tables, and name the command that takes them."""
    kind = path.suffix.lower()
    if kind in (".json", ".jsonl", ".ndjson", ".zst"):
        raise FormatError(
            f"{path} is no table of runs: fit takes CSV or Parquet. If a benchmark tool wrote it, "
            f"make a table first: bayes-sd read {path} -o runs.csv"
        )
    if kind in (".nc", ".h5"):
        raise FormatError(
            f"{path} is no table of runs: it looks like a fit. Ask it: bayes-sd check {path}"
        )


def read_tables(paths: Sequence[Path], bundled: Sequence[str]) -> Any:
    """Read the tables asked for, one after the other in one frame."""
    import pandas as pd

    from bayes_sd import datasets
    from bayes_sd.validate import one_of

    for name in bundled:
        one_of(name, BUNDLED, "--data")
    if not paths and not bundled:
        raise ArgumentError(
            "fit needs runs: tables, or --data with one of " + ", ".join(BUNDLED) + "."
        )
    load: dict[str, Callable[[], Any]] = {
        "scaling": datasets.load_scaling_study,
        "vllm-cpu": datasets.load_vllm_cpu,
        "vllm-cpu-moe": lambda: datasets.load_vllm_cpu("moe"),
        "h200": datasets.load_h200_70b,
    }
    frames = [read_table(path) for path in paths] + [load[name]() for name in bundled]
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)


def _check_output(path: Path) -> None:
    """Refuse a place that cannot be written to before the minute that a fit takes."""
    folder = path.parent
    if not folder.is_dir():
        raise FitFileError(
            f"{path} cannot be written: folder {str(folder)!r} does not exist. Make it first."
        )
    if path.is_dir() or not os.access(folder, os.W_OK):
        raise FitFileError(f"{path} cannot be written: it is a folder, or its folder is read-only.")


def fit(
    paths: Tables = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("fit.nc"),
    data: Bundled = None,
    draws: Draws = 1000,
    tune: Tune = 500,
    chains: Chains = 4,
    seed: Seed = 0,
    target_accept: TargetAccept = 0.95,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Fit the latency model to tables of runs."""
    with spoken_warnings() as said:
        _check_output(output)
        frame = read_tables(paths or [], data or [])
        from bayes_sd import fitting
        from bayes_sd.convergence import diagnose
        from bayes_sd.posterior import fitted_pairs
        from bayes_sd.render import render_convergence
        from bayes_sd.storage import save

        if not quiet:
            tell(f"{len(frame)} runs: compiling (up to a minute), then sampling.")
        tree = fitting.fit(
            frame,
            draws=draws,
            tune=tune,
            chains=chains,
            random_seed=seed,
            progressbar=not quiet,
            target_accept=target_accept,
        )
        if tree["posterior"].sizes["draw"] < draws:  # the sampler stops early on Ctrl-C
            raise typer.Exit(INTERRUPTED)
        verdict = diagnose(tree, warn=False)
        save(tree, output)
        labels = fitted_pairs(tree)
    if json:
        document = heading("fit", "" if verdict.passed else verdict.sentence()) | {
            "verdict": verdict.to_dict(),
            "file": str(output),
            "num_runs": tree["constant_data"].sizes["run"],
            "pairs": labels,
            "warnings": said,
        }
        write_json(document)
        return
    show(render_convergence("" if verdict.passed else verdict.sentence()))
    if verdict.passed:
        show(verdict.sentence())
    show(f"Wrote {output}: {len(labels)} pairs. Next: bayes-sd choose {output} --rate 4")


def check(fit_file: FitFile, quiet: Quiet = False, json: Json = False) -> None:
    """Say whether a fit converged, and list its pairs.

    Exit status 1 if it did not converge.
    """
    with at_work("Checking.", quiet=quiet) as said:
        from bayes_sd.convergence import diagnose
        from bayes_sd.render import render_verdict
        from bayes_sd.storage import load

        tree = load(fit_file)
        verdict = diagnose(tree, warn=False)
        pairs = pairs_of(tree)
    if json:
        document = heading("check", "" if verdict.passed else verdict.sentence()) | {
            "verdict": verdict.to_dict(),
            "pairs": records(pairs),
            "warnings": said,
        }
        write_json(document)
    else:
        show(render_verdict(verdict), _pair_table(pairs))
    if not verdict.passed:
        raise typer.Exit(1)


def pairs_of(tree: Any) -> Any:
    """Return a table of the fitted pairs: runs, draft lengths and rates measured."""
    import numpy as np
    import pandas as pd

    runs = tree["constant_data"].to_dataset()
    rows = []
    for number, label in enumerate(runs["pair"].values):
        mine = runs.isel(run=np.flatnonzero(runs["pair_of_run"].values == number))
        base = int(runs["base_of_pair"].values[number])
        off = (runs["base_of_run"].values == base) & (runs["pair_of_run"].values == -1)
        rate = mine["request_rate_rps"].values
        rows.append(
            {
                "pair": str(label),
                "num_runs": mine.sizes["run"],
                "num_runs_off": int(off.sum()),
                "draft_lengths": sorted({int(k) for k in mine["num_speculative_tokens"].values}),
                "max_request_rate_rps": float(np.nanmax(rate)) if np.isfinite(rate).any() else None,
                "acceptance": "forced"
                if np.isfinite(mine["forced_acceptance_rate"].values).all()
                else "counted",
            }
        )
    return pd.DataFrame(rows)


def _pair_table(pairs: Any) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text("Fitted pairs", style="bold"), title_justify="left")
    for name in ("pair", "runs", "runs off", "k measured", "highest rate, 1/s", "acceptance"):
        table.add_column(name)
    for row in pairs.itertuples():
        rate = row.max_request_rate_rps
        table.add_row(
            Text(row.pair),
            str(row.num_runs),
            str(row.num_runs_off),
            " ".join(str(k) for k in row.draft_lengths),
            "–" if rate is None or rate != rate else f"{rate:.3g}",
            row.acceptance,
        )
    return table
