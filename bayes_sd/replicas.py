"""How many replicas a traffic needs, so that an objective is met with a given certainty."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_sd.capacity import CERTAINTY, MaxRate, max_rate
from bayes_sd.exceptions import ArgumentError
from bayes_sd.scenario import Scenario
from bayes_sd.slo import Slo
from bayes_sd.traffic import read_traffic
from bayes_sd.validate import not_negative, whole_number

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Replicas:
    """The least number of replicas at each rate of a traffic.

    Attributes
    ----------
    index : pandas.Index
        Labels of the rates, as given.
    rates_rps : array[rate]
        Traffic of all replicas together, requests/s.
    hours : array[rate]
        How long each rate lasts.
    replicas : array[rate] of int, or None
        Least number whose share of the traffic keeps P(SLO met) at the certainty; None if no
        number does.
    p_slo_met : array[rate]
        Probability that the objective is met with them; NaN without an answer.
    p_one_fewer : array[rate]
        The same with one replica fewer; 0 with none, NaN without an answer.
    p_all_met : float
        Probability that it is met at all times; NaN without an answer.
    median_replicas : array[rate] of float
        Number that is enough with probability one half; infinite if none is.
    cost_per_replica_hour : float or None
        As given.
    per_replica : MaxRate
        The highest rate of one replica, which all rests on, with verdict and status.
    """

    index: pd.Index
    rates_rps: Floats
    hours: Floats
    replicas: npt.NDArray[np.int64] | None
    p_slo_met: Floats
    p_one_fewer: Floats
    p_all_met: float
    median_replicas: Floats
    cost_per_replica_hour: float | None
    per_replica: MaxRate

    @property
    def peak(self) -> int | None:
        """Most replicas at any time; None without an answer."""
        return None if self.replicas is None else int(self.replicas.max())

    @property
    def replica_hours(self) -> float:
        """Replicas times hours, over the traffic; NaN without an answer."""
        return math.nan if self.replicas is None else float(self.replicas @ self.hours)

    @property
    def cost(self) -> float:
        """Cost of the traffic, in the unit of the cost given; NaN without a cost or an answer."""
        return self.replica_hours * self._price

    @property
    def cost_at_peak(self) -> float:
        """Cost of the peak's number of replicas all the time; NaN as ``cost``."""
        return math.nan if self.peak is None else self.peak * float(self.hours.sum()) * self._price

    @property
    def _price(self) -> float:
        return math.nan if self.cost_per_replica_hour is None else self.cost_per_replica_hour

    def to_frame(self) -> pd.DataFrame:
        """Return one row per rate; ``replicas`` is blank without an answer."""
        blank = [pd.NA] * len(self.rates_rps)
        counted = pd.array(blank if self.replicas is None else list(self.replicas), dtype="Int64")
        used = np.full(len(blank), np.nan) if self.replicas is None else self.replicas
        columns: dict[str, Any] = {
            "rate_rps": self.rates_rps,
            "hours": self.hours,
            "replicas": counted,
            "rate_per_replica_rps": self.rates_rps / np.maximum(used, 1),
            "p_slo_met": self.p_slo_met,
            "p_one_fewer": self.p_one_fewer,
            "median_replicas": self.median_replicas,
        }
        if self.cost_per_replica_hour is not None:
            columns["cost"] = used * self.hours * self.cost_per_replica_hour
        return pd.DataFrame(columns, index=self.index)

    def statement(self) -> str:
        """Return the answer in words."""
        limit = self.per_replica
        parts = [limit.convergence] if limit.convergence else []
        name = f"{limit.scenario.pair}, k = {limit.scenario.num_speculative_tokens}: {limit.slo}"
        if self.replicas is None:
            parts.append(f"{name}: {limit.verdict}, with any number of replicas. {limit.reason}.")
            if math.isfinite(limit.next_rate):
                parts.append(f"Measure next at {limit.next_rate:.4g} requests/s.")
            return " ".join(parts)
        at = int(self.rates_rps.argmax())
        low, high = self.replicas.min(), self.replicas.max()
        span = f"{high}" if low == high else f"{low} to {high}"
        parts.append(
            f"{name} needs {span} replica{'s' if high > 1 else ''} for {_span(self.rates_rps)} "
            f"requests/s, at most {limit.rate:.4g} each; P(met at all times) is "
            f"{self.p_all_met:.2f}."
        )
        if high > 1:
            parts.append(
                f"With one replica fewer at the peak P(SLO met) is {self.p_one_fewer[at]:.2f}; "
                f"{self.median_replicas[at]:.0f} are enough there with P = 0.5."
            )
        if self.cost_per_replica_hour is not None:
            parts.append(
                f"{self.replica_hours:.4g} replica-hours cost {self.cost:.4g}; the peak's number "
                f"all the time {self.cost_at_peak:.4g}."
            )
        if limit.reason:
            parts.append(limit.reason[0].upper() + limit.reason[1:] + ".")
        parts.append(f"[{limit.status}{': ' + limit.outside if limit.outside else ''}]")
        return " ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; what is not a finite number is None."""
        table = self.to_frame()
        table.index = pd.Index([str(label) for label in table.index], name="at")
        rows = table.reset_index().astype(object).to_dict(orient="records")
        totals = {
            "p_all_met": self.p_all_met,
            "replica_hours": self.replica_hours,
            "cost": self.cost,
            "cost_at_peak": self.cost_at_peak,
        }
        return {
            "verdict": self.per_replica.verdict,
            "peak": self.peak,
            **{name: value if math.isfinite(value) else None for name, value in totals.items()},
            "cost_per_replica_hour": self.cost_per_replica_hour,
            "rates": [{str(name): _plain(value) for name, value in row.items()} for row in rows],
            "per_replica": self.per_replica.to_dict(),
            "convergence": self.per_replica.convergence,
        }


def replicas_needed(
    tree: xr.DataTree,
    scenario: Scenario,
    slo: Slo | str,
    rates_rps: float | Sequence[float] | Floats | pd.Series,
    certainty: float = CERTAINTY,
    *,
    cost_per_replica_hour: float | None = None,
    hours: float | None = None,
    min_replicas: int = 1,
    kind: str = "mean",
    allow_new: bool = False,
    random_seed: int = 0,
) -> Replicas:
    """Return the least number of replicas that serve a traffic within an objective.

    Traffic is split evenly, so each of n replicas gets rate / n, of the scenario's kind of
    arrivals (requests sent to a replica at random leave Poisson arrivals Poisson). The replicas
    are alike, and what is not known of one is not known of all: certainty is not lost by adding
    hours, and P(met at all times) is that of the hour with the most traffic per replica.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenario : Scenario
        An open loop: what one replica runs; its own rate is not used.
    slo : Slo or str
        The objective.
    rates_rps : float, array or pandas.Series
        Traffic of all replicas together, requests/s: one rate, or those of a day. The times of a
        Series with a DatetimeIndex say how long each rate lasts.
    certainty : float
        Probability with which the objective is to be met.
    cost_per_replica_hour : float, optional
        In any unit of money.
    hours : float, optional
        How long each rate lasts, where its times do not say; by default 1.
    min_replicas : int
        Replicas that run with no traffic; 1 by default.
    kind, allow_new, random_seed
        As `bayes_sd.max_rate`.

    Returns
    -------
    Replicas
        The least number at each rate, and the chance that it is enough.

    Raises
    ------
    ArgumentError
        If a rate is negative or missing, times do not rise, or the scenario is a closed loop.
    UnknownPairError, DataError
        As `bayes_sd.max_rate`.

    Warns
    -----
    ConvergenceWarning, ExtrapolationWarning
        As `bayes_sd.max_rate`.

    Examples
    --------
    >>> day = [2, 2, 3, 8, 20, 31, 24, 9]  # requests/s, three hours each
    >>> scenario = Scenario("Qwen3-8B", request_rate_rps=1.0)
    >>> found = replicas_needed(tree, scenario, "e2e_p95 <= 2", day, hours=3)  # doctest: +SKIP
    >>> found.replicas.tolist()  # doctest: +SKIP
    [1, 1, 1, 2, 3, 4, 4, 2]
    """
    if isinstance(scenario, Scenario) and scenario.concurrency is not None:
        raise ArgumentError(
            "scenario must have request_rate_rps, for traffic is a rate. Got concurrency = "
            f"{scenario.concurrency:g} instead. Do scenario.with_(request_rate_rps=1.0)."
        )
    if cost_per_replica_hour is not None:
        not_negative(cost_per_replica_hour, "cost_per_replica_hour")
    whole_number(min_replicas, "min_replicas", minimum=0)
    index, rates, lasting = read_traffic(rates_rps, hours)
    limit = max_rate(
        tree, scenario, slo, certainty, kind=kind, allow_new=allow_new, random_seed=random_seed
    )
    middle = float(np.quantile(limit.broken, 0.5, method="inverted_cdf"))
    enough_half = _least(rates, middle, min_replicas)
    if limit.rate == 0:
        blank = np.full(len(rates), np.nan)
        return Replicas(
            index,
            rates,
            lasting,
            None,
            blank,
            blank,
            math.nan,
            enough_half,
            cost_per_replica_hour,
            limit,
        )
    number = _least(rates, limit.rate, min_replicas).astype(np.int64)
    met = _probability(limit, rates, number)
    return Replicas(
        index,
        rates,
        lasting,
        number,
        met,
        _probability(limit, rates, number - 1),
        float(met.min()),
        enough_half,
        cost_per_replica_hour,
        limit,
    )


def _least(rates: Floats, each: float, minimum: int) -> Floats:
    """Return the least number of replicas with at most so much traffic each; may be infinite."""
    if each == 0 or math.isinf(each):
        return np.maximum(np.where(rates > 0, 1.0 if each else np.inf, 0.0), minimum)
    number = np.ceil(rates / each)
    # The division is rounded, up or down.
    number = np.where(rates <= (number - 1) * each, number - 1, number)
    number = np.where(rates > number * each, number + 1, number)
    return np.maximum(number, minimum)


def _probability(limit: MaxRate, rates: Floats, number: npt.NDArray[np.int64]) -> Floats:
    """Return P(SLO met) with so many replicas; without any, 1 if there is no traffic, else 0."""
    shared = np.divide(rates, number, where=number > 0, out=np.zeros_like(rates))
    found = np.where(shared > 0, limit.probability_met(shared), limit.p_slo_met_idle)
    return np.where(number > 0, found, np.where(rates > 0, 0.0, 1.0))


def _span(rates: Floats) -> str:
    low, high = f"{rates.min():.4g}", f"{rates.max():.4g}"
    return high if low == high else f"{low} to {high}"


def _plain(value: Any) -> Any:
    if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value.item() if isinstance(value, np.generic) else value
