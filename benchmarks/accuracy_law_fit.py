"""The published law of one base: its columns, its non-negative fit, and what it predicts."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import curve_fit, nnls

from benchmarks.accuracy_task import Floats, Task

EDGE = 0.02  # below this distance from capacity the log of 1 - rate C2 goes on as a line
MAX_ROUNDS = 300


@dataclass(frozen=True)
class Columns:
    """What coefficients of one base are multiplied with, (run, column), without and with load."""

    fixed: Floats
    load: Floats
    fixed_experts: Floats
    load_experts: Floats

    def at(self, coverage: Floats) -> tuple[Floats, Floats]:
        """Return both parts with the experts in use; (run, column) each."""
        share = coverage[:, None]
        return (
            np.hstack([self.fixed, share * self.fixed_experts]),
            np.hstack([self.load, share * self.load_experts]),
        )


def columns_of(runs: pd.DataFrame, varies: bool) -> Columns:
    """Return the columns of some runs; those of lengths only where lengths vary in training."""
    one, steps, prompt = np.ones(len(runs)), runs["steps"].values, runs["prompt"].values
    drafted = steps * runs["draft_steps"].values
    context = steps * (prompt + runs["answer"].values / 2)
    fixed = [one, prompt, steps, drafted] if varies else [one, steps, drafted]
    load = [prompt, steps, context, drafted] if varies else [one, steps, drafted]
    experts = [steps] if (runs["experts"] > 0).any() else []
    empty = np.zeros((len(runs), 0))
    mixed = np.column_stack(experts) if experts else empty
    return Columns(np.column_stack(fixed), np.column_stack(load), mixed, mixed)


def coverage_of(runs: pd.DataFrame, batch: Floats) -> Floats:
    """Return the share of experts that the tokens of a step use; 1 for a dense model."""
    total, used = runs["experts"].values, runs["experts_used"].values
    left = np.where(total > 0, 1 - used / np.where(total > 0, total, 1), 0.0)
    tokens = np.maximum(batch, 1.0) * (runs["k"].values + 1)
    return np.asarray(1 - left**tokens)


@dataclass(frozen=True)
class Fit:
    """The law of one base: columns and batch of its training runs, and its coefficients."""

    runs: pd.DataFrame
    batch: Floats
    latency: Floats
    varies: bool
    coefficients: Floats

    @property
    def rows(self) -> tuple[Floats, Floats]:
        """Return both parts of the training runs, experts at the measured batch."""
        return columns_of(self.runs, self.varies).at(coverage_of(self.runs, self.batch))

    def predict(self, runs: pd.DataFrame, coefficients: Floats, factor: Floats | float) -> Floats:
        """Return latency of runs from their control, s; a factor acts at a given batch.

        Infinite past capacity. With experts the batch is found by iterating B = rate L(B) from 0,
        which climbs to the smallest solution.
        """
        columns = columns_of(runs, self.varies)
        rate, held = runs["rate_rps"].values, runs["held"].values
        batch = np.where(held > 0, held, 0.0)
        has_experts = bool(columns.fixed_experts.shape[1])
        for _ in range(MAX_ROUNDS if has_experts else 1):
            fixed, load = columns.at(coverage_of(runs, batch))
            c1 = factor * (fixed @ coefficients[: fixed.shape[1]])
            c2 = factor * (load @ coefficients[fixed.shape[1] :])
            left = 1 - rate * c2
            with np.errstate(divide="ignore"):
                open_loop = np.where(left > 0, c1 / np.where(left > 0, left, 1), np.inf)
            latency = np.where(held > 0, c1 + held * c2, open_loop)
            new = np.where(held > 0, held, np.minimum(rate * latency, 1e6))
            if np.allclose(new, batch, rtol=1e-6):
                break
            batch = new
        return np.asarray(latency)


def solve(features: Floats, latency: Floats) -> Floats:
    """Return non-negative coefficients of least relative error."""
    relative = features / latency[:, None]
    size = np.linalg.norm(relative, axis=0)
    size = np.where(size > 0, size, 1.0)
    return np.asarray(nnls(relative / size, np.ones(len(latency)))[0] / size)


def linear_fit(task: Task, base: int) -> Fit | None:
    """Fit one base by non-negative least squares on relative errors at the measured batch."""
    runs = task.features[task.train & (task.features["base"] == base).to_numpy()]
    if len(runs) < 2:
        return None
    batch = task.data["effective_batch_observed"].values[runs.index]
    latency = task.data["mean_e2e_s"].values[runs.index]
    lengths = runs[["prompt", "answer"]]
    varies = bool((lengths.max() > 1.2 * lengths.min()).any())
    fit = Fit(runs, batch, latency, varies, np.zeros(0))
    fixed, load = fit.rows
    found = solve(np.hstack([fixed, batch[:, None] * load]), latency)
    return Fit(runs, batch, latency, varies, found)


def log_distance(share: Floats) -> Floats:
    """Return log(1 - share), going on as a line from ``EDGE`` short of capacity."""
    left = 1 - share
    inside = np.log(np.maximum(left, EDGE))
    return np.asarray(np.where(left > EDGE, inside, np.log(EDGE) + (left - EDGE) / EDGE))


def curve(runs: pd.DataFrame, c1: float, c2: float) -> Floats:
    """Return C1 / (1 - rate C2), infinite past capacity, or C1 + N C2; s."""
    rate, held = runs["rate_rps"].values, runs["held"].values
    left = 1 - rate * c2
    open_loop = np.where(left > 0, c1 / np.where(left > 0, left, 1.0), np.inf)
    return np.asarray(np.where(held > 0, c1 + held * c2, open_loop))


def curve_fit_sweep(runs: pd.DataFrame, latency: Floats) -> tuple[Floats, Floats] | None:
    """Return (C1, C2) of one sweep and their covariance; None if it has no finite one."""
    rate, held = runs["rate_rps"].values, runs["held"].values
    batch = np.where(held > 0, held, rate * latency)
    first = solve(np.column_stack([np.ones(len(batch)), batch]), latency)

    def smooth(_: Floats, c1: float, c2: float) -> Floats:
        open_loop = np.exp(np.log(c1) - log_distance(rate * c2))
        return np.where(held > 0, c1 + held * c2, open_loop)

    first = np.maximum(first, 1e-6)
    try:
        mean, covariance = curve_fit(
            smooth, rate, latency, p0=first, sigma=latency, bounds=(1e-9, np.inf)
        )
    except RuntimeError:  # no convergence: no word, as the published way would have none
        return None
    return (mean, covariance) if np.isfinite(covariance).all() else None
