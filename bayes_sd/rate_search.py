"""The load at which an objective is first broken, draw by draw.

One draw of the fit is one server, with one curve of latency over load: predictions at several
loads share misfit and boot. So each draw has a lowest load at which it breaks the objective, and
P(objective met at a load, and at every lower one) is the share of draws whose lowest lies above.
That probability never rises with load, also where a percentile of some draw should fall.

Loads are tried on a grid, then about the quantiles of what was found, then by halving about the
load where the probability passes the certainty: there the answer is that of `predict_latency` and
`predict_quantiles`, not one of interpolation. Between two loads the slack limit / latency is
interpolated along a line, which is exact for a latency linear in the batch: L = a + b rate L gives
1 / L = (1 - b rate) / a.
"""

from collections.abc import Callable, Iterable
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
_NUM_QUANTILES = 10
_MAX_RAISES = 20
_MAX_HALVINGS = 40
_MOST_SLACK = 1e9


@dataclass(frozen=True)
class BrokenLoads:
    """Loads at which draws first break an objective.

    Attributes
    ----------
    broken : array[draw]
        Load; 0 where the objective is broken when idle, infinite where it is met at every load
        that was tried.
    last_alive, first_past : array[draw]
        Highest load tried below capacity, and lowest tried past it (infinite if none).
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
    last_alive: Floats
    first_past: Floats
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
        new = sorted({float(load) for load in loads} - set(self._rows))
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

    @property
    def past(self) -> Booleans:
        """Whether the load is past capacity, array[load, draw]."""
        return self._stack(2).astype(bool)

    def first_broken(self) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Return per draw the load at which it breaks the objective, and its tightest term."""
        met, draw = self.met_so_far, np.arange(self.met_so_far.shape[1])
        terms = self._stack(0).astype(float)  # (load, term, draw)
        slack = terms.min(axis=1)
        after = np.minimum(met.sum(axis=0), len(self.loads) - 1)
        before = np.maximum(after - 1, 0)
        high, low = slack[before, draw], slack[after, draw]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.clip(np.where(high > low, (high - 1) / (high - low), 1.0), 0.0, 1.0)
        step = self.loads[after] - self.loads[before]
        broken = np.where(met[0], self.loads[before] + share * step, 0.0)
        broken = np.where(met[-1], np.inf, broken)
        return broken, terms[before, :, draw].argmin(axis=1).astype(np.int64)


def find_broken_loads(
    draws_at: Callable[[list[float]], SloDraws],
    highest: float,
    certainty: float,
    *,
    lowest: float | None = None,
    may_rise: bool = True,
) -> BrokenLoads:
    """Find the load at which each draw first breaks an objective.

    Parameters
    ----------
    draws_at : callable
        Takes rising loads and returns their `slo_draws`, the same draws at every load.
    highest : float
        Load near or past the capacity of most draws.
    certainty : float
        Probability to look for, above 0 and below 1.
    lowest : float, optional
        Load that counts as idle; by default 1e-4 of the highest.
    may_rise : bool
        Whether loads above ``highest`` are tried while one draw in a hundred meets the objective.

    Returns
    -------
    BrokenLoads
    """
    tried = _Tried(draws_at)
    idle = highest * IDLE if lowest is None else lowest
    first = max(highest * _LOWEST_SHARE, idle * 2)
    tried.add([idle, *np.geomspace(min(first, highest), highest, _NUM_GRID)])
    raises = _MAX_RAISES if may_rise else 0
    while raises and tried.met_so_far[-1].mean() > 0.01:
        tried.add([tried.loads[-1] * 4])
        raises -= 1
    for _ in range(2):
        found = tried.first_broken()[0]
        inside = found[(found > tried.loads[0]) & np.isfinite(found)]
        if len(inside):
            levels = (np.arange(_NUM_QUANTILES) + 0.5) / _NUM_QUANTILES
            tried.add(np.quantile(inside, levels, method="inverted_cdf"))
    at_certainty = _halve(tried, certainty)
    met = tried.met_so_far
    found, binding = tried.first_broken()
    alive = ~np.logical_or.accumulate(tried.past, axis=0)
    count = alive.sum(axis=0)
    padded = np.concatenate([[0.0], tried.loads, [np.inf]])
    at = 0 if at_certainty == 0 else int(np.searchsorted(tried.loads, at_certainty))
    at = min(at, len(tried.loads) - 1)
    status, outside = tried.label(float(tried.loads[at]))
    return BrokenLoads(
        found,
        padded[count],
        padded[count + 1],
        binding,
        at_certainty,
        float(met[at].mean()),
        float(met[0].mean()),
        status,
        outside,
    )


def _halve(tried: _Tried, certainty: float) -> float:
    """Close in on the highest load up to which the objective is met with the certainty."""
    for _ in range(_MAX_HALVINGS):
        enough = tried.met_so_far.mean(axis=1) >= certainty
        if enough.all():
            return np.inf
        number = int(enough.sum())
        if not number:
            return 0.0
        low, high = tried.loads[number - 1], tried.loads[number]
        if high <= low * (1 + TOLERANCE):
            break
        tried.add([np.sqrt(low * high)])
    return float(low)
