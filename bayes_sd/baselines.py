r"""The published pooled law, fitted with care: what any model of latency has to beat.

.. math:: L = C_1 + B \, C_2, \qquad
          C_i = c_{ip} + \frac{g}{E} (c_{iv} + k \, c_{id}), \qquad
          B = \lambda L \;\Rightarrow\; L = \frac{C_1}{1 - \lambda C_2}

([1]_, equations 1 and 3), with g / E steps for g output tokens and E tokens per step. Six
coefficients, none negative, for each verifier on a deployment and pair of lengths, pooled over
draft lengths, acceptance rates, drafters and loads. They are linear in L at the measured batch,
so non-negative least squares on relative errors finds their one optimum; a fit of the closed form
has a pole where the rate meets the capacity, and gets stuck at it.

References
----------
.. [1] Kong et al. (2026). An interpretable latency model for speculative decoding in LLM serving.
   arXiv:2605.15051.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.optimize import nnls

from bayes_sd.exceptions import ArgumentError, DataError
from bayes_sd.measured_acceptance import tokens_per_step
from bayes_sd.physics.linear_law import closed_form_latency
from bayes_sd.validate import whole_number

LAW_COEFFICIENTS = ("c1p", "c1v", "c1d", "c2p", "c2v", "c2d")
SAME_LENGTH = 0.02  # relative difference up to which two lengths count as the same

type Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LawFit:
    """The law's coefficients for each cell: a base at one pair of lengths.

    Attributes
    ----------
    cells : tuple of (str, float, float)
        Label of the base, mean prompt tokens, mean answer tokens.
    coefficients : array, (cell, 6)
        Seconds, in the order of ``LAW_COEFFICIENTS``.
    features : tuple of array, (run, 6)
        Per cell, what the coefficients are multiplied with, for the runs that were fitted.
    residuals : tuple of array, (run,)
        Per cell, measured over fitted latency at the measured batch.
    """

    cells: tuple[tuple[str, float, float], ...]
    coefficients: Floats
    features: tuple[Floats, ...]
    residuals: tuple[Floats, ...]


def fit_law(data: xr.Dataset, runs: NDArray[np.bool_] | None = None) -> LawFit:
    """Fit the law by non-negative least squares on relative errors, cell by cell.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `bayes_sd.to_dataset`.
    runs : array of bool, (run,), optional
        Runs to learn from. Runs at a cap are never used: rate x latency is not their batch.

    Returns
    -------
    LawFit

    Raises
    ------
    ArgumentError
        If the mask is not one boolean per run.
    DataError
        If no run is left, or acceptance is not known.

    Examples
    --------
    >>> from bayes_sd.data import to_dataset
    >>> from bayes_sd.datasets import load_vllm_cpu
    >>> frame = load_vllm_cpu("dense", quiet_only=True)
    >>> data = to_dataset(frame[~frame["is_throughput_test"]])
    >>> law = fit_law(data)
    >>> [label for label, _, _ in law.cells]
    ['verifier-dense']
    """
    mask = np.ones(data.sizes["run"], dtype=bool) if runs is None else np.asarray(runs)
    if mask.dtype != bool or mask.shape != (data.sizes["run"],):
        raise ArgumentError(
            f"runs must be {data.sizes['run']} booleans, one per run. Got an array of "
            f"{mask.dtype} with shape {mask.shape} instead: for places, make a mask of them."
        )
    used = mask & (data["control"].values != "cap")
    if not used.any():
        raise DataError("the law has no run to learn from. Give at least one that is not capped.")
    cells = _cells(data, used)
    number = _cell_of_runs(data, cells)
    per_unit = _features(data)
    batch = data["effective_batch_observed"].values[:, None]
    features = np.hstack([per_unit, batch * per_unit])
    latency = data["mean_e2e_s"].values
    members = [used & (number == cell) for cell in range(len(cells))]
    coefficients = np.stack([_solve(features[at], latency[at]) for at in members])
    return LawFit(
        tuple(cells),
        coefficients,
        tuple(features[at] for at in members),
        tuple(
            latency[at] / (features[at] @ found)
            for at, found in zip(members, coefficients, strict=True)
        ),
    )


def law_demands(law: LawFit, data: xr.Dataset) -> tuple[Floats, Floats]:
    """Return C1 and C2 of each run, two arrays (run,), s; arguments and errors as `predict_law`."""
    return _demands(law.coefficients[_known_cells(law, data)], _features(data))


def predict_law(law: LawFit, data: xr.Dataset) -> Floats:
    """Return the latency of each run from its control alone, s.

    Parameters
    ----------
    law : LawFit
        Result of `fit_law`.
    data : xarray.Dataset
        Result of `bayes_sd.to_dataset`, the same as was fitted or another. Measured latencies are
        not used, except that they say which runs are at a cap.

    Returns
    -------
    array, (run,)
        C1 / (1 - rate C2) for an open loop, infinite past its capacity; C1 + N C2 for a closed
        one of N, and for a run at a cap of N.

    Raises
    ------
    DataError
        If a run's base was not fitted at its lengths, or acceptance is not known.
    """
    return _at_control(*law_demands(law, data), data)


def law_bootstrap(
    law: LawFit, data: xr.Dataset, *, draws: int = 400, rng: np.random.Generator
) -> Floats:
    """Draw the latency of each run from the law's residual bootstrap, s.

    Each draw resamples the relative residuals at the measured batches, refits, and predicts with
    a resampled residual that acts on the latency at a given batch, inside B = rate x L(B), where
    load amplifies it. Residuals are taken as exchangeable within a cell; those of one server
    start are not quite.

    Parameters
    ----------
    law, data
        As `predict_law`, whose errors it raises.
    draws : int
        Draws.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    array, (draw, run)
        Infinite in draws whose capacity is below the run's rate.
    """
    whole_number(draws, "draws")
    number = _known_cells(law, data)
    per_unit = _features(data)
    latency = np.empty((draws, data.sizes["run"]))
    for cell, (coefficients, features, residuals) in enumerate(
        zip(law.coefficients, law.features, law.residuals, strict=True)
    ):
        at = np.flatnonzero(number == cell)
        runs, fitted = data.isel(run=at), features @ coefficients
        for draw in range(draws if len(at) else 0):
            refitted = _solve(features, fitted * rng.choice(residuals, len(residuals)))
            factor = rng.choice(residuals, len(at))
            c1, c2 = _demands(refitted, per_unit[at])
            latency[draw, at] = _at_control(factor * c1, factor * c2, runs)
    return latency


def _features(data: xr.Dataset) -> Floats:
    """Return 1, steps, and draft steps of each run: (run, 3)."""
    steps = data["output_len_tokens"].values / tokens_per_step(data)
    return np.stack([np.ones_like(steps), steps, steps * data["num_draft_steps"].values], axis=-1)


def _solve(features: Floats, latency: Floats) -> Floats:
    relative = features / latency[:, None]
    size = np.linalg.norm(relative, axis=0)
    size = np.where(size > 0, size, 1.0)
    return np.asarray(nnls(relative / size, np.ones(len(latency)))[0] / size)


def _demands(coefficients: Floats, per_unit: Floats) -> tuple[Floats, Floats]:
    fixed, load = coefficients[..., :3], coefficients[..., 3:]
    return (per_unit * fixed).sum(axis=-1), (per_unit * load).sum(axis=-1)


def _at_control(c1: Floats, c2: Floats, data: xr.Dataset) -> Floats:
    control = data["control"].values
    held = np.where(control == "cap", data["cap_requests"].values, data["concurrency"].values)
    rate = np.where(control == "open", data["request_rate_rps"].values, 0.0)
    open_loop = closed_form_latency(c1, c2, rate)
    return np.asarray(np.where(control == "open", open_loop, c1 + np.nan_to_num(held) * c2))


def _lengths(data: xr.Dataset) -> Floats:
    return data[["input_len_tokens", "output_len_tokens"]].to_array().values.T.astype(float)


def _cells(data: xr.Dataset, used: NDArray[np.bool_]) -> list[tuple[str, float, float]]:
    """Return a cell for each base and pair of lengths; lengths that differ by a gap are apart."""
    base, lengths = data["base_of_run"].values, _lengths(data)
    groups = np.zeros(lengths.shape, dtype=int)
    for side in range(2):
        order = np.argsort(lengths[:, side], kind="stable")
        sorted_lengths = lengths[order, side]
        jumps = np.diff(sorted_lengths) > SAME_LENGTH * sorted_lengths[:-1]
        groups[order, side] = np.concatenate([[0], np.cumsum(jumps)])
    keys = np.column_stack([base, groups])
    cells = []
    for key in np.unique(keys[used], axis=0):
        at = used & (keys == key).all(axis=1)
        prompt, answer = lengths[at].mean(axis=0)
        cells.append((str(data["base"].values[key[0]]), float(prompt), float(answer)))
    return cells


def _cell_of_runs(data: xr.Dataset, cells: list[tuple[str, float, float]]) -> NDArray[np.int_]:
    """Return the number of the nearest cell of each run's base; -1 if its lengths are others."""
    label = data["base"].values[data["base_of_run"].values]
    lengths = np.log(_lengths(data))
    distance = np.full((len(cells), len(label)), np.inf)
    for number, (base, *centers) in enumerate(cells):
        apart = abs(lengths - np.log(centers)).max(axis=1)
        distance[number] = np.where(label == base, apart, np.inf)
    nearest = distance.argmin(axis=0)
    return np.where(distance.min(axis=0) <= 2 * SAME_LENGTH, nearest, -1)


def is_covered(law: LawFit, data: xr.Dataset) -> NDArray[np.bool_]:
    """Mark runs of a base and lengths that the law was fitted to, (run,)."""
    return _cell_of_runs(data, list(law.cells)) >= 0


def _known_cells(law: LawFit, data: xr.Dataset) -> NDArray[np.int_]:
    number = _cell_of_runs(data, list(law.cells))
    if (number < 0).any():
        run = data["run"].values[number < 0][0]
        raise DataError(
            "each run must be of a base and lengths that the law was fitted to: "
            + "; ".join(f"{b!r} {p:.0f} in, {g:.0f} out" for b, p, g in law.cells)
            + f". Got {(number < 0).sum()} others instead, such as {run!r}: leave them out."
        )
    return number
