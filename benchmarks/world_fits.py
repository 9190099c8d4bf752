"""Fits of many simulated worlds that one compilation serves, and that survive an interruption.

Each world's result is one line of a JSONL file, and is computed once: a run that was stopped goes
on where it was. The first line of the file says what its worlds are; others are refused.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from rich.progress import track

from bayes_sd.generate import design_of, with_responses
from bayes_sd.model import build_model
from bayes_sd.prior_simulation import simulate_from_prior
from bayes_sd.priors import Prior
from bayes_sd.sampling import CompiledModel, compile_model, sample
from bayes_sd.sbc import convergence_of, each_data_set
from bayes_sd.start import starting_point

DRAWS, TUNE, CHAINS = 300, 300, 2
MIN_ESS, MAX_R_HAT = 150.0, 1.03
MAX_REPEATS = 2

type Watched = Callable[[xr.Dataset, xr.Dataset], NDArray[np.float64]]


@dataclass(frozen=True)
class World:
    """One truth, the data it made, and the posterior of these data.

    ``how`` says how the sampling went: seconds, draws, divergences, largest R-hat and smallest ESS
    of what was watched.
    """

    number: int
    truth: xr.Dataset
    data: xr.Dataset
    posterior: xr.Dataset
    how: dict[str, float]


def fitted_worlds(
    design: xr.Dataset,
    priors: dict[str, Prior],
    *,
    num_worlds: int,
    random_seed: int,
    watched: Watched,
    skip: set[int] = frozenset(),
    refit_design: xr.Dataset | None = None,
) -> Iterator[World]:
    """Draw truths from the prior, data from the truths, and fit each; skip those that are done.

    Parameters
    ----------
    design : xarray.Dataset
        Result of `to_dataset`: which runs there are.
    priors : dict of str to Prior
        Of the truths and of the fits.
    num_worlds, random_seed : int
        The truths hang on both.
    watched : callable
        From posterior and data to the quantities, (draw, quantity), whose convergence is asked
        for. While it is lacking the fit is repeated, twice at most, from the world's own starting
        point and with twice the draws.
    skip : set of int
        Numbers of worlds that need no fit.
    refit_design : xarray.Dataset, optional
        The same runs under other names, to fit in place of the design.
    """
    design = design_of(design)
    fitted = design if refit_design is None else design_of(refit_design)
    if not (design["run"].values == fitted["run"].values).all():
        raise ValueError("refit_design must hold the runs of the design, in the same order.")
    model = build_model(design, priors, replaceable=True)
    rng = np.random.default_rng(random_seed)
    truths, generated, num_drawn = simulate_from_prior(design, model, num_worlds, rng)
    todo = [i for i in range(num_worlds) if i not in skip]
    if not todo:
        return
    model = build_model(fitted, priors, replaceable=True)

    def compiled_for(number: int) -> CompiledModel:
        data = with_responses(fitted, generated.isel(sample=number))
        return compile_model(model, starting_point(data, priors))

    first = compiled_for(todo[0])
    for number in track(todo, "worlds", disable=len(todo) < 2):
        one = generated.isel(sample=[number])
        begun = time.perf_counter()
        compiled = first
        for repeat in range(MAX_REPEATS + 1):
            if repeat == 1:  # from another world's start a chain may end in a bad mode
                compiled = compiled_for(number)
            ((data, changed),) = each_data_set(compiled, fitted, one, priors)
            posterior, how = posterior_of(
                changed, data, watched, repeat, random_seed + 1 + number + repeat * 10**6
            )
            if how["min_ess"] >= MIN_ESS and how["max_r_hat"] <= MAX_R_HAT:
                break
        how |= {"sampling_s": time.perf_counter() - begun, "prior_draws": num_drawn}
        yield World(number, truths.isel(sample=[number]), data, posterior, how)


def posterior_of(
    compiled: CompiledModel, data: xr.Dataset, watched: Watched, repeat: int, random_seed: int
) -> tuple[xr.Dataset, dict[str, float]]:
    """Sample, with twice the draws and tuning for each repeat, and say how it went."""
    draws = DRAWS * 2**repeat
    tree = sample(
        compiled,
        draws=draws,
        tune=TUNE * 2**repeat,
        chains=CHAINS,
        random_seed=random_seed,
        progressbar=False,
    )
    posterior = tree["posterior"].to_dataset()
    r_hat, ess = convergence_of(watched(posterior, data), CHAINS)
    return posterior, {
        "draws": CHAINS * draws,
        "divergences": int(tree["sample_stats"]["diverging"].sum()),
        "max_r_hat": float(np.nanmax(r_hat)),
        "min_ess": float(np.nanmin(ess)),
    }


def tree_of(posterior: xr.Dataset, data: xr.Dataset) -> xr.DataTree:
    """Return a posterior as a fit to decide on; its convergence was judged elsewhere."""
    return xr.DataTree.from_dict(
        {
            "posterior": posterior,
            "constant_data": data,
            "/": xr.Dataset(attrs={"passed": 1, "verdict": ""}),
        }
    )


def cache_folder(given: Path | None, *, quick: bool) -> Path:
    """Return the folder of results: the one given, one that stays, or a new one to try things."""
    if given is not None:
        return given
    if quick:
        return Path(tempfile.mkdtemp(prefix="bayes_sd-worlds-"))
    return Path(tempfile.gettempdir()) / "bayes_sd-worlds"


def cached_worlds(path: Path, settings: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the results in a JSONL file by number; a new file begins with the settings.

    Raises
    ------
    ValueError
        If the file holds results of other settings.
    """
    settings = json.loads(json.dumps(settings | {"sampling": [DRAWS, TUNE, CHAINS]}))
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings) + "\n", encoding="utf-8")
        return {}
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    if json.loads(head) != settings:
        raise ValueError(f"{path} must hold worlds of {settings}. Got {head} instead: remove it.")
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:  # cut off as it was written: computed again
            continue
    return {row["world"]: row for row in rows}


def append_world(path: Path, row: dict[str, Any]) -> None:
    """Add one world's result to the file; after a line that was cut off, on a line of its own."""
    cut = not path.read_bytes().endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" * cut + json.dumps(row, default=float) + "\n")
