"""The value of a run by regression, against refits.

    python -m benchmarks.next_run_refits           # 6 candidates, 24 refits of each
    python -m benchmarks.next_run_refits --quick   # 2 candidates, 2 refits; writes nothing

`next_run` finds what a run is expected to save by regression over the draws of one fit. Here the
same is done by brute force: results of the candidate are drawn from the posterior, the model is
fitted again with each of them, and the least expected regret after it is averaged.
"""

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from rich.progress import track
from scipy.stats import pearsonr, spearmanr

from bayes_sd.generate import generate_latency, with_responses
from bayes_sd.run_law import flat_draws
from bayes_sd.run_value import NextRun, next_run
from benchmarks.decision_tables import shown
from benchmarks.decision_worlds import worlds_priors
from benchmarks.few_runs_grid import (
    DRAFT_LENGTHS,
    GridWorlds,
    decisions_of,
    grid_design,
    latency_of_arms,
    regrets_in,
    run_scenarios,
    starting_runs,
)
from benchmarks.folds import markdown, stamp, write_results

NUM_RUNS = 6
NUM_CANDIDATES = 6
NUM_REFITS = 24
NUM_WORLDS = 8  # the one in which there is most to save is taken
SEED = 11


def least_regret(latency: NDArray[np.float64]) -> float:
    """Return the expected regret of the best choices, mean over decisions."""
    return float(regrets_in(latency).mean(axis=0).min(axis=-1).mean())


def with_result(data: xr.Dataset, run: int, one: xr.Dataset) -> xr.Dataset:
    """Return a grid in which one run has the responses of a draw, ``one`` of all runs."""
    is_run = xr.DataArray(np.arange(data.sizes["run"]) == run, dims="run")
    mixed = {n: xr.where(is_run, v, data[n]).transpose(*v.dims) for n, v in one.data_vars.items()}
    return with_responses(data, xr.Dataset(mixed))


def spread_over(found: NextRun, number: int) -> list[int]:
    """Return candidates from the most to the least useful, evenly spaced in rank."""
    order = np.argsort(found.regret_after, kind="stable")
    places = np.linspace(0, len(order) - 1, number).round().astype(int)
    return [int(i) for i in order[places]]


def refit_values(
    worlds: GridWorlds, data: xr.Dataset, made: list[int], runs: list[int], draws: xr.Dataset
) -> NDArray[np.float64]:
    """Return the expected regret after each refit, (draw, run); NaN for a run past capacity."""
    generated = generate_latency(data, draws, np.random.default_rng(SEED))
    after = np.full((generated.sizes["sample"], len(runs)), np.nan)
    for i in track(range(len(after)), "refits"):
        for j, run in enumerate(runs):
            one = generated.isel(sample=i)
            if np.isfinite(one["mean_e2e_s"].values[run]):
                drawn = with_result(data, run, one)
                tree = worlds.fit(drawn, [*made, run], SEED + 10**4 + 100 * i + j).tree
                after[i, j] = least_regret(latency_of_arms(tree, data))
    return after


def most_open_world(
    worlds: GridWorlds, num_worlds: int
) -> tuple[int, xr.Dataset, list[int], xr.DataTree]:
    """Return the world in which some runs, drawn at random, leave the largest expected regret."""
    found = []
    for world in range(num_worlds):
        made = starting_runs(worlds.design, np.random.default_rng([SEED, world]), NUM_RUNS)
        data = worlds.data(world)
        tree = worlds.fit(data, made, SEED + world).tree
        found.append((world, data, made, tree))
    return max(found, key=lambda one: least_regret(latency_of_arms(one[3], one[1])))


def refits_report(
    table: pd.DataFrame, now: float, refits: int, where: str
) -> tuple[str, dict[str, Any]]:
    """Return the comparison as Markdown and as figures."""
    saved = table["saved_by_regression"], table["saved_by_refits"]
    rank, line = float(spearmanr(*saved).statistic), float(pearsonr(*saved).statistic)
    difference = saved[0] - saved[1]
    error = np.hypot(table["regression_error"], table["refits_error"])
    figures = {
        "regret_now": now,
        "rank_correlation": rank,
        "correlation": line,
        "mean_difference": float(difference.mean()),
        "within_two_errors": int((difference.abs() <= 2 * error).sum()),
        "table": table.to_dict(orient="records"),
    }
    text = "\n\n".join(
        [
            "# The value of a run by regression, against refits",
            f"{where} Expected regret now: {now:.2%} of latency. For each candidate {refits} "
            "results are drawn from the posterior and the model is fitted again with each; the "
            "least expected regret is averaged. `next_run` gets its figure by regression over the "
            "draws of the one fit.",
            markdown(shown(table, percent=True)),
            f"Rank correlation {rank:.2f}, correlation {line:.2f}; regression less refits "
            f"{difference.mean():+.2%} at the mean; {figures['within_two_errors']} of "
            f"{len(table)} within two standard errors of both.",
        ]
    )
    return text, figures


def main() -> None:
    """Run it, print the table, and write it to ``results/``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2 refits of 2; writes nothing")
    parser.add_argument("--refits", type=int, default=NUM_REFITS)
    options = parser.parse_args()
    number, refits = (2, 2) if options.quick else (NUM_CANDIDATES, options.refits)
    design = grid_design()
    num_worlds = 1 if options.quick else NUM_WORLDS
    worlds = GridWorlds(design, worlds_priors(design), num_worlds=NUM_WORLDS, random_seed=SEED)
    begun = time.perf_counter()
    world, data, made, tree = most_open_world(worlds, num_worlds)
    rest = [i for i in range(data.sizes["run"]) if i not in made]
    scenarios = run_scenarios(data)
    found = next_run(
        tree,
        [scenarios[i] for i in rest],
        decisions=decisions_of(data),
        draft_length_candidates=DRAFT_LENGTHS,
        random_seed=SEED,
    )
    chosen = spread_over(found, number)
    runs = [rest[i] for i in chosen]
    now = least_regret(latency_of_arms(tree, data))
    after = refit_values(
        worlds, data, made, runs, flat_draws(tree["posterior"].to_dataset(), refits)
    )
    known = np.isfinite(after).sum(axis=0)
    table = pd.DataFrame(
        {
            "candidate": data["run"].values[runs],
            "saved_by_regression": [found.regret_now - found.regret_after[i] for i in chosen],
            "regression_error": [found.reduction_error[i] for i in chosen],
            "saved_by_refits": now - np.nanmean(after, axis=0),
            "refits_error": np.nanstd(after, axis=0, ddof=1) / np.sqrt(known),
            "refits": known,
        }
    )
    where = (
        f"The world with the largest expected regret of {num_worlds} after {len(made)} runs, drawn "
        f"at random: world {world}. Of its {len(rest)} candidates {number} are compared, from the "
        "best to the worst by `next_run`."
    )
    text, figures = refits_report(table, now, refits, where)
    minutes = (time.perf_counter() - begun) / 60
    text += f"\n\n{minutes:.0f} min in all, compilation included.\n\n{stamp()}"
    print(text)
    if not options.quick:
        write_results("next_run_refits", text, {"stamp": stamp(), "world": world, **figures})


if __name__ == "__main__":
    main()
