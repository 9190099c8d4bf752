"""Decisions: functions of draws that say how sure they are and what being wrong costs."""

import warnings
from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayes_sd.configuration import base_and_pair, resolve
from bayes_sd.decision import Decision
from bayes_sd.exceptions import ArgumentError, ConvergenceWarning, ExtrapolationWarning
from bayes_sd.predict import draw_scenarios
from bayes_sd.scenario import Scenario
from bayes_sd.slo import Slo
from bayes_sd.utilities import check_utility, criterion_of, losses_of, meaning_of
from bayes_sd.validate import positive, whole_number

Floats = npt.NDArray[np.float64]

NEAR_TIE = 0.01  # an expected regret within a hundredth of latency of the choice's
MAX_REGRET = 0.05
UNCHECKED = "This fit carries no convergence verdict: run diagnose(tree) before deciding on it."


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
    best, regret = compare_at_loads([column[None] for column in np.ascontiguousarray(latency.T)])
    return best[0], regret[0]


def compare_at_loads(latency: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return what `compare` does, (load, candidate), of an array[load, draw] per candidate."""
    best, regret = np.zeros((2, len(latency[0]), len(latency)))
    for load in range(len(best)):  # a load's draws stay in the processor's cache
        rows = [each[load] for each in latency]
        lowest: Floats = reduce(np.minimum, rows)
        alive = np.isfinite(lowest)
        if not alive.all():
            rows, lowest = [row[alive] for row in rows], lowest[alive]
        is_best = [row == lowest for row in rows]
        shared = sum(map(np.count_nonzero, is_best)) > len(lowest)
        ties = np.sum(is_best, axis=0) if shared else 1.0
        for at, row in enumerate(rows):
            best[load, at] = (is_best[at] / ties).sum() if shared else np.count_nonzero(is_best[at])
            regret[load, at] = (1 - lowest / row).sum()
    draws = latency[0].shape[1]
    return best / draws, regret / draws


def measured_draft_lengths(tree: xr.DataTree, scenario: Scenario) -> list[int]:
    """Return 0 and every draft length that was measured, as a chain, with the scenario's pair.

    Raises
    ------
    UnknownPairError
        If the scenario names a base that has pairs, but none of them.
    """
    runs = tree["constant_data"].variables
    base, pair = base_and_pair(tree, scenario.with_(num_speculative_tokens=0))
    if pair is None:
        if (runs["base_of_pair"].values == base).any():
            resolve(tree, scenario.with_(num_speculative_tokens=1))  # says which pairs there are
        return [0]
    lengths = runs["num_speculative_tokens"].values
    of_pair = runs["pair_of_run"].values == pair
    lengths = lengths[of_pair & (runs["num_verified_tokens"].values == lengths + 1)]
    return sorted({0, *(int(k) for k in lengths)})


def draft_lengths(
    tree: xr.DataTree, scenario: Scenario, candidates: Sequence[int] | None
) -> list[int]:
    """Return the draft lengths to compare, sorted: those given, or 0 and those measured.

    Raises
    ------
    ArgumentError
        If a candidate is no whole number of at least 0, or there is none.
    UnknownPairError
        As `measured_draft_lengths`.
    """
    if candidates is None:
        return measured_draft_lengths(tree, scenario)
    if not len(candidates):
        raise ArgumentError("candidates must hold at least one draft length. Got none instead.")
    return sorted({whole_number(k, "candidates", minimum=0) for k in candidates})


def choose_draft_length(
    tree: xr.DataTree,
    scenario: Scenario,
    *,
    utility: str = "mean",
    slo: Slo | str | None = None,
    candidates: Sequence[int] | None = None,
    max_regret: float = MAX_REGRET,
    random_seed: int = 0,
) -> Decision:
    """Choose the draft length with the least expected regret, by default in mean latency.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenario : Scenario
        Pair, load, lengths and acceptance; its own draft length is not used.
    utility : str
        What is compared: ``mean`` latency; a percentile of requests, such as ``p95``; ``slo``, the
        probability that an objective is met; ``goodput``, requests per second within it; ``cost``,
        server time per answer token at a concurrency; ``cvar``, mean latency in the worst tenth of
        the draws, for those who fear being wrong more than they like being right.
    slo : Slo or str, optional
        The objective of ``slo`` and ``goodput``, such as ``"e2e_p95 <= 2.0"``.
    candidates : sequence of int, optional
        Draft lengths to compare; by default 0 (off) and those measured with the pair.
    max_regret : float
        Expected regret, a share of the loss, above which the answer is "not enough data".
    random_seed : int
        Seed of the predictions.

    Returns
    -------
    Decision
        The choice, the probability that it is best, and what being wrong costs.

    Raises
    ------
    ArgumentError, UnknownPairError, DataError
        As `predict_latency` and `check_utility`; or if there is no candidate.

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
    objective = check_utility(utility, slo, scenario)
    note = warn_first(tree)
    lengths = draft_lengths(tree, scenario, candidates)
    arms = [scenario.with_(num_speculative_tokens=k) for k in lengths]
    _, rows = draw_scenarios(tree, arms, random_seed=random_seed, first_token=False)
    latency: Floats = np.stack([row.e2e_s[i] for row, i in rows], axis=-1)
    losses = losses_of(tree, arms, utility, objective, latency_s=latency, random_seed=random_seed)
    where = [(row.status[i], row.outside[i]) for row, i in rows]
    decision = _decide(latency, lengths, losses, utility, max_regret, where, "mean", note)
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
    draws: xr.Dataset,
    lengths: Sequence[int],
    *,
    losses: Floats | None = None,
    utility: str = "mean",
    max_regret: float = MAX_REGRET,
    note: str = "",
) -> Decision:
    """Turn draws of the candidates' latency into a decision.

    Parameters
    ----------
    draws : xarray.Dataset
        Result of `predict_latency`, one scenario per candidate, in the candidates' order.
    lengths : sequence of int
        The candidates.
    losses, utility : optional
        Array[draw, candidate] of `losses_of`, and what they are; by default the latency.
    max_regret, note
        As `choose_draft_length`; what to say first about the fit.

    Returns
    -------
    Decision
    """
    latency: Floats = draws["e2e_s"].values
    losses = latency if losses is None else losses
    where = list(
        zip(map(str, draws["status"].values), map(str, draws["outside"].values), strict=True)
    )
    kind = str(draws.attrs["kind"])
    return _decide(latency, lengths, losses, utility, max_regret, where, kind, note)


def _decide(
    latency: Floats,
    lengths: Sequence[int],
    losses: Floats,
    utility: str,
    max_regret: float,
    where: Sequence[tuple[str, str]],
    kind: str,
    note: str,
) -> Decision:
    """Decide; ``where`` says of each candidate its status and what lies outside."""
    best, regret = compare(losses)
    past = np.isinf(latency).mean(axis=0)
    usable = past <= 0.5 if past.min() <= 0.5 else np.ones(len(lengths), dtype=bool)
    at = int(np.argmin(np.where(usable, criterion_of(losses, regret, utility), np.inf)))
    close = [k for i, k in enumerate(lengths) if i != at and regret[i] - regret[at] <= NEAR_TIE]
    low, median, high = np.quantile(latency, [0.05, 0.5, 0.95], axis=0, method="inverted_cdf")
    choice: int | None = lengths[at]
    if past.min() > 0.5:
        choice, verdict, close = None, "past capacity", []
        reason = f"every candidate is past capacity in at least {past.min():.0%} of the draws"
    elif np.isinf(losses).all():
        choice, verdict, close = None, "objective not met", []
        reason = "no candidate meets the objective in any draw: lower the load, or ask for less"
    elif regret[at] > max_regret:
        verdict = "not enough data"
        reason = (
            f"even the best candidate, k = {choice}, has an expected regret of {regret[at]:.1%}, "
            f"above {max_regret:.1%}: measure it and its nearest rival at this load"
        )
    elif close:
        verdict = "near tie"
        rivals = " and ".join(f"k = {k}" for k in close)
        reason = f"k = {choice} is ahead of {rivals} by at most 1 % ({meaning_of(utility)})"
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
        tuple(status for status, _ in where),
        tuple(outside for _, outside in where),
        kind,
        note,
        utility,
    )
