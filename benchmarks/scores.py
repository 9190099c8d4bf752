"""Scores of predictive draws against what was measured; smaller is better unless said.

Draws have shape (draw, case) and observations (case,). Each score returns one number per case, so
that it can be averaged over any group of them.
"""

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]

# Kernels of the log score are at least this wide on the log scale: 0.1 % of a latency.
MIN_BANDWIDTH = 1e-3


def crps(draws: Floats, observed: Floats) -> Floats:
    r"""Return the continuous ranked probability score of each case, in the unit of the draws.

    :math:`E|X - y| - \frac{1}{2} E|X - X'|`, with the second mean over pairs of different draws:
    the fair estimator, whose expectation does not depend on the number of draws [1]_.

    Parameters
    ----------
    draws : array, (draw, case)
        At least two per case.
    observed : array, (case,)
        What was measured.

    References
    ----------
    .. [1] Ferro (2014). Fair scores for ensemble forecasts. Quarterly Journal of the Royal
       Meteorological Society 140(683).
    """
    ordered = np.sort(draws, axis=0)
    size = len(ordered)
    weight = 2 * np.arange(1, size + 1) - size - 1
    half_spread = np.tensordot(weight, ordered, axes=1) / (size * (size - 1))
    return np.abs(draws - observed).mean(axis=0) - half_spread


def central_interval(draws: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the ends of the central interval that holds a share of the draws."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def covered(draws: Floats, observed: Floats, level: float) -> NDArray[np.bool_]:
    """Tell whether the central interval holds the observation; its mean should be the level."""
    low, high = central_interval(draws, level)
    return (low <= observed) & (observed <= high)


def interval_width(draws: Floats, level: float) -> Floats:
    """Return the width of the central interval, relative to the median draw."""
    low, high = central_interval(draws, level)
    return (high - low) / np.median(draws, axis=0)


def absolute_percentage_error(predicted: Floats, observed: Floats) -> Floats:
    """Return 100 |predicted / observed - 1|."""
    return 100 * np.abs(predicted / observed - 1)


def log_score(draws: Floats, observed: Floats) -> Floats:
    r"""Return the log predictive density of the log of the observation, nats; larger is better.

    The density is a sum of normal kernels on the log draws, of Silverman's width
    :math:`0.9 \min(s, \mathrm{IQR} / 1.34) \, m^{-1/5}` [1]_ and at least ``MIN_BANDWIDTH``. An
    observation far outside all draws costs half its squared distance in kernel widths: the score
    is harsh on intervals that are too narrow, and says little on how far a miss is in seconds.

    References
    ----------
    .. [1] Silverman (1986). Density Estimation for Statistics and Data Analysis, section 3.4.
    """
    logs = np.log(draws)
    low, high = np.quantile(logs, [0.25, 0.75], axis=0)
    spread = np.minimum(logs.std(axis=0, ddof=1), (high - low) / 1.34)
    width = np.maximum(0.9 * spread * len(logs) ** -0.2, MIN_BANDWIDTH)
    exponent = -0.5 * ((np.log(observed) - logs) / width) ** 2
    top = exponent.max(axis=0)
    mean = np.exp(exponent - top).mean(axis=0)
    return top + np.log(mean) - np.log(width * np.sqrt(2 * np.pi))
