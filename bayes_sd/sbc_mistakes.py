"""Deliberate mistakes that simulation-based calibration must detect, or it says nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pymc as pm
import xarray as xr

from bayes_sd.run_law import draws_of, steps_of_draws


@dataclass(frozen=True)
class Mistake:
    """A way to be wrong, in the fitted model or in the process that makes the data.

    Attributes
    ----------
    about : str
        What is wrong, and on which side.
    fixed : mapping of str to float
        Parameters of the fitted model that are held at a number, whatever the truth.
    steps : callable, optional
        From design and draws to the steps of the process, (sample, run).
    score_weight : float
        How often the fitted model counts each run.
    """

    about: str = ""
    fixed: Mapping[str, float] = field(default_factory=dict)
    steps: Callable[[xr.Dataset, xr.Dataset], np.ndarray] | None = None
    score_weight: float = 1.0

    def change(self, model: pm.Model) -> pm.Model:
        """Return the model that is fitted."""
        if not self.fixed:
            return model
        shapes = {name: model[name].shape.eval() for name in self.fixed}
        return pm.do(model, {name: np.full(shapes[name], x) for name, x in self.fixed.items()})


def _steps_with_another_token(data: xr.Dataset, draws: xr.Dataset) -> np.ndarray:
    """Return steps that emit one more token: a first draft always accepted, then the others."""
    rates = draws_of(draws, "conditional_acceptance_rate")
    shifted = np.concatenate([np.ones_like(rates[..., :1]), rates[..., :-1]], axis=-1)
    dims = ("sample", "acceptance_group", "position")
    return steps_of_draws(data, draws.assign(conditional_acceptance_rate=(dims, shifted)))


WRONG = {
    "no_boot": Mistake(
        "the fitted model has no boot effect, the data have",
        fixed={"boot_sd": 0.0},
    ),
    "bonus_token": Mistake(
        "the bonus token is counted twice: in the process a step with k drafts emits "
        "2 + q_1 + ... + q_(k-1) tokens, and the fitted model reads 1 + q_1 + ... + q_k from its "
        "counts",
        steps=_steps_with_another_token,
    ),
    "counted_twice": Mistake(
        "the fitted model scores the latency at a rate, and rate x latency as well: every run "
        "counts twice",
        score_weight=2.0,
    ),
}
