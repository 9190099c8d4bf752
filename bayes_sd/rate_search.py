"""The load at which an objective is first broken, draw by draw.

One draw of the fit is one server, with one curve of latency over load: predictions at several
loads share misfit and boot. So each draw has a lowest load at which it breaks the objective, and
P(objective met at a load, and at every lower one) is the share of draws whose lowest lies above.
That probability never rises with load, also where a percentile of some draw should fall.

Loads are tried on a grid, then about the quantiles of what was found, then by halving about the
load where the probability passes the certainty: there the answer is that of `predict_latency` and
`predict_quantiles`, not one of interpolation. Between two loads the slack limit / latency is
drawn as a line, term by term, which is exact for a latency linear in the batch: where L = a + b B,
1 / L = (1 - b rate) / a, for B = rate L.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayes_sd.slo_draws import SloDraws

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

IDLE = 1e-4  # of the highest load: as good as none
TOLERANCE = 1e-4  # relative, of the load at the certainty
_NUM_GRID = 14
_LOWEST_SHARE = 1 / 64
_LEVELS = (0.01, *np.arange(0.05, 0.96, 0.1), 0.99)
_CAPACITY_LEVELS = (0.05, 0.3, 0.5, 0.7, 0.95)
_MAX_RAISES = 20
_MAX_HALVINGS = 40
_MOST_SLACK = 1e9
_SAME = 1e-6  # relative difference up to which two loads count as one


@dataclass(frozen=True)
class BrokenLoads:
    """Loads at which draws first break an objective.

    Attributes
    ----------
    broken : array[draw]
        Load; 0 where the objective is broken when idle, infinite where it is met at every load
        that was tried.
    capacity : array[draw]
        Load above which requests pile up without end; infinite where none was given.
    binding : array[draw] of int
        Number of the term whose limit is tightest at the highest load tried that meets them all.
    at_certainty : float
        Highest load tried up to which the objective is met with the certainty asked for; 0 if it
        is not when idle, infinite if it is at every load tried.
    p_met : float
        Probability that it is met up to there; when idle, if ``at_certainty`` is 0.
    p_met_idle : float
        Probability that it is met by a server that has next to no load.
    status, outside : str
        Where ``at_certainty`` lies against the measured runs.
    """

    broken: Floats
    capacity: Floats
    binding: npt.NDArray[np.int64]
    at_certainty: float
    p_met: float
    p_met_idle: float
    status: str
    outside: str


class _Tried:
    """Loads that were tried, rising, and what was found there."""

    def __init__(self, draws_at: Callable[[list[float]], SloDraws]) -> None:
        self._draws_at = draws_at
        self.loads: Floats = np.empty(0)
        self._rows: dict[float, tuple[Floats, Booleans, Booleans, str, str]] = {}

    def add(self, loads: Iterable[float]) -> None:
        """Predict at loads that were not tried yet."""
        new: list[float] = []
        for load in sorted(float(load) for load in loads):
            if np.all(abs(np.array([*self.loads, *new]) / load - 1) > _SAME):
                new.append(load)
        if not new:
            return
        draws = self._draws_at(new)
        limits = np.array([term.limit_s for term in draws.slo.terms])
        with np.errstate(divide="ignore"):
            slack = np.minimum(limits[:, None, None] / draws.values_s, _MOST_SLACK)
        past = np.isinf(draws.e2e_s)
        for i, load in enumerate(new):
            found = (slack[..., i], draws.met[:, i], past[:, i])
            self._rows[load] = (*found, draws.status[i], draws.outside[i])
        self.loads = np.array(sorted(self._rows))

    def label(self, load: float) -> tuple[str, str]:
        """Return status and outside at a load that was tried."""
        return self._rows[load][3:]

    def _stack(self, part: int) -> npt.NDArray[np.generic]:
        return np.stack([self._rows[float(load)][part] for load in self.loads])

    @property
    def met_so_far(self) -> Booleans:
        """Whether the objective is met at a load and all lower ones, array[load, draw]."""
        return np.logical_and.accumulate(self._stack(1).astype(bool), axis=0)

    def capacity(self, about: Floats) -> Floats:
        """Return each draw's capacity: a guess, moved between the loads below and past it."""
        past = np.logical_or.accumulate(self._stack(2).astype(bool), axis=0)
        below = (~past).sum(axis=0)
        ends = np.concatenate([[0.0], self.loads, [np.inf]])
        low, high = ends[below], ends[below + 1]
        middle = np.where(np.isfinite(high), (low + high) / 2, low)
        return np.where((about >= low) & (about <= high), about, middle)

    def first_broken(self) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Return per draw the load at which it breaks the objective, and its tightest term."""
        met = self.met_so_far
        terms = np.moveaxis(self._stack(0).astype(float), 1, 0)  # (term, load, draw)
        draw = np.arange(met.shape[1])
        after = np.minimum(met.sum(axis=0), len(self.loads) - 1)
        before = np.maximum(after - 1, 0)
        earlier = np.searchsorted(self.loads, 0.98 * self.loads[before], side="right") - 1
        # The line through the loads on both sides; past capacity, that through two below it.
        end = np.where(self._stack(2)[after, draw] & (earlier >= 0), earlier, after)
        high, low = terms[:, before, draw], terms[:, end, draw]
        step = self.loads[end] - self.loads[before]
        fall = high - low
        with np.errstate(divide="ignore", invalid="ignore"):
            further = np.where(fall * step > 0, (high - 1) * step / fall, np.inf)
        room = self.loads[after] - self.loads[before]
        broken = self.loads[before] + np.clip(further.min(axis=0), 0.0, room)
        broken = np.where(met[0], np.where(met[-1], np.inf, broken), 0.0)
        return broken, terms[:, before, draw].argmin(axis=0).astype(np.int64)


def find_broken_loads(
    draws_at: Callable[[list[float]], SloDraws],
    highest: float,
    certainty: float,
    *,
    lowest: float | None = None,
    capacity: Floats | None = None,
) -> BrokenLoads:
    """Find the load at which each draw first breaks an objective.

    Parameters
    ----------
    draws_at : callable
        Takes rising loads and returns their `slo_draws`, the same draws at every load.
    highest : float
        Load near or past the capacity of most draws; higher ones are tried while one draw in a
        hundred meets the objective.
    certainty : float
        Probability to look for, above 0 and below 1.
    lowest : float, optional
        Load that counts as idle; by default 1e-4 of the highest.
    capacity : array[draw], optional
        About where draws reach their capacity: loads are tried there, too. None if they have none.

    Returns
    -------
    BrokenLoads
    """
    tried = _Tried(draws_at)
    idle = highest * IDLE if lowest is None else lowest
    first = max(highest * _LOWEST_SHARE, idle * 2)
    tried.add([idle, *np.geomspace(min(first, highest), highest, _NUM_GRID)])
    raises = _MAX_RAISES
    while raises and tried.met_so_far[-1].mean() > 0.01:
        tried.add([tried.loads[-1] * 4])
        raises -= 1
    for _ in range(2):
        found = tried.first_broken()[0]
        tried.add(_quantiles(found[(found > tried.loads[0]) & np.isfinite(found)], _LEVELS))
        if capacity is not None:
            near = tried.capacity(capacity)
            tried.add(_quantiles(near[np.isfinite(near)], _CAPACITY_LEVELS))
    at_certainty = _halve(tried, certainty)
    met = tried.met_so_far
    found, binding = tried.first_broken()
    at = 0 if at_certainty == 0 else int(np.searchsorted(tried.loads, at_certainty))
    at = min(at, len(tried.loads) - 1)
    status, outside = tried.label(float(tried.loads[at]))
    return BrokenLoads(
        found,
        np.full(found.shape, np.inf) if capacity is None else tried.capacity(capacity),
        binding,
        at_certainty,
        float(met[at].mean()),
        float(met[0].mean()),
        status,
        outside,
    )


def _quantiles(values: Floats, levels: Sequence[float]) -> Floats:
    if not len(values):
        return values
    return np.asarray(np.quantile(values, levels, method="inverted_cdf"))


def _halve(tried: _Tried, certainty: float) -> float:
    """Close in on the highest load up to which the objective is met with the certainty."""
    for attempt in range(_MAX_HALVINGS):
        enough = tried.met_so_far.mean(axis=1) >= certainty
        if enough.all():
            return np.inf
        number = int(enough.sum())
        if not number:
            return 0.0
        low, high = tried.loads[number - 1], tried.loads[number]
        if high <= low * (1 + TOLERANCE):
            break
        ordered = np.sort(tried.first_broken()[0])
        left = np.arange(len(ordered), 0, -1) / len(ordered)  # share that is not broken before each
        guess = ordered[np.sum(left >= certainty) - 1]
        around = guess * np.array([1 - 0.4 * TOLERANCE, 1 + 0.4 * TOLERANCE])
        around = around[(around > low) & (around < high)]
        tried.add(around if len(around) and attempt < 2 else [np.sqrt(low * high)])
    return float(low)
