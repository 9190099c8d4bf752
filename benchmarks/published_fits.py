"""Fits behind the published figures: sweep by sweep, pooled, with experts, over lengths."""

import itertools

import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import least_squares

from bayes_sd.simulate import simulate_runs
from bayes_sd.simulate_arm import SimulatedArm
from bayes_sd.simulate_load import SimulatedLoad
from bayes_sd.simulate_settings import SimulatedServer
from benchmarks.accuracy_data import usable
from benchmarks.accuracy_law_fit import (
    coverage_of,
    curve,
    curve_fit_sweep,
    linear_fit,
    log_distance,
    solve,
)
from benchmarks.accuracy_task import Floats, blind_task, features
from benchmarks.folds import short_name

MIN_RUNS = 5
LENGTHS = (256, 512, 768, 1024)
SHARES = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75)
LEFT_OUT = (1, 2, 4)
SEED = 8


def r_squared(measured: Floats, predicted: Floats) -> float:
    """Return 1 - residual / total sum of squares."""
    return float(
        1 - ((measured - predicted) ** 2).sum() / ((measured - measured.mean()) ** 2).sum()
    )


def sweep_fits(data: xr.Dataset, response: str = "mean_e2e_s") -> pd.DataFrame:
    """Fit C1 and C2 of every sweep of five usable runs or more, and say how well they fit."""
    runs = features(data)[usable(data)]
    lines = []
    for sweep, part in runs.groupby("sweep"):
        latency = data[response].values[part.index]
        if len(part) < MIN_RUNS or np.isnan(latency).any():
            continue
        found = curve_fit_sweep(part, latency)
        if found is None:
            continue
        c1, c2 = found[0]
        predicted = curve(part, c1, c2)
        share = np.where(part["held"] > 0, 0.0, part["rate_rps"] * c2)
        is_open = part["is_open"].to_numpy()
        lines.append(
            {
                "sweep": sweep,
                "base": short_name(str(data["base"].values[part["base"].iloc[0]])),
                "k": part["k"].iloc[0],
                "acceptance": data["known_acceptance_rate"].values[part.index[0]],
                "pair": part["pair"].iloc[0],
                "c1": c1,
                "c2": c2,
                "r_squared": r_squared(latency, predicted),
                "x": share[is_open],
                "y": (latency / c1)[is_open],
            }
        )
    return pd.DataFrame(lines)


def collapse(fits: pd.DataFrame) -> float:
    """Return R² of L / C1 = 1 / (1 - rate C2) over all open-loop runs below capacity."""
    x, y = np.concatenate(list(fits["x"])), np.concatenate(list(fits["y"]))
    inside = x < 1
    return r_squared(y[inside], 1 / (1 - x[inside]))


def pooled_r_squared(data: xr.Dataset, base: int) -> float:
    """Return R² of the pooled law of one base at the measured batch, in-sample."""
    task = blind_task(data, usable(data), np.zeros(0, dtype=int))
    fit = linear_fit(task, base)
    if fit is None:
        return float("nan")
    fixed, load = fit.rows
    rows = np.hstack([fixed, fit.batch[:, None] * load])
    return r_squared(fit.latency, rows @ fit.coefficients)


def coverage_gain(data: xr.Dataset) -> pd.DataFrame:
    """Return R² of each sweep, and of its lower half of loads, without and with expert coverage."""
    runs, lines = features(data)[usable(data)], []
    for _, part in runs.groupby("sweep"):
        part = part.sort_values("log_load")
        if len(part) < MIN_RUNS or not (part["experts"] > 0).all():
            continue
        half = part.head(max((len(part) + 1) // 2, 4))
        line: dict[str, float] = {}
        for name, some in (("whole", part), ("half", half)):
            latency = data["mean_e2e_s"].values[some.index]
            share = coverage_of(some, data["effective_batch_observed"].values[some.index])
            line[f"{name}_before"] = closed_form_r_squared(some, latency, 0 * share)
            line[f"{name}_after"] = closed_form_r_squared(some, latency, share)
        lines.append(line)
    return pd.DataFrame(lines)


def closed_form_r_squared(runs: pd.DataFrame, latency: Floats, share: Floats) -> float:
    """Return R² of L = (C1 + φ C1s) / (1 - rate (C2 + φ C2s)), least squares on latency.

    No coefficient is negative. φ is that at the measured batch; the start is the linear fit.
    """
    rate, held = runs["rate_rps"].values, runs["held"].values
    batch = np.where(held > 0, held, rate * latency)
    parts = np.column_stack([np.ones(len(runs)), share])
    rows = np.hstack([parts, batch[:, None] * parts])
    first = np.sqrt(np.maximum(solve(rows, latency), 1e-6))

    def predicted(root: Floats) -> Floats:
        c1, c2 = parts @ root[:2] ** 2, parts @ root[2:] ** 2
        open_loop = c1 * np.exp(-log_distance(rate * c2))
        return np.where(held > 0, c1 + held * c2, open_loop)

    found = least_squares(lambda r: predicted(r) - latency, first)
    return r_squared(latency, predicted(found.x))


def best_draft_lengths(fits: pd.DataFrame) -> pd.DataFrame:
    """Return the draft length of least C1 and of least C2, by verifier and acceptance."""
    lines = []
    for (base, acceptance), part in fits.groupby(["base", "acceptance"]):
        lines.append(
            {
                "base": base,
                "acceptance": acceptance,
                "of C1": part["k"].iloc[part["c1"].argmin()],
                "of C2": part["k"].iloc[part["c2"].argmin()],
            }
        )
    return pd.DataFrame(lines)


def leave_lengths_out() -> dict[int, float]:
    """Return R² of C2 at pairs of lengths that were left out, by how many, on simulated sweeps.

    Sixteen pairs of a dense server without speculation; C2 of a sweep goes with the prompt, and
    with steps times the mean context, as the paper has it for c2p and c2v.
    """
    server = SimulatedServer(
        weights_s=9e-3,
        compute_per_token_s=7e-5,
        request_in_step_s=5e-5,
        context_per_token_s=2e-7,
        request_start_s=0.02,
        max_num_seqs=1024,
    )
    pairs, c2 = list(itertools.product(LENGTHS, LENGTHS)), []
    for number, (prompt, answer) in enumerate(pairs):
        load = SimulatedLoad(
            request_rate_rps=1.0,
            input_len_tokens=prompt,
            output_len_tokens=answer,
            num_requests=200,
            warmup_requests=100,
        )
        frame = simulate_runs(
            [SimulatedArm(server=server)], [load], load_shares=SHARES, random_seed=SEED + number
        )
        held = np.zeros(len(frame))
        runs = pd.DataFrame({"rate_rps": frame["request_rate_rps"], "held": held})
        found = curve_fit_sweep(runs, frame["mean_e2e_s"].to_numpy())
        c2.append(np.nan if found is None else found[0][1])
    prompt, answer = np.array(pairs, dtype=float).T
    rows = np.column_stack([prompt, answer, answer * (prompt + answer / 2)])
    target, rng = np.array(c2), np.random.default_rng(SEED)
    scores = {}
    for number in LEFT_OUT:
        groups = np.array_split(rng.permutation(len(pairs)), len(pairs) // number)
        predicted = np.empty(len(pairs))
        for held in groups:
            seen = np.setdiff1d(np.arange(len(pairs)), held)
            predicted[held] = rows[held] @ solve(rows[seen], target[seen])
        scores[number] = r_squared(target, predicted)
    return scores
