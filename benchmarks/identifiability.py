"""What latency tells apart: a drafter's cost of a draft, and the verifier's of one more draft.

    python benchmarks/identifiability.py           # five simulated cases, three measured ones
    python benchmarks/identifiability.py --quick   # the last case of each study; writes nothing

A step of n requests with k drafts pays n k (drafting + verifying): runs of one pair tell the sum,
and the prior divides it. Does the posterior say so, and what do draft lengths, runs and pairs add?
Here are the correlation of the logs of both costs, and how wide they, their sum and their ratio
are. Drafting is a cost of each pair, verifying one of the verifier, the same for all its pairs.

Truth is known where runs come from `bayes_sd.simulate`. Its server adds the time to compute tokens
to that of reading weights (``roofline_sharpness`` of 1): a step is linear in its tokens, and one
more draft has one cost. Loads stay low, for there is no bend here that the model's knee could find.
Cases of one study share a compiled model, in which other runs have weight 0 in the likelihood.
"""

import argparse
import logging
import time
from dataclasses import replace
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayes_sd.convergence import diagnose
from bayes_sd.data import to_dataset
from bayes_sd.datasets import load_vllm_cpu
from bayes_sd.fitting import compile_model, sample
from bayes_sd.model import build_model
from bayes_sd.posterior import flat_draws
from bayes_sd.priors import default_priors
from bayes_sd.simulate import simulate_runs, simulated_capacity_rps
from bayes_sd.simulate_arm import SimulatedArm
from bayes_sd.simulate_load import SimulatedLoad
from bayes_sd.simulate_settings import SimulatedDrafter, SimulatedServer
from bayes_sd.start import starting_point
from benchmarks.folds import RESULTS, markdown, stamp, write_results

type Draws = dict[str, NDArray[np.float64]]

SERVER = SimulatedServer(
    weights_s=8e-3,
    compute_per_token_s=2e-5,
    step_fixed_s=1e-3,
    roofline_sharpness=1.0,
    request_in_step_s=1e-4,
    context_per_token_s=1e-7,
    mixed_step_s=1e-3,
    request_start_s=0.02,
    step_noise_cv=0.05,
    verifier_params_b=8.0,
)
# Size (1e9 parameters), acceptance, s per pass, s per request and pass: no exact law of size.
SIZES = ((0.1, 0.6, 5e-4, 6e-6), (0.5, 0.7, 1e-3, 2e-5), (2.0, 0.8, 2e-3, 6e-5))
DRAFTERS = tuple(
    SimulatedDrafter(
        drafter=f"drafter-{size:g}b",
        drafter_params_b=size,
        acceptance=acceptance,
        acceptance_spread_logit=0.4,
        fixed_s=fixed,
        per_request_s=per_request,
    )
    for size, acceptance, fixed, per_request in SIZES
)
BOOT, BOOT_SD = "simulated, boot ", 0.01
LENGTHS = ((1024, 128), (256, 256))
FULL, SHARES = 10, (0.15, 0.3, 0.45, 0.6, 0.8, 1.0)  # of what is completed with so many in flight
# Server starts by draft length; those without drafts are of no pair.
STARTS = {
    "one pair": (DRAFTERS[1:2], {0: 2, 1: 6, 3: 8, 5: 6}),
    "three pairs": (DRAFTERS, {0: 2, 1: 2, 3: 2, 5: 2}),
}


class Case(NamedTuple):
    """Runs to learn from: of a study, some drafters, and the first starts of a draft length."""

    study: str
    drafters: tuple[str, ...]
    starts: dict[int, int]


ALL = tuple(drafter.drafter for drafter in DRAFTERS)
CPU = ("drafter-a60", "drafter-a85")
CASES = {
    "one pair, k = 3": Case("one pair", ALL[1:2], {3: 8}),
    "one pair, k = 0, 3": Case("one pair", ALL[1:2], {0: 2, 3: 6}),
    "one pair, k = 0, 1, 3, 5": Case("one pair", ALL[1:2], {0: 2, 1: 2, 3: 2, 5: 2}),
    "one pair, 3 x drafting runs": Case("one pair", ALL[1:2], {0: 2, 1: 6, 3: 6, 5: 6}),
    "three pairs, k = 0, 1, 3, 5": Case("three pairs", ALL, {0: 2, 1: 2, 3: 2, 5: 2}),
    "measured, drafter-a60": Case("measured", CPU[:1], {}),
    "measured, drafter-a85": Case("measured", CPU[1:], {}),
    "measured, both": Case("measured", CPU, {}),
}
NAMES = tuple(CASES)
# Before, after, and what differs.
STEPS = (
    (0, 1, "a quarter of the runs at k = 0 instead of 3"),
    (1, 2, "two thirds of the drafting runs at k = 1 and 5 instead of 3"),
    (2, 3, "three times the drafting runs of the same pair"),
    (2, 4, "as many runs of two further pairs"),
    (5, 7, "the runs of the other measured drafter"),
    (6, 7, "the runs of the other measured drafter"),
)


def simulated(drafters: tuple[SimulatedDrafter, ...], starts: dict[int, int]) -> pd.DataFrame:
    """Simulate server starts at rising loads, two pairs of lengths taking turns."""
    tables = []
    pairs = [(drafter, k) for k in starts for drafter in (drafters if k else (None,))]
    for drafter, k in pairs:
        arm = SimulatedArm(server=SERVER, drafter=drafter, num_speculative_tokens=k)
        small = replace(arm, server=replace(SERVER, max_num_seqs=FULL))
        base = SimulatedLoad(request_rate_rps=1.0, num_requests=400, warmup_requests=400)
        for boot in range(starts[k]):
            loads = []
            for i, share in enumerate(SHARES):
                prompt, answer = LENGTHS[(i + boot) % 2]
                load = replace(base, input_len_tokens=prompt, output_len_tokens=answer)
                rate = share * simulated_capacity_rps(small, load)
                loads.append(replace(load, request_rate_rps=rate))
            names = {"source_id": f"{BOOT}{boot}", "boot_sd": BOOT_SD}
            seed = int.from_bytes(f"{arm.label} {boot}".encode(), "little")
            tables.append(simulate_runs([arm], loads, **names, random_seed=seed))
    return pd.concat(tables, ignore_index=True)


def runs_of(study: str) -> pd.DataFrame:
    """Return the runs of a study: simulated, or the dense ones measured on a CPU."""
    if study in STARTS:
        return simulated(*STARTS[study])
    frame = load_vllm_cpu("dense")
    used = ~frame["is_throughput_test"] & frame["num_speculative_tokens_schedule"].isna()
    return frame[used].reset_index(drop=True)


def weights(case: Case, frame: pd.DataFrame) -> NDArray[np.float64]:
    """Return 1 for the runs to learn from."""
    k = frame["num_speculative_tokens"]
    used = frame["drafter"].isin(case.drafters) | (k == 0)
    if case.starts:
        boot = frame["source_id"].str.removeprefix(BOOT).astype(int)
        used &= boot < k.map(case.starts).fillna(0)
    return used.to_numpy(dtype=float)


def parts(drafting: Any, verifying: Any) -> dict[str, Any]:
    """Return both costs of one more draft of a request, s, their sum and their ratio."""
    both = {"drafting": drafting, "verifying": verifying}
    return both | {"sum": drafting + verifying, "ratio": drafting / verifying}


TRUTH = {d.drafter: parts(d.per_request_s, SERVER.compute_per_token_s) for d in DRAFTERS}


def costs(draws: xr.Dataset, data: xr.Dataset) -> dict[str, Draws]:
    """Return draws of the costs by drafter."""
    names = ("draft_per_request_s", "verify_growth_per_draft", "verify_per_request_s")
    drafting, growth, request = (flat_draws(draws[name]) for name in names)
    of_pair = enumerate(zip(data["drafter"].values, data["base_of_pair"].values, strict=True))
    return {str(d): parts(drafting[:, i], growth[:, i] * request[:, b]) for i, (d, b) in of_pair}


def judge(draws: Draws, truth: dict[str, float]) -> dict[str, Any]:
    """Return the correlation, and width, interval and truth of each quantity."""
    logs = {name: np.log(values) for name, values in draws.items()}
    found: dict[str, Any] = {"correlation": np.corrcoef(logs["drafting"], logs["verifying"])[0, 1]}
    for name, values in draws.items():
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
        found[name] = {"sd": logs[name].std(), "low": low, "median": middle, "high": high}
        if truth:
            found[name] |= {"truth": truth[name], "inside": bool(low <= truth[name] <= high)}
    return found


def fit_study(study: str, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Fit the cases of a study; return figures and draws by case."""
    frame = runs_of(study)
    data = to_dataset(frame)
    priors = default_priors(data)
    model = build_model(data, priors, responses=())
    names = ["draft_per_request_s", "verify_growth_per_draft", "verify_per_request_s"]
    tree = pm.sample_prior_predictive(4000, model=model, var_names=names, random_seed=0)
    prior = costs(tree["prior"].dataset, data)
    compiled = compile_model(model, starting_point(data, priors))
    found = {}
    for name in [n for n in NAMES if CASES[n].study == study][-1 if options.quick else 0 :]:
        begun, weight = time.perf_counter(), weights(CASES[name], frame)
        lengths = {"draws": options.draws, "tune": options.tune, "chains": options.chains}
        tree = sample(compiled, score_weight=weight, progressbar=False, **lengths)
        drawn = costs(tree["posterior"].dataset, data)
        used = {d: drawn[d] for d in CASES[name].drafters}
        sizes = dict(zip(data["drafter"].values, data["drafter_params_b"].values, strict=True))
        found[name] = {
            "runs": int(weight.sum()),
            "seconds": round(time.perf_counter() - begun, 1),
            "verdict": diagnose(tree, warn=False).sentence(),
            "sizes_b": {d: float(sizes[d]) for d in used},
            "posterior": {d: judge(draws, TRUTH.get(d, {})) for d, draws in used.items()},
            "prior": {d: judge(prior[d], {}) for d in used},
            "draws": used,
        }
        print(f"{name}: {found[name]['seconds']} s. {found[name]['verdict']}", flush=True)
    return found
