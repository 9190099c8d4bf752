"""What a fit says of a live server at its load of now: batch, shares, objective, draft length."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from bayes_sd.attainment import slo_attainment
from bayes_sd.exceptions import BayesSdError
from bayes_sd.live_recommend import LiveRecommendation, recommend_live, scenario_now
from bayes_sd.live_window import LiveWindow
from bayes_sd.predict import effective_batch
from bayes_sd.scenario import Scenario
from bayes_sd.shares import latency_shares
from bayes_sd.slo import Slo

LATEST = 3  # windows that make the load of now


@dataclass(frozen=True)
class LiveFigures:
    """Figures of one server at its load of now, at the draft length that it runs.

    Attributes
    ----------
    effective_batch_requests : float
        Median of the posterior; NaN where not known, infinite past capacity.
    shares : dict of str to float
        Median share of latency by part, as `latency_shares`; empty where not known.
    p_slo_met : float
        P(SLO met); NaN without an objective.
    recommendation : LiveRecommendation or None
        None where none can be given.
    reason : str
        The recommendation in words, or why there is none.
    """

    effective_batch_requests: float
    shares: dict[str, float]
    p_slo_met: float
    recommendation: LiveRecommendation | None
    reason: str

    @property
    def draft_length(self) -> int | None:
        """The draft length recommended, or None."""
        return None if self.recommendation is None else self.recommendation.choice

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "effective_batch_requests": self.effective_batch_requests,
            "shares": self.shares,
            "p_slo_met": self.p_slo_met,
            "recommended_draft_length": self.draft_length,
            "recommendation": self.reason,
        }


def live_figures(
    tree: xr.DataTree,
    windows: Sequence[LiveWindow],
    scenario: Scenario,
    *,
    slo: Slo | str | None = None,
    use_counts: bool = False,
    random_seed: int = 0,
) -> LiveFigures:
    """Return the figures of a server at the mean load of some windows.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    windows : sequence of LiveWindow
        The latest ones.
    scenario : Scenario
        What the server runs; of its load only the kind counts.
    slo : Slo or str, optional
        Objective, as `slo_attainment`.
    use_counts : bool
        As `recommend_live`.
    random_seed : int
        As `predict_latency`.

    Raises
    ------
    ArgumentError, DataError
        If the objective cannot be read, or the fit does not hold what it is about.
    """
    p_slo_met = np.nan
    try:
        now = scenario_now(tree, windows, scenario, use_counts=use_counts)
    except BayesSdError as error:
        return LiveFigures(np.nan, {}, p_slo_met, None, str(error))
    if slo is not None:
        p_slo_met = slo_attainment(tree, now, slo, random_seed=random_seed).p_slo_met[0]
    batch = float(effective_batch(tree, now, random_seed=random_seed).median())
    parts = latency_shares(tree, now, random_seed=random_seed).isel(scenario=0)
    shares = {str(part): _median(parts.sel(part=part).values) for part in parts["part"].values}
    k = scenario.num_speculative_tokens
    try:
        found = recommend_live(
            tree, windows, scenario, current=k, use_counts=use_counts, random_seed=random_seed
        )
    except BayesSdError as error:
        return LiveFigures(batch, shares, p_slo_met, None, str(error))
    return LiveFigures(batch, shares, p_slo_met, found, found.statement())


def _median(draws: np.ndarray) -> float:
    known = draws[np.isfinite(draws)]
    return float(np.median(known)) if len(known) else float("nan")
