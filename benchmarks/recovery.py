"""Recovery from the simulator: latency at unseen loads, coefficients, acceptance.

    python benchmarks/recovery.py              # 10 dense and 10 mixture-of-experts servers
    python benchmarks/recovery.py --quick      # one of each, few draws; writes nothing

The data come from `bayes_sd.simulate`, an iteration-level simulator that shares no formula with
the model: a roofline in place of the hinge, experts drawn token by token, acceptance that differs
between requests. Each server's costs are drawn anew. Runs of fresh boots at loads that were not
fitted, and at k = 2, which was not either, are predicted from their control alone.
"""

import argparse
import time
import warnings
from multiprocessing import get_context
from typing import Any

import numpy as np
import pandas as pd

from bayes_sd.acceptance_predict import predict_acceptance_length
from bayes_sd.data import to_dataset
from bayes_sd.fitting import compile_model, complete_tree, sample
from bayes_sd.model import build_model
from bayes_sd.posterior import flat_draws
from bayes_sd.predict import predict_latency
from bayes_sd.priors import default_priors
from bayes_sd.scenario import Scenario
from bayes_sd.simulate import simulate_runs
from bayes_sd.simulate_arm import SimulatedArm
from bayes_sd.simulate_load import SimulatedLoad
from bayes_sd.simulate_serving import simulate_run
from bayes_sd.simulate_settings import SimulatedDrafter, SimulatedExperts, SimulatedServer
from bayes_sd.start import starting_point
from benchmarks.folds import markdown, stamp, write_results

FITTED_SHARES, UNSEEN_SHARES = (0.1, 0.3, 0.5, 0.7, 0.85), (0.2, 0.6, 0.78)
FITTED_K, UNSEEN_K = (0, 1, 3, 5), (0, 2, 3)
LENGTHS = ((512, 128), (128, 256))
REQUESTS = 400
BOOT_SD = 0.01


def draw_server(rng: np.random.Generator, is_moe: bool) -> tuple[SimulatedServer, SimulatedDrafter]:
    """Draw a server and a drafter: costs within a factor of about two of a data-centre GPU's."""

    def near(median: float, spread: float = 0.4) -> float:
        return float(median * np.exp(spread * rng.standard_normal()))

    experts = None
    if is_moe:
        total, used = ((32, 4), (64, 8))[int(rng.integers(2))]
        experts = SimulatedExperts(
            num_experts=total,
            experts_per_token=used,
            weights_share=float(rng.uniform(0.6, 0.9)),
            load_cv=float(rng.uniform(0.3, 1.5)),
        )
    server = SimulatedServer(
        weights_s=near(8e-3),
        compute_per_token_s=near(6e-5),
        step_fixed_s=near(1e-3),
        request_in_step_s=near(5e-5),
        context_per_token_s=near(1e-7),
        mixed_step_s=near(1e-3),
        request_start_s=near(0.02),
        step_noise_cv=0.05,
        experts=experts,
        verifier_params_b=8.0,
    )
    first = rng.uniform(0.6, 0.85)
    drafter = SimulatedDrafter(
        acceptance=tuple(float(first - 0.03 * j) for j in range(5)),
        acceptance_spread_logit=0.5,
        fixed_s=near(1e-3),
        per_request_s=near(2e-5),
        drafter_params_b=0.5,
    )
    return server, drafter


def campaign(
    server: SimulatedServer,
    drafter: SimulatedDrafter,
    lengths_of_k: dict[int, tuple[tuple[int, int], ...]],
    shares: tuple[float, ...],
    seed: int,
) -> pd.DataFrame:
    """Simulate one boot of each draft length and pair of lengths."""
    tables = []
    for number, (k, pairs) in enumerate(lengths_of_k.items()):
        arm = SimulatedArm(server=server, drafter=drafter if k else None, num_speculative_tokens=k)
        for i, (prompt, answer) in enumerate(pairs):
            load = SimulatedLoad(
                request_rate_rps=1.0,
                input_len_tokens=prompt,
                output_len_tokens=answer,
                num_requests=REQUESTS,
            )
            runs = simulate_runs(
                [arm],
                [load],
                load_shares=shares,
                boot_sd=BOOT_SD,
                source_id=f"boot {i}",
                random_seed=1000 * seed + 10 * number + i,
            )
            tables.append(runs)
    return pd.concat(tables, ignore_index=True)


def true_costs(
    server: SimulatedServer, drafter: SimulatedDrafter, is_moe: bool
) -> dict[str, float]:
    """Return what the simulator's settings say of the model's coefficients, where they do.

    A step at no load reads the weights and pays its fixed part; a drafted token costs the drafter
    and the verifier a sum that only together can be told.
    """
    fixed = server.weights_s + server.step_fixed_s
    found = {
        "verify_fixed_s": fixed,
        "draft_fixed_s": drafter.fixed_s,
        "mixed_step_s": server.mixed_step_s,
    }
    if is_moe and server.experts is not None:
        found["expert_share"] = server.experts.weights_share * server.weights_s / fixed
        found["expert_load_cv"] = server.experts.load_cv
    return found


def true_length(drafter: SimulatedDrafter, k: int, seed: int) -> float:
    """Return tokens per step over 20,000 requests, by a server of which nothing else matters."""
    arm = SimulatedArm(
        server=SimulatedServer(weights_s=8e-3, compute_per_token_s=1e-6),
        drafter=drafter,
        num_speculative_tokens=k,
    )
    load = SimulatedLoad(
        concurrency=64, input_len_tokens=16, output_len_tokens=LENGTHS[0][1], num_requests=20_000
    )
    run = simulate_run(arm, load, random_seed=seed).summary()
    return 1 + run["num_accepted_tokens"] / run["num_drafts"]


def judge_set(task: tuple[int, bool, argparse.Namespace]) -> dict[str, Any]:
    """Simulate, fit and judge one server."""
    seed, is_moe, options = task
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([seed, is_moe])
    server, drafter = draw_server(rng, is_moe)
    seen = campaign(server, drafter, dict.fromkeys(FITTED_K, LENGTHS), FITTED_SHARES, seed)
    unseen = campaign(
        server, drafter, dict.fromkeys(UNSEEN_K, LENGTHS[:1]), UNSEEN_SHARES, seed + 500
    )
    data, fresh = to_dataset(seen), to_dataset(unseen)
    priors = default_priors(data)
    began = time.perf_counter()
    model = build_model(data, priors, responses=options.responses)
    tree = sample(
        compile_model(model, starting_point(data, priors)),
        draws=options.draws,
        tune=options.tune,
        chains=2,
        random_seed=seed,
        progressbar=False,
    )
    tree = complete_tree(tree, data, seed)
    pair = str(data["pair"].values[0])
    scenarios = [
        Scenario(
            pair,
            request_rate_rps=float(run["request_rate_rps"]),
            input_len_tokens=float(run["input_len_tokens"]),
            output_len_tokens=float(run["output_len_tokens"]),
            num_speculative_tokens=int(run["num_speculative_tokens"]),
            num_requests=int(run["num_requests"]),
        )
        for run in (fresh.isel(run=i) for i in range(fresh.sizes["run"]))
    ]
    draws = predict_latency(tree, scenarios, kind="run")["e2e_s"].values
    measured = fresh["mean_e2e_s"].values
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    posterior = tree["posterior"].dataset
    costs = {}
    for name, truth in true_costs(server, drafter, is_moe).items():
        drawn = flat_draws(posterior[name])[:, 0]
        a, middle, b = np.quantile(drawn, [0.05, 0.5, 0.95])
        costs[name] = {"ratio": middle / truth, "inside": bool(a <= truth <= b)}
    length = {}
    for k in (2, 3):
        drawn = predict_acceptance_length(tree, pair, k).values
        a, b = np.quantile(drawn, [0.05, 0.95])
        length[k] = bool(a <= true_length(drafter, k, seed) <= b)
    return {
        "seed": seed,
        "is_moe": is_moe,
        "passed": bool(tree.attrs["passed"]),
        "divergences": int(tree["sample_stats"]["diverging"].sum()),
        "seconds": round(time.perf_counter() - began, 1),
        "inside": ((low <= measured) & (measured <= high)).tolist(),
        "error": (100 * abs(np.median(draws, axis=0) / measured - 1)).tolist(),
        "costs": costs,
        "length": length,
    }


def summarise(found: list[dict[str, Any]]) -> str:
    """Return the tables."""
    lines, of_costs = [], []
    for kind, is_moe in (("dense", False), ("mixture of experts", True)):
        sets = [f for f in found if f["is_moe"] == is_moe]
        if not sets:
            continue
        inside = np.concatenate([f["inside"] for f in sets])
        error = np.concatenate([f["error"] for f in sets])
        lines.append(
            {
                "servers": kind,
                "data sets": len(sets),
                "unseen runs": len(inside),
                "in 90 % interval": f"{100 * inside.mean():.0f} %",
                "median error %": f"{np.median(error):.1f}",
                "P99 error %": f"{np.quantile(error, 0.99):.1f}",
                "E at k = 3 inside": sum(f["length"][3] for f in sets),
                "E at k = 2, not fitted, inside": sum(f["length"][2] for f in sets),
                "divergences": sum(f["divergences"] for f in sets),
            }
        )
        for name in sets[0]["costs"]:
            ratio = np.array([f["costs"][name]["ratio"] for f in sets])
            held = sum(f["costs"][name]["inside"] for f in sets)
            of_costs.append(
                {
                    "servers": kind,
                    "coefficient": name,
                    "median bias %": f"{100 * (np.median(ratio) - 1):+.1f}",
                    "90 % of biases, %": f"{100 * (np.quantile(ratio, 0.05) - 1):+.0f} to "
                    f"{100 * (np.quantile(ratio, 0.95) - 1):+.0f}",
                    "in 90 % interval": f"{held} of {len(sets)}",
                }
            )
    return "\n\n".join(
        [
            "# Recovery from the simulator",
            markdown(pd.DataFrame(lines)),
            "Coefficients against the settings of the simulator. A mean-field coefficient is not "
            "the simulator's own where the roofline is smooth or requests bunch, so cover is "
            "reported, not required:",
            markdown(pd.DataFrame(of_costs)),
        ]
    )


def main() -> None:
    """Run all servers, two at a time, and write the tables."""
    parser = argparse.ArgumentParser(description="Recovery from the simulator.")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sets", type=int, default=10, help="of each kind")
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--tune", type=int, default=400)
    options = parser.parse_args()
    options.responses = ()
    if options.quick:
        options.sets, options.draws, options.tune = 1, 100, 200
    tasks = [(seed, moe, options) for seed in range(options.sets) for moe in (False, True)]
    began = time.perf_counter()
    with get_context("spawn").Pool(2) as pool:
        found = []
        for result in pool.imap_unordered(judge_set, tasks):
            found.append(result)
            print(f"{len(found)} of {len(tasks)}, {time.perf_counter() - began:.0f} s", flush=True)
    text = summarise(found)
    text += f"\n\n{options.draws} draws after {options.tune} in each of 2 chains. {stamp()}"
    print(text)
    if not options.quick:
        write_results("recovery", text, {"stamp": stamp(), "sets": found})


if __name__ == "__main__":
    main()
