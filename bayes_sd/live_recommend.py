"""The draft length for the load of now, with hysteresis and a reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from bayes_sd.decide import choose_draft_length
from bayes_sd.decision import Decision
from bayes_sd.drift import live_scenario
from bayes_sd.exceptions import ArgumentError
from bayes_sd.live_window import LiveWindow, windows_of
from bayes_sd.policy import SWITCH_REGRET
from bayes_sd.scenario import Scenario
from bayes_sd.validate import not_negative, whole_number


@dataclass(frozen=True)
class LiveRecommendation:
    """A draft length for now.

    Attributes
    ----------
    choice : int or None
        Draft length to run; None if every candidate is past capacity.
    current : int or None
        The one that runs now, if it was told.
    is_switch : bool
        Whether the two differ.
    reason : str
        Why.
    request_rate_rps : float
        Load that it is for.
    decision : Decision
        All candidates at that load, without hysteresis.
    """

    choice: int | None
    current: int | None
    is_switch: bool
    reason: str
    request_rate_rps: float
    decision: Decision

    def statement(self) -> str:
        """Return the answer in words."""
        first = f"{self.decision.convergence} " if self.decision.convergence else ""
        if self.choice is None:
            return f"{first}No draft length can be recommended: {self.reason}."
        verb = "Switch to" if self.is_switch else "Keep" if self.current is not None else "Run"
        return f"{first}{verb} k = {self.choice}: {self.reason}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "choice": self.choice,
            "current": self.current,
            "is_switch": self.is_switch,
            "reason": self.reason,
            "request_rate_rps": self.request_rate_rps,
            "decision": self.decision.to_dict(),
        }


def recommend_live(
    tree: xr.DataTree,
    live: object,
    scenario: Scenario | None = None,
    *,
    current: int | None = None,
    candidates: tuple[int, ...] | None = None,
    switch_regret: float = SWITCH_REGRET,
    use_counts: bool = False,
    random_seed: int = 0,
) -> LiveRecommendation:
    """Return the draft length for the load of some windows.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`, or of `update_acceptance`.
    live : LiveWindow, sequence of LiveWindow, or pandas.DataFrame
        The latest windows. Their mean rate is the load.
    scenario : Scenario, optional
        Pair, lengths and acceptance; its load and draft length are not used. By default the fit's
        only pair.
    current : int, optional
        Draft length that runs now.
    candidates : tuple of int, optional
        As `choose_draft_length`.
    switch_regret : float
        The current one is kept while its expected regret exceeds the best one's by no more than
        this share of latency.
    use_counts : bool
        Whether acceptance is that of the windows' counts, as after drift of acceptance, in place
        of the fit's; positions beyond those counted take the last one's rate.
    random_seed : int
        As `predict_latency`.

    Returns
    -------
    LiveRecommendation
        The draft length to run, whether that is a switch, the rate that it is for, requests per
        second, and the decision behind it: P(best) and expected regret of each candidate.

    Raises
    ------
    ArgumentError, UnknownPairError, DataError
        As `choose_draft_length`; or if no window has requests, or counts are asked for that none
        has.

    Examples
    --------
    >>> recommend_live(tree, window, current=3).statement()  # doctest: +SKIP
    'Keep k = 3: at 2 requests/s its expected regret is 0.0 %.'
    """
    windows = windows_of(live)
    not_negative(switch_regret, "switch_regret")
    if current is not None:
        whole_number(current, "current", minimum=0)
    longest = max(candidates or (0,))
    asked = scenario_now(tree, windows, scenario, use_counts=use_counts, longest=longest)
    if candidates is not None and current is not None and current not in candidates:
        candidates = (*candidates, current)
    decision = choose_draft_length(tree, asked, candidates=candidates, random_seed=random_seed)
    return _with_hysteresis(decision, current, switch_regret, float(asked.load))


def scenario_now(
    tree: xr.DataTree,
    windows: Sequence[LiveWindow],
    scenario: Scenario | None = None,
    *,
    use_counts: bool = False,
    longest: int = 0,
) -> Scenario:
    """Return a scenario at the mean rate of some windows, and the acceptance that they counted.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    windows : sequence of LiveWindow
        The latest ones.
    scenario : Scenario, optional
        Pair and lengths. By default those of the fit's only pair.
    use_counts : bool
        As `recommend_live`.
    longest : int
        Draft length up to which acceptance is wanted besides those fitted.

    Raises
    ------
    ArgumentError
        If no window has requests, or counts are asked for that none has.
    """
    known = [w for w in windows if np.isfinite(w.request_rate_rps)]
    rate = sum(w.request_rate_rps * w.duration_s for w in known)
    rate = rate / sum(w.duration_s for w in known) if known else 0.0
    if not rate > 0:
        raise ArgumentError("a window must have requests. Got none: there is no load to decide at.")
    asked = live_scenario(tree, windows) if scenario is None else scenario
    asked = asked.with_(request_rate_rps=rate, concurrency=None)
    if not use_counts:
        return asked
    counted = [w for w in windows if w.num_drafts > 0 and w.accepted]
    positions = {len(w.accepted) for w in counted}
    is_total = positions == {1} and asked.num_speculative_tokens > 1
    if len(positions) != 1 or is_total:
        raise ArgumentError("use_counts needs windows with accepted drafts by position.")
    sums = np.sum([w.accepted for w in counted], axis=0)
    trials = np.append(sum(w.num_drafts for w in counted), sums[:-1])
    rates = sums / np.maximum(trials, 1.0)
    longest = max(longest, len(rates), tree["posterior"].sizes.get("position", 0))
    return asked.with_(acceptance=tuple(np.append(rates, np.full(longest - len(rates), rates[-1]))))


def _with_hysteresis(
    decision: Decision, current: int | None, switch_regret: float, rate: float
) -> LiveRecommendation:
    """Keep the current draft length where it costs hardly more than the best."""
    best = decision.choice
    if best is None:
        return LiveRecommendation(None, current, False, decision.reason, rate, decision)
    regret = dict(zip(decision.candidates, decision.expected_regret, strict=True))
    at = f"at {rate:.3g} requests/s"
    other = regret.get(current) if current not in (None, best) else None
    if other is not None and other - regret[best] <= switch_regret:
        reason = f"{at} its expected regret is {other:.1%}, k = {best} has "
        reason += f"{regret[best]:.1%}: not worth a switch"
        return LiveRecommendation(current, current, False, reason, rate, decision)
    reason = f"{at} {decision.reason}"
    if other is not None:
        reason += f"; k = {current} would cost {other:.1%}"
    return LiveRecommendation(best, current, current not in (None, best), reason, rate, decision)
