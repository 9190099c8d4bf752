"""How the cost of a fit grows: with runs, with cells, and not with requests; see `sampling`.

Runs and cells are copies of the scaling study's, with sweeps and models of their own and latencies
moved by a few per cent. The model is the whole one, with all responses.
"""

import ctypes
import threading
import time
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_sd.data import to_dataset
from bayes_sd.datasets import load_scaling_study
from bayes_sd.model import build_model
from bayes_sd.priors import default_priors
from bayes_sd.request_statistics import summarise_requests
from bayes_sd.sampling import CompiledModel, compile_model, sample
from bayes_sd.start import starting_point
from benchmarks.folds import markdown

RUNS = (100, 1_000, 10_000)
CELLS = (8, 32, 128)
REQUESTS = (10**3, 10**7)
RECORDS = (10**5, 10**6)
SWEEPS_PER_CELL = 4
WANDER = 0.02  # spread of log latency between a run and its copies
BLOCKS = 15


def seconds_per_gradient(compiled: CompiledModel, *, threads: int = 1) -> float:
    """Return the median time of one evaluation of log density and gradient, s.

    Parameters
    ----------
    compiled : CompiledModel
        Result of `compile_model`.
    threads : int
        Evaluations that run at once, as chains do; the time is that of each.
    """
    target = compiled.compiled
    function = target.compiled_logp_func.ctypes  # called without Python's lock
    point = np.ascontiguousarray(target.initial_point_func(0))

    def calls(count: int) -> None:
        gradient, density = np.empty_like(point), np.empty(1)
        doubles = ctypes.POINTER(ctypes.c_double)
        arrays = [
            ctypes.cast(a.ctypes.data, function.argtypes[i + 1] or doubles)
            for i, a in enumerate((point, gradient, density))
        ]
        for _ in range(count):
            status = function(target.n_dim, *arrays, target.user_data.ctypes.data)
        if status:
            raise RuntimeError(f"the gradient at the start is not finite (status {status})")

    calls(3)
    begun = time.perf_counter()
    calls(10)
    count = max(5, round(0.05 / ((time.perf_counter() - begun) / 10)))
    times = []
    for _ in range(BLOCKS):
        workers = [threading.Thread(target=calls, args=(count,)) for _ in range(threads)]
        begun = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        times.append((time.perf_counter() - begun) / count)
    return float(np.median(times))


def copies(num_runs: int, num_cells: int, num_requests: int, seed: int = 0) -> pd.DataFrame:
    """Return a table of whole sweeps, dealt to the cells in turn, cut to a number of runs.

    Parameters
    ----------
    num_runs, num_cells : int
        Runs, and verifiers with a drafter each; beyond the study's five, verifiers are copies
        of other names and sizes.
    num_requests : int
        Of every run.
    """
    frame = load_scaling_study()
    frame = frame[~frame["is_throughput_test"]]
    rng = np.random.default_rng(seed)
    of_verifier = [
        [part for _, part in own.groupby("sweep_id")] for _, own in frame.groupby("verifier")
    ]
    kinds = ("e2e", "ttft", "tpot")
    names = [str(name) for name in frame]
    latencies = [n for n in names if n.endswith("_s") and any(kind in n for kind in kinds)]
    sizes = np.exp(0.2 * rng.standard_normal(num_cells))
    parts, count, place = [], 0, 0
    while count < num_runs:
        cell, turn = place % num_cells, place // num_cells
        own = of_verifier[cell % len(of_verifier)]
        # Sweeps far apart in acceptance and draft length come first.
        part = own[turn * 7 % len(own)].copy()
        copy = cell // len(of_verifier)
        factor = np.exp(WANDER * rng.standard_normal(len(part)))
        part[latencies] = part[latencies].mul(factor, axis=0)
        part["mean_in_system_requests"] = np.nan
        if copy:
            part["verifier"] += f"-{copy}"
            for name in ("verifier_params_b", "drafter_params_b"):
                part[name] *= sizes[cell]
        for name in ("run_id", "sweep_id"):
            part[name] += f"-{place}"
        parts.append(part)
        count, place = count + len(part), place + 1
    table = pd.concat(parts, ignore_index=True).iloc[:num_runs]
    return table.assign(num_requests=num_requests)


def compiled_copies(
    num_runs: int, num_cells: int, num_requests: int = REQUESTS[0]
) -> tuple[CompiledModel, dict[str, Any]]:
    """Compile the model of some copies; return it, and its times."""
    table = copies(num_runs, num_cells, num_requests)
    begun = time.perf_counter()
    data: xr.Dataset = to_dataset(table)
    read = time.perf_counter()
    priors = default_priors(data)
    model, start = build_model(data, priors), starting_point(data, priors)
    built = time.perf_counter()
    compiled = compile_model(model, start)
    done = time.perf_counter()
    return compiled, {
        "runs": data.sizes["run"],
        "cells": data.sizes["pair"],
        "sweeps": data.sizes["sweep"],
        "requests": num_requests,
        "parameters": int(compiled.compiled.n_dim),
        "reading_s": read - begun,
        "building_s": built - read,
        "compile_s": done - built,
        "gradient_s": seconds_per_gradient(compiled),
    }


def request_part(
    few: tuple[CompiledModel, dict[str, Any]], lengths: dict[str, Any]
) -> list[dict[str, Any]]:
    """Fit the same runs as if each had few and many requests; return the times of both."""
    pairs = [few, compiled_copies(few[1]["runs"], few[1]["cells"], REQUESTS[1])]
    # In turn, so that a slow moment of the machine meets both.
    times = [[seconds_per_gradient(compiled) for compiled, _ in pairs] for _ in range(5)]
    rows = []
    for (compiled, figures), gradient in zip(pairs, np.min(times, axis=0), strict=True):
        begun = time.perf_counter()
        tree = sample(compiled, random_seed=0, progressbar=False, **lengths)
        rows.append(
            figures
            | {
                "gradient_s": float(gradient),
                "sampling_s": time.perf_counter() - begun,
                "gradients_of_draws": int(tree["sample_stats"]["n_steps"].sum()),
            }
        )
    return rows


def summary_s(num_records: int) -> float:
    """Return the seconds that `summarise_requests` takes for records of single requests."""
    rng = np.random.default_rng(0)
    e2e = np.exp(0.2 * rng.standard_normal(num_records))
    records = pd.DataFrame(
        {
            "start_s": np.cumsum(rng.exponential(0.1, num_records)),
            "e2e_s": e2e,
            "ttft_s": 0.1 * e2e,
            "input_len_tokens": rng.integers(100, 1000, num_records),
            "output_len_tokens": rng.integers(2, 500, num_records),
        }
    )
    begun = time.perf_counter()
    summarise_requests(records)
    return time.perf_counter() - begun


def exponent(rows: list[dict[str, Any]], of: str, figure: str) -> list[float]:
    """Return the log-log slopes between neighbours, and over all by least squares."""
    x, y = (np.log([row[name] for row in rows]) for name in (of, figure))
    return [*(np.diff(y) / np.diff(x)).tolist(), float(np.polyfit(x, y, 1)[0])]


def growth_part(*, is_quick: bool = False) -> dict[str, Any]:
    """Return all figures of growth."""
    runs, cells, records = (RUNS, CELLS, RECORDS) if not is_quick else ((45, 90), (2, 4), (10**4,))
    per_cell = 9 * (1 if is_quick else SWEEPS_PER_CELL)
    lengths = {"draws": 50, "tune": 100, "chains": 2} if is_quick else {}
    first = compiled_copies(runs[0], 5)
    found: dict[str, Any] = {
        "runs": [first[1], *(compiled_copies(n, 5)[1] for n in runs[1:])],
        "cells": [compiled_copies(per_cell * n, n)[1] for n in cells],
        "requests": request_part(first, lengths),
        "records": [{"records": n, "seconds": summary_s(n)} for n in records],
    }
    for name in ("runs", "cells"):
        found[f"exponents_of_{name}"] = {
            figure: exponent(found[name], name, figure) for figure in ("gradient_s", "compile_s")
        }
    few_requests, many = (row["gradient_s"] for row in found["requests"])
    found["gradient_change_with_requests"] = many / few_requests - 1
    return found


def _table(rows: list[dict[str, Any]], names: dict[str, str]) -> str:
    table = pd.DataFrame(
        {
            label: [f"{row[n] * (1e6 if n == 'gradient_s' else 1):.4g}" for row in rows]
            for n, label in names.items()
        }
    )
    return markdown(table)


def growth_text(found: dict[str, Any]) -> str:
    """Return the tables of growth."""
    names = {
        "runs": "runs",
        "cells": "cells",
        "sweeps": "sweeps",
        "parameters": "parameters",
        "reading_s": "reading, s",
        "building_s": "building, s",
        "compile_s": "compile, s",
        "gradient_s": "one gradient, us",
    }
    parts = ["## Growth", "", "The whole model on copies of the scaling study's sweeps."]
    for name, title in (("runs", "More runs, five cells"), ("cells", "More cells, runs of each")):
        parts += ["", f"### {title}", "", _table(found[name], names), ""]
        for figure, label in (("gradient_s", "a gradient"), ("compile_s", "compilation")):
            *steps, over_all = found[f"exponents_of_{name}"][figure]
            between = ", ".join(f"{step:.2f}" for step in steps)
            parts.append(
                f"Exponent of {label} in {name}: {between} from row to row, {over_all:.2f} over "
                "all (1 is linear)."
            )
    names = {
        "requests": "requests per run",
        "compile_s": "compile, s",
        "gradient_s": "one gradient, us",
        "sampling_s": "sampling, s",
        "gradients_of_draws": "gradients after tuning",
    }
    change = found["gradient_change_with_requests"]
    parts += [
        "",
        f"### More requests, {found['requests'][0]['runs']} runs",
        "",
        _table(found["requests"], names),
        "",
        f"The gradient changes by {change:+.1%} (bar: within 10 %). A fit differs by its posterior "
        "only, which more requests make narrower.",
        "",
        "Reducing the records of one run's requests beforehand: "
        + ", ".join(f"{row['records']:,} in {row['seconds']:.2f} s" for row in found["records"])
        + ".",
    ]
    return "\n".join(parts)
