r"""The law of dense verifiers at random arrivals, put together by draw into as few terms as it has.

With n = 1 + B requests in a step and u verified tokens of each, `bayes_sd.physics.latency` is

.. math:: L(B) = a + d B + g S(B) - m \, e^{-B / N}, \qquad S^2 = (B - b)^2 + w^2

The bend (`bayes_sd.physics.step_time`) gives g = N u / 2 times its slope, its place
b = T0 / u - 1 and its width w over u; the mixed steps give m; a and d are what else is paid once
and for each request. Six numbers per draw then stand for twenty, and the second derivative comes
at little cost. `bayes_sd.law_of_draws` has the law whole.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_sd.law_of_draws import LawOfDraws
from bayes_sd.physics.coefficients import is_zero
from bayes_sd.physics.step_time import draft_shape, per_request_time

Floats = npt.NDArray[np.float64]

# Both as in the law: an answer of one token takes no step, and a width of 0 has a slope.
STEPS_FLOOR = 1e-9
SQUARED_WIDTH_FLOOR = 1e-12
# Largest elasticity that steps count with: Newton's method does not go far beyond it.
STEEPEST = 0.999


@dataclass(frozen=True)
class SmoothLaw:
    """Terms of L(B) = fixed_s + per_request_s B + bend_s S(B) - mixed_s exp(-decay B), by draw.

    Attributes
    ----------
    fixed_s, per_request_s, bend_s, mixed_s : number or array, (draw,)
        In seconds; S is in requests.
    place, width_squared : number or array, (draw,)
        Of the bend, requests and their square.
    decay : number or array, (draw,)
        One over the steps of a request.
    has_mixed : bool
        Whether mixed steps cost anything.
    """

    fixed_s: Any
    per_request_s: Any
    bend_s: Any
    mixed_s: Any
    place: Any
    width_squared: Any
    decay: Any
    has_mixed: bool

    @classmethod
    def of(cls, law: LawOfDraws) -> "SmoothLaw | None":
        """Return the terms of a law; None if it has others: jumps, experts, even arrivals."""
        costs, request = law.costs, law.request
        even = law.arrivals not in ("poisson", "bursty")
        if even or law.has_jumps or not is_zero(costs.expert_share):
            return None
        drafts, prompt, steps = (
            request["num_speculative_tokens"],
            request["input_len_tokens"],
            law.steps,
        )
        context = prompt + request["output_len_tokens"] / 2
        passes, verified = draft_shape(
            drafts, request["num_draft_steps"], request["num_verified_tokens"]
        )
        each = per_request_time(costs, passes, context, num_verified_tokens=verified)
        bend = costs.knee_s_per_token / 2
        width_squared = costs.knee_width_tokens**2 + SQUARED_WIDTH_FLOOR
        at_zero = np.sqrt(costs.knee_tokens**2 + width_squared)
        step = costs.verify_fixed_s + passes * costs.draft_fixed_s + bend * (verified - at_zero)
        if drafts == 0:
            step = step + costs.idle_drafter_s
        once = costs.prefill_fixed_s + costs.prefill_per_token_s * prompt
        return cls(
            fixed_s=once + steps * (step + each + costs.mixed_step_s),
            per_request_s=costs.prefill_stall_per_token_s * prompt
            + steps * (each + bend * verified),
            bend_s=steps * bend * verified,
            mixed_s=steps * costs.mixed_step_s,
            place=costs.knee_tokens / verified - 1,
            width_squared=width_squared / verified**2,
            decay=1 / (steps + STEPS_FLOOR),
            has_mixed=bool(np.any(costs.mixed_step_s)),
        )

    def latency(self, batch: Floats) -> Floats:
        """Return L at a batch, s, (draw,) or (load, draw)."""
        bend = batch - self.place
        bend *= bend
        bend += self.width_squared
        np.sqrt(bend, out=bend)
        bend *= self.bend_s
        bend += batch * self.per_request_s
        bend += self.fixed_s
        if self.has_mixed:
            unmixed = np.exp(batch * -self.decay) * self.mixed_s
            bend -= unmixed
        return bend

    def latency_and_slope(self, batch: Floats) -> tuple[Floats, Floats]:
        """Return L at a batch, s, and its elasticity d log L / d log B."""
        sustained, elasticity, _ = self.curve(batch)
        return batch / sustained, elasticity

    def curve(self, batch: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the rate that a batch sustains, 1/s, the elasticity of L, and B^2 L'' / L."""
        slope = batch - self.place
        squared = slope * slope
        squared += self.width_squared
        bend = np.sqrt(squared)
        bend *= self.bend_s
        latency = batch * self.per_request_s
        latency += self.fixed_s
        latency += bend
        np.reciprocal(squared, out=squared)
        bend *= squared  # of the bend: slope in B over the distance from its place
        slope *= bend
        slope += self.per_request_s
        bend *= squared
        bend *= self.width_squared  # of the bend: second derivative
        if self.has_mixed:
            unmixed = np.exp(batch * -self.decay) * self.mixed_s
            latency -= unmixed
            unmixed *= self.decay
            slope += unmixed
            unmixed *= self.decay
            bend -= unmixed
        sustained = np.divide(batch, latency, out=latency)
        slope *= sustained
        bend *= sustained
        bend *= batch
        return sustained, slope, bend

    def typical(self) -> "SmoothLaw":
        """Return the law of the mean terms."""
        return self._each(lambda term: float(np.mean(term)))

    def take(self, draws: npt.NDArray[np.intp]) -> "SmoothLaw":
        """Return the law of some draws, in their order."""
        return self._each(lambda term: term[draws] if np.size(term) > 1 else term)

    def _each(self, change: Callable[[Any], Any]) -> "SmoothLaw":
        names = [f.name for f in fields(self) if f.name != "has_mixed"]
        return replace(self, **{name: change(getattr(self, name)) for name in names})


def stepped(
    batch: Floats, rate_rps: Floats, sustained_rps: Floats, elasticity: Floats, bending: Floats
) -> tuple[Floats, Floats]:
    r"""Return the batch at another rate, to second order, and how far that is.

    With e the elasticity of L and c = B^2 L'' / L, inverting r(B) = B / L(B), derived twice, by a
    fraction (Halley's method [1]_) gives

    .. math:: B \left[1 + \frac{t}{1 - t (e + c v / 2)}\right], \qquad v = \frac{1}{1 - e},
              \quad t = h v

    for the rate (1 + h) r. It is exact where L is a straight line. What is left out is of third
    order in h v^2 (1 + c).

    Parameters
    ----------
    batch : array
        B, requests.
    rate_rps, sustained_rps : array
        The rate asked for, and what the batch sustains, r; 1/s.
    elasticity, bending : array
        e and c, as `SmoothLaw.curve` gives them.

    Returns
    -------
    batch : array
    distance : array
        abs(h) v^2 (1 + abs(c)), dimensionless.

    References
    ----------
    .. [1] Traub (1964). Iterative Methods for the Solution of Equations. Prentice-Hall, section
       5.2.

    Examples
    --------
    L = 1 + B / 2 at B = 1: r = 2/3, e = 1/3, c = 0. A rate of 1 needs B = 1 / (1 - 1 / 2).

    >>> there, _ = stepped(*(np.array([x]) for x in (1.0, 1.0, 2 / 3, 1 / 3, 0.0)))
    >>> round(float(there[0]), 9)
    2.0
    """
    gain = 1 - elasticity
    np.maximum(gain, 1 - STEEPEST, out=gain)
    np.reciprocal(gain, out=gain)
    far = rate_rps / sustained_rps
    far -= 1
    far *= gain
    second = bending * gain
    second *= 0.5
    second += elasticity
    second *= far
    np.subtract(1, second, out=second)
    np.divide(far, second, out=second)
    second += 1
    second *= batch
    far *= gain
    size = abs(bending)
    size += 1
    size *= far
    return second, np.abs(size, out=size)
