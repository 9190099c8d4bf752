r"""Batches by iteration where a step or two do not settle them, and what that starts from.

What the curves of all draws share: the curve of the mean costs, which says about where a draw's
batch is; the capacity of draws; and the roots of B = rate L(B), by Newton's method far from
capacity, in a bracket near it, and by `bayes_sd.physics.effective_batch` where a rate may have
several.
"""

from functools import cached_property
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from bayes_sd.physics.effective_batch import capacity_rps, solve_effective_batch

Floats = npt.NDArray[np.float64]
Marks = npt.NDArray[np.bool_]

NUM_NODES = 400  # of the typical curve, which says where to start
BLOCK = 32_768  # draws times loads at a time: they stay in the processor's cache
STEEP = 0.95  # slope from which on Newton's method is not trusted
ALMOST = 0.97  # of the typical capacity: from here on each draw is compared with its own
NUM_GRID = 20  # batches among which the capacity is looked for first
NEWTON_STEPS, BISECTIONS = 8, 60
SETTLED = 1e-8  # a step in log batch after which the next would be below rounding
ROUNDING = 1e-13


class Law(Protocol):
    """A law of latency over batch, by draw."""

    def latency(self, batch: Floats) -> Floats:
        """Return L at a batch, s."""

    def latency_and_slope(self, batch: Floats) -> tuple[Floats, Floats]:
        """Return L at a batch, s, and d log L / d log B."""

    def take(self, draws: npt.NDArray[np.intp]) -> Self:
        """Return the law of some draws."""

    def typical(self) -> Self:
        """Return the law of the mean costs."""


class BatchRoots:
    """Batches of a law's draws by iteration.

    Parameters
    ----------
    law : Law
        Of all draws.
    cap : float
        Limit on requests in the system.
    num_draws : int
        Draws.
    """

    def __init__(self, law: Law, cap: float, num_draws: int) -> None:
        self.law, self.cap, self.num_draws = law, cap, num_draws
        self._largest = np.full((2, self.num_draws), np.nan)  # rate and its batch, once asked for

    def _capacity(self, draws: npt.NDArray[np.intp]) -> tuple[Floats, Floats]:
        """Return the largest rate of some draws, 1/s, and the batch there."""
        new = np.unique(draws[np.isnan(self._largest[0][draws])])
        if len(new):
            cap = np.full(len(new), self.cap)
            found = capacity_rps(self.law.take(new).latency, cap, num_grid=NUM_GRID)
            self._largest[:, new] = found
        return self._largest[0][draws], self._largest[1][draws]

    @cached_property
    def _rugged(self) -> Marks:
        """Draws in which a rate may have several batches, of which the least is wanted, (draw,)."""
        return np.zeros(self.num_draws, dtype=bool)

    @cached_property
    def _typical(self) -> tuple[Floats, ...]:
        """The curve of the mean costs: log rate, batch, its two derivatives in log rate, latency.

        Only up to where the rate that it sustains stops rising.
        """
        batch = np.geomspace(self.cap * 1e-6, self.cap, NUM_NODES)
        latency, elasticity = self.law.typical().latency_and_slope(batch)
        log_rate = np.log(batch / latency)
        falls = np.flatnonzero((np.diff(log_rate) <= 0) | (elasticity[1:] >= STEEP))
        end = max(int(falls[0]) + 1 if len(falls) else NUM_NODES, 3)
        log_rate, batch, latency = log_rate[:end], batch[:end], latency[:end]
        slope = batch / (1 - np.minimum(elasticity[:end], STEEP))
        return log_rate, batch, slope, np.gradient(slope, log_rate), latency

    def _roots(
        self, rates_rps: Floats, marks: Marks, start: Floats, times: Floats | None
    ) -> Floats:
        """Return the batch of marked elements at so many times their rate, by iteration."""
        loads, draws = np.nonzero(marks)
        rate, begin = rates_rps[loads], start[marks]
        if times is not None:
            rate = rate * times[marks]
        rugged = self._rugged[draws]
        answer = np.full(len(draws), np.nan)
        for load in np.unique(loads[rugged]):  # a load by itself: the others must not matter
            here = rugged & (loads == load)
            law = self.law.take(draws[here])
            answer[here] = solve_effective_batch(
                rate[here], law.latency, self.cap, relative_tolerance=1e-12
            )
        smooth = np.flatnonzero(~rugged)
        answer[smooth] = self._iterate(rate[smooth], draws[smooth], begin[smooth])
        return answer

    def _iterate(self, rate: Floats, draws: npt.NDArray[np.intp], begin: Floats) -> Floats:
        """Return the batch of some draws at their rates, from where to begin (or infinite)."""
        answer = np.full(len(draws), np.nan)
        high = np.log(rate) > self._typical[0][-1] + np.log(ALMOST)
        # Far from capacity Newton's method first; where it fails, and at capacity, in a bracket.
        easy = np.flatnonzero(~high & np.isfinite(begin))
        found, sure = _newton(self.law.take(draws[easy]), rate[easy], begin[easy], self.cap)
        answer[easy[sure]] = found[sure]
        left = np.flatnonzero(np.isnan(answer))
        if len(left):
            largest, there = self._capacity(draws[left])
            alive = rate[left] <= largest * (1 + 1e-12)
            answer[left[~alive]] = np.inf
            left, there = left[alive], there[alive]
            begin = np.where(np.isfinite(begin[left]), begin[left], there / 2)
            law = self.law.take(draws[left])
            answer[left] = _newton(law, rate[left], begin, there, bracket=True)[0]
        return answer

    def _blocks(self, num_loads: int) -> list[slice]:
        rows = max(BLOCK // self.num_draws, 1)
        return [slice(i, min(i + rows, num_loads)) for i in range(0, num_loads, rows)]


def _newton(
    law: Law, rate: Floats, start: Floats, end: Floats | float, *, bracket: bool = False
) -> tuple[Floats, Marks]:
    """Return the roots of B = rate L(B) in log B up to an end, and where they are sure.

    With a bracket, the rate rises up to the end and is reached there: it is halved where a step
    would leave it.
    """
    roots, sure = np.full(len(rate), np.nan), np.zeros(len(rate), dtype=bool)
    left = np.arange(len(rate))
    x, goal, high = np.log(np.minimum(start, end)), np.log(rate), np.log(end) + 0 * rate
    low = np.full(len(x), -np.inf)
    for _ in range(BISECTIONS if bracket else NEWTON_STEPS):
        if not len(left):
            break
        latency, slope = law.latency_and_slope(np.exp(x))
        missing = goal - x + np.log(latency)  # above 0 below the root
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.clip(missing / (1 - slope), -1.0, 1.0)
        close = (abs(step) < SETTLED) & (slope < 1)
        if bracket:
            low, high = np.where(missing > 0, x, low), np.where(missing > 0, high, x)
            inside = (slope < 1) & (x + step > low) & (x + step < high)
            middle = np.where(np.isfinite(low), (low + high) / 2, high - 1.0)
            step = np.where(inside | close, step, middle - x)
            close |= high - low < ROUNDING
            over = close
        else:
            over = close | (slope >= STEEP) | (x + step > high)
            close &= slope < STEEP
        x = x + step
        if over.any():
            roots[left[close]], sure[left[close]] = np.exp(x[close]), True
            on = np.flatnonzero(~over)
            left, law = left[on], law.take(on)
            x, goal, low, high = x[on], goal[on], low[on], high[on]
    if bracket:
        roots[left] = np.exp(x)
    return roots, sure
