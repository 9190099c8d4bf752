"""Batches at several loads under a smooth law: second-order steps, and no more than it takes.

As `bayes_sd.load_curve`, whose answers these are within 1e-9, for a law whose second derivative is
at hand (`bayes_sd.smooth_law`). The batch of the mean costs, a step to second order from there,
and one more from where that ends: its error is of third order in what the step before left over.
With misfit the same again, from the batch without. What that does not settle is iterated
(`bayes_sd.batch_roots`). Each draw and load is computed by itself, in the same way alone and among
others.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_sd.batch_roots import BatchRoots
from bayes_sd.configuration import Configuration, MisfitDraws
from bayes_sd.law_of_draws import LawOfDraws
from bayes_sd.load_curve import LoadCurve
from bayes_sd.smooth_law import SmoothLaw, stepped

Floats = npt.NDArray[np.float64]
Marks = npt.NDArray[np.bool_]

# Distance (`stepped`) up to which a step's error is below 1e-9, a share of the batch: its cube is
# 1e-10, and what that is multiplied with is below 10 save where the bend is 100 times as narrow as
# its place.
NEAR = 5e-4
FAR = 0.2  # from here on a step may lead anywhere
STEPS = 6
CLOSE = 0.03  # log rate below capacity
ALMOST = 0.9  # of the typical capacity: from here on each draw is compared with its own


class SmoothPoints(NamedTuple):
    """The curve near each load, (load, draw)."""

    central: Floats  # the batch at the load; infinite past capacity
    batch: Floats  # near it, and what follows holds there
    sustained: Floats  # the rate that it sustains, 1/s
    slope: Floats  # d log L / d log B
    bending: Floats  # B^2 L'' / L


class SmoothCurve(BatchRoots):
    """Batch over rate of a configuration with a smooth law, in an open loop.

    Parameters
    ----------
    law : SmoothLaw
        Of all draws.
    cap : float
        Limit on requests in the system.
    num_draws : int
        Draws.
    """

    law: SmoothLaw

    def points(self, rates_rps: Floats) -> SmoothPoints:
        """Return the curve at each rate, requests per second, (load,), without misfit."""
        points = SmoothPoints(*np.empty((5, len(rates_rps), self.num_draws)))
        with np.errstate(all="ignore"):
            for rows in self._blocks(len(rates_rps)):
                self._fill(rates_rps[rows], SmoothPoints(*(array[rows] for array in points)))
        return points

    def _fill(self, rates_rps: Floats, points: SmoothPoints) -> None:
        rate = rates_rps[:, None]
        log_rate, curve, *_ = self._typical
        near = np.interp(np.log(rates_rps), log_rate, curve)[:, None]
        batch, _ = stepped(near, rate, *self.law.curve(near))
        np.maximum(batch, near / 4, out=batch)
        np.minimum(batch, self.cap, out=batch)
        here = sustained, slope, bending = self.law.curve(batch)
        central, distance = stepped(batch, rate, *here)
        top = self._tops(rates_rps)
        past, far = self._judge(rate, central, distance, top)
        if past is not None:
            central[past] = np.inf
        if far is not None:
            found = self._settle(rate, far, central, distance, top)
            held = np.where(np.isfinite(found), found, self.cap)
            there = self.law.take(far % self.num_draws).curve(held)
            arrays = (central, batch, sustained, slope, bending)
            for array, new in zip(arrays, (found, held, *there), strict=True):
                array.ravel()[far] = new
        for array, values in zip(points, (central, batch, sustained, slope, bending), strict=True):
            array[:] = values

    def solve(
        self,
        rates_rps: Floats,
        points: SmoothPoints,
        misfit: MisfitDraws,
        doublings: Floats,
        further: Floats | float = 1.0,
    ) -> Floats:
        """Return the batch at each load with misfit, as `bayes_sd.load_curve.LoadCurve.solve`."""
        batch = np.empty_like(points.batch)
        with np.errstate(all="ignore"):
            for rows in self._blocks(len(rates_rps)):
                at = SmoothPoints(*(array[rows] for array in points))
                goal = misfit.factor(_load_share(at), doublings[rows, None])
                goal *= rates_rps[rows, None] * further
                batch[rows] = self._solve(rates_rps[rows], at, goal)
        return batch

    def _solve(self, rates_rps: Floats, at: SmoothPoints, goal_rps: Floats) -> Floats:
        """Return the batch at a rate of each draw near each load's."""
        batch, _ = stepped(at.batch, goal_rps, at.sustained, at.slope, at.bending)
        np.maximum(batch, at.batch / 4, out=batch)
        np.minimum(batch, self.cap, out=batch)
        answer, distance = stepped(batch, goal_rps, *self.law.curve(batch))
        top = self._tops(rates_rps)
        past, far = self._judge(goal_rps, answer, distance, top)
        if past is not None:
            answer[past] = np.inf
        if far is not None:
            answer.ravel()[far] = self._settle(goal_rps, far, answer, distance, top)
        return answer

    def _tops(self, rates_rps: Floats) -> Floats | None:
        """Return capacity and its batch by load and draw, of loads near the typical capacity.

        NaN at other loads, whatever is known of the draws: a load is answered as it is alone.
        """
        high = np.log(rates_rps) > self._typical[0][-1] + np.log(ALMOST)
        if not high.any():
            return None
        largest = np.stack(self._capacity(np.arange(self.num_draws)))
        return np.where(high[:, None], largest[:, None], np.nan)

    def _judge(
        self, rate: Floats, answer: Floats, distance: Floats, top: Floats | None
    ) -> tuple[Marks | None, npt.NDArray[np.intp] | None]:
        """Return where a rate is above capacity; and where, in one line, the root is not reached.

        None if nowhere.
        """
        sure = distance < NEAR
        if top is None:
            past = None
            sure &= answer <= self.cap
        else:  # near capacity the root wanted is the one before it
            past = rate > top[0] * (1 + 1e-12)
            sure &= answer <= np.fmin(top[1], self.cap)
            sure |= past
        np.logical_not(sure, out=sure)
        return past, np.flatnonzero(sure) if sure.any() else None

    def _settle(
        self,
        rate: Floats,
        where: npt.NDArray[np.intp],
        start: Floats,
        distance: Floats,
        top: Floats | None,
    ) -> Floats:
        """Return the batch of some elements at their rates, from where a step has led them."""
        draws = where % self.num_draws
        goal = np.broadcast_to(rate, start.shape)[where // self.num_draws, draws]
        batch = start.ravel()[where]
        unknown = np.full((2, len(where)), np.nan)
        largest, end = unknown if top is None else top.reshape(2, -1)[:, where]
        end = np.where(np.isnan(end), self.cap, end)
        far = np.flatnonzero(~(distance.ravel()[where] < FAR))
        if len(far):
            batch[far] = self._about(goal[far], draws[far], largest[far], end[far])
        batch = np.where(batch > 0, np.minimum(batch, end), end / 2)
        roots, left, law = np.full(len(draws), np.nan), np.arange(len(draws)), self.law.take(draws)
        for _ in range(STEPS):
            there, size = stepped(batch, goal, *law.curve(batch))
            done = (size < NEAR) & (there <= end)
            roots[left[done]] = there[done]
            if done.all():
                return roots
            on = np.flatnonzero(~done)
            left, law, goal, end = left[on], law.take(on), goal[on], end[on]
            batch = np.minimum(np.maximum(there[on], batch[on] / 4), end)
        roots[left] = self._iterate(goal, draws[left], batch)
        return roots

    def _about(
        self, goal: Floats, draws: npt.NDArray[np.intp], largest: Floats, end: Floats
    ) -> Floats:
        """Return about the batch of some draws at a rate: where the typical one is as near its end.

        Close to a capacity below the limit on requests the log rate is a parabola in log batch.
        """
        log_rate, curve, *_ = self._typical
        full = np.log(goal / np.where(np.isnan(largest), np.exp(log_rate[-1]), largest))
        batch = np.interp(full + log_rate[-1], log_rate, curve)
        close = np.flatnonzero((full > -CLOSE) & (end < self.cap))
        _, _, bending = self.law.take(draws[close]).curve(end[close])
        batch[close] = end[close] * np.exp(-np.sqrt(np.maximum(-2 * full[close] / bending, 0.0)))
        return batch


def _load_share(at: SmoothPoints) -> Floats:
    """Return the share of load in the latency at the central batch, (load, draw)."""
    # From the point to the central batch, the slope changes by e (1 - e) + c for a log batch.
    share = 1 - at.slope
    share *= at.slope
    share += at.bending
    away = at.central / at.batch
    away -= 1
    share *= away
    share += at.slope
    np.copyto(share, 1.0, where=np.isinf(at.central))
    return share


def curve_of(configuration: Configuration) -> LoadCurve | SmoothCurve:
    """Return the curve of a configuration whose requests arrive in an open loop.

    Parameters
    ----------
    configuration : Configuration
        Result of `resolve`; its load is not used.

    Returns
    -------
    SmoothCurve
        Where the law is smooth: a dense verifier, no jumps, arrivals at random.
    LoadCurve
        Elsewhere.
    """
    smooth = SmoothLaw.of(LawOfDraws.of(configuration))
    if smooth is None:
        return LoadCurve(configuration)
    cap = float(configuration.scenario.max_num_seqs)
    return SmoothCurve(smooth, cap, configuration.cell.discrepancy_sd.size)
