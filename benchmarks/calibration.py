"""Simulation-based calibration of the model, and of three wrong ones that it has to reject.

    python benchmarks/calibration.py           # 200 simulations, 30 of each mistake
    python benchmarks/calibration.py --quick   # does it still run? writes nothing

Truths are drawn from a prior, data of a small study from the truths, and the model is fitted to
each: the rank of the truth among the draws has to be uniform. The priors are the default ones
with narrower costs, for at given request rates the default ones would often be past capacity.
"""

import argparse
import time
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import xarray as xr

from bayes_sd.data import to_dataset
from bayes_sd.plots.calibration import plot_calibration
from bayes_sd.priors import RESOURCE, Prior, default_priors
from bayes_sd.sbc import run_sbc
from bayes_sd.sbc_mistakes import WRONG
from bayes_sd.uniformity import CalibrationVerdict, calibration_verdict
from benchmarks.folds import RESULTS, markdown, stamp, write_results

RATES = (0.5, 2.0, 3.5, 5.0)
CONCURRENCIES = (1.0, 8.0, 32.0)
# Responses are replaced in every simulation, but what is counted sets the sampler's coordinates.
STEPS_PER_REQUEST = 50
TYPICAL_ACCEPTANCE = 0.7
NARROWER = 0.3  # of the default spreads of the costs


def calibration_design() -> xr.Dataset:
    """Return a study of 6 boots and 42 runs: one verifier, two drafters, open and closed loops."""
    arms = [
        ("off", 0, "poisson", np.nan),
        ("off", 0, "constant", np.nan),
        ("quick", 2, "poisson", np.nan),
        ("quick", 4, "poisson", np.nan),
        ("sharp", 2, "poisson", 0.8),
        ("sharp", 5, "poisson", 0.8),
    ]
    rows = []
    for number, (drafter, k, arrivals, forced) in enumerate(arms):
        loads = [("open", rate) for rate in RATES] + [("closed", n) for n in CONCURRENCIES]
        for i, (kind, load) in enumerate(loads):
            is_open = kind == "open"
            requests = 400 if i % 2 else 60
            counted = k > 0 and np.isnan(forced)
            drafted = STEPS_PER_REQUEST * requests
            accepted = [round(drafted * TYPICAL_ACCEPTANCE ** (j + 1)) for j in range(k)]
            rows.append(
                {
                    "run_id": f"{drafter}-k{k}-{number}-{i}",
                    "sweep_id": f"{drafter}-k{k}-{number}",
                    "verifier": "verifier",
                    "drafter": "" if drafter == "off" else drafter,
                    "method": "none" if drafter == "off" else "draft_model",
                    "num_speculative_tokens": k,
                    "forced_acceptance_rate": forced,
                    "num_drafts": drafted if counted else np.nan,
                    "accepted_per_position": ";".join(map(str, accepted)) if counted else "",
                    "load_kind": kind,
                    "arrivals": arrivals if is_open else "closed",
                    "request_rate_rps": load if is_open else np.nan,
                    "concurrency": np.nan if is_open else load,
                    "num_requests": requests,
                    "mean_e2e_s": 1.0,
                    "mean_ttft_s": 0.1 if drafter != "sharp" else np.nan,
                }
            )
    identity = {
        "source_id": "calibration",
        "engine": "vllm",
        "engine_version": "0.32.0",
        "hardware": "Test GPU",
        "tensor_parallel_size": 1,
        "dtype": "bf16",
        "workload": "chat",
        "sampling": "temperature 0",
        "max_num_seqs": 256,
        "is_throughput_test": False,
        "verifier_params_b": 8.0,
        "input_len_tokens": 512.0,
        "output_len_tokens": 128.0,
    }
    frame = pd.DataFrame(rows).assign(**identity)
    frame["drafter_params_b"] = frame["drafter"].map({"quick": 0.5, "sharp": 1.0})
    return to_dataset(frame)


def calibration_priors(design: xr.Dataset) -> dict[str, Prior]:
    """Return the default priors, with narrower costs and with boots that differ enough to see."""
    priors = default_priors(design)
    narrow = {
        name: replace(priors[name], spread=NARROWER * priors[name].spread) for name in RESOURCE
    }
    return priors | narrow | {"boot_sd": replace(priors["boot_sd"], center=0.03, spread=0.5)}


def row(name: str, result: xr.Dataset, verdict: CalibrationVerdict, about: str) -> dict[str, str]:
    """Return one line of the table of verdicts."""
    return {
        "fitted": name,
        "simulations": str(result.sizes["simulation"]),
        "outside": f"{verdict.num_outside} of {verdict.num_quantities}",
        "by chance": f"{verdict.expected_outside:.1f}, at most {verdict.allowed_outside}",
        "smallest p x number": f"{verdict.smallest_p:.2g} ({verdict.worst})",
        "verdict": "calibrated" if verdict.passed else "rejected",
        "what is wrong": about,
    }


def report(results: dict[str, xr.Dataset], seconds: float) -> tuple[str, dict[str, Any]]:
    """Return the result as Markdown and as figures."""
    verdicts = {name: calibration_verdict(result) for name, result in results.items()}
    rows = [
        row(name, results[name], verdict, WRONG[name].about if name in WRONG else "nothing")
        for name, verdict in verdicts.items()
    ]
    right, verdict = results["right"], verdicts["right"]
    shown = verdict.table.sort_values("p_value").head(10).reset_index()
    shown = shown.assign(
        **{c: shown[c].map("{:.3f}".format) for c in ("p_value", "mean_rank", "spread")}
    )
    text = (
        "# Simulation-based calibration\n\n"
        f"{verdict.sentence()}\n\n{markdown(pd.DataFrame(rows))}\n\n"
        "Ten smallest p values of the right model (spread above 1: intervals too narrow):\n\n"
        f"{markdown(shown)}\n\n"
        f"{right.attrs['num_rejected']} of {right.attrs['num_drawn']} draws of the prior were past "
        f"capacity. Smallest ESS {float(right['ess'].min()):.0f} for {right.attrs['num_ranks']} "
        f"ranks; {int(right['divergences'].sum())} divergences in "
        f"{int(right['num_draws'].sum())} draws; "
        f"{int((right['num_draws'] > right['num_draws'].min()).sum())} fits repeated with more "
        f"draws. {right.attrs['seconds_per_simulation']} s per simulation, compilation "
        f"{right.attrs['compile_s']} s, {seconds / 60:.0f} min in all.\n\n"
        "The prior is the default one with costs "
        f"{NARROWER:g} times as wide, and boots that differ by 3 %: at the design's rates the "
        "default prior is often past capacity.\n\n"
        f"![Ranks](calibration.png)\n\n{stamp()}\n"
    )
    figures = {
        "stamp": stamp(),
        "minutes": seconds / 60,
        "verdicts": rows,
        "p_values": {n: v.table["p_value"].to_dict() for n, v in verdicts.items()},
        "attributes": {n: dict(r.attrs) for n, r in results.items()},
    }
    return text, figures


def main() -> None:
    """Run it, print the table, and write table and plot to ``results/``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=200)
    parser.add_argument("--of-mistakes", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="few simulations; writes nothing")
    asked = parser.parse_args()
    counts = (3, 2) if asked.quick else (asked.simulations, asked.of_mistakes)
    begun = time.perf_counter()
    design = calibration_design()
    priors = calibration_priors(design)
    results = {"right": run_sbc(design, priors, num_simulations=counts[0])}
    for number, name in enumerate(WRONG):
        results[name] = run_sbc(
            design, priors, num_simulations=counts[1], wrong=name, random_seed=1000 * (number + 1)
        )
    text, figures = report(results, time.perf_counter() - begun)
    print(text)
    if asked.quick:
        return
    write_results("calibration", text, figures)
    mpl.use("Agg")
    curves = calibration_verdict(results["right"]).curves
    plot_calibration(curves).figure.savefig(RESULTS / "calibration.png", dpi=120)


if __name__ == "__main__":
    main()
