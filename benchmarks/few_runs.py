"""How few runs a choice needs, if `next_run` says which to make.

    python -m benchmarks.few_runs              # 40 worlds
    python -m benchmarks.few_runs --report     # of the worlds that are done
    python -m benchmarks.few_runs --quick      # 1 world, few checkpoints; writes nothing

A world is a truth drawn from the prior, and a grid of 64 runs that it makes: five drafters and
none, draft lengths, rates. Four runs, drawn at random, are known at the start; then three ways of
choosing the further ones: `next_run`, at random, and filling the space between those that were
made. After some numbers of runs the model is fitted and chooses a draft length for each drafter at
three rates; the truth says what the choices lose.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from rich.progress import track

from bayes_sd.run_value import next_run
from benchmarks.decision_worlds import worlds_priors
from benchmarks.few_runs_grid import (
    DRAFT_LENGTHS,
    RATES,
    Fit,
    GridWorlds,
    decisions_of,
    grid_design,
    latency_of_arms,
    regrets_in,
    run_scenarios,
    starting_runs,
    without_misfit,
)
from benchmarks.few_runs_report import few_runs_report, with_worst
from benchmarks.folds import stamp, write_results
from benchmarks.world_fits import append_world, cache_folder, cached_worlds

type Floats = NDArray[np.float64]
type Order = Callable[[list[int], Fit | None, int], list[int]]

CHECKPOINTS = (4, 6, 8, 10, 12, 16, 24)  # `next_run` is asked for a batch at each
SEED = 21


def best_ranked(order: list[int], group: NDArray[np.int_], size: int) -> list[int]:
    """Return the first ``size`` runs of a ranking, of each group equally many at most.

    Examples
    --------
    >>> best_ranked([0, 1, 2], np.array([3, 3, 5]), 2)
    [0, 2]
    """
    most = -(-size // len(np.unique(group[order])))
    taken: list[int] = []
    for run in order:
        if len(taken) < size and sum(group[i] == group[run] for i in taken) < most:
            taken.append(run)
    rest = [run for run in order if run not in taken]
    return (taken + rest)[:size]


def farthest(made: list[int], places: Floats) -> int:
    """Return the run that is farthest from those made, by the nearest of them; (run, coordinate).

    Examples
    --------
    >>> farthest([0], np.array([[0.0], [0.5], [1.0]]))
    2
    """
    apart = np.linalg.norm(places[:, None] - places[made][None], axis=-1).min(axis=1)
    return int(apart.argmax())


def places_of(data: xr.Dataset) -> Floats:
    """Return where each run lies: one axis per drafter, and the ranks of draft length and rate."""
    drafter = data["pair_of_run"].values[:, None] == np.arange(-1, data.sizes["pair"])
    length = np.searchsorted(DRAFT_LENGTHS, data["num_speculative_tokens"].values)
    rate = np.searchsorted(RATES, data["request_rate_rps"].values)
    ranks = np.stack([length / (len(DRAFT_LENGTHS) - 1), rate / (len(RATES) - 1)], axis=-1)
    return np.concatenate([drafter, ranks], axis=1)


def ask_next(data: xr.Dataset, made: list[int], fit: Fit, size: int, seed: int) -> dict[str, Any]:
    """Return which runs `next_run` wants, and whether it would rather stop."""
    rest = [i for i in range(data.sizes["run"]) if i not in made]
    scenarios = run_scenarios(data)
    found = next_run(
        fit.tree,
        [scenarios[i] for i in rest],
        decisions=decisions_of(data),
        draft_length_candidates=DRAFT_LENGTHS,
        random_seed=seed,
    )
    ranking = [rest[i] for i in np.argsort(found.regret_after, kind="stable")]
    chosen = best_ranked(ranking, data["pair_of_run"].values, size)
    return {"runs": chosen, "stop": found.choice is None}


def judge(fit: Fit, data: xr.Dataset, true: dict[str, Floats], seed: int) -> dict[str, Any]:
    """Return what a fit chooses, what that loses in truth, and what it expects to lose."""
    expected = regrets_in(latency_of_arms(fit.tree, data, seed)).mean(axis=0)
    choice = expected.argmin(axis=-1)
    of_law = regrets_in(latency_of_arms(without_misfit(fit.tree), data, seed)).mean(axis=0)

    def mean_of(regret: Floats) -> float:
        return float(np.take_along_axis(regret, choice[:, None], axis=-1).mean())

    return {
        "choice": [DRAFT_LENGTHS[i] for i in choice],
        **{name: mean_of(regrets_in(latency)) for name, latency in true.items()},
        "expected": mean_of(expected),
        "expected_of_law": mean_of(of_law),
        **fit.how,
    }


def follow(worlds: GridWorlds, world: int, checkpoints: tuple[int, ...]) -> dict[str, Any]:
    """Return the course of each arm in one world, from the same runs to the same whole grid."""
    begun = time.perf_counter()
    data, true = worlds.data(world), worlds.true_latency(world, 1000 + world)
    rng = np.random.default_rng([SEED, world])
    start = starting_runs(worlds.design, rng, checkpoints[0])
    shuffled = [int(i) for i in rng.permutation(data.sizes["run"]) if i not in start]
    seed = SEED + 1000 * world

    def fitted(made: list[int], number: int) -> Fit:
        return worlds.fit(data, made, seed + number)

    first = fitted(start, 0)
    at_start = judge(first, data, true, seed)
    whole = judge(fitted(list(range(data.sizes["run"])), 1), data, true, seed)
    arms: dict[str, Any] = {}
    stops = []
    made, fit, course = list(start), first, [at_start]
    while len(made) < checkpoints[-1]:
        size = min(c for c in checkpoints if c > len(made)) - len(made)
        asked = ask_next(data, made, fit, size, seed + len(made))
        stops.append([len(made), asked["stop"]])
        made += asked["runs"]
        fit = fitted(made, 100 + len(made))
        course.append(judge(fit, data, true, seed))
    arms["next_run"] = {"order": made, "course": [*course, whole]}
    made = list(start)
    while len(made) < checkpoints[-1]:
        made.append(farthest(made, places_of(data)))
    for number, (name, order) in enumerate({"random": start + shuffled, "spread": made}.items(), 2):
        course = [
            judge(fitted(order[:n], 100 * number + n), data, true, seed) for n in checkpoints[1:]
        ]
        arms[name] = {"order": order[: checkpoints[-1]], "course": [at_start, *course, whole]}
    return {
        "world": world,
        "best": [DRAFT_LENGTHS[i] for i in true["true"].argmin(axis=-1)],
        "true_s": true["true"].tolist(),
        "fixed": regrets_in(true["true"]).mean(axis=0).tolist(),
        "arms": arms,
        "stops": stops,
        "seconds": time.perf_counter() - begun,
    }


def main() -> None:
    """Run it, print the tables, and write them to ``results/``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--cache", type=Path, help="folder of the worlds that are done")
    parser.add_argument("--report", action="store_true", help="no further worlds")
    parser.add_argument("--quick", action="store_true", help="1 world; writes nothing")
    asked = parser.parse_args()
    number = 1 if asked.quick else asked.worlds
    checkpoints = (4, 5) if asked.quick else CHECKPOINTS
    design = grid_design()
    priors = worlds_priors(design)
    settings = {
        "worlds": number,
        "seed": SEED,
        "checkpoints": checkpoints,
        "runs": design["run"].values.tolist(),
        "priors": {n: [p.center, p.spread] for n, p in priors.items()},
    }
    path = cache_folder(asked.cache, quick=asked.quick) / f"few_runs_{number}.jsonl"
    done = cached_worlds(path, settings)
    print(f"{len(done)} of {number} worlds are in {path}")
    todo = [] if asked.report else [i for i in range(number) if i not in done]
    if todo:
        worlds = GridWorlds(design, priors, num_worlds=number, random_seed=SEED)
        for world in track(todo, "worlds"):
            done[world] = follow(worlds, world, checkpoints)
            append_world(path, done[world])
    rows = [with_worst(done[i], DRAFT_LENGTHS) for i in sorted(done)]
    text, figures = few_runs_report(rows, (*checkpoints, design.sizes["run"]))
    print(text)
    if not asked.quick:
        write_results("few_runs", f"{text}\n\n{stamp()}", {"stamp": stamp(), **figures})


if __name__ == "__main__":
    main()
