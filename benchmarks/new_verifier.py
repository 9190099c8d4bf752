"""Whole verifiers left out: latency of a model that was never measured, from its size alone.

    python benchmarks/new_verifier.py            # scaling study, each of five verifiers in turn
    python benchmarks/new_verifier.py --quick    # one, few draws; writes no file

The other four are fitted (mean latency alone), and the runs of the fifth are predicted by
``predict_latency(..., allow_new=True)`` from sizes, lengths, acceptance and load. Beside it the
law of the measured verifier nearest in size, its costs in proportion to parameters: what one would
do by hand. An interval that does not hold is the fault that counts here: a guess may be far off.
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_sd.baselines import LAW_COEFFICIENTS, fit_law
from bayes_sd.data import to_dataset
from bayes_sd.datasets import load_scaling_study
from bayes_sd.fitting import fit
from bayes_sd.measured_acceptance import tokens_per_step
from bayes_sd.physics.linear_law import closed_form_latency
from bayes_sd.predict import predict_latency
from bayes_sd.scenario import Scenario
from benchmarks.folds import ceiling_of_runs, markdown, short_name, stamp, write_results
from benchmarks.heldout import scenario_of_run, score

IDLE_REQUESTS = 6.0  # up to here a run is called idle: no latency is near the pole


def sized(data: xr.Dataset, run: int, deployment: str | None) -> Scenario:
    """Return the scenario of a run of a verifier that is not known, with its sizes."""
    base, pair = int(data["base_of_run"].values[run]), int(data["pair_of_run"].values[run])
    return scenario_of_run(data, run).with_(
        pair="a verifier never measured",
        deployment=deployment,
        verifier_params_b=float(data["verifier_params_b"].values[base]),
        drafter_params_b=float(data["drafter_params_b"].values[pair]),
    )


def nearest_law(seen: xr.Dataset, held: xr.Dataset) -> np.ndarray:
    """Return the latency of held-out runs, s, by the law of the verifier nearest in size."""
    law = fit_law(seen)
    size, drafter = float(held["verifier_params_b"].values[0]), held["drafter_params_b"].values[0]
    near = int(np.argmin(np.abs(np.log(seen["verifier_params_b"].values / size))))
    pair = int(np.flatnonzero(seen["base_of_pair"].values == near)[0])
    grows = size / float(seen["verifier_params_b"].values[near])
    drafter_grows = float(drafter / seen["drafter_params_b"].values[pair])
    label = str(seen["base"].values[near])
    at = next(i for i, (name, *_) in enumerate(law.cells) if name == label)
    c = dict(zip(LAW_COEFFICIENTS, law.coefficients[at], strict=True))
    scaled = {n: v * (drafter_grows if n.endswith("d") else grows) for n, v in c.items()}
    steps = held["output_len_tokens"].values / tokens_per_step(held)
    k = held["num_speculative_tokens"].values
    fixed, rising = (
        scaled[f"{i}p"] + steps * (scaled[f"{i}v"] + k * scaled[f"{i}d"]) for i in ("c1", "c2")
    )
    rate = held["request_rate_rps"].values
    return np.asarray(np.minimum(closed_form_latency(rate, fixed, rising), ceiling_of_runs(held)))


def judge(frame: pd.DataFrame, verifier: str, lengths: dict[str, int]) -> dict[str, Any]:
    """Leave one verifier out; return its row of the table."""
    seen, held = (
        to_dataset(frame[frame["verifier"] == verifier if out else frame["verifier"] != verifier])
        for out in (False, True)
    )
    held = held.isel(run=np.flatnonzero(held["control"].values == "open"))
    tree = fit(seen, responses=(), progressbar=False, **lengths)
    home = str(held["deployment"].values[0])
    deployment = home if home in seen["deployment"].values else None
    scenarios = [sized(held, run, deployment) for run in range(held.sizes["run"])]
    draws = predict_latency(tree, scenarios, "run", allow_new=True)["e2e_s"].values
    rows = score(draws, np.median(draws, axis=0), held)
    by_law = np.abs(np.log(nearest_law(seen, held) / held["mean_e2e_s"].values))
    idle = held["effective_batch_observed"].values < IDLE_REQUESTS
    low, high = np.quantile(draws[:, idle], [0.05, 0.95], axis=0)
    return {
        "verifier": short_name(verifier),
        "runs": len(rows),
        "in 90 %": f"{100 * rows['in_90'].mean():.0f} %",
        "in 50 %": f"{100 * rows['in_50'].mean():.0f} %",
        "error idle %": f"{rows['error'][idle].median():.0f}",
        "high over low, idle": f"{np.median(high / low):.1f}",
        "error %": f"{rows['error'].median():.0f}",
        "CRPS of log": f"{rows['crps_log'].mean():.2f}",
        "nearest law: error idle %": f"{100 * np.expm1(np.median(by_law[idle])):.0f}",
        "nearest law: error %": f"{100 * np.expm1(np.median(by_law)):.0f}",
        "its CRPS of log": f"{by_law.mean():.2f}",
        "converged": "yes" if tree.attrs["passed"] else "no",
    }


def main() -> None:
    """Leave each verifier out in turn, print the table and write it."""
    parser = argparse.ArgumentParser(description="Whole verifiers left out.")
    parser.add_argument("--quick", action="store_true", help="one verifier; writes no file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    frame = load_scaling_study()
    frame = frame[~frame["is_throughput_test"]]
    names = sorted(frame["verifier"].unique())
    lengths = {"draws": 800, "tune": 500, "chains": 2}
    if options.quick:
        names, lengths = names[:1], {"draws": 30, "tune": 60, "chains": 2}
        frame = frame[frame["verifier"].isin([names[0], "Qwen/Qwen3-8B", "Qwen/Qwen3-32B"])]
    begun = time.perf_counter()
    table = pd.DataFrame([judge(frame, name, lengths) for name in names])
    text = "\n\n".join(
        [
            "# A verifier that was never measured, from its size",
            markdown(table),
            "Open loops of the scaling study. Past capacity both are held to cap / rate. Idle: "
            f"below {IDLE_REQUESTS:g} requests in flight. The law of the nearest verifier has no "
            "interval; its CRPS is its absolute error.",
            f"{lengths}, {(time.perf_counter() - begun) / 60:.0f} min in all. {stamp()}",
        ]
    )
    print(text)
    if not options.quick:
        figures = table.to_dict("records")
        write_results("new_verifier", text, {"stamp": stamp(), "figures": figures})


if __name__ == "__main__":
    main()
