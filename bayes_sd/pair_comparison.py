"""Which of several pairs or deployments is faster, at one load or over a range, and how surely."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_sd.decide import compare, warn_first
from bayes_sd.exceptions import ArgumentError
from bayes_sd.predict import predict_latency
from bayes_sd.scenario import Scenario
from bayes_sd.validate import one_of, positive

Floats = npt.NDArray[np.float64]
LEVELS = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class PairComparison:
    """Several candidates at the same loads.

    Attributes
    ----------
    names : tuple of str
        The candidates, in the order given.
    loads : tuple of float
        Requests per second, or requests in flight: see ``unit``.
    unit : str
        ``rps`` or ``in flight``.
    latency_s : xarray.DataArray
        Draws of mean latency (sample, load, candidate), s, times the candidate's cost if costs
        were given; infinite past capacity.
    status : tuple of tuple of str
        Per load and candidate: measured, interpolated, extrapolated or past capacity.
    costs : tuple of float
        Cost of each candidate, 1 where none was given.
    kind : str
        Kind of prediction that was compared.
    convergence : str
        Empty if the fit passed `diagnose`, else what to say first.
    """

    names: tuple[str, ...]
    loads: tuple[float, ...]
    unit: str
    latency_s: xr.DataArray
    status: tuple[tuple[str, ...], ...]
    costs: tuple[float, ...]
    kind: str
    convergence: str

    def probability_faster(self, first: str, second: str) -> pd.Series:
        """Return P(first has the lower latency than second) by load; equal draws count half.

        Draws in which both are past capacity say nothing and are left out.

        Raises
        ------
        ArgumentError
            If a name is not one of the candidates.
        """
        one, other = (self._column(name) for name in (first, second))
        alive = np.isfinite(one) | np.isfinite(other)
        wins = np.where(one < other, 1.0, np.where(one == other, 0.5, 0.0))
        total = alive.sum(axis=0)
        share = np.where(alive, wins, 0.0).sum(axis=0) / np.where(total > 0, total, np.nan)
        return pd.Series(share, pd.Index(self.loads, name=self.unit), name="probability_faster")

    def difference(self, first: str, second: str) -> pd.DataFrame:
        """Return log latency of first over second by load, as a ratio with its 90 % interval.

        Returns
        -------
        pandas.DataFrame
            Columns ``low``, ``median``, ``high``: below 1 where first is faster; NaN where one of
            them is past capacity in half of the draws.
        """
        one, other = (self._column(name) for name in (first, second))
        with np.errstate(invalid="ignore"):
            ratio = one / other
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
        values = np.quantile(ratio, LEVELS, axis=0, method="inverted_cdf").T
        known = np.isfinite(one).mean(axis=0) + np.isfinite(other).mean(axis=0) > 1
        values = np.where(known[:, None], values, np.nan)
        index = pd.Index(self.loads, name=self.unit)
        return pd.DataFrame(values, index, columns=["low", "median", "high"])

    def to_frame(self) -> pd.DataFrame:
        """Return one row per load and candidate: latency, P(best), expected regret, status."""
        rows = []
        for at, load in enumerate(self.loads):
            latency = self.latency_s.values[:, at, :]
            best, regret = compare(latency)
            low, middle, high = np.quantile(latency, LEVELS, axis=0, method="inverted_cdf")
            for i, name in enumerate(self.names):
                rows.append(
                    {
                        self.unit: load,
                        "candidate": name,
                        "median_e2e_s": middle[i],
                        "low_e2e_s": low[i],
                        "high_e2e_s": high[i],
                        "probability_best": best[i],
                        "expected_regret": regret[i],
                        "status": self.status[at][i],
                    }
                )
        return pd.DataFrame(rows).set_index([self.unit, "candidate"])

    def statement(self) -> str:
        """Return the answer in words, load by load."""
        lines = [self.convergence] if self.convergence else []
        weighted = " (latency x cost)" if set(self.costs) != {1.0} else ""
        for at, load in enumerate(self.loads):
            latency = self.latency_s.values[:, at, :]
            best, regret = compare(latency)
            if np.isinf(latency).mean(axis=0).min() > 0.5:
                lines.append(f"{load:g} {self.unit}: every candidate is past capacity.")
                continue
            first = int(regret.argmin())
            lines.append(
                f"{load:g} {self.unit}: {self.names[first]}{weighted}, P(best) {best[first]:.2f}, "
                f"expected regret {regret[first]:.1%} [{self.status[at][first]}]."
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "unit": self.unit,
            "kind": self.kind,
            "costs": dict(zip(self.names, self.costs, strict=True)),
            "convergence": self.convergence,
            "rows": [
                {str(k): v for k, v in row.items()}
                for row in self.to_frame().reset_index().to_dict(orient="records")
            ],
        }

    def _column(self, name: str) -> Floats:
        one_of(name, self.names, "name")
        values: Floats = self.latency_s.values[:, :, self.names.index(name)]
        return values


def compare_pairs(
    tree: xr.DataTree,
    candidates: Sequence[Scenario] | Mapping[str, Scenario],
    *,
    loads: Sequence[float] | None = None,
    costs: Sequence[float] | None = None,
    kind: str = "mean",
    allow_new: bool = False,
    random_seed: int = 0,
) -> PairComparison:
    """Compare pairs, draft lengths or deployments at the same loads.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    candidates : sequence or mapping of Scenario
        What to compare, at least two; names are the keys, or the scenarios' labels. All must have
        the same kind of load; without ``loads`` also the same load.
    loads : sequence of float, optional
        Loads to compare at, in place of the scenarios' own: requests per second if the scenarios
        have a rate, else requests in flight.
    costs : sequence of float, optional
        Cost of each candidate, such as dollars per hour or devices. Latency x cost is compared:
        twice the price must be twice as fast.
    kind : {"mean", "run"}
        ``mean``: the configurations. ``run``: one fresh benchmark run of each, whose boots and
        requests differ.
    allow_new, random_seed
        As in `predict_latency`.

    Returns
    -------
    PairComparison
        Draws of the latencies, s, and the probabilities that follow.

    Raises
    ------
    ArgumentError
        If there are less than two candidates, or their loads or costs do not go together.
    UnknownPairError, DataError
        As `predict_latency`.

    Warns
    -----
    ConvergenceWarning
        If the fit did not pass `diagnose`.

    Notes
    -----
    What two candidates share in the posterior, such as the verifier's costs, is shared in every
    draw and cancels. Their misfit is independent: the law may miss each in its own way.

    Examples
    --------
    >>> small, large = (Scenario(pair, request_rate_rps=4.0) for pair in pairs)  # doctest: +SKIP
    >>> compare_pairs(tree, [small, large], loads=[1, 2, 4]).statement()  # doctest: +SKIP
    """
    one_of(kind, ("mean", "run"), "kind")
    if isinstance(candidates, Mapping):
        names, scenarios = [str(n) for n in candidates], list(candidates.values())
    else:
        scenarios = list(candidates)
        names = [_name(s, with_load=loads is None) for s in scenarios]
    at, unit = _common_loads(scenarios, loads)
    if len(set(names)) < len(names):
        raise ArgumentError(
            f"candidates must have different names. Got {names} instead. Give a mapping of names "
            "to scenarios."
        )
    weights = [1.0] * len(names) if costs is None else [positive(c, "costs") for c in costs]
    if len(weights) != len(names):
        raise ArgumentError(
            f"costs must have one number for each of the {len(names)} candidates. Got "
            f"{len(weights)} instead."
        )
    note = warn_first(tree)
    field = "request_rate_rps" if unit == "rps" else "concurrency"
    asked = [s.with_(**{field: load}) for load in at for s in scenarios]
    draws = predict_latency(tree, asked, kind, allow_new=allow_new, random_seed=random_seed)
    shape = (draws.sizes["sample"], len(at), len(names))
    latency = draws["e2e_s"].values.reshape(shape) * np.asarray(weights)
    status = np.asarray(draws["status"].values).reshape(shape[1:])
    return PairComparison(
        tuple(names),
        tuple(at),
        unit,
        xr.DataArray(
            latency,
            dims=("sample", "load", "candidate"),
            coords={"load": list(at), "candidate": names},
            attrs={"units": "s"},
        ),
        tuple(tuple(str(s) for s in row) for row in status),
        tuple(weights),
        kind,
        note,
    )


def _name(scenario: Scenario, *, with_load: bool) -> str:
    """Return a scenario's label; without its load where several are compared."""
    if not isinstance(scenario, Scenario) or with_load:
        return scenario.label if isinstance(scenario, Scenario) else str(scenario)
    unit = "rps" if scenario.concurrency is None else "in flight"
    return scenario.label.replace(f", {scenario.load:g} {unit}", "")


def _common_loads(
    scenarios: Sequence[Any], loads: Sequence[float] | None
) -> tuple[list[float], str]:
    """Return the loads to compare at and their unit, or say why the candidates have none."""
    if len(scenarios) < 2 or not all(isinstance(s, Scenario) for s in scenarios):
        raise ArgumentError(
            f"candidates must be at least two Scenarios. Got {len(scenarios)} instead."
            if all(isinstance(s, Scenario) for s in scenarios)
            else "candidates must be Scenarios. Build them with Scenario(pair, ...)."
        )
    units = {"rps" if s.concurrency is None else "in flight" for s in scenarios}
    own = {s.load for s in scenarios}
    if len(units) > 1 or (loads is None and len(own) > 1):
        raise ArgumentError(
            "candidates must have the same load: all a request_rate_rps, or all a concurrency, of "
            f"one value unless loads is given. Got {sorted(own)} {' and '.join(sorted(units))} "
            "instead."
        )
    at = sorted(own) if loads is None else [positive(load, "loads") for load in loads]
    if not at:
        raise ArgumentError("loads must hold at least one load. Got none instead.")
    return at, units.pop()
