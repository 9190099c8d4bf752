"""How many tokens a step must emit for speculation to pay."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayes_sd.configuration import Configuration, misfit_of, resolve
from bayes_sd.decide import warn_first
from bayes_sd.exceptions import ArgumentError
from bayes_sd.predict import effective_batch
from bayes_sd.scenario import Scenario
from bayes_sd.support import support
from bayes_sd.validate import probability

Floats = npt.NDArray[np.float64]
NUM_GRID = 41


@dataclass(frozen=True)
class BreakEvenLength:
    """Posterior of the mean acceptance length from which on speculation pays.

    Attributes
    ----------
    length : array[draw]
        Tokens per step, the verifier's own counted; 1 where speculation pays whatever is accepted,
        infinite where it does not even if all drafts are; NaN where off is past capacity.
    scenario : Scenario
        What was asked.
    convergence : str
        Empty if the fit passed `diagnose`, else what to say first.
    """

    length: Floats
    scenario: Scenario
    convergence: str

    def interval(self, level: float = 0.9) -> tuple[float, float, float]:
        """Return low end, median and high end, tokens per step; NaN if off is past capacity."""
        known = self.length[~np.isnan(self.length)]
        if not len(known):
            return (np.nan,) * 3
        tail = (1 - probability(level, "level", ends=False)) / 2
        ends = np.quantile(known, [tail, 0.5, 1 - tail], method="inverted_cdf")
        return float(ends[0]), float(ends[1]), float(ends[2])

    def probability_pays(self, mean_acceptance_length: float) -> float:
        """Return the probability that so many tokens per step are enough."""
        known = self.length[~np.isnan(self.length)]
        return float((known <= mean_acceptance_length).mean()) if len(known) else float("nan")

    def statement(self) -> str:
        """Return the answer in words."""
        low, middle, high = self.interval()
        most = self.scenario.num_speculative_tokens + 1
        text = f"{self.convergence} {self.scenario.label}: ".lstrip()
        if np.isnan(middle):
            return text + "without speculation it is past capacity."
        if np.isinf(middle):
            return text + f"speculation does not pay even with {most} tokens per step."
        above = "no number" if np.isinf(high) else f"{high:.3g}"
        return text + (
            f"speculation pays from {middle:.3g} tokens per step on (90 % interval {low:.3g} to "
            f"{above}; at most {most} are possible)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; what is not a finite number is None."""
        names = ("low", "median", "high")
        numbers = zip(names, self.interval(), strict=True)
        return {
            "scenario": self.scenario.label,
            **{f"{n}_length": v if np.isfinite(v) else None for n, v in numbers},
            "p_never": float(np.isinf(self.length).mean()),
            "convergence": self.convergence,
        }


def break_even_length(
    tree: xr.DataTree, scenario: Scenario, *, random_seed: int = 0
) -> BreakEvenLength:
    """Return the posterior of the tokens per step from which on speculation pays.

    Where two configurations have the same latency at the same rate they hold the same batch, by
    Little's law. So at the batch B that the server holds without speculation, the steps N of a
    request are looked for with L(B; N) = L_off(B), draw by draw. If all of the latency is steps,
    that is the ratio of a step's time with drafts to one without.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenario : Scenario
        Pair, load, draft length (above 0) and lengths; its acceptance is not used.
    random_seed : int
        Seed of the misfit.

    Returns
    -------
    BreakEvenLength
        Draws of the length, tokens per step, with its statement.

    Raises
    ------
    ArgumentError, UnknownPairError, DataError
        As `predict_latency`; or if the draft length is 0.

    Warns
    -----
    ConvergenceWarning
        If the fit did not pass `diagnose`.

    Examples
    --------
    >>> scenario = Scenario("Qwen3-8B", concurrency=1, num_speculative_tokens=3)
    >>> break_even_length(tree, scenario).interval()  # doctest: +SKIP
    (1.49, 1.56, 1.64)
    """
    k = scenario.num_speculative_tokens
    if k < 1:
        raise ArgumentError(
            "num_speculative_tokens must be at least 1 for a break-even length. Got 0 instead."
        )
    note = warn_first(tree)
    shape: dict[str, Any] = {"acceptance": None, "mean_acceptance_length": None}
    none = {"num_draft_steps": None, "num_verified_tokens": None, "drafter_loaded": False}
    off = scenario.with_(num_speculative_tokens=0, **shape, **none)
    batch = effective_batch(tree, off, random_seed=random_seed).values[:, 0]
    alive = np.isfinite(batch)
    held = np.where(alive, batch, 1.0)
    target = _latency(tree, resolve(tree, off), held, random_seed)
    most = (k if scenario.num_draft_steps is None else scenario.num_draft_steps) + 1
    lengths = np.linspace(1.0, float(most), NUM_GRID)
    gap = np.empty((NUM_GRID, len(batch)))
    for i, length in enumerate(lengths):
        at = scenario.with_(acceptance=None, mean_acceptance_length=float(length))
        gap[i] = np.log(_latency(tree, resolve(tree, at), held, random_seed) / target)
    pays = gap <= 0
    first = np.argmax(pays, axis=0)
    draw = np.arange(len(batch))
    before = np.maximum(first - 1, 0)
    fall = gap[before, draw] - gap[first, draw]
    share = np.where(first > 0, gap[before, draw] / np.where(fall > 0, fall, 1.0), 0.0)
    found = lengths[before] + share * (lengths[first] - lengths[before])
    found = np.where(pays.any(axis=0), found, np.inf)
    return BreakEvenLength(np.where(alive, found, np.nan), scenario, note)


def _latency(tree: xr.DataTree, arm: Configuration, batch: Floats, random_seed: int) -> Floats:
    """Return the latency of an arm at the batch of each draw, s, misfit included."""
    where = support(
        tree,
        arm.scenario,
        base=arm.cell.base,
        pair=arm.cell.pair,
        batch=float(np.median(batch)),
        lengths=(arm.input_len, arm.output_len),
    )
    factor = misfit_of(arm, where.doublings, random_seed, batch)
    return np.asarray(factor * arm.latency(batch))
