"""Runs typed in from public reports, and one short fit of them all, for the tests of cases.

Each report has a machine of its own, so that its costs and its noise are its own. Where a report
gives a ratio or a time per token only, what is missing is ours and marked so: it sets the scale of
seconds, and no test asks about it.
"""

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import norm

from bayes_sd.exceptions import BayesSdWarning
from bayes_sd.fitting import fit
from tests.simulated_runs import KNOWN, true_latency, true_steps

OUTPUT_LEN = 200
MEASURED = {  # speedup by requests in flight
    "C1": {1: 2.1, 8: 0.77},  # github.com/vllm-project/vllm/issues/50851
}
# github.com/pegainfer-project/pegainfer/pull/670: tokens/s off and on, tokens per round. It drafts
# 16; here 7, for the fit is then shorter, and the question is the same.
SAMPLED = {
    ("greedy", 1): (221.6, 449.8, 2.76),
    ("greedy", 8): (1622.7, 1881.0, 2.76),
    ("greedy", 16): (3233.4, 2741.3, 2.76),
    ("sampled", 1): (218.7, 355.1, 2.21),
    ("sampled", 8): (1663.8, 1610.1, 2.11),
    ("sampled", 16): (3180.7, 2248.6, 2.02),
}
# github.com/vllm-project/vllm/pull/12755: s per token off and with k = 1, by requests/s
BY_RATE = {1.0: (0.05547, 0.03399), 2.0: (0.05758, 0.0488)}
BY_RATE_ACCEPTED = 0.815  # 81 to 82.3 %
# github.com/vllm-project/vllm/issues/49548: s per token off and loaded with k = 0
LOADED = {2: (0.014374, 0.015317), 189: (0.077164, 0.093820)}
# github.com/waybarrios/vllm-mlx/issues/699: s to verify so many tokens, accepted of 7, speedup
VERIFY_S = {1: 8.47e-3, 2: 13.49e-3, 3: 15.64e-3, 5: 20.67e-3, 8: 28.13e-3}
VERIFY_ACCEPTED, VERIFY_SPEEDUP = 3.2, 0.75  # 0.7 to 0.8
# github.com/sgl-project/sglang/issues/14824: tokens/s off and on, tokens per step
SPARSE = {("hard", 1): (222.0, 160.0, 1.9), ("easy", 1): (222.0, 208.0, 3.2)}
SPARSE_MEDIUM = (1238.0, 1308.0, 2.5)  # at 64; the length there is ours
# github.com/lablup/mlxcel/pull/744: speedup by machine, both with 35 % accepted
MACHINES = {"one": 1.72, "other": 0.52}
MACHINES_ACCEPTED = 0.35
AHEAD = 0.103  # github.com/vllm-project/recipes/issues/967: k = 3 before k = 7, one replicate
# github.com/vllm-project/guidellm/issues/243: twelve equal runs of 71 requests
TWELVE, MEAN_SPREAD, NUM_REQUESTS = 12, 0.085, 71
# github.com/vllm-project/vllm/issues/53436: coefficient of variation by requests in flight
SAME_SEED_CV = {2: 0.197, 4: 0.075, 16: 0.0036}
# github.com/sgl-project/sglang/pull/22246: 4 is best for a batch of 1 and 2 for 64; the grid
# there is 27 configurations times 5 batches. The law is ours, with those two answers.
GRID = 27 * 5
GRID_ACCEPTED = (0.8, 0.75, 0.7, 0.65, 0.55, 0.5)
GRID_COSTS = replace(
    KNOWN.costs("big", "quick"), draft_fixed_s=8e-4, knee_tokens=150.0, knee_s_per_token=6e-5
)
GRID_RUNS = [(k, c) for k in (0, 2, 5) for c in (1, 32, 96)]

OURS_OFF_S = {1: 2.0, 8: 2.6}  # C1 gives ratios only
OURS_TTFT_S = 0.1


def _row(case: str, load: float, latency_s: float, k: int = 0, **more: object) -> dict:
    """Return one run of a case; ``drafted`` says that the server was started with a drafter."""
    drafted = bool(more.pop("drafted", k > 0))
    is_open = bool(more.pop("is_open", False))
    machine = str(more.pop("machine", ""))
    boot = str(more.pop("boot", ""))
    about = "-".join(str(more.get(name, "")) for name in ("workload", "sampling"))
    sweep = f"{case}{machine}-k{k}{'-loaded' if drafted and not k else ''}-{about}-{boot}"
    return {
        "source_id": "cases",
        "run_id": f"{sweep}-{load:g}",
        "sweep_id": sweep,
        "verifier": f"{case} verifier",
        "drafter": f"{case} drafter" if drafted else "",
        "method": "draft_model" if drafted else "none",
        "num_speculative_tokens": k,
        "hardware": f"machine {machine} of {case}",
        "load_kind": "open" if is_open else "closed",
        "request_rate_rps": load if is_open else np.nan,
        "concurrency": np.nan if is_open else load,
        "input_len_tokens": 300.0,
        "output_len_tokens": OUTPUT_LEN,
        "num_requests": 200,
        "max_num_seqs": 256,
        "mean_e2e_s": latency_s,
    } | more


def _spread_over(count: int) -> np.ndarray:
    """Return normal scores of so many equal runs, mean 0 and standard deviation 1."""
    scores = norm.ppf((np.arange(count) + 0.5) / count)
    return scores / scores.std(ddof=1)


def _speedups() -> list[dict]:
    rows = []
    for c, gain in MEASURED["C1"].items():
        rows.append(_row("C1", c, OURS_OFF_S[c]))
        rows.append(_row("C1", c, OURS_OFF_S[c] / gain, 5, mean_acceptance_length=3.2))
    for (sampling, c), (off, on, length) in SAMPLED.items():
        told = {"sampling": sampling}
        rows.append(_row("C3", c, OUTPUT_LEN * c / off, **told))
        rows.append(_row("C3", c, OUTPUT_LEN * c / on, 7, mean_acceptance_length=length, **told))
    for rate, seconds in BY_RATE.items():
        off, on = (OURS_TTFT_S + (OUTPUT_LEN - 1) * s for s in seconds)
        rows.append(_row("C4", rate, off, is_open=True))
        told = {"draft_acceptance_rate": BY_RATE_ACCEPTED}
        rows.append(_row("C4", rate, on, 1, is_open=True, **told))
    for c, seconds in LOADED.items():
        off, loaded = (OURS_TTFT_S + 99 * s for s in seconds)
        rows.append(_row("C5", c, off, output_len_tokens=100))
        rows.append(_row("C5", c, loaded, drafted=True, output_len_tokens=100))
    for machine, gain in MACHINES.items():
        rows.append(_row("C11", 1, 4.0, machine=machine))
        told = {"draft_acceptance_rate": MACHINES_ACCEPTED, "machine": machine}
        rows.append(_row("C11", 1, 4.0 / gain, 3, **told))
    rows.append(_row("C12", 1, 2.0, 3, mean_acceptance_length=2.4))
    rows.append(_row("C12", 1, 2.0 * (1 + AHEAD), 7, mean_acceptance_length=2.9))
    return rows


def _mixtures() -> list[dict]:
    rows = []
    size = {"num_experts": 128, "experts_per_token": 8}
    off = OURS_TTFT_S + (OUTPUT_LEN - 1) * VERIFY_S[1]
    rows.append(_row("C8", 1, off, **size))
    told = {"mean_acceptance_length": 1 + VERIFY_ACCEPTED, **size}
    rows.append(_row("C8", 1, off / VERIFY_SPEEDUP, 7, **told))
    size |= {"verifier_params_b": 30.5, "verifier_active_params_b": 3.3}
    for (workload, c), (off, on, length) in SPARSE.items():
        told = {"workload": workload, **size}
        rows.append(_row("C10", c, OUTPUT_LEN * c / off, **told))
        rows.append(_row("C10", c, OUTPUT_LEN * c / on, 4, mean_acceptance_length=length, **told))
    off, on, length = SPARSE_MEDIUM
    rows.append(_row("C10", 64, OUTPUT_LEN * 64 / off, workload="medium", **size))
    told = {"mean_acceptance_length": length, "workload": "medium", **size}
    rows.append(_row("C10", 64, OUTPUT_LEN * 64 / on, 4, **told))
    return rows


def _noise() -> list[dict]:
    scores = _spread_over(TWELVE)
    means = 1 + MEAN_SPREAD * scores / np.ptp(scores)
    rows = [
        _row("C13", 4, 1.5 * mean, boot=str(i), num_requests=NUM_REQUESTS)
        for i, mean in enumerate(means)
    ]
    seconds = {2: 1.7, 4: 2.2, 16: 4.5}  # ours
    for c, cv in SAME_SEED_CV.items():
        for i, score in enumerate(_spread_over(4)):
            factor = 1 + cv * score
            told = {"mean_acceptance_length": 2.6 * factor, "boot": str(i)}
            rows.append(_row("C14", c, seconds[c] / factor, 3, **told))
    return rows


def grid_latency_s(k: int, concurrency: float) -> float:
    """Return the true latency of C6, s."""
    told = {"arrivals": "closed", "input_len_tokens": 300.0, "output_len_tokens": OUTPUT_LEN}
    return float(true_latency(GRID_COSTS, GRID_ACCEPTED, k, concurrency, **told))


def _few_of_a_grid() -> list[dict]:
    rows = []
    noise = 0.005 * np.random.default_rng(6).standard_normal(len(GRID_RUNS))
    for (k, c), error in zip(GRID_RUNS, noise, strict=True):
        told = {}
        if k:
            steps = 200 * true_steps(GRID_ACCEPTED[:k], OUTPUT_LEN)
            accepted = np.round(steps * np.cumprod(GRID_ACCEPTED[:k])).astype(int)
            told = {
                "num_drafts": round(steps),
                "accepted_per_position": ";".join(map(str, accepted)),
            }
        rows.append(_row("C6", c, grid_latency_s(k, c) * np.exp(error), k, **told))
    return rows


def case_frame() -> pd.DataFrame:
    """Return all runs, in the columns of `bayes_sd.schema`."""
    return pd.DataFrame([*_speedups(), *_mixtures(), *_noise(), *_few_of_a_grid()])


@cache
def case_fit() -> xr.DataTree:
    """Return the fit of all runs; short, so it may say that it has not converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesSdWarning)
        return fit(case_frame(), random_seed=11, draws=200, tune=300, chains=2, progressbar=False)
