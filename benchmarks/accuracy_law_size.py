"""The law of a verifier that was never measured: each coefficient as a line over size.

The paper's figure 5: c·p and c·v go about linearly with the verifier's parameters, c·d with the
drafter's. The residuals are those of the verifiers that were measured, each predicted from the
others.
"""

import numpy as np
from scipy.optimize import nnls

from benchmarks.accuracy_law_fit import Fit, linear_fit
from benchmarks.accuracy_task import Floats, Ints, Task

SIZE_BASES = 3  # fewer verifiers give no trend over sizes
OF_DRAFTER = (False, False, True, False, False, True)


def law_by_size(task: Task, missing: Ints) -> tuple[Floats, Floats] | None:
    """Return log latency of runs of new verifiers, and residuals; None where there is no trend.

    Parameters
    ----------
    task : Task
        The fold.
    missing : array of int
        Places in ``task.asked`` of runs whose base was not seen.
    """
    runs = task.features
    bases = np.unique(runs["base"][task.train])
    fits = {int(base): linear_fit(task, int(base)) for base in bases}
    known = {b: f for b, f in fits.items() if f is not None and not f.varies and _sized(f)}
    if len(known) < SIZE_BASES or (runs["experts"] > 0).any():
        return None
    residuals = []
    for base, fit in known.items():
        others = [f for b, f in known.items() if b != base]
        found = coefficients_at(others, *_sizes(fit))
        center = fit.predict(fit.runs, found, 1.0)
        ceiling = 256 / np.maximum(fit.runs["rate_rps"].values, 1e-9)
        residuals.append(np.log(fit.latency / np.minimum(center, ceiling)))
    asked = runs.iloc[task.asked[missing]]
    center = np.full(len(asked), np.nan)
    for base in np.unique(asked["base"]):
        at = np.flatnonzero(asked["base"] == base)
        mine = asked.iloc[at]
        drafter = mine["drafter_b"].dropna()
        if mine["verifier_b"].isna().any() or drafter.empty:
            return None
        sizes = (float(mine["verifier_b"].iloc[0]), float(drafter.iloc[0]))
        found = coefficients_at(list(known.values()), *sizes)
        center[at] = np.log(next(iter(known.values())).predict(mine, found, 1.0))
    return center, np.concatenate(residuals)


def coefficients_at(fits: list[Fit], verifier_b: float, drafter_b: float) -> Floats:
    """Return the coefficients at a size: lines with neither end below zero, relative errors."""
    sizes = np.array([_sizes(fit) for fit in fits])
    values = np.array([fit.coefficients for fit in fits])
    found = np.zeros(values.shape[1])
    for i, of_drafter in enumerate(OF_DRAFTER):
        size, wanted = sizes[:, int(of_drafter)], (verifier_b, drafter_b)[int(of_drafter)]
        scale = np.maximum(values[:, i], 1e-3 * values[:, i].max() + 1e-12)
        rows = np.column_stack([np.ones(len(size)), size / size.max()]) / scale[:, None]
        found[i] = nnls(rows, values[:, i] / scale)[0] @ [1.0, wanted / size.max()]
    return found


def _sizes(fit: Fit) -> tuple[float, float]:
    drafter = fit.runs["drafter_b"].dropna()
    return float(fit.runs["verifier_b"].iloc[0]), float(drafter.iloc[0])


def _sized(fit: Fit) -> bool:
    return bool(fit.runs["verifier_b"].notna().all() and fit.runs["drafter_b"].notna().any())
