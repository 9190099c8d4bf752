"""How far a scenario meets an objective: share of requests, and probability that it is met."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_sd.decide import warn_first
from bayes_sd.scenario import Scenario
from bayes_sd.slo import Slo, as_slo
from bayes_sd.slo_draws import listed_scenarios, request_shares, slo_draws
from bayes_sd.validate import probability

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SloAttainment:
    """How far scenarios meet an objective.

    Attributes
    ----------
    slo : Slo
        The objective.
    scenarios : tuple of Scenario
        What was asked.
    share : array[draw, scenario]
        Share of requests that meet every term, 0 to 1.
    goodput_rps : array[draw, scenario]
        Requests per second that are answered and meet every term.
    p_slo_met : tuple of float
        Per scenario: probability that the objective is met.
    p_term_met : dict of str to tuple of float
        The same for each term alone, by its text.
    kind : str
        ``mean`` or ``run``.
    status, outside : tuple of str
        Measured, interpolated, extrapolated or past capacity, and in what, per scenario.
    convergence : str
        Empty if the fit passed `diagnose`, else what to say first.
    """

    slo: Slo
    scenarios: tuple[Scenario, ...]
    share: Floats
    goodput_rps: Floats
    p_slo_met: tuple[float, ...]
    p_term_met: dict[str, tuple[float, ...]]
    kind: str
    status: tuple[str, ...]
    outside: tuple[str, ...]
    convergence: str

    def to_frame(self, level: float = 0.9) -> pd.DataFrame:
        """Return one row per scenario; shares and goodput as median and central interval."""
        probability(level, "level", ends=False)
        tail = (1 - level) / 2
        columns: dict[str, Any] = {"p_slo_met": self.p_slo_met}
        for name, draws in (("share", self.share), ("goodput_rps", self.goodput_rps)):
            ends = np.quantile(draws, [0.5, tail, 1 - tail], axis=0, method="inverted_cdf")
            columns |= {
                f"{part}_{name}": values
                for part, values in zip(("median", "low", "high"), ends, strict=True)
            }
        if len(self.slo.terms) > 1:
            columns |= {f"P({term})": values for term, values in self.p_term_met.items()}
        columns |= {"status": self.status, "outside": self.outside}
        index = pd.Index([s.label for s in self.scenarios], name="scenario")
        return pd.DataFrame(columns, index=index)

    def statement(self) -> str:
        """Return the answer in words, one sentence per scenario."""
        parts = [self.convergence] if self.convergence else []
        rows = self.to_frame()
        for i, scenario in enumerate(self.scenarios):
            row = rows.iloc[i]
            where = f"{self.status[i]}{': ' + self.outside[i] if self.outside[i] else ''}"
            parts.append(
                f"{scenario.label}: P({self.slo}) is {self.p_slo_met[i]:.2f}; "
                f"{row['median_share']:.1%} of requests meet it (90 % interval "
                f"{row['low_share']:.1%} to {row['high_share']:.1%}), a goodput of "
                f"{row['median_goodput_rps']:.3g} requests/s ({row['low_goodput_rps']:.3g} to "
                f"{row['high_goodput_rps']:.3g}). [{where}]"
            )
        return " ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        rows = self.to_frame().reset_index().to_dict(orient="records")
        return {
            "slo": str(self.slo),
            "kind": self.kind,
            "convergence": self.convergence,
            "scenarios": [{str(name): value for name, value in row.items()} for row in rows],
        }


def slo_attainment(
    tree: xr.DataTree,
    scenarios: Scenario | Sequence[Scenario],
    slo: Slo | str,
    kind: str = "mean",
    *,
    allow_new: bool = False,
    random_seed: int = 0,
) -> SloAttainment:
    """Return the share of requests that meet an objective, and the probability that it is met.

    Two different things. The objective is met or not, in each draw: ``e2e_p95 <= 2.0`` is met
    where the 95 % quantile of the latency of requests is at most 2 s, and P(SLO met) is the share
    of draws in which every term is met. The share of requests is a number in each draw: how many
    of them are answered within the lowest limit on a percentile, and none where a term on a mean
    is broken.

    Both are those of the load asked for. Where load is extrapolated the misfit of a draw grows
    with the distance, in either direction, so P(SLO met) may rise a little from one load to the
    next: `MaxRate.probability_met` is the curve over load that never rises.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`; of runs with percentiles of e2e, if a term is about one.
    scenarios : Scenario or sequence of Scenario
        What is asked, each at its load.
    slo : Slo or str
        The objective, such as ``"e2e_p95 <= 2.0"``.
    kind : {"mean", "run"}
        ``mean``: of the configuration, over boots and all requests. ``run``: what one fresh
        benchmark run would find, with its boot and its own requests.
    allow_new, random_seed
        As in `predict_latency`.

    Returns
    -------
    SloAttainment
        Share of requests and probability that the objective is met.

    Raises
    ------
    ArgumentError, UnknownPairError
        As `predict_latency`; or if the objective cannot be read.
    DataError
        If a term is a percentile of ttft or tpot, or the fit does not hold what a term is about.

    Warns
    -----
    ConvergenceWarning
        If the fit did not pass `diagnose`.

    Examples
    --------
    >>> scenario = Scenario("Qwen3-8B", request_rate_rps=4.0)
    >>> slo_attainment(tree, scenario, "e2e_p95 <= 2.0").p_slo_met  # doctest: +SKIP
    (0.93,)
    """
    asked = as_slo(slo)
    listed = listed_scenarios(scenarios)
    note = warn_first(tree)
    draws = slo_draws(tree, listed, asked, kind, allow_new=allow_new, random_seed=random_seed)
    share = request_shares(draws, random_seed)
    by_term = draws.met_by_term.mean(axis=1)
    return SloAttainment(
        asked,
        tuple(listed),
        share,
        share * answered_rps(listed, draws.e2e_s),
        tuple(draws.met.mean(axis=0).tolist()),
        {str(term): tuple(by_term[i].tolist()) for i, term in enumerate(asked.terms)},
        kind,
        draws.status,
        draws.outside,
        note,
    )


def answered_rps(scenarios: Sequence[Scenario], e2e_s: Floats) -> Floats:
    """Return the requests answered per second, array[draw, scenario]; 0 past capacity.

    The arrival rate of an open loop; concurrency / latency of a closed one (Little's law [1]_).

    References
    ----------
    .. [1] Little (1961). A proof for the queuing formula: L = lambda W. Operations Research 9(3).

    Examples
    --------
    >>> answered_rps(
    ...     [Scenario("a", concurrency=8), Scenario("a", request_rate_rps=3)], [[2.0, 2.0]]
    ... )
    array([[4., 3.]])
    """
    latency = np.asarray(e2e_s, dtype=float)
    closed = np.array([s.concurrency is not None for s in scenarios])
    loads = np.array([s.load for s in scenarios])
    return np.where(closed, loads / latency, np.where(np.isfinite(latency), loads, 0.0))
