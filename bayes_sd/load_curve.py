r"""Batch and latency of one configuration at several loads, draw by draw: one curve, many points.

By Little's law the batch at a rate is where the rate that a batch sustains, r(B) = B / L(B),
reaches it. A misfit that multiplies L by f is the same as f times the rate, so every load of a
configuration is a point of one curve B(r) in each draw, with and without misfit. The curve of the
mean costs says about where a draw's batch is; two steps of Newton's method find it, and one more
from there with misfit, by the cubic through both places [1]_. What that does not settle (loads
that feed back strongly, draws that lie far apart) is iterated by itself, and at capacity found the
safe way, by `bayes_sd.physics.effective_batch`.

Each draw and load is computed by itself, so an answer is the same, to the last bit, alone and
among others.

References
----------
.. [1] Dahlquist and Björck (2008). Numerical Methods in Scientific Computing, volume 1. SIAM,
   sections 4.3 (Hermite interpolation by divided differences) and 4.4 (inverse interpolation).
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayes_sd.batch_roots import STEEP, BatchRoots
from bayes_sd.configuration import Configuration, MisfitDraws
from bayes_sd.law_of_draws import LawOfDraws

Floats = npt.NDArray[np.float64]
Marks = npt.NDArray[np.bool_]

CLOSE = 1e-9  # largest relative error of a batch
# Relative distance in rate from which Newton's step ends within that: in units of the distance to
# capacity, which is about (1 - slope)^2.
NEAR = 3e-6
APART = 1e-6  # relative distance of two rates from which on they tell a second derivative
KINK = 1.0  # requests: below it, evenly spaced ones do not meet, and the law has a bend


class Points(NamedTuple):
    """The curve at each load, (load, draw): rates are in units of the load."""

    batch: Floats  # infinite where the load is past capacity
    rate: Floats  # that this batch sustains: 1, nearly
    slope: Floats  # d log L / d log B there, exactly; 1 past capacity
    curvature: Floats  # second derivative of the batch in the rate, about
    bend: Floats  # derivative of the slope in the rate, about

    @property
    def batch_slope(self) -> Floats:
        """First derivative of the batch in the rate."""
        with np.errstate(invalid="ignore"):
            return self.batch / (self.rate * (1 - self.slope))

    @property
    def central(self) -> Floats:
        """The batch at the load itself, by Newton's step."""
        with np.errstate(invalid="ignore"):
            batch = self.batch + (1 - self.rate) * self.batch_slope
        return np.where(np.isfinite(self.batch), batch, np.inf)


class LoadCurve(BatchRoots):
    """Batch over rate of a configuration whose requests arrive in an open loop.

    Parameters
    ----------
    configuration : Configuration
        Result of `resolve`; its load is not used.

    Examples
    --------
    See `bayes_sd.load_draws`.
    """

    law: LawOfDraws

    def __init__(self, configuration: Configuration) -> None:
        cap, draws = configuration.scenario.max_num_seqs, configuration.cell.discrepancy_sd.size
        super().__init__(LawOfDraws.of(configuration), float(cap), draws)

    @cached_property
    def _rugged(self) -> Marks:
        """Draws in which a rate may have several batches, of which the least is wanted, (draw,)."""
        return np.broadcast_to(self.law.is_rugged(self.cap), (self.num_draws,))

    def points(self, rates_rps: Floats) -> Points:
        """Return the curve at each rate, requests per second, (load,), without misfit."""
        parts = [self._points(rates_rps[rows]) for rows in self._blocks(len(rates_rps))]
        return Points(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _points(self, rates_rps: Floats) -> Points:
        rate = rates_rps[:, None]
        log_rate, *curve = self._typical
        log_near = np.minimum(np.log(rates_rps), log_rate[-1])
        near, slope, bend, latency = (
            np.interp(log_near, log_rate, values)[:, None] for values in curve
        )
        # A draw's latency is so many times the typical one: that is like so many times the rate.
        excess = self.law.latency(near) / latency * (rate / np.exp(log_near)[:, None]) - 1
        shift = excess * (1 - excess / 2)
        batch = near + shift * (slope + shift * bend / 2)
        batch = np.minimum(np.maximum(batch, near / 4), self.cap)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            before = self._at(batch, rate)
            batch = batch + (1 - before.rate) * before.batch_slope
            batch = np.minimum(np.maximum(batch, near / 8), self.cap)
            here = self._at(batch, rate)
            apart = here.rate - before.rate
            told = abs(apart) > APART
            if self.law.arrivals == "constant":
                told &= (before.batch > KINK) == (here.batch > KINK)
            curvature = (here.batch_slope - before.batch_slope) / apart
            curvature = np.where(told, curvature, bend - slope)
            bend = np.where(told, (here.slope - before.slope) / apart, near * bend / slope**2 - 1)
        _, sustained, steep, *_ = here
        far = ~(abs(1 - sustained) < NEAR * (1 - steep) ** 2) | (steep >= STEEP) | self._rugged
        if far.any():
            found = self._roots(rates_rps, far, batch, None)
            held = np.where(np.isfinite(found), found, 1.0)
            there = self.law.take(np.nonzero(far)[1]).latency_and_slope(held)[1]
            batch[far], sustained[far] = found, 1.0
            steep[far] = np.where(np.isfinite(found), there, 1.0)
        return Points(batch, sustained, steep, curvature, bend)

    def _at(self, batch: Floats, rate: Floats) -> Points:
        """Evaluate the law."""
        latency, slope = self.law.latency_and_slope(batch)
        return Points(batch, batch / (latency * rate), slope, slope, slope)

    def solve(
        self,
        rates_rps: Floats,
        points: Points,
        misfit: MisfitDraws,
        doublings: Floats,
        further: Floats | float = 1.0,
    ) -> Floats:
        """Return the batch at each load with misfit, (load, draw); infinite past capacity.

        Parameters
        ----------
        rates_rps : array, (load,)
            Requests per second.
        points : Points
            Result of `points` at these rates.
        misfit : MisfitDraws
            Errors of the law; the share of load in the latency is taken at the batch without them.
        doublings : array, (load,)
            Distance outside the measured range.
        further : number or array, (draw,)
            What multiplies rate or latency besides: a run's arrivals over their mean, its boot.
        """
        batch = np.empty_like(points.batch)
        for rows in self._blocks(len(rates_rps)):
            at = Points(*(array[rows] for array in points))
            share = np.where(np.isfinite(at.batch), at.slope + (1 - at.rate) * at.bend, 1.0)
            if self.law.has_jumps:
                finite = np.isfinite(at.batch)
                smooth = self.law.elasticity(np.where(finite, at.central, 1.0))
                share = np.where(finite, smooth, 1.0)
            goal = misfit.factor(share, doublings[rows, None]) * further
            found, sure = self._next(rates_rps[rows], at, goal)
            if not sure.all():
                found[~sure] = self._roots(rates_rps[rows], ~sure, at.batch, goal)
            batch[rows] = found
        return batch

    def _next(self, rates_rps: Floats, at: Points, goal: Floats) -> tuple[Floats, Marks]:
        """Return the batch at so many times the rate, and where it is sure."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            slope, step = at.batch_slope, goal - at.rate
            batch = at.batch + step * (slope + step * at.curvature / 2)
            batch = np.minimum(np.maximum(batch, at.batch / 4), self.cap)
            batch = np.where(np.isfinite(batch), batch, 1.0)
            latency, steep = self.law.latency_and_slope(batch)
            rate = batch / (latency * rates_rps[:, None])
            left, apart = goal - rate, rate - at.rate
            there = batch / (rate * (1 - steep))
            secant = (batch - at.batch) / apart
            second = (there - secant) / apart
            third = (there - 2 * secant + slope) / apart**2
            cubic = batch + left * (there + left * second + left * step * third)
            newton = batch + left * there
            room = goal * (1 - np.maximum(at.slope, steep)) ** 2
            small = abs(left) < NEAR * room
            answer = np.where(small | (abs(apart) < APART), newton, cubic)
            error = (abs(second) + abs(third)) * (left * step) ** 2 / room
            sure = error < CLOSE * answer
            if self.law.has_jumps:  # too sharp for the cubic: one step more
                batch = np.where(newton > 0, np.minimum(newton, self.cap), 1.0)
                latency, steep = self.law.latency_and_slope(batch)
                rate = batch / (latency * rates_rps[:, None])
                answer = batch + (goal - rate) * batch / (rate * (1 - steep))
                sure = abs(goal - rate) < NEAR * goal * (1 - steep) ** 2
            elif self.law.arrivals == "constant":
                sides = [each > KINK for each in (at.batch, batch, answer)]
                sure &= ~np.any(sides, axis=0) | np.all(sides, axis=0)
            sure = (sure | small) & (steep < STEEP) & (at.slope < STEEP) & ~self._rugged
            sure &= (answer > 0) & (answer <= self.cap)
        return answer, sure
