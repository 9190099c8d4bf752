"""The law of a configuration in all draws or some of them: latency and its slope together."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bayes_sd.configuration import Configuration
from bayes_sd.physics.arrivals import met_by_arrivals, met_slopes, met_variance
from bayes_sd.physics.coefficients import CostCoefficients, is_zero
from bayes_sd.physics.jumps import JUMP_PLACE, JUMP_TOKENS, jump_rise
from bayes_sd.physics.latency import latency_slope, request_latency
from bayes_sd.physics.step_time import draft_shape

Floats = npt.NDArray[np.float64]

FALLS = 0.97  # slope on a jump from which on the rate may fall
BEHIND = 1.4  # of its tokens: where a jump is over
NO_JUMPS = {"jump_64_s": 0.0, "jump_128_s": 0.0, "jump_256_s": 0.0}


@dataclass(frozen=True)
class LawOfDraws:
    """Costs and steps by draw, and what the law needs besides.

    Attributes
    ----------
    costs : CostCoefficients
        Numbers, or arrays of shape (draw,).
    steps : number or array, (draw,) or (1,)
        Expected steps of a request.
    arrivals : str
        How the others arrive, see `bayes_sd.physics.arrivals`.
    request : dict
        Lengths and drafts of a request.
    """

    costs: CostCoefficients
    steps: Any
    arrivals: str
    request: dict[str, Any]

    @classmethod
    def of(cls, configuration: Configuration) -> "LawOfDraws":
        """Return the law of all draws of a configuration."""
        scenario = configuration.scenario
        request = {
            "num_speculative_tokens": scenario.num_speculative_tokens,
            "num_draft_steps": scenario.num_draft_steps,
            "num_verified_tokens": scenario.num_verified_tokens,
            "input_len_tokens": configuration.input_len,
            "output_len_tokens": configuration.output_len,
        }
        costs = configuration.costs
        if np.size(configuration.steps) == 1:
            return cls(
                costs, float(np.ravel(configuration.steps)[0]), configuration.arrivals, request
            )
        return cls(costs, configuration.steps, configuration.arrivals, request)

    @property
    def has_jumps(self) -> bool:
        """Whether the elasticity is not the exact slope: see `bayes_sd.physics.jumps`."""
        return not all(is_zero(height) for height in self._jumps)

    def latency(self, batch: Floats) -> Floats:
        """Return L at a batch, s: arrays of shape (draw,), or of loads by draws."""
        return np.asarray(request_latency(self.costs, **self._terms(batch)))

    def elasticity(self, batch: Floats) -> Floats:
        """Return the share that load has in the latency, d log L / d log B with smooth jumps."""
        return self._and_slope(batch, self.costs)[1]

    def latency_and_slope(self, batch: Floats) -> tuple[Floats, Floats]:
        """Return L at a batch, s, and d log L / d log B exactly."""
        if not self.has_jumps:
            return self._and_slope(batch, self.costs)
        latency, slope = self._and_slope(batch, replace(self.costs, **NO_JUMPS))
        shape = {name: self.request[name] for name in ("num_draft_steps", "num_verified_tokens")}
        verified = draft_shape(self.request["num_speculative_tokens"], **shape)[1]
        poisson = met_variance(1.0, self.arrivals)  # the variance is so many times the batch
        tokens = verified * met_by_arrivals(batch, self.arrivals)[0]
        rise = jump_rise(
            tokens,
            self._jumps,
            poisson * verified**2 * batch,
            verified * met_slopes(batch, self.arrivals)[0],
            poisson * verified**2,
        )
        return latency, slope + self.steps * batch * rise / latency

    def is_rugged(self, cap: float) -> npt.NDArray[np.bool_] | bool:
        """Return whether a jump at up to ``cap`` requests makes the rate B / L(B) fall.

        It may rise again behind, and so be reached at several batches.
        """
        if not self.has_jumps:
            return False
        shape = {name: self.request[name] for name in ("num_draft_steps", "num_verified_tokens")}
        verified = draft_shape(self.request["num_speculative_tokens"], **shape)[1]
        others = met_by_arrivals(cap, self.arrivals)[0] - cap  # requests in a step besides
        found: npt.NDArray[np.bool_] | bool = False
        for tokens in JUMP_TOKENS:
            on, behind = (share * tokens / verified - others for share in (JUMP_PLACE, BEHIND))
            if 0 < on and behind <= cap:
                rise, later = (self.latency_and_slope(np.array(b))[1] for b in (on, behind))
                found = found | ((rise >= FALLS) & (later < 1))
        return found

    def _and_slope(self, batch: Floats, smooth: CostCoefficients) -> tuple[Floats, Floats]:
        terms = self._terms(batch)
        requests_slope, others_slope = met_slopes(batch, self.arrivals)
        latency = np.asarray(request_latency(self.costs, **terms))
        slope = latency_slope(
            smooth, requests_slope=requests_slope, others_slope=others_slope, **terms
        )
        return latency, np.asarray(batch * slope / latency)

    def take(self, draws: npt.NDArray[np.intp]) -> "LawOfDraws":
        """Return the law of some draws, in their order."""
        costs = {f.name: _take(getattr(self.costs, f.name), draws) for f in fields(self.costs)}
        return replace(self, costs=CostCoefficients(**costs), steps=_take(self.steps, draws))

    def typical(self) -> "LawOfDraws":
        """Return the law of the mean costs and steps."""
        costs = {f.name: float(np.mean(getattr(self.costs, f.name))) for f in fields(self.costs)}
        return replace(self, costs=CostCoefficients(**costs), steps=float(np.mean(self.steps)))

    @property
    def _jumps(self) -> tuple[Any, ...]:
        return tuple(getattr(self.costs, name) for name in NO_JUMPS)

    def _terms(self, batch: Floats) -> dict[str, Any]:
        requests_per_step, others = met_by_arrivals(batch, self.arrivals)
        return {
            "requests_per_step": requests_per_step,
            "others": others,
            "requests_variance": met_variance(batch, self.arrivals),
            "num_steps": self.steps,
            **self.request,
        }


def _take(values: Any, draws: npt.NDArray[np.intp]) -> Any:
    return values[draws] if np.size(values) > 1 else values
