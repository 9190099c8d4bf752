"""The highest load at which an objective is met with a given certainty."""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_sd.capacity_draws import capacity_draws_rps
from bayes_sd.configuration import resolve
from bayes_sd.decide import warn_first
from bayes_sd.exceptions import ExtrapolationWarning
from bayes_sd.rate_search import BrokenLoads, find_broken_loads
from bayes_sd.scenario import Scenario
from bayes_sd.slo import Slo, as_slo
from bayes_sd.slo_draws import SloDraws, slo_draws
from bayes_sd.validate import probability

Floats = npt.NDArray[np.float64]

CERTAINTY = 0.95
LOW_LOAD = 0.1  # of capacity: where to measure if even an idle server may break the objective
FEW_DRAWS = 10


@dataclass(frozen=True)
class MaxRate:
    """The highest load at which an objective is met with a given certainty.

    Attributes
    ----------
    rate : float
        Highest request rate (1/s; requests in flight in a closed loop) up to which P(SLO met) is
        at least ``certainty``; 0 if there is none, infinite if every load that was tried does.
    unit : str
        ``requests/s`` or ``requests in flight``.
    certainty, p_slo_met, p_slo_met_idle : float
        Probability asked for; that at ``rate``; that of a server with next to no load.
    verdict : str
        ``found``, ``not enough data``, ``not met at any load`` or ``no limit found``.
    reason : str
        Why, in one sentence.
    broken : array[draw]
        Load at which the objective is first broken; 0 if it is when idle, infinite if never.
    capacity : array[draw]
        Rate above which requests pile up without end, 1/s; infinite in a closed loop.
    p_binding : dict of str to float
        Per term: probability that its limit is the tightest where the objective is broken.
    slo, scenario, kind
        What was asked. The scenario has ``rate``, where that is a load.
    status, outside : str
        Measured, interpolated or extrapolated, and in what, at ``rate``.
    convergence : str
        Empty if the fit passed `diagnose`, else what to say first.
    """

    rate: float
    unit: str
    certainty: float
    p_slo_met: float
    p_slo_met_idle: float
    verdict: str
    reason: str
    broken: Floats
    capacity: Floats
    p_binding: dict[str, float]
    slo: Slo
    scenario: Scenario
    kind: str
    status: str
    outside: str
    convergence: str

    def interval(self, level: float = 0.9) -> tuple[float, float, float]:
        """Return low end, median and high end of the load at which the objective is broken."""
        return _interval(self.broken, probability(level, "level", ends=False))

    def room(self, level: float = 0.9) -> tuple[float, float, float]:
        """Return low end, median and high end of capacity / ``rate``; NaN without a rate."""
        if not 0 < self.rate < math.inf or np.isinf(self.capacity).all():
            return (math.nan,) * 3
        return _interval(self.capacity / self.rate, probability(level, "level", ends=False))

    def probability_met(self, loads: npt.ArrayLike) -> Floats:
        """Return the probability that the objective is met at each load, and at all lower ones."""
        asked = np.asarray(loads, dtype=float)[..., None]
        return np.asarray((self.broken >= np.maximum(asked, np.finfo(float).tiny)).mean(axis=-1))

    @property
    def next_rate(self) -> float:
        """Load to measure next: there the objective is as likely to be broken as not.

        A tenth of capacity where an idle server is likely to break it; NaN where nothing is open.
        """
        middle = self.interval()[1]
        if self.verdict in ("not met at any load", "no limit found") or math.isinf(middle):
            return math.nan
        if middle > 0:
            return middle
        return 1.0 if np.isinf(self.capacity).all() else LOW_LOAD * float(np.median(self.capacity))

    def statement(self) -> str:
        """Return the answer in words."""
        parts = [self.convergence] if self.convergence else []
        name = f"{self.scenario.pair}, k = {self.scenario.num_speculative_tokens}: {self.slo}"
        name += " in one fresh run" if self.kind == "run" else ""
        if self.verdict == "found":
            low, middle, high = self.interval()
            parts.append(
                f"{name} is met up to {self.rate:.4g} {self.unit} with P = {self.p_slo_met:.2f} "
                f"({self.certainty:g} asked). It is first broken at {middle:.4g} (90 % interval "
                f"{low:.4g} to {high:.4g}); not knowing better costs "
                f"{max(1 - self.rate / middle, 0.0):.1%} of that."
            )
        else:
            parts.append(f"{name}: {self.verdict}.")
        if self.reason:
            parts.append(self.reason[0].upper() + self.reason[1:] + ".")
        low, middle, high = self.room()
        if np.isfinite(middle):
            parts.append(f"Capacity is {middle:.3g} times that ({low:.3g} to {high:.3g}).")
        if len(self.p_binding) > 1:
            tight = ", ".join(f"{term} ({p:.2f})" for term, p in self.p_binding.items())
            parts.append(f"P(tightest limit): {tight}.")
        if np.isfinite(self.next_rate):
            parts.append(f"Measure next at {self.next_rate:.4g} {self.unit}.")
        parts.append(f"[{self.status}{': ' + self.outside if self.outside else ''}]")
        return " ".join(parts)

    def to_frame(self) -> pd.DataFrame:
        """Return one row."""
        row = self.to_dict()
        binding = {f"P({term} tightest)": p for term, p in row.pop("p_binding").items()}
        index = pd.Index([row.pop("scenario")], name="scenario")
        return pd.DataFrame([row | binding], index=index)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; what is not a finite number is None."""
        parts = ("low", "median", "high")
        numbers = {
            "rate": self.rate,
            **{f"{p}_broken": v for p, v in zip(parts, self.interval(), strict=True)},
            **{f"{p}_capacity": v for p, v in zip(parts, _interval(self.capacity), strict=True)},
            **{f"{p}_room": v for p, v in zip(parts, self.room(), strict=True)},
            "next_rate": self.next_rate,
        }
        return {
            "scenario": self.scenario.label,
            "slo": str(self.slo),
            "unit": self.unit,
            "verdict": self.verdict,
            "reason": self.reason,
            **{name: v if math.isfinite(v) else None for name, v in numbers.items()},
            "certainty": self.certainty,
            "p_slo_met": self.p_slo_met,
            "p_slo_met_idle": self.p_slo_met_idle,
            "p_binding": self.p_binding,
            "kind": self.kind,
            "status": self.status,
            "outside": self.outside,
            "convergence": self.convergence,
        }


def max_rate(
    tree: xr.DataTree,
    scenario: Scenario,
    slo: Slo | str,
    certainty: float = CERTAINTY,
    *,
    kind: str = "mean",
    allow_new: bool = False,
    random_seed: int = 0,
) -> MaxRate:
    """Return the highest request rate at which an objective is met with a certainty.

    Each draw breaks the objective at some lowest rate (`bayes_sd.rate_search`); the answer is the
    (1 - certainty) quantile of those. It never rises with the certainty, and is exact to 1e-4.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenario : Scenario
        Pair, draft length, lengths, acceptance, arrivals and max_num_seqs; its own load is not
        used. With ``concurrency`` the answer is a number of requests in flight.
    slo : Slo or str
        The objective, such as ``"e2e_p95 <= 2.0"``.
    certainty : float
        Probability with which it is to be met.
    kind : {"mean", "run"}
        Whether the configuration meets it, or what one fresh benchmark run would report does.
    allow_new, random_seed
        As in `predict_latency`.

    Returns
    -------
    MaxRate
        The rate, requests per second, what binds there, and how sure that is.

    Raises
    ------
    ArgumentError, UnknownPairError, DataError
        As `bayes_sd.slo_attainment`; or if the certainty is no probability below 1.

    Warns
    -----
    ConvergenceWarning
        If the fit did not pass `diagnose`.
    ExtrapolationWarning
        If the answer lies outside the measured range.

    Examples
    --------
    >>> scenario = Scenario("Qwen3-8B", request_rate_rps=1.0)
    >>> max_rate(tree, scenario, "e2e_p95 <= 2.0").rate  # doctest: +SKIP
    7.83
    """
    asked = as_slo(slo)
    probability(certainty, "certainty", ends=False)
    note = warn_first(tree)
    found = resolve(tree, scenario, allow_new=allow_new, random_seed=random_seed)
    closed = scenario.concurrency is not None
    load = "concurrency" if closed else "request_rate_rps"

    def draws_at(loads: list[float]) -> SloDraws:
        scenarios = [scenario.with_(**{load: value}) for value in loads]
        return slo_draws(tree, scenarios, asked, kind, allow_new=allow_new, random_seed=random_seed)

    if closed:
        highest = max(float(scenario.max_num_seqs), 4.0)
        broken = find_broken_loads(draws_at, highest, certainty, lowest=1.0)
    else:
        expected = capacity_draws_rps(tree, found, random_seed)
        highest = 1.5 * float(np.quantile(expected, 0.99))
        broken = find_broken_loads(draws_at, highest, certainty, capacity=expected)
    rate = broken.at_certainty
    if closed and math.isfinite(rate):
        rate = float(math.floor(rate))
    verdict, reason = _verdict(broken, certainty)
    if verdict == "found" and broken.status == "extrapolated":
        warnings.warn(
            f"{rate:.4g} is extrapolated in {broken.outside}: no run was measured there.",
            ExtrapolationWarning,
            stacklevel=2,
        )
    return MaxRate(
        rate,
        "requests in flight" if closed else "requests/s",
        certainty,
        broken.p_met,
        broken.p_met_idle,
        verdict,
        reason,
        broken.broken,
        broken.capacity,
        {str(t): float(np.mean(broken.binding == i)) for i, t in enumerate(asked.terms)},
        asked,
        scenario.with_(**{load: rate}) if verdict == "found" else scenario,
        kind,
        broken.status,
        broken.outside,
        note,
    )


def _verdict(broken: BrokenLoads, certainty: float) -> tuple[str, str]:
    """Return what the search found, and why."""
    idle = f"P(SLO met) is {broken.p_met_idle:.2f} on a server with next to no load"
    if broken.at_certainty == 0 and broken.p_met_idle < 1 - certainty:
        return "not met at any load", idle
    if broken.at_certainty == 0:
        return "not enough data", f"{idle}, below {certainty:g}"
    if math.isinf(broken.at_certainty):
        return "no limit found", "the objective is met at every load that was tried"
    if (1 - certainty) * len(broken.broken) < FEW_DRAWS:
        few = f"the answer rests on the last few of {len(broken.broken)} draws"
        return "found", f"{few}: fit more for a certainty of {certainty:g}"
    return "found", ""


def _interval(values: Floats, level: float = 0.9) -> tuple[float, float, float]:
    tail = (1 - level) / 2
    low, middle, high = np.quantile(values, [tail, 0.5, 1 - tail], method="inverted_cdf")
    return float(low), float(middle), float(high)
