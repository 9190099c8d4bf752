r"""Quantiles of one request's latency, relative to the mean of its run.

The quantile of a request's latency at level p is the mean times exp(r_p) with

.. math:: r_p = s \, [z_p + \gamma (z_p^2 - 1)] - c(s, \gamma) + \delta \, [t_p - \bar t]

z_p is the standard normal quantile, s the scale (`bayes_sd.physics.request_spread`), gamma a
skewness on the log scale, c what makes the mean 1 (so for gamma = delta = 0 this is the log-normal,
r_p = s z_p - s^2 / 2), and delta the excess of the about one request in a hundred that meets a
backlog, see `tail_shape`. To first order in delta the mean is 1.

`log_mean_offset` runs on floats, arrays and graph variables, the others on numbers only.
"""

import math
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

type Floats = NDArray[np.float64]

TAIL_SHARE = 0.01  # of requests: those that meet a backlog, as after the start of a run
TAIL_MEAN = (1 + TAIL_SHARE) * math.log1p(TAIL_SHARE) - TAIL_SHARE * math.log(TAIL_SHARE)
_LOG_FLOOR = 0.05  # of 1 - 2 s gamma


def tail_shape(level: Any) -> Floats:
    r"""Return how much of the backlog's excess a level holds: t_p = log(1 + 0.01 / (1 - p)).

    NumPy only. Near 0 for the bulk, log 2 at p99, and growing like the logarithm of 1 / (1 - p)
    above: an exponential excess on the log scale, of one request in a hundred.

    Parameters
    ----------
    level : number or array
        p, from 0 to below 1.

    Examples
    --------
    >>> tail_shape([0.5, 0.95, 0.99]).round(3)
    array([0.02 , 0.182, 0.693])
    """
    return np.asarray(np.log1p(TAIL_SHARE / (1 - np.asarray(level, dtype=float))))


def log_mean_offset(spread: Any, skew: Any, log: Any = np.log) -> Any:
    r"""Return c, the log mean of exp(s [Z + gamma (Z^2 - 1)]) for a standard normal Z.

    .. math:: c = -s \gamma - \tfrac12 \log(1 - 2 s \gamma) + \frac{s^2}{2 (1 - 2 s \gamma)}

    (a non-central chi-square's moment generating function). 1 - 2 s gamma is kept above 0.05.

    Parameters
    ----------
    spread, skew : number or array
        s and gamma.
    log : callable
        ``pytensor.tensor.log`` for graph variables.

    Examples
    --------
    >>> log_mean_offset(0.2, 0.0).round(3)
    np.float64(0.02)
    """
    room = 1 - 2 * spread * skew
    room = (room + _LOG_FLOOR + abs(room - _LOG_FLOOR)) / 2
    return -spread * skew - log(room) / 2 + spread**2 / (2 * room)


def log_quantile_ratio(
    z: ArrayLike, tail: ArrayLike, *, spread: ArrayLike, skew: ArrayLike, excess: ArrayLike
) -> Floats:
    """Return r_p, the log of a request's latency quantile over the mean. NumPy only.

    Where the skewness would turn the curve back (above z = -1 / (2 gamma) for gamma < 0, below it
    for gamma > 0) the curve is flat: a largest latency, as a limit on answer lengths gives.

    Parameters
    ----------
    z, tail : array
        Standard normal quantile, and `tail_shape`, of the level.
    spread, skew, excess : array
        s, gamma and delta; all broadcast.

    Examples
    --------
    >>> float(log_quantile_ratio(1.645, 0.18, spread=0.1, skew=0.0, excess=0.0).round(4))
    0.1595
    """
    s, gamma = np.asarray(spread, dtype=float), np.asarray(skew, dtype=float)
    with np.errstate(divide="ignore"):
        turn = -0.5 / np.where(gamma == 0, np.nan, gamma)
    at = np.asarray(z, dtype=float)
    at = np.where(gamma < 0, np.fmin(at, turn), np.where(gamma > 0, np.fmax(at, turn), at))
    bulk = s * (at + gamma * (at**2 - 1)) - log_mean_offset(s, gamma)
    return np.asarray(bulk + np.asarray(excess) * (np.asarray(tail) - TAIL_MEAN))


def request_quantile(
    level: ArrayLike, mean_s: ArrayLike, *, spread: ArrayLike, skew: ArrayLike, excess: ArrayLike
) -> Floats:
    """Return the quantile of one request's latency, s. NumPy only.

    Parameters
    ----------
    level : array, (level,)
        p, above 0 and below 1.
    mean_s : array, (draw,)
        Draws of the mean latency, s; infinite past capacity.
    spread, skew, excess : array, (draw,)
        Draws of s, gamma and delta.

    Returns
    -------
    array, (draw, level)

    Raises
    ------
    ValueError
        If a level is not above 0 and below 1.

    Examples
    --------
    >>> request_quantile([0.5, 0.99], [2.0], spread=[0.1], skew=[0.0], excess=[0.0]).round(2)
    array([[1.99, 2.51]])
    """
    p = np.asarray(level, dtype=float)
    if not ((p > 0) & (p < 1)).all():
        raise ValueError(f"level must be above 0 and below 1. Got {level!r} instead.")
    z = np.array([NormalDist().inv_cdf(float(x)) for x in p.ravel()]).reshape(p.shape)
    per_draw = [np.asarray(x, dtype=float)[..., None] for x in (spread, skew, excess)]
    ratio = log_quantile_ratio(
        z, tail_shape(p), spread=per_draw[0], skew=per_draw[1], excess=per_draw[2]
    )
    return np.asarray(np.asarray(mean_s, dtype=float)[..., None] * np.exp(ratio))


def request_draws(
    mean_s: ArrayLike,
    rng: np.random.Generator,
    *,
    spread: ArrayLike,
    skew: ArrayLike,
    excess: ArrayLike,
) -> Floats:
    """Draw the latency of one future request for each draw of the parameters, s. NumPy only.

    Parameters
    ----------
    mean_s, spread, skew, excess : array, (draw,)
        As in `request_quantile`.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    array, (draw,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = request_draws(np.full(10_000, 2.0), rng, spread=0.2, skew=0.0, excess=0.0)
    >>> abs(x.mean() - 2.0) < 0.02
    np.True_
    """
    mean = np.asarray(mean_s, dtype=float)
    z = rng.standard_normal(mean.shape)
    above = np.vectorize(math.erfc, otypes=[float])(z / math.sqrt(2)) / 2  # 1 - p, exact far out
    tail = np.log1p(TAIL_SHARE / above)
    ratio = log_quantile_ratio(z, tail, spread=spread, skew=skew, excess=excess)
    return np.asarray(mean * np.exp(ratio))
