"""Rules of thumb as forecasts of latency, each with its own residuals as its distribution.

Both take what they lack from the training runs of nearest load: they know a load, not a law of it.
"""

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from benchmarks.accuracy_task import NUM_DRAWS, Floats, Task, add_residuals, inflation

SAME_LENGTHS = 1.2


def division_by_length(task: Task) -> Floats:
    """Divide by the mean acceptance length: L E is one curve over load, for all draft lengths.

    The curve of a base at its lengths is the mean of log(L E) over training runs by load, in a
    straight line between loads and flat outside. Where runs without speculation were seen this
    passes through them on average; where not, it scales the runs with drafts by E.
    """
    draws, rng = np.full((NUM_DRAWS, len(task.asked)), np.nan), task.rng()
    for at, runs, asked in _cells(task):
        latency = task.data["mean_e2e_s"].values[runs.index]
        value = np.log(latency * runs["tokens_per_step"].values)
        loads, means = _mean_by_load(runs["log_load"].values, value)
        residuals = value - np.interp(runs["log_load"], loads, means)
        residuals *= inflation(len(value), len(loads))
        center = np.interp(asked["log_load"], loads, means) - np.log(asked["tokens_per_step"])
        draws[:, at] = add_residuals(center.to_numpy(), residuals, rng)
    return draws


def goodput(task: Task) -> Floats:
    """Predict by the step time of TurboSpec's rule at the batch observed at the nearest load.

    Latency is steps x (a + k b + B (c + k d)), by non-negative least squares on relative errors
    (Liu et al. 2024, arXiv:2406.14066, whose goodput is tokens per step over this time); the
    batch is not solved for but taken from training, as the rule takes the one that it observes.
    """
    draws, rng = np.full((NUM_DRAWS, len(task.asked)), np.nan), task.rng()
    for at, runs, asked in _cells(task):
        batch = task.data["effective_batch_observed"].values[runs.index]
        per_step = task.data["mean_e2e_s"].values[runs.index] / runs["steps"].values
        rows = _step_columns(runs["draft_steps"].values, batch)
        relative = rows / per_step[:, None]
        size = np.maximum(np.linalg.norm(relative, axis=0), 1e-12)
        found = nnls(relative / size, np.ones(len(rows)))[0] / size
        fitted = np.maximum(rows @ found, 1e-9)
        residuals = np.log(per_step / fitted) * inflation(len(rows), int((found > 0).sum()))
        loads, mean_log_batch = _mean_by_load(runs["log_load"].values, np.log(batch))
        expected = np.exp(np.interp(asked["log_load"], loads, mean_log_batch))
        expected = np.where(asked["held"] > 0, asked["held"], expected)
        step = np.maximum(_step_columns(asked["draft_steps"].values, expected) @ found, 1e-9)
        center = np.log(step * asked["steps"].values)
        draws[:, at] = add_residuals(center, residuals, rng)
    return draws


def _step_columns(drafts: Floats, batch: Floats) -> Floats:
    return np.stack([np.ones(len(drafts)), drafts, batch, batch * drafts], axis=-1)


def _cells(task: Task) -> list[tuple[np.ndarray, pd.DataFrame, pd.DataFrame]]:
    """Return places asked for, training runs and asked runs, base by base and control by control.

    Of several lengths, the training runs of the nearest pair of lengths.
    """
    runs, found = task.features, []
    asked = runs.iloc[task.asked]
    learnt = runs[task.train]
    for (base, is_open), part in asked.groupby(["base", "is_open"]):
        mine = learnt[(learnt["base"] == base) & (learnt["is_open"] == is_open)]
        if mine.empty:
            continue
        lengths = np.log(mine[["prompt", "answer"]].to_numpy())
        for key, cell in part.groupby(part[["prompt", "answer"]].round(-1).apply(tuple, axis=1)):
            far = abs(lengths - np.log(np.maximum(key, 1))).max(axis=1)
            near = mine[far <= far.min() + np.log(SAME_LENGTHS)]
            found.append((np.searchsorted(task.asked, cell.index), near, cell))
    return found


def _mean_by_load(load: Floats, value: Floats) -> tuple[Floats, Floats]:
    """Return loads, those within 7 % of the one before as one, and the mean value at each."""
    order = np.argsort(load, kind="stable")
    group = np.concatenate([[0], np.cumsum(np.diff(load[order]) > np.log(1.07))])
    groups = pd.DataFrame({"load": load[order], "value": value[order]}).groupby(group).mean()
    return groups["load"].to_numpy(), groups["value"].to_numpy()
