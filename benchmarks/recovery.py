"""Recovery from the simulator: latency at unseen loads, coefficients, acceptance.

    python benchmarks/recovery.py              # 10 dense and 10 mixture-of-experts servers
    python benchmarks/recovery.py --quick      # one of each, few draws; writes nothing
    python benchmarks/recovery.py --responses ""   # the mean latency alone

The data come from `bayes_sd.simulate`, an iteration-level simulator that shares no formula with
the model: a roofline in place of the hinge, experts drawn token by token, acceptance that differs
between requests. Each server's costs are drawn anew. Eight sweeps are fitted: k = 0, 1, 3, 5, two
boots of each, six loads, two pairs of lengths that take turns over the loads. Asked are fresh
boots at other loads, and k = 2, which no sweep has, from their control alone.
"""

import argparse
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_sd.acceptance_predict import predict_acceptance_length
from bayes_sd.data import to_dataset
from bayes_sd.fitting import complete_tree
from bayes_sd.model import RESPONSES, build_model
from bayes_sd.physics.step_time import per_request_time, step_time
from bayes_sd.posterior import cell
from bayes_sd.predict import predict_latency
from bayes_sd.priors import default_priors
from bayes_sd.sampling import compile_model, sample
from bayes_sd.scenario import Scenario
from bayes_sd.simulate_load import SimulatedLoad
from bayes_sd.simulate_serving import simulate_run
from bayes_sd.simulate_settings import SimulatedDrafter
from bayes_sd.start import starting_point
from benchmarks.folds import stamp, write_results
from benchmarks.recovery_runs import ASKED_K, LENGTHS, Campaign
from benchmarks.recovery_table import recovery_text

# Requests in a step and draft length at which the time of a step is compared.
STEPS = ((1, 0), (8, 3), (24, 1))


def true_length(drafter: SimulatedDrafter, k: int) -> float:
    """Return tokens per step of a long answer, by quadrature over requests.

    A request takes answer / E of its own steps: over steps, E is the harmonic mean of theirs.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    rates = np.array(drafter.rates(k))[:, None]
    shifted = np.log(rates / (1 - rates)) + drafter.acceptance_spread_logit * nodes
    own = 1 + np.cumprod(1 / (1 + np.exp(-shifted)), axis=0).sum(axis=0)
    return float(weights.sum() / (weights / own).sum())


def true_step(campaign: Campaign, requests: int, k: int) -> tuple[float, float]:
    """Return time and context tokens per request of a pure decoding step, as simulated."""
    load = SimulatedLoad(concurrency=requests, input_len_tokens=256, output_len_tokens=256)
    steps = simulate_run(campaign.arm(k), load, random_seed=campaign.seed).steps
    full = steps[(steps["decoding_requests"] == requests) & (steps["prefill_tokens"] == 0)]
    time_s = (full["end_s"] - full["start_s"]).mean()
    return float(time_s), float(full["context_tokens"].mean() / requests)


def compared(tree: xr.DataTree, pair: str, campaign: Campaign) -> dict[str, tuple[Any, float]]:
    """Return draws and truth by name, of coefficients and of sums of them.

    The last group has no exact counterpart: `recovery_table.LOOSE` says why.
    """
    # Without speculation no drafter is loaded here.
    costs = replace(cell(tree, pair, drafts=True).costs, idle_drafter_s=0.0)
    server, drafter = campaign.server, campaign.drafter
    constant = tree["constant_data"].dataset
    context = float((constant["input_len_tokens"] + constant["output_len_tokens"] / 2).mean())
    fixed = server.weights_s + server.step_fixed_s
    per_request = server.request_in_step_s + context * server.context_per_token_s
    per_draft = drafter.per_request_s + drafter.verify_per_draft_s
    plain, drafted = (per_request_time(costs, k, context) for k in (0, 1))
    found: dict[str, tuple[Any, float]] = {
        "verify_fixed_s": (costs.verify_fixed_s, fixed),
        "draft_fixed_s": (costs.draft_fixed_s, drafter.fixed_s),
        "per request in a step": (plain, per_request),
        "per request and draft": (drafted - plain, per_draft),
    }
    if server.experts is not None:
        share = server.experts.weights_share * server.weights_s / fixed
        found["expert_share (w)"] = (costs.expert_share, share)
        found["expert_load_cv (v)"] = (costs.expert_load_cv, server.experts.load_cv)
    for requests, k in STEPS:
        truth, tokens = true_step(campaign, requests, k)
        found[f"step, {requests} requests, k = {k}"] = (
            step_time(costs, float(requests), k, tokens),
            truth,
        )

    def bend(tokens: float) -> float:
        p = server.roofline_sharpness
        computing = tokens * server.compute_per_token_s
        return float((server.weights_s**p + computing**p) ** (1 / p))

    long, short = (lengths[0] for lengths in LENGTHS)
    own = (bend(long) - bend(short)) / (long - short) + server.context_per_token_s
    first = server.request_start_s + server.step_fixed_s + server.request_in_step_s
    first += bend(short) + short * server.context_per_token_s - short * own
    return found | {
        "prefill_fixed_s": (costs.prefill_fixed_s, first),
        "prefill_per_token_s": (costs.prefill_per_token_s, own),
        "prefill_stall_per_token_s": (costs.prefill_stall_per_token_s, own),
        "mixed_step_s": (costs.mixed_step_s, server.mixed_step_s),
        "verify_per_request_s": (costs.verify_per_request_s, server.request_in_step_s),
        "context_per_token_s": (costs.context_per_token_s, server.context_per_token_s),
        "draft_per_request_s": (costs.draft_per_request_s, drafter.per_request_s),
        "knee_tokens": (costs.knee_tokens, server.weights_s / server.compute_per_token_s),
        "knee_s_per_token": (costs.knee_s_per_token, server.compute_per_token_s),
    }


def judge_draws(draws: Any, truth: float) -> dict[str, Any]:
    """Return ratio of the median to the truth, width and cover of the 90 % interval."""
    low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95])
    return {
        "truth": truth,
        "ratio": middle / truth,
        "width": (high - low) / truth,
        "inside": bool(low <= truth <= high),
    }


def judge_latency(tree: xr.DataTree, pair: str, runs: pd.DataFrame, kind: str) -> list[Any]:
    """Return a record per run: its prediction from the control against what was simulated."""
    scenarios = [
        Scenario(
            pair,
            request_rate_rps=run.request_rate_rps,
            input_len_tokens=run.input_len_tokens,
            output_len_tokens=run.output_len_tokens,
            num_speculative_tokens=run.num_speculative_tokens,
            num_requests=run.num_requests,
            max_num_seqs=run.max_num_seqs,
        )
        for run in runs.itertuples()
    ]
    found = predict_latency(tree, scenarios, kind=kind)
    keys = ["num_speculative_tokens", "input_len_tokens", "mean_in_system_requests"]
    return [
        judge_draws(found["e2e_s"].values[:, i], row["mean_e2e_s"])
        | {key: row[key] for key in keys}
        | {"load": row["source_id"].rpartition(" ")[2], "status": str(found["status"].values[i])}
        for i, row in enumerate(runs.to_dict("records"))
    ]


def judge_set(task: tuple[int, bool, argparse.Namespace]) -> dict[str, Any]:
    """Simulate, fit and judge one server."""
    seed, is_moe, options = task
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    campaign = Campaign(seed, is_moe)
    data = to_dataset(campaign.fitted())
    asked = {kind: campaign.asked(kind) for kind in ("run", "mean")}
    simulated = time.perf_counter()
    priors = default_priors(data)
    responses = tuple(options.responses.split(",")) if options.responses else ()
    model = build_model(data, priors, responses=responses)
    compiled = compile_model(model, starting_point(data, priors))
    ready = time.perf_counter()
    tree = sample(
        compiled,
        draws=options.draws,
        tune=options.tune,
        chains=2,
        random_seed=seed,
        progressbar=False,
    )
    sampled = time.perf_counter()
    tree = complete_tree(tree, data, seed, priors)
    pair = str(data["pair"].values[0])
    seconds = np.diff([began, simulated, ready, sampled]).round(1).tolist()
    return {
        "seed": seed,
        "is_moe": is_moe,
        "verdict": tree.attrs["verdict"],
        "divergences": int(tree["sample_stats"]["diverging"].sum()),
        "seconds": dict(zip(("simulating", "compiling", "sampling"), seconds, strict=True)),
        "latency": {kind: judge_latency(tree, pair, runs, kind) for kind, runs in asked.items()},
        "costs": {n: judge_draws(*both) for n, both in compared(tree, pair, campaign).items()},
        "length": {
            k: judge_draws(
                predict_acceptance_length(tree, pair, k), true_length(campaign.drafter, k)
            )
            for k in ASKED_K[1:]
        },
    }


def main() -> None:
    """Run all servers, two at a time, and write the tables."""
    parser = argparse.ArgumentParser(description="Recovery from the simulator.")
    parser.add_argument("--quick", action="store_true", help="smoke test; writes no file")
    parser.add_argument("--sets", type=int, default=20, help="half of them dense")
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--tune", type=int, default=400)
    parser.add_argument("--responses", default=",".join(RESPONSES), help="besides the mean e2e")
    options = parser.parse_args()
    if options.quick:
        options.sets, options.draws, options.tune = 2, 100, 200
    tasks = [(i // 2, bool(i % 2), options) for i in range(options.sets)]
    began, found = time.perf_counter(), []
    # Raises if a worker is ended from outside, where a Pool would wait for it for ever.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(judge_set, task) for task in tasks]):
            found.append(done.result())
            print(f"{len(found)} of {len(tasks)}, {time.perf_counter() - began:.0f} s", flush=True)
    found.sort(key=lambda f: (f["is_moe"], f["seed"]))
    text, bars = recovery_text(found)
    text += (
        f"\n\n{options.draws} draws after {options.tune} in each of 2 chains; "
        f"{(time.perf_counter() - began) / 60:.0f} min in all. {stamp()}"
    )
    print(text)
    if not options.quick:
        name = "recovery"
        if options.responses != ",".join(RESPONSES):
            name += f"_{options.responses.replace(',', '_') or 'e2e_only'}"
        figures = {"stamp": stamp(), "options": vars(options), "bars": bars, "sets": found}
        write_results(name, text, figures)


if __name__ == "__main__":
    main()
