"""Whether a fit costs the same for ten million requests per run as for a thousand.

    python benchmarks/requests_growth.py           # 10^3, 10^5 and 10^7 requests in each of 12 runs
    python benchmarks/requests_growth.py --quick   # 10^3 and 10^4, few draws; writes nothing

Twelve runs of one server are simulated, with a record of every request. Longer and shorter runs
draw whole requests from these records, with Poisson arrivals anew at the run's rate: one run at a
time is in memory. `summarise_requests` reduces records to rows, `to_dataset` and the fit see rows.

Sizes take turns in every round, in another order each, with the same seeds: what else the machine
does meets all of them, and ratios are taken within a round. Seconds per gradient leave out how
many gradients a chain happens to need, and processor seconds how long it waited for a core.
"""

import argparse
import os
import resource
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayes_sd.convergence import diagnose
from bayes_sd.data import to_dataset
from bayes_sd.model import build_model
from bayes_sd.priors import default_priors
from bayes_sd.request_statistics import REQUEST_COLUMNS, summarise_requests
from bayes_sd.sampling import CompiledModel, compile_model, sample
from bayes_sd.simulate import simulate_run
from bayes_sd.simulate_table import SimulatedRun
from bayes_sd.start import starting_point
from benchmarks.folds import markdown, stamp, write_results
from benchmarks.recovery_runs import FITTED_K, LENGTHS, Campaign
from benchmarks.sampling import num_gradients, run_with_empty_cache, warmup_kept
from benchmarks.sampling_growth import seconds_per_gradient

SIZES = (10**3, 10**5, 10**7)
SHARES = (0.2, 0.45, 0.7)  # of capacity, at each of the draft lengths
RECORDS, WARMUP = 5_000, 600  # simulated requests of a run
ROUNDS, GRADIENT_TURNS = 4, 5
BAR = 0.1  # change that the claim allows
KEPT = ("num_speculative_tokens", "load_kind", "arrivals", "max_num_seqs", "is_throughput_test")
NAMES = {
    "source_id": "requests",
    "verifier": "verifier",
    "engine": "simulated",
    "hardware": "simulated",
    "verifier_params_b": 8.0,
}
# Figures of a fit: label and factor for print.
FIGURES = {
    "parameters": ("parameters", 1.0),
    "compile_s": ("compile, s", 1.0),
    "compile_processor_s": ("compile, processor s", 1.0),
    "sampling_s": ("sampling, s", 1.0),
    "processor_s": ("sampling, processor s", 1.0),
    "gradients": ("gradients, thousands", 1e-3),
    "gradient_s": ("one gradient alone, us", 1e6),
    "sampling_s_per_gradient": ("sampling, us per gradient", 1e6),
    "processor_s_per_gradient": ("sampling, processor us per gradient", 1e6),
    "fit_s": ("fit: compile + sampling, s", 1.0),
    "fit_processor_s": ("fit, processor s", 1.0),
}


def simulate() -> list[SimulatedRun]:
    """Simulate the runs whose requests are drawn from, four draft lengths at three loads."""
    campaign = Campaign(0, is_moe=False)
    runs = []
    for k in FITTED_K:
        for i, share in enumerate(SHARES):
            load = campaign.at(
                k, LENGTHS[i % 2], share, num_requests=RECORDS, warmup_requests=WARMUP
            )
            runs.append(simulate_run(campaign.arm(k), load, random_seed=len(runs)))
    return runs


def records_of(
    run: SimulatedRun, count: int, rng: np.random.Generator
) -> tuple[pd.DataFrame, NDArray[np.int_]]:
    """Return records of a run of so many requests, and how often each simulated one is in it."""
    measured = run.requests[run.requests["is_measured"]]
    sent = measured["sent_s"].to_numpy()
    drawn = rng.integers(0, len(measured), count)
    gaps = rng.exponential((sent[-1] - sent[0]) / (len(sent) - 1), count)
    columns = {
        "start_s": np.cumsum(gaps),
        "e2e_s": (measured["end_s"] - measured["sent_s"]).to_numpy()[drawn],
        "ttft_s": (measured["first_token_s"] - measured["sent_s"]).to_numpy()[drawn],
        "input_len_tokens": measured["input_len_tokens"].to_numpy()[drawn],
        "output_len_tokens": measured["output_len_tokens"].to_numpy()[drawn],
    }
    frame = pd.DataFrame({name: columns[name] for name in REQUEST_COLUMNS}, copy=False)
    return frame, np.bincount(drawn, minlength=len(measured))


def acceptance_of(run: SimulatedRun, times: NDArray[np.int_]) -> dict[str, Any]:
    """Return the columns of drafter and acceptance counts, of requests that occur so often."""
    drafter, is_measured = run.arm.drafter, run.requests["is_measured"].to_numpy()
    if drafter is None:
        return {"method": "none", "drafter": ""}
    accepted = times @ run.accepted_at_position[is_measured].astype(np.int64)
    return {
        "method": drafter.method,
        "drafter": drafter.drafter,
        "drafter_params_b": drafter.drafter_params_b,
        "num_drafts": int(times @ run.requests["num_drafts"].to_numpy()[is_measured]),
        "accepted_per_position": ";".join(str(n) for n in accepted),
    }


def reduce_all(
    runs: list[SimulatedRun], sizes: tuple[int, ...]
) -> tuple[dict[int, pd.DataFrame], dict[int, list[float]]]:
    """Return a table of runs for each size, and the seconds that each run's records took."""
    rows: dict[int, list[dict[str, Any]]] = {size: [] for size in sizes}
    seconds: dict[int, list[float]] = {size: [] for size in sizes}
    rng = np.random.default_rng(0)
    for number, run in enumerate(runs):
        known = run.summary()
        for size in sizes:
            frame, times = records_of(run, size, rng)
            begun = time.perf_counter()
            summary = summarise_requests(frame)
            seconds[size].append(time.perf_counter() - begun)
            del frame
            own = {"run_id": f"run {number}", "sweep_id": run.arm.label}
            known_too = {name: known[name] for name in KEPT}
            rows[size].append(NAMES | own | known_too | summary.row | acceptance_of(run, times))
    return {size: pd.DataFrame(of) for size, of in rows.items()}, seconds


def worked_s() -> float:
    """Return the processor seconds of this process and of the compilers that it started."""
    return sum(os.times()[:4])


def compile_table(table: pd.DataFrame) -> tuple[CompiledModel, dict[str, float]]:
    """Compile the whole model of a table of runs; return it with its times, reading counted."""
    begun, worked = time.perf_counter(), worked_s()
    data = to_dataset(table)
    priors = default_priors(data)
    compiled = compile_model(build_model(data, priors), starting_point(data, priors))
    took = {"compile_s": time.perf_counter() - begun, "compile_processor_s": worked_s() - worked}
    return compiled, took


def fit_round(
    tables: dict[int, pd.DataFrame], seed: int, lengths: dict[str, int]
) -> dict[int, dict[str, Any]]:
    """Compile and sample every size once, in an order that turns with the round."""
    sizes = list(tables)
    order = sizes[seed % len(sizes) :] + sizes[: seed % len(sizes)]
    found: dict[int, dict[str, Any]] = {}
    models = {}
    for size in order:
        models[size], found[size] = compile_table(tables[size])
    turns = [{s: seconds_per_gradient(models[s]) for s in order} for _ in range(GRADIENT_TURNS)]
    for size in order:
        begun, worked = time.perf_counter(), worked_s()
        with warmup_kept():
            tree = sample(models[size], random_seed=seed, progressbar=False, **lengths)
        figures = found[size]
        figures["sampling_s"] = time.perf_counter() - begun
        figures["processor_s"] = worked_s() - worked
        figures["gradients"] = num_gradients(tree)
        figures["gradient_s"] = min(turn[size] for turn in turns)
        for name in ("sampling_s", "processor_s"):
            figures[f"{name}_per_gradient"] = figures[name] / figures["gradients"]
        figures["fit_s"] = figures["compile_s"] + figures["sampling_s"]
        figures["fit_processor_s"] = figures["compile_processor_s"] + figures["processor_s"]
        figures["parameters"] = int(models[size].compiled.n_dim)
        figures["verdict"] = diagnose(tree, warn=False).sentence()
    return found


def spread(values: list[float], digits: int = 3) -> str:
    """Return the median of some values with their range."""
    low, middle, high = (float(f"{q:.{digits}g}") for q in np.quantile(values, [0, 0.5, 1]))
    return f"{middle:g} ({low:g} to {high:g})"


def ratios(rounds: list[dict[int, dict[str, Any]]], size: int, name: str) -> list[float]:
    """Return a figure of a size over that of the smallest, round by round."""
    return [found[size][name] / found[min(found)][name] for found in rounds]


def verdict(rounds: list[dict[int, dict[str, Any]]], name: str) -> str:
    """Say by how much a figure changes from the smallest size to the largest, and if that holds."""
    changes = [ratio - 1 for ratio in ratios(rounds, max(rounds[0]), name)]
    low, middle, high = np.quantile(changes, [0, 0.5, 1])
    held = "within" if abs(middle) <= BAR else "NOT within"
    return (
        f"{FIGURES[name][0]}: {middle:+.1%} (rounds {low:+.1%} to {high:+.1%}), "
        f"{held} {BAR:.0%} by the median round"
    )


def report(
    rounds: list[dict[int, dict[str, Any]]], seconds: dict[int, list[float]], peak_gb: float
) -> str:
    """Return the result as Markdown."""
    sizes = list(seconds)
    reduced = [
        {
            "requests per run": f"{size:,}",
            "reducing one run, s": spread(seconds[size]),
            "ns per request": spread([1e9 * s / size for s in seconds[size]]),
        }
        for size in sizes
    ]
    fits, against = [], []
    for name, (label, factor) in FIGURES.items():
        own = {f"{s:,}": spread([factor * f[s][name] for f in rounds]) for s in sizes}
        fits.append({"": label} | own)
        others = {f"{s:,}": spread(ratios(rounds, s, name)) for s in sizes[1:]}
        against.append({"": label} | others)
    worst = [
        f"- {size:,}, round {number + 1}: {found[size]['verdict']}"
        for number, found in enumerate(rounds)
        for size in sizes
    ]
    lines = [
        "# Cost of a fit against requests per run",
        f"Records of one run at a time, {len(seconds[sizes[0]])} runs of each size: median, and "
        "from the fastest run to the slowest.",
        markdown(pd.DataFrame(reduced)),
        f"The process never held more than {peak_gb:.1f} GB, fits counted.",
        f"The fits of their rows, all responses: median of {len(rounds)} rounds, and from the "
        "lowest to the highest. Compilation includes reading the table; it starts from an empty "
        "cache in the first round, and finds what the first round left there in the others. The "
        "warm-up's gradients are counted.",
        markdown(pd.DataFrame(fits)),
        f"The same over that of {sizes[0]:,} requests, round by round:",
        markdown(pd.DataFrame(against)),
        f"From {sizes[0]:,} to {sizes[-1]:,} requests per run:",
        "\n".join(f"- {verdict(rounds, name)}." for name in FIGURES),
        "\n".join(worst),
    ]
    return "\n\n".join(lines)


def main() -> None:
    """Reduce and fit, print the tables and write them."""
    parser = argparse.ArgumentParser(description="Cost of a fit against requests per run.")
    parser.add_argument("--quick", action="store_true", help="smoke test; writes no file")
    parser.add_argument("--keep-cache", action="store_true", help="use compiled code of before")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--tune", type=int, default=500)
    parser.add_argument("--chains", type=int, default=2)
    options = parser.parse_args()
    if not options.keep_cache:
        run_with_empty_cache()
        return
    warnings.simplefilter("ignore")
    if options.quick:
        options.draws, options.tune = 50, 100
    sizes = (10**3, 10**4) if options.quick else SIZES
    begun, runs = time.perf_counter(), simulate()
    tables, seconds = reduce_all(runs, sizes)
    lengths = {name: getattr(options, name) for name in ("draws", "tune", "chains")}
    # What is compiled once in a process, whatever the model, counts for no size.
    compile_table(reduce_all(runs, (RECORDS,))[0][RECORDS])
    rounds = [fit_round(tables, n, lengths) for n in range(1 if options.quick else ROUNDS)]
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    took = f"{(time.perf_counter() - begun) / 60:.0f} min in all"
    settings = f"{options.draws} draws after {options.tune} in each of {options.chains} chains"
    text = f"{report(rounds, seconds, peak_gb)}\n\n`python benchmarks/requests_growth.py`: "
    text += f"{settings}, {took}. {stamp()}"
    print(text)
    if not options.quick:
        figures = {"stamp": stamp(), "options": vars(options), "peak_gb": peak_gb}
        figures |= {"reducing_s": seconds, "rounds": rounds}
        write_results("requests_growth", text, figures)


if __name__ == "__main__":
    main()
