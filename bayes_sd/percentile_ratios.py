r"""Percentiles of request latency as ratios to the mean of the same requests, whitened.

Percentiles and mean of a run come from one sample, so they are not independent data. The mean has
its own term (`bayes_sd.likelihoods`); the ratios r_p = log(q_p / mean) say how wide and how skew
the sample is. With z_p the normal quantile and phi the normal density, sample quantiles of a
log-normal have, to first order in s (Bahadur's representation [1]_),

.. math:: n \operatorname{Cov}(r_p, r_{p'}) = s^2 (A_{p p'} - 1), \qquad
          A_{p p'} = \frac{p (1 - p')}{\phi(z_p) \phi(z_{p'})}, \; p \le p',

for the covariance of each log quantile with the log mean is s^2 / n. The Cholesky factor is a
constant of the data, so `ratio_data` whitens once, in NumPy, and the graph of
`bayes_sd.tail_likelihood` holds a handful of multiplications per run, however many its requests.

References
----------
.. [1] Serfling (1980). Approximation Theorems of Mathematical Statistics, section 2.5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from bayes_sd.exceptions import ArgumentError, DataError
from bayes_sd.physics.request_quantiles import TAIL_MEAN, tail_shape

type Floats = NDArray[np.float64]

MIN_REQUESTS = 10
TOP_LEVEL = 0.985  # levels from here on are the top, the others the bulk


def expected_levels(levels: ArrayLike, num_requests: ArrayLike) -> Floats:
    r"""Return the level whose quantile an empirical percentile estimates without bias.

    Tools interpolate at the order statistic i = (n - 1) p + 1; its normal score is that of
    (i - 3/8) / (n + 1/4) [1]_. At n = 20 the p99 is a quantile of 0.96.

    Parameters
    ----------
    levels : array, (level,)
        Nominal levels.
    num_requests : array, (run,)
        n.

    Returns
    -------
    array, (run, level)

    References
    ----------
    .. [1] Blom (1958). Statistical Estimates and Transformed Beta-Variables.

    Examples
    --------
    >>> expected_levels([0.5, 0.99], [20, 2000]).round(3)
    array([[0.5 , 0.96],
           [0.5 , 0.99]])
    """
    n = np.asarray(num_requests, dtype=float)[:, None]
    return np.asarray(((n - 1) * np.asarray(levels, dtype=float) + 0.625) / (n + 0.25))


def ratio_covariance(levels: ArrayLike) -> Floats:
    """Return n / s^2 times the covariance of log quantile ratios: A - 1, (..., level, level).

    Parameters
    ----------
    levels : array, (..., level)
        Levels, rising along the last axis, from above 0 to below 1.

    Examples
    --------
    >>> ratio_covariance([0.5, 0.9]).round(3)
    array([[ 0.571, -0.286],
           [-0.286,  1.922]])
    """
    p = np.asarray(levels, dtype=float)
    density = stats.norm.pdf(stats.norm.ppf(p))
    low = np.minimum(p[..., :, None], p[..., None, :])
    high = np.maximum(p[..., :, None], p[..., None, :])
    return np.asarray(low * (1 - high) / (density[..., :, None] * density[..., None, :]) - 1)


@dataclass(frozen=True)
class RatioData:
    """Ratios of percentiles to means, whitened: what the graph needs, constants all.

    Attributes
    ----------
    columns : array, (column, run, level)
        Whitened r, z, z^2 - 1, 1 and t - mean t. Levels that are missing or add nothing are 0.
        The top level is last, in a place of its own.
    num_bulk : array, (run,)
        Levels of the bulk that count.
    has_top : array, (run,)
        1 where the top counts, else 0.
    log_det : array, (run,)
        Log of the product of the Cholesky factor's diagonal.
    num_requests : array, (run,)
        n.
    """

    columns: Floats
    num_bulk: Floats
    has_top: Floats
    log_det: Floats
    num_requests: Floats

    @property
    def is_scored(self) -> NDArray[np.bool_]:
        """Runs with at least one level that counts, (run,)."""
        return (self.num_bulk + self.has_top) > 0


def _distinct(known: NDArray[np.bool_], levels: Floats, n: float) -> list[int]:
    """Return the levels that are known and at least one order statistic apart."""
    kept: list[int] = []
    for i in np.flatnonzero(known):
        if not kept or (n - 1) * (levels[i] - levels[kept[-1]]) >= 1:
            kept.append(int(i))
    return kept


def ratio_data(
    quantile_s: ArrayLike, mean_s: ArrayLike, num_requests: ArrayLike, levels: Sequence[float]
) -> RatioData:
    """Whiten the ratios of percentiles to means, once, before the graph.

    Parameters
    ----------
    quantile_s : array, (run, level)
        Percentiles, s; NaN where unknown.
    mean_s : array, (run,)
        Mean of the same requests, s; NaN where unknown.
    num_requests : array, (run,)
        Requests that they are over. Runs of fewer than 10 do not count, nor do levels less than
        one order statistic above the level before: they repeat the same request.
    levels : sequence of float
        Nominal levels, rising, above 0 and below 1; at most one from 0.985 on, the last.

    Returns
    -------
    RatioData

    Raises
    ------
    ArgumentError
        If levels or shapes do not fit.
    DataError
        If no run has a level that counts.

    Examples
    --------
    >>> found = ratio_data([[0.99, 1.2, np.nan, 1.5]], [1.0], [200], [0.5, 0.9, 0.95, 0.99])
    >>> found.num_bulk, found.has_top
    (array([2.]), array([1.]))
    """
    p = np.asarray(levels, dtype=float)
    if not (len(p) and (np.diff(p) > 0).all() and p[0] > 0 and p[-1] < 1):
        raise ArgumentError(f"levels must rise between 0 and 1. Got {list(levels)} instead.")
    if (p >= TOP_LEVEL).sum() > 1:
        raise ArgumentError(
            f"levels must have at most one from {TOP_LEVEL} on. Got {list(levels)} instead. "
            "Leave one out: so far up they rest on the same few requests."
        )
    quantile, mean = np.asarray(quantile_s, dtype=float), np.asarray(mean_s, dtype=float)
    n = np.asarray(num_requests, dtype=float)
    if quantile.shape != (len(n), len(p)) or mean.shape != n.shape:
        raise ArgumentError(
            f"quantile_s must be (run, level) and mean_s, num_requests (run,). Got shapes "
            f"{quantile.shape}, {mean.shape}, {n.shape} for {len(p)} levels instead."
        )
    has_slot = p[-1] >= TOP_LEVEL
    ratio = np.log(quantile / mean[:, None])
    at = expected_levels(p, n)
    z = stats.norm.ppf(at)
    raw = np.stack([ratio, z, z**2 - 1, np.ones_like(z), tail_shape(at) - TAIL_MEAN])
    columns = np.zeros((5, len(n), len(p) + (not has_slot)))
    num_bulk, has_top, log_det = np.zeros((3, len(n)))
    known = np.isfinite(ratio) & (n >= MIN_REQUESTS)[:, None]
    for run in np.flatnonzero(known.any(axis=1)):
        kept = _distinct(known[run], p, n[run])
        factor = np.linalg.cholesky(ratio_covariance(at[run, kept]))
        columns[:, run, kept] = np.linalg.solve(factor, raw[:, run, kept].T).T
        has_top[run] = float(has_slot and kept[-1] == len(p) - 1)
        num_bulk[run] = len(kept) - has_top[run]
        log_det[run] = np.log(np.diagonal(factor)).sum()
    found = RatioData(columns, num_bulk, has_top, log_det, n)
    if not found.is_scored.any():
        raise DataError(
            f"no run has a percentile, its mean and at least {MIN_REQUESTS} requests. "
            "Fit without percentiles."
        )
    return found


def sampled_spread(data: RatioData) -> Floats:
    """Return each run's scale by least squares on its whitened ratios, (run,): a starting point.

    Parameters
    ----------
    data : RatioData
        Result of `ratio_data`.

    Returns
    -------
    array of float
        s of a log-normal, at least 1e-4; NaN for runs that are not scored.

    Examples
    --------
    >>> levels = [0.5, 0.9, 0.95]
    >>> ratio = 0.1 * stats.norm.ppf(levels) - 0.005
    >>> sampled_spread(ratio_data([np.exp(ratio)], [1.0], [10**6], levels)).round(3)
    array([0.1])
    """
    observed, z, _, one, _ = data.columns
    with np.errstate(invalid="ignore", divide="ignore"):
        s = (observed * z).sum(axis=1) / (z * z).sum(axis=1)
        for _ in range(3):
            s = ((observed + s[:, None] ** 2 / 2 * one) * z).sum(axis=1) / (z * z).sum(axis=1)
    return np.asarray(np.where(data.is_scored, np.maximum(s, 1e-4), np.nan))
