"""Held-out accuracy and honesty of the model against the published law.

    python benchmarks/heldout.py                   # scaling study, four folds over sweeps
    python benchmarks/heldout.py --unseen-high     # the two highest loads of every sweep unseen
    python benchmarks/heldout.py --data vllm-cpu   # dense runs on a CPU
    python benchmarks/heldout.py --quick           # one fold, two verifiers, few draws; no files

A held-out run is predicted from its control alone: the request rate, or the concurrency of a
closed loop. Its sweep, one server start, is unseen, so the prediction is ``kind="run"`` with a
new boot. Runs at the client's cap are judged by their rate and left out of the latency errors.
"""

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayes_sd.baselines import (
    LawFit,
    fit_law,
    is_covered,
    law_bootstrap,
    law_demands,
    predict_law,
)
from bayes_sd.configuration import resolve
from bayes_sd.fitting import complete_tree
from bayes_sd.model import RESPONSES
from bayes_sd.predict import predict_latency, predict_quantiles
from bayes_sd.priors import default_priors
from bayes_sd.sampling import CompiledModel, compile_blocks, sample
from bayes_sd.scenario import Scenario
from bayes_sd.spread_priors import PREFIX
from benchmarks.folds import (
    DATA,
    NUM_FOLDS,
    cap_of_runs,
    ceiling_of_runs,
    fold_of_runs,
    load_data,
    stamp,
    two_highest,
    write_results,
)
from benchmarks.heldout_table import figures_by_verifier, heldout_text
from benchmarks.scores import (
    absolute_percentage_error,
    covered,
    crps,
    interval_width,
    log_score,
)

type Floats = NDArray[np.float64]
type Mask = NDArray[np.bool_]

QUICK_VERIFIERS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B")
LAW_DRAWS = 400
NEVER_S = 1e6


def scenario_of_run(data: xr.Dataset, run: int) -> Scenario:
    """Return what is known of a run before it starts: its configuration and its control.

    A run at the cap becomes a closed loop of the cap.
    """
    control = str(data["control"].values[run])
    drafts = int(data["num_speculative_tokens"].values[run])
    known = float(data["known_acceptance_rate"].values[run])
    passes, verified = (
        float(data[name].values[run]) for name in ("num_draft_steps", "num_verified_tokens")
    )
    is_chain = passes == drafts and verified == drafts + 1
    pair = int(data["pair_of_run"].values[run])
    base = int(data["base_of_run"].values[run])
    cap = int(cap_of_runs(data)[run])
    return Scenario(
        str(data["pair"].values[pair] if pair >= 0 else data["base"].values[base]),
        request_rate_rps=float(data["request_rate_rps"].values[run]) if control == "open" else None,
        concurrency={"open": None, "cap": cap}.get(control, float(data["concurrency"].values[run])),
        arrivals=str(data["arrivals"].values[run]) if control == "open" else "constant",
        input_len_tokens=float(data["input_len_tokens"].values[run]),
        output_len_tokens=float(data["output_len_tokens"].values[run]),
        num_speculative_tokens=drafts,
        acceptance=known if drafts and not np.isnan(known) else None,
        num_draft_steps=None if is_chain else passes,
        num_verified_tokens=None if is_chain else verified,
        num_requests=int(data["num_requests"].values[run]),
        max_num_seqs=cap,
    )


def rate_at_latency(tree: xr.DataTree, scenario: Scenario, latency_s: float) -> float:
    """Return the median rate at which the model's law has a latency, requests per second."""
    configuration = resolve(tree, scenario)
    low, high = np.full((2, *configuration.cell.request_cv.shape), np.log([[1e-3], [1e5]]))
    for _ in range(40):
        middle = (low + high) / 2
        is_above = configuration.latency(np.exp(middle)) > latency_s
        low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
    return float(np.median(np.exp(high)) / latency_s)


def score(draws: Floats, point: Floats, data: xr.Dataset) -> pd.DataFrame:
    """Return one row per run: error and scores of draws, (draw, run), and point predictions."""
    measured, ceiling = data["mean_e2e_s"].values, ceiling_of_runs(data)
    point, draws = np.minimum(point, ceiling), np.minimum(draws, ceiling)
    return pd.DataFrame(
        {
            "predicted_s": point,
            "error": absolute_percentage_error(point, measured),
            "in_90": covered(draws, measured, 0.9),
            "in_50": covered(draws, measured, 0.5),
            "width_90": interval_width(draws, 0.9),
            "crps_log": crps(np.log(draws), np.log(measured)),
            "crps_s": crps(draws, measured),
            "log_score": log_score(draws, measured),
        }
    )


def score_extra(rows: pd.DataFrame, name: str, draws: Floats, measured: Floats) -> None:
    """Add error and cover of another response than the mean latency; NaN where not measured."""
    known = np.isfinite(measured)
    draws = np.minimum(draws, NEVER_S)  # past capacity: quantiles of infinity are not a number
    rows[f"{name}_error"] = np.where(
        known, absolute_percentage_error(np.median(draws, axis=0), measured), np.nan
    )
    rows[f"{name}_in_90"] = np.where(known, covered(draws, measured, 0.9), np.nan)


def judge_model(
    tree: xr.DataTree, train: Mask, data: xr.Dataset, tested: NDArray[np.int_], highest: Mask
) -> pd.DataFrame:
    """Return the model's scores on some runs; it may look at the runs of ``train`` only."""
    constant = tree["constant_data"].to_dataset().isel(run=np.flatnonzero(train))
    seen = xr.DataTree.from_dict(
        {"posterior": tree["posterior"].to_dataset(), "constant_data": constant}
    )
    scenarios = [scenario_of_run(data, run) for run in tested]
    held = data.isel(run=tested)
    predicted = predict_latency(seen, scenarios, kind="run")
    draws = predicted["e2e_s"].values
    rows = score(draws, np.median(draws, axis=0), held)
    rows["status"] = predicted["status"].values
    for name in ("ttft", "tpot"):
        if f"{name}_s" in predicted and f"mean_{name}_s" in held:
            score_extra(rows, name, predicted[f"{name}_s"].values, held[f"mean_{name}_s"].values)
    for name, prefix in PREFIX.items():
        if f"{prefix}spread_heterogeneity" in seen["posterior"]:
            levels = held["quantile"].values
            quantiles = predict_quantiles(seen, scenarios, levels, "run", latency=name).values
            ceiling = ceiling_of_runs(held) if name == "e2e" else NEVER_S
            for i in np.flatnonzero(levels > 0.9):
                score_extra(
                    rows,
                    f"{prefix}p{100 * levels[i]:.0f}",
                    np.where(np.isfinite(quantiles[..., i]), quantiles[..., i], ceiling),
                    held[f"{name}_quantile_s"].values[:, i],
                )
    rows["rate_at_cap"] = np.median(cap_of_runs(held) / draws, axis=0)
    rows["rate_at_latency"] = [
        rate_at_latency(seen, scenario, latency) if is_high else np.nan
        for scenario, latency, is_high in zip(
            scenarios, held["mean_e2e_s"].values, highest, strict=True
        )
    ]
    return rows


def judge_law(law: LawFit, data: xr.Dataset, tested: NDArray[np.int_], seed: int) -> pd.DataFrame:
    """Return the law's scores on some runs."""
    held = data.isel(run=tested)
    draws = law_bootstrap(law, held, draws=LAW_DRAWS, rng=np.random.default_rng(seed))
    rows = score(draws, predict_law(law, held), held)
    c1, c2 = law_demands(law, held)
    cap, measured = cap_of_runs(held), held["mean_e2e_s"].values
    rows["rate_at_cap"] = cap / (c1 + cap * c2)
    rows["rate_at_latency"] = np.maximum(measured - c1, 0) / c2 / measured
    return rows


def run_folds(
    data: xr.Dataset, compiled: list[CompiledModel], options: argparse.Namespace
) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """Sample and judge fold by fold; return a row per run and method, and a verdict per fold."""
    fold, highest = fold_of_runs(data), two_highest(data)
    is_capped = data["control"].values == "cap"
    tables, verdicts = [], []
    for number in range(1 if options.quick else NUM_FOLDS):
        held = fold == number
        train = ~held & ~((highest | is_capped) & options.unseen_high)
        tested = np.flatnonzero(held & highest if options.unseen_high else held)
        law = fit_law(data, train)
        known = is_covered(law, data.isel(run=tested))  # else the law has no word on them
        tested = tested[known]
        left = f" {(~known).sum()} runs of unseen lengths are not judged." * (not known.all())
        began = time.perf_counter()
        tree = sample(
            compiled,
            score_weight=train.astype(float),
            draws=options.draws,
            tune=options.tune,
            chains=options.chains,
            random_seed=options.seed + number,
            progressbar=False,
        )
        sampled = time.perf_counter()
        tree = complete_tree(tree, data, options.seed + number)
        both = {
            "law": judge_law(law, data, tested, options.seed + number),
            "model": judge_model(tree, train, data, tested, highest[tested]),
        }
        verdicts.append(
            {
                "fold": number,
                "passed": bool(tree.attrs["passed"]),
                "verdict": tree.attrs["verdict"] + left,
                "sampling_s": round(sampled - began, 1),
                "judging_s": round(time.perf_counter() - sampled, 1),
            }
        )
        for method, rows in both.items():
            rows["method"], rows["fold"] = method, number
            rows["base"] = data["base"].values[data["base_of_run"].values[tested]]
            rows["highest"] = highest[tested]
            for name in ("run", "control", "mean_e2e_s", "request_rate_rps", "completed_rate_rps"):
                rows[name] = data[name].values[tested]
            tables.append(rows)
    return pd.concat(tables, ignore_index=True), verdicts


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Held-out accuracy of the model and the law.")
    parser.add_argument("--data", choices=sorted(DATA), default="scaling-study")
    parser.add_argument("--unseen-high", action="store_true", help="hide the two highest loads")
    parser.add_argument("--quick", action="store_true", help="smoke test; writes no file")
    parser.add_argument("--draws", type=int, help="kept per chain; default 1000 (quick: 50)")
    parser.add_argument("--tune", type=int, help="discarded per chain; default 500 (quick: 150)")
    parser.add_argument("--chains", type=int, help="default 4 (quick: 2)")
    parser.add_argument("--responses", default=",".join(RESPONSES), help="besides the mean e2e")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save-runs", metavar="CSV", help="also write a row per run and method")
    options = parser.parse_args()
    usual = {"draws": 50, "tune": 150, "chains": 2} if options.quick else {}
    for name, default in ({"draws": 1000, "tune": 500, "chains": 4} | usual).items():
        if getattr(options, name) is None:
            setattr(options, name, default)
    return options


def main() -> None:
    """Run the folds, print the table and write it."""
    options = read_options()
    few = QUICK_VERIFIERS if options.quick and options.data == "scaling-study" else ()
    data = load_data(options.data, few)
    priors = default_priors(data)
    began = time.perf_counter()
    responses = tuple(options.responses.split(",")) if options.responses else ()
    compiled = compile_blocks(data, priors, responses=responses)
    compile_s = round(time.perf_counter() - began, 1)
    rows, verdicts = run_folds(data, compiled, options)
    figures = figures_by_verifier(rows)
    settings = f"{options.draws} draws after {options.tune} in each of {options.chains} chains"
    text = heldout_text(
        figures,
        verdicts,
        title=f"Held-out runs of {options.data}"
        + (", two highest loads of every sweep unseen" if options.unseen_high else ""),
        footer=f"{settings}, seed {options.seed}; compiled in {compile_s} s. {stamp()}",
    )
    print(text)
    if options.save_runs:
        rows.to_csv(options.save_runs, index=False)
    if not options.quick:
        name = "heldout" + ("_unseen_high" if options.unseen_high else "")
        if options.responses != ",".join(RESPONSES):
            name += "_" + (options.responses.replace(",", "_") or "e2e_only")
        name += "" if options.data == "scaling-study" else f"_{options.data.replace('-', '_')}"
        write_results(
            name,
            text,
            {
                "stamp": stamp(),
                "options": {k: v for k, v in vars(options).items() if k != "save_runs"},
                "compile_s": compile_s,
                "folds": verdicts,
                "figures": figures,
            },
        )


if __name__ == "__main__":
    main()
