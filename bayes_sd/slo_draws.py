"""What an objective is compared with: draws of its statistics, and of the share of requests."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy.special import ndtr
from scipy.stats import binom

from bayes_sd.configuration import Configuration, configuration_rng, resolve_all
from bayes_sd.exceptions import ArgumentError, DataError
from bayes_sd.physics.request_quantiles import TAIL_SHARE, log_quantile_ratio
from bayes_sd.predict import KINDS, LATENCIES, predict_latency
from bayes_sd.request_latency import Spread, quantiles_about, spread_of, steady, unknown_spread
from bayes_sd.scenario import Scenario
from bayes_sd.slo import Slo, SloTerm
from bayes_sd.validate import one_of

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

_FAR = 8.5  # standard deviations: one request in 1e17 lies outside
_HALVINGS = 50


@dataclass(frozen=True)
class SloDraws:
    """Statistics of an objective in scenarios, draw by draw.

    Attributes
    ----------
    slo : Slo
        What is asked for.
    values_s : array[term, draw, scenario]
        The statistic of each term, s; infinite past capacity.
    means_s : dict of str to array[draw, scenario]
        Mean of each latency that the fit knows, s; infinite past capacity.
    batch : array[draw, scenario]
        Requests in the system; infinite past capacity.
    status, outside : tuple of str
        As `predict_latency`, per scenario.
    found : tuple of Configuration
        The scenarios looked up in the fit.
    kind : str
        Kind of prediction.
    """

    slo: Slo
    values_s: Floats
    means_s: dict[str, Floats]
    batch: Floats
    status: tuple[str, ...]
    outside: tuple[str, ...]
    found: tuple[Configuration, ...]
    kind: str

    @property
    def e2e_s(self) -> Floats:
        """Mean end-to-end latency, s, array[draw, scenario]; infinite past capacity."""
        return self.means_s["e2e"]

    @property
    def met_by_term(self) -> Booleans:
        """Whether each term is met, array[term, draw, scenario]."""
        return np.stack(
            [
                values < term.limit_s if term.operator == "<" else values <= term.limit_s
                for term, values in zip(self.slo.terms, self.values_s, strict=True)
            ]
        )

    @property
    def met(self) -> Booleans:
        """Whether every term is met, array[draw, scenario]."""
        return np.asarray(self.met_by_term.all(axis=0))


def slo_draws(
    tree: xr.DataTree,
    scenarios: Sequence[Scenario],
    slo: Slo,
    kind: str = "mean",
    *,
    allow_new: bool = False,
    random_seed: int = 0,
) -> SloDraws:
    """Draw the statistics that an objective limits.

    The draws are those of `predict_latency` and `predict_quantiles` at the same seed, from one
    solution of the batch.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenarios : sequence of Scenario
        What is asked.
    slo : Slo
        The objective.
    kind : {"mean", "run"}
        Statistics of the configuration, or those that one fresh benchmark run would report.
    allow_new, random_seed
        As in `predict_latency`.

    Returns
    -------
    SloDraws

    Raises
    ------
    ArgumentError, UnknownPairError
        As `predict_latency`.
    DataError
        If the fit does not hold what a term is about.

    Examples
    --------
    >>> slo_draws(tree, [scenario], Slo("e2e_p95 <= 2.0")).met.mean()  # doctest: +SKIP
    0.97
    """
    one_of(kind, KINDS[:2], "kind")
    drawn = predict_latency(tree, scenarios, kind, allow_new=allow_new, random_seed=random_seed)
    found = tuple(resolve_all(tree, scenarios, allow_new=allow_new, random_seed=random_seed))
    batch = drawn["effective_batch"].values
    means = {name: drawn[f"{name}_s"].values for name in LATENCIES if f"{name}_s" in drawn}
    values: dict[SloTerm, Floats] = {}
    for latency in sorted({term.latency for term in slo.terms}):
        terms = [term for term in slo.terms if term.latency == latency]
        levels = np.array(sorted({term.level for term in terms if term.level is not None}))
        if latency not in means:
            raise DataError(
                f"{terms[0].name} is not known: no fitted run had a time to first token. Fit runs "
                "with mean_ttft_s, or ask for e2e."
            )
        mean = means[latency]
        values |= {term: mean for term in terms if term.level is None}
        if len(levels):
            found_at = np.stack(
                [
                    quantiles_about(
                        where, batch[:, i], mean[:, i], levels, kind, random_seed, latency=latency
                    )
                    for i, where in enumerate(found)
                ],
                axis=-1,
            )
            at = {level: found_at[:, i] for i, level in enumerate(levels)}
            values |= {term: at[term.level] for term in terms if term.level is not None}
    return SloDraws(
        slo,
        np.stack([values[term] for term in slo.terms]),
        means,
        batch,
        tuple(str(s) for s in drawn["status"].values),
        tuple(str(s) for s in drawn["outside"].values),
        found,
        kind,
    )


def request_shares(draws: SloDraws, random_seed: int = 0) -> Floats:
    """Draw the share of requests that meet every term.

    A request meets the terms on percentiles of a latency if its own is within the lowest of their
    limits: the share is the distribution function of a request's latency there. How two latencies
    of one request hang together is not modelled, so of terms on several the least share that any
    dependence allows is told [1]_: one less what misses each. A term on a mean is about all
    requests at once: where it is broken, none counts. For ``kind="run"`` the share is that of the
    run's own requests, a binomial number of them.

    Parameters
    ----------
    draws : SloDraws
        Result of `slo_draws`.
    random_seed : int
        Seed of the run's requests.

    Returns
    -------
    array[draw, scenario]
        0 to 1; 0 past capacity.

    References
    ----------
    .. [1] Frechet (1935). Generalisation du theoreme des probabilites totales. Fundamenta
       Mathematicae 25.
    """
    terms = draws.slo.terms
    shares = np.isfinite(draws.e2e_s).astype(float)
    limits: dict[str, float] = {}
    for term in terms:
        if term.level is not None:
            limits[term.latency] = min(term.limit_s, limits.get(term.latency, np.inf))
    for i, where in enumerate(draws.found if limits else ()):
        missed = np.zeros(len(shares))
        for latency, limit in limits.items():
            mean = draws.means_s[latency][:, i]
            about = spread_of(where, draws.batch[:, i], mean, latency)
            if about is None:
                raise unknown_spread(latency)
            about = steady(about) if draws.kind == "mean" else about
            missed += 1 - share_within(limit, mean, about)
        shares[:, i] = np.maximum(1 - missed, 0.0)
        if draws.kind == "run":
            number = where.scenario.num_requests
            at = configuration_rng(where, random_seed + 4).random(len(shares))
            shares[:, i] = np.maximum(binom.ppf(at, number, shares[:, i]), 0) / number
    of_means = [term.level is None for term in terms]
    return np.asarray(shares * draws.met_by_term[of_means].all(axis=0))


def share_within(limit_s: float, mean_s: Floats, about: Spread) -> Floats:
    """Return the share of requests that are answered within a limit, per draw.

    The inverse of `bayes_sd.physics.request_quantiles.request_quantile` in the level, by halving
    the normal score.

    Parameters
    ----------
    limit_s : float
        Limit, s.
    mean_s : array, (draw,)
        Mean latency, s; infinite past capacity, where no request is within the limit.
    about : Spread
        Spread of requests about the mean; arrays over draws.

    Returns
    -------
    array, (draw,)
        0 to 1.

    Examples
    --------
    >>> none = np.zeros(1)
    >>> even = Spread(spread=np.array([0.2]), skew=none, excess=none)
    >>> share_within(2.0, np.array([2.0]), even).round(3)  # the mean, above the median
    array([0.54])
    """
    finite = np.isfinite(mean_s)
    with np.errstate(divide="ignore"):
        target = np.log(limit_s / np.where(finite, mean_s, np.inf))

    def within(score: Floats) -> Booleans:
        tail = np.log1p(TAIL_SHARE / ndtr(-score))
        ratio = log_quantile_ratio(
            score, tail, spread=about.spread, skew=about.skew, excess=about.excess
        )
        return ratio <= target

    low, high = np.full(mean_s.shape, -_FAR), np.full(mean_s.shape, _FAR)
    everyone, nobody = within(high), ~within(low)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        inside = within(middle)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.where(everyone, 1.0, np.where(nobody, 0.0, ndtr(low)))


def listed_scenarios(scenarios: Scenario | Sequence[Scenario]) -> list[Scenario]:
    """Return scenarios as a list.

    Raises
    ------
    ArgumentError
        If there is none.
    """
    listed = [scenarios] if isinstance(scenarios, Scenario) else list(scenarios)
    if not listed:
        raise ArgumentError("scenarios must hold at least one Scenario. Got none instead.")
    return listed
