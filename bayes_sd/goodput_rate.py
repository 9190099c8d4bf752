"""Goodput: requests per second that are answered within an objective."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_sd.attainment import slo_attainment
from bayes_sd.scenario import Scenario
from bayes_sd.slo import Slo
from bayes_sd.validate import probability

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Goodput:
    """Requests per second that are answered within an objective.

    Attributes
    ----------
    rps : array[draw]
        Requests per second; 0 past capacity.
    p_slo_met : float
        Probability that the objective itself is met.
    slo, scenario, kind
        What was asked.
    status, outside : str
        Measured, interpolated, extrapolated or past capacity, and in what.
    convergence : str
        Empty if the fit passed `diagnose`, else what to say first.
    """

    rps: Floats
    p_slo_met: float
    slo: Slo
    scenario: Scenario
    kind: str
    status: str
    outside: str
    convergence: str

    def interval(self, level: float = 0.9) -> tuple[float, float, float]:
        """Return low end, median and high end, requests per second."""
        tail = (1 - probability(level, "level", ends=False)) / 2
        ends = np.quantile(self.rps, [tail, 0.5, 1 - tail], method="inverted_cdf")
        return float(ends[0]), float(ends[1]), float(ends[2])

    def statement(self) -> str:
        """Return the answer in words."""
        low, middle, high = self.interval()
        parts = [self.convergence] if self.convergence else []
        parts.append(
            f"{self.scenario.label}: {middle:.3g} requests/s are answered within {self.slo} (90 % "
            f"interval {low:.3g} to {high:.3g}; expected {self.rps.mean():.3g}). P(SLO met) "
            f"{self.p_slo_met:.2f}. [{self.status}{': ' + self.outside if self.outside else ''}]"
        )
        return " ".join(parts)

    def to_frame(self) -> pd.DataFrame:
        """Return one row."""
        row = self.to_dict()
        return pd.DataFrame([row], index=pd.Index([row.pop("scenario")], name="scenario"))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        low, middle, high = self.interval()
        return {
            "scenario": self.scenario.label,
            "slo": str(self.slo),
            "median_goodput_rps": middle,
            "low_goodput_rps": low,
            "high_goodput_rps": high,
            "expected_goodput_rps": float(self.rps.mean()),
            "p_slo_met": self.p_slo_met,
            "kind": self.kind,
            "status": self.status,
            "outside": self.outside,
            "convergence": self.convergence,
        }


def goodput(
    tree: xr.DataTree,
    scenario: Scenario,
    slo: Slo | str,
    *,
    kind: str = "mean",
    allow_new: bool = False,
    random_seed: int = 0,
) -> Goodput:
    """Return the requests per second that are answered within an objective.

    Requests answered per second times the share of them that meets every term, draw by draw. See
    `bayes_sd.slo_attainment` for what the share is, and for several scenarios at once.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenario : Scenario
        What is asked, at its load.
    slo : Slo or str
        The objective.
    kind, allow_new, random_seed
        As in `bayes_sd.slo_attainment`.

    Returns
    -------
    Goodput
        Draws of the goodput, requests per second, with its statement.

    Raises
    ------
    ArgumentError, UnknownPairError, DataError
        As `bayes_sd.slo_attainment`.

    Warns
    -----
    ConvergenceWarning
        If the fit did not pass `diagnose`.

    Examples
    --------
    >>> scenario = Scenario("Qwen3-8B", request_rate_rps=4.0)
    >>> goodput(tree, scenario, "e2e_p95 <= 2.0").interval()[1]  # doctest: +SKIP
    3.9
    """
    found = slo_attainment(tree, scenario, slo, kind, allow_new=allow_new, random_seed=random_seed)
    return Goodput(
        found.goodput_rps[:, 0],
        found.p_slo_met[0],
        found.slo,
        scenario,
        kind,
        found.status[0],
        found.outside[0],
        found.convergence,
    )
