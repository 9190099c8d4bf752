r"""Stairs of the step time: jumps where matrix kernels take the next tile size.

.. math:: jumps(T) = \sum_j c_j \, \sigma\!\left(\frac{T - 1.06 \, T_j}{w_j}\right), \qquad
          w_j^2 = (0.06 \, T_j)^2 + \frac{3}{\pi^2} Var(T)

with :math:`\sigma` the logistic function: a step of exactly T_j tokens still fits the smaller
tile, so half a jump is reached one width above it. Matrix products are tiled, so the time of a step
rises in stairs rather than evenly with its tokens [1]_. The jumps are sharp in tokens; a load that
fluctuates crosses them at some steps and not at others, and so smooths them in the mean: the
logistic of width w has the variance :math:`\pi^2 w^2 / 3`, to which that of T is added.
`benchmarks/step_forms.py` shows what they are worth on held-out sweeps.

References
----------
.. [1] NVIDIA (2023). Matrix multiplication background user's guide, "Tile quantization".
"""

import math
from typing import Any

import numpy as np

JUMP_TOKENS = (64, 128, 256)
JUMP_WIDTH = 0.06
JUMP_PLACE = 1.06  # of a tile: where half of its jump is reached
# The slope of a jump counts over the range that a fluctuating load covers, not at a point: a
# sharp one would say that load feeds back without bound there and not at all beside it.
SLOPE_WIDTH = 0.2
_LOGISTIC = 3 / math.pi**2


def exponential(exponent: Any) -> Any:
    """Return e ** exponent, for labelled graph variables too."""
    try:
        return np.exp(exponent)
    except TypeError:  # graph variables with named dims take powers only, which cost more
        return math.e**exponent


def jump_time(tokens: Any, jumps_s: tuple[Any, ...], tokens_variance: Any = 0.0) -> Any:
    """Return what the jumps add to a step, in seconds.

    Parameters
    ----------
    tokens : number or array
        Mean tokens in a step, T.
    jumps_s : tuple of number or array
        Height of the jump at each of ``JUMP_TOKENS``, s.
    tokens_variance : number or array, default 0
        Variance of the tokens in a step over time.

    Examples
    --------
    >>> print(f"{jump_time(200.0, (1e-3, 2e-3, 4e-3)):.4f}")
    0.0031
    """
    parts: list[Any] = []
    for place, height in zip(JUMP_TOKENS, jumps_s, strict=True):
        width = _width(place, JUMP_WIDTH, tokens_variance)
        parts.append(height / (1 + exponential((JUMP_PLACE * place - tokens) / width)))
    return sum(parts[1:], parts[0])


def jump_slope(tokens: Any, jumps_s: tuple[Any, ...], tokens_variance: Any = 0.0) -> Any:
    """Return the slope of the jumps in tokens, s per token, over a range of ``SLOPE_WIDTH``.

    Parameters
    ----------
    tokens, jumps_s, tokens_variance
        As in `jump_time`.

    Examples
    --------
    >>> print(f"{jump_slope(67.84, (1e-3, 0.0, 0.0)) * 64:.5f}")
    0.00125
    """
    parts: list[Any] = []
    for place, height in zip(JUMP_TOKENS, jumps_s, strict=True):
        width = _width(place, SLOPE_WIDTH, tokens_variance)
        passed = 1 / (1 + exponential((JUMP_PLACE * place - tokens) / width))
        parts.append(height * passed * (1 - passed) / width)
    return sum(parts[1:], parts[0])


def jump_rise(
    tokens: Any,
    jumps_s: tuple[Any, ...],
    tokens_variance: Any,
    tokens_slope: Any,
    variance_slope: Any,
) -> Any:
    """Return the derivative of `jump_time` along a path, exactly and at a point.

    Parameters
    ----------
    tokens, jumps_s, tokens_variance
        As in `jump_time`.
    tokens_slope, variance_slope : number or array
        Derivatives of the tokens and of their variance along the path.

    Examples
    --------
    >>> print(f"{jump_rise(67.84, (1e-3, 0.0, 0.0), 0.0, 1.0, 0.0) * 64:.5f}")
    0.00417
    """
    parts: list[Any] = []
    for place, height in zip(JUMP_TOKENS, jumps_s, strict=True):
        width = _width(place, JUMP_WIDTH, tokens_variance)
        distance = (tokens - JUMP_PLACE * place) / width
        passed = 1 / (1 + exponential(-distance))
        widening = _LOGISTIC * variance_slope / (2 * width)
        parts.append(height * passed * (1 - passed) * (tokens_slope - distance * widening) / width)
    return sum(parts[1:], parts[0])


def _width(place: float, share: float, tokens_variance: Any) -> Any:
    return ((share * place) ** 2 + _LOGISTIC * tokens_variance) ** 0.5
