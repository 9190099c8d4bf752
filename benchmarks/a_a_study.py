"""An A/A study: one configuration, measured twice under two names, and compared with itself.

    python benchmarks/a_a_study.py           # 200 worlds, as deployments and as pairs
    python benchmarks/a_a_study.py --quick   # 3 worlds of each; writes nothing

A truth from the prior makes two sweeps of k = 3: two boots of one server. The model is fitted to
them as if they were two deployments, or two drafters on one deployment, and P(faster) is asked
for. Results of each world are kept in a folder (--cache), so that a stopped run goes on.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import kstest

from bayes_sd.pair_comparison import compare_pairs
from bayes_sd.scenario import Scenario
from benchmarks.decision_report import sampling_note
from benchmarks.decision_tables import shown
from benchmarks.decision_worlds import ASKED, cache_argument, law_at_batches, study, worlds_priors
from benchmarks.folds import markdown, stamp, write_results
from benchmarks.world_fits import (
    World,
    append_world,
    cache_folder,
    cached_worlds,
    fitted_worlds,
    tree_of,
)

DRAFTS = 3
NAMES = ("A", "B")
ENDS = (0.05, 0.95)
MAX_EXTREME = 28  # of 200; more has a chance of 3 % if P is uniform
SEED = 2
AS = {
    "deployments": {"hardware": "Test GPU {}"},
    "pairs": {"drafter": "drafter {}"},
}
MEANING = (
    "What P(faster) means here. The prior takes two names for two things: their costs differ, "
    "a little or much, and are equal with probability 0. So P(faster) says which one is faster, "
    "given that one of them is; it does not say whether they differ. Of one thing under two names "
    "it has nothing to find but noise: two boots, which differ by some per cent, and finite runs. "
    "If that noise had a known size and nothing else counted, P would be uniform, and below 0.05 "
    "or above 0.95 in one comparison of ten. It may be less extreme, for three reasons: the prior "
    "pulls both to the same costs; the spread of boots is not known, and one boot of each name "
    "cannot be told from its costs; and `mean` draws the misfit of the law for each name on its "
    "own, while one server has one. It must not be more extreme: that would be noise taken for a "
    "difference. So P(faster) above 0.95 alone is no proof of a difference; whether there is one "
    "that matters is told by the interval of the ratio, and better by a second boot of each."
)


def a_a_design(names: Mapping[str, str]) -> xr.Dataset:
    """Return two sweeps; ``names`` are columns to tell them apart by, with a place for the name."""
    return study(
        [
            {"sweep_id": name, "num_speculative_tokens": DRAFTS, "drafter": "drafter"}
            | {column: text.format(name) for column, text in names.items()}
            for name in NAMES
        ]
    )


def compare_in(world: World) -> dict[str, Any]:
    """Return P(A faster) and the 90 % interval of the ratio at each load."""
    tree = tree_of(world.posterior, world.data)
    labels = [str(label) for label in world.data["pair"].values]
    candidates = {
        name: Scenario(label, request_rate_rps=1.0, num_speculative_tokens=DRAFTS)
        for name, label in zip(NAMES, labels, strict=True)
    }
    compared = compare_pairs(
        tree, candidates, loads=list(ASKED.values()), kind="mean", random_seed=world.number
    )
    ratio = compared.difference(*NAMES)
    law = law_at_batches(world.posterior, world.data)
    half = law.shape[1] // 2  # pair after pair, each at the same batches
    return {
        "p_faster": compared.probability_faster(*NAMES).tolist(),
        "low": ratio["low"].tolist(),
        "high": ratio["high"].tolist(),
        "p_faster_law": (law[:, :half] < law[:, half:]).mean(axis=0).tolist(),
    }


def a_a_table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return by load how extreme P(faster) is, and how often the interval holds a ratio of 1."""
    table = []
    for i, (name, rate) in enumerate(ASKED.items()):
        p = np.array([row["p_faster"][i] for row in rows])
        low, high = (np.array([row[end][i] for row in rows]) for end in ("low", "high"))
        with np.errstate(invalid="ignore"):
            held, width = (low <= 1) & (high >= 1), np.nanmedian(high / low)
        table.append(
            {"load": f"{name} ({rate:g} rps)"}
            | extremes(p)
            | {"ratio_1_in_90_%_interval": held.mean(), "median_high_over_low": float(width)}
        )
    p = np.array([row["p_faster_law"][-1] for row in rows])
    return pd.DataFrame([*table, {"load": "the law at a batch of 16, no misfit"} | extremes(p)])


def extremes(p: np.ndarray) -> dict[str, Any]:
    """Return how often probabilities are extreme, and how far they are from uniform."""
    return {
        "below_0.05": int((p < ENDS[0]).sum()),
        "above_0.95": int((p > ENDS[1]).sum()),
        "extreme": int(((p < ENDS[0]) | (p > ENDS[1])).sum()),
        "mean_distance_from_half": float(abs(p - 0.5).mean()),
        "KS_p_value": float(kstest(p, "uniform").pvalue),
    }


def report(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[str, dict[str, Any]]:
    """Return the result as Markdown and as figures."""
    tables = {name: a_a_table(rows) for name, rows in results.items()}
    parts = ["# A/A study: one configuration under two names"]
    figures: dict[str, Any] = {}
    for name, rows in results.items():
        of_loads = tables[name].iloc[: len(ASKED)]
        worst = int(of_loads["extreme"].max())
        allowed = MAX_EXTREME * len(rows) / 200
        bins = np.histogram([row["p_faster"][1] for row in rows], np.linspace(0, 1, 11))[0]
        parts += [
            f"## As two {name}",
            f"P(A faster) is below 0.05 or above 0.95 in at most {worst} of {len(rows)} worlds, "
            f"whatever the load (bar {allowed:g}: {'met' if worst <= allowed else 'NOT MET'}; a "
            f"uniform P would have {0.1 * len(rows):g}).",
            markdown(shown(tables[name])),
            f"P(A faster) between the measured rates, in tenths: {', '.join(map(str, bins))}.",
            sampling_note(pd.DataFrame(rows)),
        ]
        figures[name] = {"worst": worst, "allowed": allowed, "tenths": bins.tolist()}
        figures[name]["table"] = tables[name].to_dict(orient="records")
    reading = "The mean distance from a half of a uniform P is 0.25; below it P is less extreme."
    return "\n\n".join([*parts, "## How to read it", f"{MEANING} {reading}"]), figures


def run(kind: str, number: int, folder: Any) -> list[dict[str, Any]]:
    """Return the results of all worlds of one kind; those that are done are read."""
    design, refit = a_a_design({}), a_a_design(AS[kind])
    priors = worlds_priors(design)
    settings = {
        "worlds": number,
        "seed": SEED,
        "as": kind,
        "rates": list(ASKED.values()),
        "priors": {n: [p.center, p.spread] for n, p in priors.items()},
    }
    path = folder / f"a_a_{kind}_{number}.jsonl"
    done = cached_worlds(path, settings)
    print(f"{len(done)} of {number} worlds are in {path}", flush=True)
    for world in fitted_worlds(
        design,
        priors,
        num_worlds=number,
        random_seed=SEED,
        watched=law_at_batches,
        skip=set(done),
        refit_design=refit,
    ):
        begun = time.perf_counter()
        row = {"world": world.number, **world.how, **compare_in(world)}
        row["deciding_s"] = time.perf_counter() - begun
        append_world(path, row)
        done[world.number] = row
    return [done[i] for i in sorted(done)]


def main() -> None:
    """Run it, print the tables, and write them to ``results/``."""
    asked = cache_argument(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    number = 3 if asked.quick else asked.worlds
    folder = cache_folder(asked.cache, quick=asked.quick)
    text, figures = report({kind: run(kind, number, folder) for kind in AS})
    print(text)
    if not asked.quick:
        write_results("a_a_study", f"{text}\n\n{stamp()}", {"stamp": stamp(), **figures})


if __name__ == "__main__":
    main()
