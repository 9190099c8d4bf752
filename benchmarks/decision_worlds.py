"""What the chosen draft length loses, where the truth is known.

    python benchmarks/decision_worlds.py           # 200 worlds
    python benchmarks/decision_worlds.py --quick   # 3 worlds; writes nothing

A world is a truth drawn from the prior, and the 24 runs of a small study that it makes: k = 0, 1,
3 and 5, three open and three closed loops of each. The model is fitted to the runs and asked for
the draft length at three rates: one that was measured, one between two measured ones, and one
above them all. The truth says what each draft length would have cost.

Results of each world are kept in a folder (--cache), so that a run that was stopped goes on.
"""

import argparse
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayes_sd.break_even import break_even_rate
from bayes_sd.capacity import max_rate
from bayes_sd.configuration import resolve
from bayes_sd.data import to_dataset
from bayes_sd.decide import decide_from_draws
from bayes_sd.exceptions import ExtrapolationWarning
from bayes_sd.predict import predict_latency
from bayes_sd.priors import VERIFIER_COSTS, Prior, default_priors
from bayes_sd.sbc_quantities import tree_with_truth
from bayes_sd.scenario import Scenario
from benchmarks.decision_baselines import RULES
from benchmarks.decision_report import worlds_report
from benchmarks.folds import stamp, write_results
from benchmarks.world_fits import (
    World,
    append_world,
    cache_folder,
    cached_worlds,
    fitted_worlds,
    tree_of,
)

DRAFT_LENGTHS = (0, 1, 3, 5)
RATES = (1.0, 3.0, 5.0)
CONCURRENCIES = (1.0, 8.0, 32.0)
ASKED = {"measured": 3.0, "between": 4.0, "above": 7.5}
NUM_REQUESTS = 200
# Counts are replaced in every world, but they set the sampler's coordinates.
STEPS_PER_REQUEST = 50
TYPICAL_ACCEPTANCE = 0.7
# Of the default spreads. The verifier's are narrower, or the rates would often be past capacity;
# what drafting costs differs more, so that no draft length is the best one everywhere.
SPREADS = dict.fromkeys(VERIFIER_COSTS, 0.3) | {"draft_fixed_s": 1.25, "draft_per_request_s": 0.4}
SLO_DRAFTS = 3
SLO_OF_ALONE = 2.0  # of the latency that was measured with one request in flight
CERTAINTY = 0.95
MISFITS = ("discrepancy_sd", "load_discrepancy_sd", "extrapolation_sd")
WATCHED_BATCHES = (1.0, 16.0)
SEED = 1


def study(sweeps: list[dict[str, Any]]) -> xr.Dataset:
    """Return a study whose sweeps have the same loads.

    Parameters
    ----------
    sweeps : list of dict
        Columns that tell the sweeps apart; at least ``sweep_id``, ``num_speculative_tokens`` and
        ``drafter``.
    """
    loads = [("open", rate) for rate in RATES] + [("closed", n) for n in CONCURRENCIES]
    rows = []
    for sweep in sweeps:
        k = sweep["num_speculative_tokens"]
        drafted = STEPS_PER_REQUEST * NUM_REQUESTS
        accepted = [round(drafted * TYPICAL_ACCEPTANCE ** (j + 1)) for j in range(k)]
        for number, (kind, load) in enumerate(loads):
            is_open = kind == "open"
            rows.append(
                {
                    "hardware": "Test GPU",
                    "run_id": f"{sweep['sweep_id']}-{number}",
                    "method": "draft_model" if k else "none",
                    "num_drafts": drafted if k else np.nan,
                    "accepted_per_position": ";".join(map(str, accepted)),
                    "load_kind": kind,
                    "arrivals": "poisson" if is_open else "closed",
                    "request_rate_rps": load if is_open else np.nan,
                    "concurrency": np.nan if is_open else load,
                    **sweep,
                }
            )
    return to_dataset(
        pd.DataFrame(rows).assign(
            source_id="worlds",
            engine="vllm",
            engine_version="0.32.0",
            tensor_parallel_size=1,
            dtype="bf16",
            verifier="verifier",
            verifier_params_b=8.0,
            drafter_params_b=[0.5 if row["drafter"] else np.nan for row in rows],
            workload="chat",
            sampling="temperature 0",
            max_num_seqs=256,
            is_throughput_test=False,
            input_len_tokens=512.0,
            output_len_tokens=128.0,
            num_requests=NUM_REQUESTS,
            mean_e2e_s=1.0,
        )
    )


def worlds_design() -> xr.Dataset:
    """Return the study of a world: one pair, a sweep for each draft length, 24 runs."""
    return study(
        [
            {
                "sweep_id": f"k{k}",
                "num_speculative_tokens": k,
                "drafter": "drafter" if k else "",
            }
            for k in DRAFT_LENGTHS
        ]
    )


def worlds_priors(design: xr.Dataset) -> dict[str, Prior]:
    """Return the default priors with other spreads, and with boots that differ enough to see."""
    priors = default_priors(design)
    others = {
        name: replace(priors[name], spread=factor * priors[name].spread)
        for name, factor in SPREADS.items()
    }
    return priors | others | {"boot_sd": replace(priors["boot_sd"], center=0.03, spread=0.5)}


def law_at_batches(posterior: xr.Dataset, data: xr.Dataset) -> NDArray[np.float64]:
    """Return the law's log latency of each arm at two batches, without misfit; (draw, figure)."""
    tree = tree_of(posterior, data)
    columns = []
    for pair in data["pair"].values:
        for k in np.unique(data["num_speculative_tokens"].values):
            asked = Scenario(str(pair), concurrency=1.0, num_speculative_tokens=int(k))
            found = resolve(tree, asked)
            size = found.cell.discrepancy_sd.shape
            columns += [np.log(found.latency(np.full(size, b))) for b in WATCHED_BATCHES]
    return np.stack(columns, axis=-1)


def decide_in(world: World) -> dict[str, Any]:
    """Return what was decided in a world, and what is true there.

    One set of draws holds the truth as its first, and its misfit is as random as the others': it
    is what the real server would add, and no fit can know it. So the law alone is noted, too.
    """
    tree = tree_with_truth(world.posterior, world.truth, world.data)
    pair = str(world.data["pair"].values[0])
    seed = 1000 + world.number
    exact = tree_of(
        world.truth.assign({name: 0 * world.truth[name] for name in MISFITS})
        .rename(sample="draw")
        .expand_dims("chain"),
        world.data,
    )
    asked = []
    for rate in ASKED.values():
        arms = [
            Scenario(pair, request_rate_rps=rate, num_speculative_tokens=k) for k in DRAFT_LENGTHS
        ]
        draws = predict_latency(tree, arms, random_seed=seed)
        decision = decide_from_draws(draws.isel(sample=slice(1, None)), DRAFT_LENGTHS)
        regrets = decision.expected_regret
        asked.append(
            {
                "true_s": draws["e2e_s"].values[0].tolist(),
                "law_s": predict_latency(exact, arms)["e2e_s"].values[0].tolist(),
                "choice": DRAFT_LENGTHS[int(np.argmin(regrets))]
                if decision.choice is None
                else decision.choice,
                "verdict": decision.verdict,
                "probability_best": list(decision.probability_best),
                "expected_regret": list(regrets),
            }
        )
    rates = list(ASKED.values())
    return {
        "asked": asked,
        "rules": {name: rule(world.data, rates) for name, rule in RULES.items()},
        "turns": {str(k): _turn(tree, pair, k, seed) for k in DRAFT_LENGTHS if k},
        "max_rate": _max_rate(world, tree, pair, seed),
    }


def _turn(tree: xr.DataTree, pair: str, drafts: int, seed: int) -> dict[str, float]:
    """Return the true break-even rate, NaN if there is none, and what the posterior says."""
    found = break_even_rate(tree, pair, num_speculative_tokens=drafts, random_seed=seed)
    true, drawn = found.rate[0], found.rate[1:]
    low, median, high = replace(found, rate=drawn).interval(0.9)
    crosses = float(np.isfinite(drawn).mean())
    return {
        "true": float(true),
        "low": low,
        "median": median,
        "high": high,
        "p_crosses": crosses,
    }


def _max_rate(world: World, tree: xr.DataTree, pair: str, seed: int) -> dict[str, Any]:
    """Return the highest rate that was promised for an objective, and the true latency there."""
    runs = world.data
    alone = (runs["concurrency"].values == 1) & (
        runs["num_speculative_tokens"].values == SLO_DRAFTS
    )
    limit = SLO_OF_ALONE * float(runs["mean_e2e_s"].values[alone].mean())
    scenario = Scenario(pair, request_rate_rps=1.0, num_speculative_tokens=SLO_DRAFTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)
        found = max_rate(
            tree_of(world.posterior, world.data),
            scenario,
            f"e2e_mean <= {limit:.6g}",
            CERTAINTY,
            random_seed=seed + 10**6,  # not the truth's: its misfit is not known
        )
    true = np.nan
    if found.verdict == "found":
        there = predict_latency(tree, scenario.with_(request_rate_rps=found.rate), random_seed=seed)
        true = float(there["e2e_s"].values[0, 0])
    return {
        "verdict": found.verdict,
        "status": found.status,
        "rate": found.rate,
        "room": found.interval()[1] / found.rate if found.rate > 0 else np.nan,
        "limit_s": limit,
        "true_s": true,
    }


def cache_argument(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Return what was asked for: how many worlds, and where those that are done lie."""
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--cache", type=Path, help="folder of the worlds that are done")
    parser.add_argument("--quick", action="store_true", help="3 worlds; writes nothing")
    return parser.parse_args()


def main() -> None:
    """Run it, print the tables, and write them to ``results/``."""
    asked = cache_argument(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    number = 3 if asked.quick else asked.worlds
    folder = cache_folder(asked.cache, quick=asked.quick)
    design = worlds_design()
    priors = worlds_priors(design)
    settings = {
        "worlds": number,
        "seed": SEED,
        "rates": list(ASKED.values()),
        "runs": design["run"].values.tolist(),
        "priors": {n: [p.center, p.spread] for n, p in priors.items()},
    }
    path = folder / f"decision_worlds_{number}.jsonl"
    done = cached_worlds(path, settings)
    print(f"{len(done)} of {number} worlds are in {path}")
    for world in fitted_worlds(
        design,
        priors,
        num_worlds=number,
        random_seed=SEED,
        watched=law_at_batches,
        skip=set(done),
    ):
        begun = time.perf_counter()
        row = {"world": world.number, **world.how, **decide_in(world)}
        row["deciding_s"] = time.perf_counter() - begun
        append_world(path, row)
        done[world.number] = row
    text, figures = worlds_report([done[i] for i in sorted(done)], DRAFT_LENGTHS, ASKED)
    print(text)
    if not asked.quick:
        write_results("decision_worlds", f"{text}\n\n{stamp()}", {"stamp": stamp(), **figures})


if __name__ == "__main__":
    main()
