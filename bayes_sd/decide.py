"""Decisions: functions of draws that say how sure they are and what being wrong costs."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_sd.exceptions import ArgumentError, ConvergenceWarning, ExtrapolationWarning
from bayes_sd.predict import predict_latency, resolve
from bayes_sd.scenario import Scenario
from bayes_sd.validate import positive

Floats = npt.NDArray[np.float64]

NEAR_TIE = 0.01  # an expected regret within a hundredth of latency of the choice's
MAX_REGRET = 0.05
UNCHECKED = "This fit carries no convergence verdict: run diagnose(tree) before deciding on it."


@dataclass(frozen=True)
class Decision:
    """A choice among candidates, how sure it is, and what being wrong costs.

    Attributes
    ----------
    choice : int or None
        The candidate with the least expected regret; None where no candidate is worth naming.
    verdict : str
        ``choose``, ``near tie``, ``not enough data`` or ``past capacity``.
    reason : str
        Why, in one sentence.
    candidates : tuple of int
        Draft lengths compared; 0 is speculation off.
    probability_best : tuple of float
        Per candidate: the share of draws in which its latency is the lowest.
    expected_regret : tuple of float
        Per candidate: mean of 1 - best latency / its latency, 0 to 1; 1 in draws where it is past
        capacity and another is not.
    near_ties : tuple of int
        Candidates whose expected regret is within 0.01 of the choice's, the choice left out.
    median_e2e_s, low_e2e_s, high_e2e_s : tuple of float
        Median and central 90 % interval of the mean latency, s.
    status : tuple of str
        Measured, interpolated, extrapolated or past capacity, per candidate.
    outside : tuple of str
        What lies outside the measured range, per candidate.
    kind : str
        Kind of prediction that was compared.
    convergence : str
        Empty if the fit passed `diagnose`, else what to say first.
    """

    choice: int | None
    verdict: str
    reason: str
    candidates: tuple[int, ...]
    probability_best: tuple[float, ...]
    expected_regret: tuple[float, ...]
    near_ties: tuple[int, ...]
    median_e2e_s: tuple[float, ...]
    low_e2e_s: tuple[float, ...]
    high_e2e_s: tuple[float, ...]
    status: tuple[str, ...]
    outside: tuple[str, ...]
    kind: str
    convergence: str

    def to_frame(self) -> pd.DataFrame:
        """Return one row per candidate."""
        columns = (
            "median_e2e_s",
            "low_e2e_s",
            "high_e2e_s",
            "probability_best",
            "expected_regret",
            "status",
            "outside",
        )
        index = pd.Index(self.candidates, name="num_speculative_tokens")
        return pd.DataFrame({name: getattr(self, name) for name in columns}, index=index)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        table = self.to_frame().reset_index()
        return {
            "choice": self.choice,
            "verdict": self.verdict,
            "reason": self.reason,
            "near_ties": list(self.near_ties),
            "kind": self.kind,
            "convergence": self.convergence,
            "candidates": [
                {str(name): value for name, value in row.items()}
                for row in table.to_dict(orient="records")
            ],
        }


def convergence_note(tree: xr.DataTree) -> str:
    """Return what must be said first: empty if the fit passed `diagnose`.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`, which stamps the verdict.

    Returns
    -------
    str
    """
    if "verdict" not in tree.attrs:
        return UNCHECKED
    return "" if bool(tree.attrs.get("passed", False)) else str(tree.attrs["verdict"])


def warn_first(tree: xr.DataTree) -> str:
    """Warn if the fit did not pass `diagnose`, and return the note."""
    note = convergence_note(tree)
    if note:
        warnings.warn(note, ConvergenceWarning, stacklevel=3)
    return note


def compare(latency: Floats) -> tuple[Floats, Floats]:
    """Return the probability best and the expected regret of each column.

    Parameters
    ----------
    latency : array[draw, candidate]
        Seconds; infinite past capacity.

    Returns
    -------
    probability_best, expected_regret : array[candidate]
        Ties share a draw. Where every candidate is past capacity, none is best and none has
        regret.

    Examples
    --------
    >>> best, regret = compare(np.array([[1.0, 2.0], [1.0, np.inf]]))
    >>> best.tolist(), regret.tolist()
    ([1.0, 0.0], [0.0, 0.75])
    """
    lowest = latency.min(axis=1, keepdims=True)
    alive = np.isfinite(lowest)
    is_best = (latency == lowest) & alive
    shared = is_best / np.maximum(is_best.sum(axis=1, keepdims=True), 1)
    with np.errstate(invalid="ignore"):
        regret = np.where(alive, 1 - lowest / latency, 0.0)
    return shared.mean(axis=0), regret.mean(axis=0)


def measured_draft_lengths(tree: xr.DataTree, scenario: Scenario) -> list[int]:
    """Return 0 and every draft length that was measured with the scenario's pair."""
    runs = tree["constant_data"]
    pair = resolve(tree, scenario.with_(num_speculative_tokens=0)).cell.pair
    if pair is None:
        return [0]
    lengths = runs["num_speculative_tokens"].values[runs["pair_of_run"].values == pair]
    return sorted({0, *(int(k) for k in lengths)})


def choose_draft_length(
    tree: xr.DataTree,
    scenario: Scenario,
    *,
    candidates: Sequence[int] | None = None,
    max_regret: float = MAX_REGRET,
    random_seed: int = 0,
) -> Decision:
    """Choose the draft length with the least expected regret in mean latency.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenario : Scenario
        Pair, load, lengths and acceptance; its own draft length is not used.
    candidates : sequence of int, optional
        Draft lengths to compare; by default 0 (off) and those measured with the pair.
    max_regret : float
        Expected regret above which the answer is "not enough data".
    random_seed : int
        Seed of the predictions.

    Returns
    -------
    Decision

    Raises
    ------
    ArgumentError, UnknownPairError, DataError
        As `predict_latency`; or if there is no candidate.

    Warns
    -----
    ConvergenceWarning
        If the fit did not pass `diagnose`.
    ExtrapolationWarning
        If the choice lies outside the measured range.

    Examples
    --------
    >>> scenario = Scenario("Qwen3-8B", request_rate_rps=4.0, acceptance=0.7)
    >>> choose_draft_length(tree, scenario).choice  # doctest: +SKIP
    5
    """
    positive(max_regret, "max_regret")
    note = warn_first(tree)
    given = measured_draft_lengths(tree, scenario) if candidates is None else candidates
    lengths = sorted(set(given))
    if not lengths:
        raise ArgumentError("candidates must hold at least one draft length. Got none instead.")
    arms = [scenario.with_(num_speculative_tokens=k) for k in lengths]
    draws = predict_latency(tree, arms, random_seed=random_seed)
    decision = decide_from_draws(draws, lengths, max_regret=max_regret, note=note)
    if decision.choice is not None:
        at = lengths.index(decision.choice)
        if decision.status[at] == "extrapolated":
            warnings.warn(
                f"k = {decision.choice} is extrapolated in {decision.outside[at]}: "
                "no run was measured there.",
                ExtrapolationWarning,
                stacklevel=2,
            )
    return decision


def decide_from_draws(
    draws: xr.Dataset, lengths: Sequence[int], *, max_regret: float = MAX_REGRET, note: str = ""
) -> Decision:
    """Turn draws of the candidates' latency into a decision.

    Parameters
    ----------
    draws : xarray.Dataset
        Result of `predict_latency`, one scenario per candidate, in the candidates' order.
    lengths : sequence of int
        The candidates.
    max_regret : float
        Expected regret above which the answer is "not enough data".
    note : str
        What to say first about the fit.

    Returns
    -------
    Decision
    """
    latency: Floats = draws["e2e_s"].values
    best, regret = compare(latency)
    past = np.isinf(latency).mean(axis=0)
    at = int(np.argmin(np.where(past > 0.5, 2.0, regret)))
    close = [k for i, k in enumerate(lengths) if i != at and regret[i] - regret[at] <= NEAR_TIE]
    low, median, high = np.quantile(latency, [0.05, 0.5, 0.95], axis=0, method="inverted_cdf")
    choice: int | None = lengths[at]
    if past.min() > 0.5:
        choice, verdict = None, "past capacity"
        reason = f"every candidate is past capacity in at least {past.min():.0%} of the draws"
    elif regret[at] > max_regret:
        verdict = "not enough data"
        reason = (
            f"even the best candidate, k = {choice}, has an expected regret of {regret[at]:.1%}, "
            f"above {max_regret:.1%}: measure it and its nearest rival at this load"
        )
    elif close:
        verdict = "near tie"
        reason = f"k = {choice} costs no more than 1 % of latency less than k = {close}"
    else:
        verdict = "choose"
        reason = f"k = {choice} has P(best) {best[at]:.2f}, expected regret {regret[at]:.1%}"
    return Decision(
        choice,
        verdict,
        reason,
        tuple(int(k) for k in lengths),
        tuple(best.tolist()),
        tuple(regret.tolist()),
        tuple(close),
        tuple(median.tolist()),
        tuple(low.tolist()),
        tuple(high.tolist()),
        tuple(str(s) for s in draws["status"].values),
        tuple(str(s) for s in draws["outside"].values),
        str(draws.attrs["kind"]),
        note,
    )
