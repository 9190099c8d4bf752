r"""Effective batch of an open loop: the smallest B with B = rate * L(B). NumPy only.

Both functions rest on the rate that a batch sustains, B / L(B). Where L is increasing and convex,
or first concave (experts coming into use) and then convex, that rate rises to one maximum, the
capacity, and falls behind it: its derivative has the sign of L - B L', which starts positive,
rises while L is concave and falls while it is convex. A rate below capacity then has one stable
root, on the way up, and perhaps an unstable one on the way down, which is never returned. Should
the rate rise and fall more than once, the answer is right to the grid: a dip or a peak between two
of its points may be missed.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

type Floats = NDArray[np.float64]
type LatencyOfBatch = Callable[[Floats], Floats]

_GOLDEN = (5**0.5 - 1) / 2
_GOLDEN_STEPS = 28  # of a bracket about 1 wide in log B: the place to 1e-6, the rate to 1e-12
_AT_CAPACITY = 1e-12  # a rate so little above capacity, relative to it, counts as at capacity


def solve_effective_batch(
    rate_rps: ArrayLike,
    latency_of_batch: LatencyOfBatch,
    max_batch: ArrayLike,
    *,
    relative_tolerance: float = 1e-10,
    num_grid: int = 20,
    max_iterations: int = 40,
) -> Floats:
    r"""Return the mean number in the system at an arrival rate: the smallest B = rate * L(B).

    The root is bracketed on a grid that is even in log B, from below rate * L(0) up to max_batch,
    and found by Chandrupatla's method [1]_. Where the grid does not reach the rate, the maximum of
    B / L(B) is refined by golden section first, so that rates just below capacity are solved.

    Parameters
    ----------
    rate_rps : array
        Arrival rate, requests per second, at least 0; infinite is past capacity.
    latency_of_batch : callable
        Takes an array B of the result's shape and returns L(B) in seconds, increasing in B and
        above 0. It is called at most ``num_grid + max_iterations + 31`` times.
    max_batch : array
        Largest number in the system, finite: the cap of the engine or of the client.
    relative_tolerance : float, default 1e-10
        Relative error of B.
    num_grid : int, default 20
        Points of the grid; it stops early once every root is bracketed.
    max_iterations : int, default 40
        Iterations of the root finder.

    Returns
    -------
    array
        B in requests, in the shape that the arguments and L broadcast to (0-d for numbers);
        infinite where the rate is above capacity, 0 where it is 0.

    Raises
    ------
    ValueError
        If a rate is NaN or negative, a max_batch is not above 0 and finite, or a latency is NaN
        or not above 0.

    References
    ----------
    .. [1] Chandrupatla (1997). A new hybrid quadratic/bisection algorithm for finding the zero of
       a nonlinear function without using derivatives. Advances in Engineering Software 28(3).

    Examples
    --------
    >>> def latency(batch):
    ...     return 2.0 + 0.1 * batch
    >>> solve_effective_batch(np.array([0.0, 5.0, 9.0, 9.5]), latency, max_batch=256)
    array([  0.,  20., 180.,  inf])
    >>> float(solve_effective_batch(9.5, latency, max_batch=512))
    380.0
    """
    rate = np.asarray(rate_rps, dtype=float)
    if np.isnan(rate).any() or (rate < 0).any():
        raise ValueError(f"rate_rps must be at least 0 and not NaN. Got {rate_rps!r} instead.")
    cap = _checked_cap(max_batch)
    shape = np.broadcast_shapes(rate.shape, cap.shape)
    solvable = (rate > 0) & np.isfinite(rate)
    latency_empty = _latency(latency_of_batch, np.broadcast_to(cap * 1e-9, shape).copy())
    shape = np.broadcast_shapes(shape, latency_empty.shape)
    trial = np.broadcast_to(np.where(solvable, rate, cap * 1e-3 / latency_empty), shape)
    cap = np.broadcast_to(cap, shape)
    # Half of rate * L(0) is below any root; past capacity it can also be above the cap.
    start = np.minimum(trial * latency_empty / 2, cap * 1e-3)
    low, high, reached, best = _bracket(trial, latency_of_batch, start, cap, num_grid)
    if not reached.all():
        top, sustained = _refine_maximum(latency_of_batch, *best)
        found = ~reached & (sustained >= trial * (1 - _AT_CAPACITY))
        low = np.where(found, np.where(best[0] < top, best[0], 0.0), low)
        high = np.where(found, top, high)
        reached = reached | found
    batch = _find_root(
        lambda b: trial * _latency(latency_of_batch, b) - b,
        np.where(reached, low, 0.0),
        high,
        trial * latency_empty,
        relative_tolerance,
        max_iterations,
    )
    answer: Floats = np.where(reached & solvable, batch, np.where(rate == 0, 0.0, np.inf))
    return answer


def capacity_rps(
    latency_of_batch: LatencyOfBatch, max_batch: ArrayLike, *, num_grid: int = 40
) -> tuple[Floats, Floats]:
    r"""Return the largest B / L(B) up to the cap, and the B where it is reached.

    Parameters
    ----------
    latency_of_batch : callable
        As in `solve_effective_batch`; called ``num_grid + 29`` times.
    max_batch : array
        Largest number in the system, finite.
    num_grid : int, default 40
        Points of the grid, even in log B over six decades below max_batch.

    Returns
    -------
    capacity : array
        Requests per second.
    batch : array
        Requests in the system there; max_batch itself where the rate still rises at the cap.

    Raises
    ------
    ValueError
        If a max_batch is not above 0 and finite, or a latency is NaN or not above 0.

    Examples
    --------
    >>> capacity, batch = capacity_rps(lambda b: 2.0 + 0.1 * b, 80.0)
    >>> float(capacity), float(batch)
    (8.0, 80.0)
    """
    cap = _checked_cap(max_batch)
    shape = np.broadcast_shapes(cap.shape, _latency(latency_of_batch, cap.copy()).shape)
    cap = np.broadcast_to(cap, shape)
    unreachable = np.full(shape, np.inf)
    *_, best = _bracket(unreachable, latency_of_batch, cap * 1e-6, cap, num_grid)
    batch, sustained = _refine_maximum(latency_of_batch, *best)
    return sustained, batch


def _bracket(
    rate: Floats, latency_of_batch: LatencyOfBatch, start: Floats, cap: Floats, num_grid: int
) -> tuple[Floats, Floats, NDArray[np.bool_], tuple[Floats, Floats, Floats, Floats]]:
    """Walk the grid up; return a bracket, whether it holds a root, and the best grid point.

    The best is given as its left neighbour, itself, its right neighbour and the rate it sustains.
    """
    log_step = np.log(cap / start) / (num_grid - 1)
    reached = np.zeros(rate.shape, dtype=bool)
    low = np.zeros(rate.shape)
    high = cap.copy()
    left, middle, right = start, start, start
    most = np.zeros(rate.shape)
    before = start
    for point in range(num_grid):
        batch = cap.copy() if point == num_grid - 1 else start * np.exp(log_step * point)
        sustained = batch / _latency(latency_of_batch, batch)
        higher = sustained > most
        right = np.where(higher, batch, np.where(middle == before, batch, right))
        left, middle = np.where(higher, before, left), np.where(higher, batch, middle)
        most = np.where(higher, sustained, most)
        here = ~reached & (sustained >= rate)
        high = np.where(here, batch, high)
        reached = reached | here
        low = np.where(reached, low, batch)
        before = batch
        if reached.all():
            break
    return low, high, reached, (left, middle, right, most)


def _refine_maximum(
    latency_of_batch: LatencyOfBatch, left: Floats, middle: Floats, right: Floats, most: Floats
) -> tuple[Floats, Floats]:
    """Return where B / L(B) is largest between two grid points, and its value there."""
    a, b = np.log(left), np.log(right)
    best, top = middle, most
    c, d = b - _GOLDEN * (b - a), a + _GOLDEN * (b - a)

    def sustained(log_batch: Floats) -> Floats:
        nonlocal best, top
        batch = np.exp(log_batch)
        value = batch / _latency(latency_of_batch, batch)
        best, top = np.where(value > top, batch, best), np.maximum(value, top)
        return value

    at_c, at_d = sustained(c), sustained(d)
    for _ in range(_GOLDEN_STEPS - 2):
        keep_left = at_c >= at_d
        a, b = np.where(keep_left, a, c), np.where(keep_left, d, b)
        probe = np.where(keep_left, b - _GOLDEN * (b - a), a + _GOLDEN * (b - a))
        value = sustained(probe)
        c, d = np.where(keep_left, probe, d), np.where(keep_left, c, probe)
        at_c, at_d = np.where(keep_left, value, at_d), np.where(keep_left, at_c, value)
    return best, top


def _find_root(
    excess: LatencyOfBatch,
    low: Floats,
    high: Floats,
    excess_at_zero: Floats,
    relative_tolerance: float,
    max_iterations: int,
) -> Floats:
    """Return the root of a function that is positive at low and not at high (Chandrupatla)."""
    a, b = low, high
    fa = np.where(low > 0, excess(np.where(low > 0, low, high)), excess_at_zero)
    fb = np.minimum(excess(high), 0.0)  # at capacity rounding may leave it just above 0
    share = np.full(a.shape, 0.5)
    root = b
    for _ in range(max_iterations):
        probe = a + share * (b - a)
        value = excess(probe)
        same = np.sign(value) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = probe, value
        root, residual = np.where(abs(fa) < abs(fb), a, b), np.minimum(abs(fa), abs(fb))
        with np.errstate(divide="ignore", invalid="ignore"):
            limit = relative_tolerance * root / abs(b - a)
            if np.all((limit > 0.5) | (residual == 0) | ~np.isfinite(limit)):
                break
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            inverse_quadratic = (fa / (fb - fa)) * (fc / (fb - fc)) + ((c - a) / (b - a)) * (
                fa / (fc - fa)
            ) * (fb / (fc - fb))
        usable = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        share = np.where(usable, inverse_quadratic, 0.5)
        limit = np.minimum(np.where(np.isfinite(limit), limit, 0.5), 0.5)
        share = np.minimum(np.maximum(share, limit), 1 - limit)
    return root


def _latency(latency_of_batch: LatencyOfBatch, batch: Floats) -> Floats:
    latency = np.asarray(latency_of_batch(batch), dtype=float)
    if not (latency > 0).all():
        raise ValueError(
            "latency_of_batch must return seconds above 0. "
            f"Got {latency[~(latency > 0)].ravel()[0]} instead: check the cost coefficients."
        )
    return latency


def _checked_cap(max_batch: ArrayLike) -> Floats:
    cap = np.asarray(max_batch, dtype=float)
    if not (np.isfinite(cap) & (cap > 0)).all():
        raise ValueError(f"max_batch must be above 0 and finite. Got {max_batch!r} instead.")
    return cap
