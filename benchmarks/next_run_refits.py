"""The value of a run by regression, against refits.

    python -m benchmarks.next_run_refits           # 6 candidates, 24 refits of each
    python -m benchmarks.next_run_refits --quick   # 2 candidates, 2 refits; writes nothing

`next_run` finds what a run is expected to save by regression over the draws of one fit. Here the
same is done by brute force: results of the candidate are drawn from the posterior, the model is
fitted again with each of them, and the least expected regret after it is averaged.
"""

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayes_sd.generate import generate_latency, with_responses
from bayes_sd.run_law import flat_draws
from bayes_sd.run_value import NextRun
from benchmarks.few_runs_grid import (
    GridWorlds,
    latency_of_arms,
    regrets_in,
)

NUM_RUNS = 8
NUM_CANDIDATES = 6
NUM_REFITS = 24
MIN_REGRET = 0.03  # a world in which there is something to save
SEED = 11


def least_regret(latency: NDArray[np.float64]) -> float:
    """Return the expected regret of the best choices, mean over decisions."""
    return float(regrets_in(latency).mean(axis=0).min(axis=-1).mean())


def drawn_grid(data: xr.Dataset, made: list[int], one: xr.Dataset) -> xr.Dataset:
    """Return a grid in which the runs that were not made have the responses of one draw."""
    is_made = xr.DataArray(np.isin(np.arange(data.sizes["run"]), made), dims="run")
    mixed = {n: xr.where(is_made, data[n], v).transpose(*v.dims) for n, v in one.data_vars.items()}
    return with_responses(data, xr.Dataset(mixed))


def spread_over(found: NextRun, number: int) -> list[int]:
    """Return candidates from the most to the least useful, evenly spaced in rank."""
    order = np.argsort(found.regret_after, kind="stable")
    places = np.linspace(0, len(order) - 1, number).round().astype(int)
    return [int(i) for i in order[places]]


def refit_values(
    worlds: GridWorlds,
    data: xr.Dataset,
    made: list[int],
    runs: list[int],
    posterior: xr.Dataset,
    number: int,
) -> NDArray[np.float64]:
    """Return the expected regret after each refit, (refit, run)."""
    draws = flat_draws(posterior, number)
    generated = generate_latency(data, draws, np.random.default_rng(SEED))
    after = np.empty((number, len(runs)))
    for i in range(number):
        drawn = drawn_grid(data, made, generated.isel(sample=i))
        for j, run in enumerate(runs):
            if not np.isfinite(drawn["mean_e2e_s"].values[run]):
                after[i, j] = np.nan
                continue
            usable = drawn.assign(
                mean_e2e_s=drawn["mean_e2e_s"].where(
                    np.isfinite(drawn["mean_e2e_s"]), data["mean_e2e_s"]
                )
            )
            tree = worlds.fit(usable, [*made, run], 10**4 + 100 * i + j).tree
            after[i, j] = least_regret(latency_of_arms(tree, data))
        print(i, np.round(after[i], 4), flush=True)
    return after
