r"""The published law as a competitor, in three ways of fitting it.

.. math:: L = C_1 + B \, C_2, \quad
          C_1 = c_{1p} + c_{1q} p + N (c_{1v} + k c_{1d}), \quad
          C_2 = c_{2p} p + N (c_{2v} + c_{2x} (p + g / 2) + k c_{2d})

(Kong et al. 2026, arXiv:2605.15051, equations 1 and 3, with its trends over lengths: c2p goes with
the prompt, c2v with the mean context.) N = g / E steps. Where all runs have one pair of lengths
the columns of lengths are left out, and what remains is the published law as it stands. For a
mixture of experts the share of experts in use,
:math:`\varphi(T) = 1 - (1 - m / M)^T` with T = B (k + 1) tokens, adds :math:`\varphi N` to both
parts (the paper's section 4.6).
"""

import numpy as np
from scipy.optimize import least_squares

from benchmarks.accuracy_law_fit import curve, curve_fit_sweep, linear_fit, log_distance, solve
from benchmarks.accuracy_law_size import law_by_size
from benchmarks.accuracy_task import NUM_DRAWS, Floats, Task, add_residuals, inflation

REFITS = 40


def linear_bootstrap(task: Task) -> Floats:
    """Draw by resampling the relative residuals at the measured batch, refitting each time.

    A resampled residual also acts on the latency at a given batch, where load amplifies it.
    """
    draws, rng = np.full((NUM_DRAWS, len(task.asked)), np.nan), task.rng()
    asked = task.features.iloc[task.asked]
    for base in np.unique(asked["base"]):
        fit = linear_fit(task, int(base))
        at = np.flatnonzero(asked["base"] == base)
        if fit is None:
            continue
        fixed, load = fit.rows
        rows = np.hstack([fixed, fit.batch[:, None] * load])
        fitted = np.maximum(rows @ fit.coefficients, 1e-9)
        wide = inflation(len(fitted), int((fit.coefficients > 0).sum()))
        residuals = np.exp(wide * np.log(fit.latency / fitted))
        for draw in range(NUM_DRAWS):
            refit = solve(rows, fitted * rng.choice(residuals, len(residuals)))
            factor = rng.choice(residuals, len(at))
            draws[draw, at] = np.log(fit.predict(asked.iloc[at], refit, factor))
    return _by_size_where_new(task, draws)


def pooled_law(task: Task) -> Floats:
    """Draw from the law by least squares on log latency given the rate, with residual bootstrap.

    Started from the non-negative linear fit; coefficients are squares, so none is negative.
    """
    draws, rng = np.full((NUM_DRAWS, len(task.asked)), np.nan), task.rng()
    asked = task.features.iloc[task.asked]
    for base in np.unique(asked["base"]):
        start = linear_fit(task, int(base))
        at = np.flatnonzero(asked["base"] == base)
        if start is None:
            continue
        fixed, load = start.rows
        number = fixed.shape[1]
        rate, held = start.runs["rate_rps"].values, start.runs["held"].values
        unit = np.concatenate([fixed.mean(axis=0), (start.batch[:, None] * load).mean(axis=0)])
        least = 1e-3 * start.latency.mean() / np.maximum(unit, 1e-12)
        first = np.sqrt(np.maximum(start.coefficients, least))

        def log_latency(root: Floats, parts=(fixed, load, rate, held), number=number) -> Floats:
            fixed, load, rate, held = parts
            c1, c2 = fixed @ root[:number] ** 2, load @ root[number:] ** 2
            closed = np.log(c1 + held * c2)
            return np.where(held > 0, closed, np.log(c1) - log_distance(rate * c2))

        def fitted(target: Floats, root: Floats, model=log_latency) -> Floats:
            found = least_squares(
                lambda r: model(r) - target, root, x_scale=np.abs(root), max_nfev=60
            )
            return np.asarray(found.x)

        log = np.log(start.latency)
        root = fitted(log, first)
        center = log_latency(root)
        wide = inflation(len(log), int((start.coefficients > 0).sum()))
        residuals = wide * (log - center)
        each = NUM_DRAWS // REFITS
        for number_of_refit in range(REFITS):
            refit = fitted(center + rng.choice(residuals, len(log)), root) ** 2
            predicted = np.log(start.predict(asked.iloc[at], refit, 1.0))
            noise = rng.choice(residuals, (each, len(at)))
            rows = slice(number_of_refit * each, (number_of_refit + 1) * each)
            draws[rows, at] = predicted + noise
    return _by_size_where_new(task, draws)


def law_per_sweep(task: Task) -> Floats:
    """Draw C1 and C2 of each sweep from `scipy.optimize.curve_fit` and its covariance.

    Relative errors, from the linear fit; the noise about the curve is normal on the log scale.
    Sweeps with fewer than three training runs have no word.
    """
    draws, rng = np.full((NUM_DRAWS, len(task.asked)), np.nan), task.rng()
    all_runs = task.features
    asked = all_runs.iloc[task.asked]
    for sweep in np.unique(asked["sweep"]):
        runs = all_runs[task.train & (all_runs["sweep"] == sweep).to_numpy()]
        if len(runs) < 3:
            continue
        latency = task.data["mean_e2e_s"].values[runs.index]
        at = np.flatnonzero(asked["sweep"] == sweep)
        found = curve_fit_sweep(runs, latency)
        if found is None:
            continue
        mean, covariance = found
        noise = np.log(latency / curve(runs, *mean)).std(ddof=0)
        noise *= inflation(len(latency), 2)
        pairs = rng.multivariate_normal(mean, covariance, NUM_DRAWS)
        center = np.array([curve(asked.iloc[at], *pair) for pair in np.maximum(pairs, 0)])
        with np.errstate(divide="ignore"):
            draws[:, at] = np.log(center) + noise * rng.standard_normal(center.shape)
    return draws


def _by_size_where_new(task: Task, draws: Floats) -> Floats:
    missing = np.flatnonzero(np.isnan(draws).all(axis=0))
    if not len(missing):
        return draws
    found = law_by_size(task, missing)
    if found is not None:
        draws[:, missing] = add_residuals(found[0], found[1], task.rng())
    return draws
