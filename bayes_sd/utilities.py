"""What a draft length is chosen for: latency, a percentile, an objective, goodput, cost, risk."""

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayes_sd.exceptions import ArgumentError
from bayes_sd.nearest import did_you_mean, nearest_first
from bayes_sd.predict import predict_latency, predict_quantiles
from bayes_sd.scenario import Scenario
from bayes_sd.slo import Slo, as_slo
from bayes_sd.slo_draws import request_shares, slo_draws

Floats = npt.NDArray[np.float64]

UTILITIES = ("mean", "p50", "p90", "p95", "p99", "slo", "goodput", "cost", "cvar")
NEEDS_SLO = ("slo", "goodput")
PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")
TAIL_SHARE = 0.1  # cvar is the mean over the worst tenth of the draws
SHARE_DIGITS = 6  # of goodput: shares that differ by less than a request in a million are the same
MEANING = {
    "mean": "mean latency",
    "slo": "P(SLO met)",
    "goodput": "requests per second within the SLO",
    "cost": "server time per answer token",
    "cvar": "mean latency in the worst tenth of the draws",
}


def meaning_of(utility: str) -> str:
    """Say what a utility compares.

    Examples
    --------
    >>> meaning_of("p95")
    'p95 of the latency of requests'
    """
    return MEANING.get(utility, f"{utility} of the latency of requests")


def check_utility(utility: str, slo: Slo | str | None, scenario: Scenario) -> Slo | None:
    """Check a utility against the objective and the load that it is asked for with.

    Parameters
    ----------
    utility : str
        One of `UTILITIES`, or another percentile such as ``"p99.9"``.
    slo : Slo, str or None
        The objective, for ``slo`` and ``goodput``.
    scenario : Scenario
        What is asked.

    Returns
    -------
    Slo or None

    Raises
    ------
    ArgumentError
        If there is no such utility, an objective is missing or not used, or cost per token is
        asked for at a rate, where it hangs on the rate alone.
    """
    is_percentile = isinstance(utility, str) and PERCENTILE.fullmatch(utility) is not None
    if utility not in UTILITIES and not (is_percentile and 0 < float(utility[1:]) < 100):
        listed = ", ".join(nearest_first(utility, UTILITIES))
        advice = f" {did_you_mean(utility, UTILITIES)}".rstrip()
        raise ArgumentError(f"utility must be one of {listed}. Got {utility!r} instead.{advice}")
    if (slo is not None) != (utility in NEEDS_SLO):
        raise ArgumentError(
            f"utility '{utility}' must come with slo=, such as slo='e2e_p95 <= 2.0'. Got none."
            if slo is None
            else f"slo is used by the utilities slo and goodput. Got utility '{utility}' instead."
        )
    if utility == "cost" and scenario.concurrency is None:
        raise ArgumentError(
            "utility 'cost' must be asked at a concurrency: at a request rate every draft length "
            "answers the same tokens per second. For the servers that a rate needs see "
            "replicas_needed."
        )
    return None if slo is None else as_slo(slo)


def losses_of(
    tree: xr.DataTree,
    arms: Sequence[Scenario],
    utility: str,
    slo: Slo | None = None,
    *,
    latency_s: Floats | None = None,
    random_seed: int = 0,
) -> Floats:
    """Return what each candidate loses in each draw: above 0, infinite where it is no use.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    arms : sequence of Scenario
        One per candidate.
    utility : str
        As in `check_utility`.
    slo : Slo, optional
        The objective.
    latency_s : array[draw, candidate], optional
        Mean latency, where it has been drawn already.
    random_seed : int
        Seed of the predictions.

    Returns
    -------
    array[draw, candidate]
        Ratios count: 1 - lowest / loss is the regret. ``mean``, ``cvar`` and percentiles: s.
        ``slo``: 1 where the objective is met, else infinite, so that the expected regret is the
        probability that another candidate meets it and this one does not. ``goodput``: seconds per
        request within the objective, whose share is rounded to six digits: where nearly every
        request is within it, candidates tie. ``cost``: server seconds per answer token,
        L / (B tokens).

    Raises
    ------
    UnknownPairError, DataError
        As `predict_latency`, `predict_quantiles` and `slo_draws`.
    """
    if latency_s is None:
        latency_s = predict_latency(tree, arms, random_seed=random_seed)["e2e_s"].values
    if utility in ("mean", "cvar"):
        return latency_s
    if utility == "cost":
        held = np.array([min(float(s.load), float(s.max_num_seqs)) for s in arms])
        found = slo_draws(tree, arms, Slo("e2e_mean <= 1"), random_seed=random_seed).found
        return latency_s / (np.maximum(held, 1.0) * np.array([where.output_len for where in found]))
    if slo is None:
        level = float(utility[1:]) / 100
        drawn: Floats = predict_quantiles(tree, arms, [level], random_seed=random_seed).values
        return drawn[:, :, 0]
    draws = slo_draws(tree, arms, slo, random_seed=random_seed)
    if utility == "slo":
        return np.where(draws.met, 1.0, np.inf)
    share = np.round(request_shares(draws, random_seed), SHARE_DIGITS)
    rate = np.array([s.load for s in arms])
    if arms[0].concurrency is not None:
        rate = rate / np.where(np.isfinite(draws.e2e_s), draws.e2e_s, np.inf)
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / (rate * share))


def criterion_of(losses: Floats, regret: Floats, utility: str) -> Floats:
    """Return what the choice minimises, per candidate: expected regret, or the tail of the loss.

    Parameters
    ----------
    losses : array[draw, candidate]
        Result of `losses_of`.
    regret : array[candidate]
        Expected regret.
    utility : str
        As in `check_utility`.

    Returns
    -------
    array[candidate]
        For ``cvar`` the mean loss over the worst tenth of the draws (conditional value at risk,
        Rockafellar and Uryasev 2000), else the expected regret.
    """
    if utility != "cvar":
        return regret
    count = max(1, round(TAIL_SHARE * len(losses)))
    worst: Floats = np.sort(losses, axis=0)[-count:].mean(axis=0)
    return worst
