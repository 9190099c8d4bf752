"""Latency of single requests about the mean of a configuration: quantiles and draws."""

from dataclasses import dataclass, replace

import numpy as np

from bayes_sd.configuration import Configuration, configuration_rng
from bayes_sd.exceptions import DataError
from bayes_sd.percentile_ratios import expected_levels, ratio_covariance
from bayes_sd.physics.request_quantiles import request_draws, request_quantile
from bayes_sd.physics.request_spread import (
    load_variance,
    request_spread,
    steps_variance_renewal,
    tail_excess,
    wait_variance,
)
from bayes_sd.run_load import MAX_LOG_ERROR

__all__ = ["Spread", "draw_requests", "quantiles_of_run", "request_quantile", "spread_of", "steady"]


@dataclass(frozen=True)
class Spread:
    """What a request's latency is about its mean; arrays over draws."""

    spread: np.ndarray
    skew: np.ndarray
    excess: np.ndarray


def steady(about: Spread) -> Spread:
    """Return the spread without the backlog that a benchmark run leaves at its start."""
    return replace(about, excess=np.zeros_like(about.excess))


def spread_of(
    configuration: Configuration, batch: np.ndarray, mean_s: np.ndarray, latency: str = "e2e"
) -> Spread | None:
    """Return the spread of requests at a load; None if no fitted run had percentiles.

    Parameters
    ----------
    configuration : Configuration
        A scenario looked up in a fit.
    batch, mean_s : array, (draw,)
        Requests in the system, and mean of the latency, s; infinite past capacity.
    latency : {"e2e", "ttft", "tpot"}
        Which latency, see `bayes_sd.percentile_graph`.
    """
    found, costs = configuration.cell.request_spread(latency), configuration.costs
    if found is None:
        return None
    held = np.where(np.isfinite(batch), batch, 1.0)
    whole = configuration.latency(held)
    elasticity = configuration.elasticity(held)
    first = configuration.typical_first_token(whole)
    if first is None:
        first = costs.prefill_fixed_s + costs.prefill_per_token_s * configuration.input_len
    decode_share = 1 - np.minimum(first / whole, 0.5)
    typical = {"e2e": whole, "ttft": first, "tpot": decode_share * whole / _later(configuration)}
    seconds = np.where(np.isfinite(mean_s), mean_s, typical[latency])
    if latency == "ttft":
        step = whole / np.maximum(configuration.steps, 1.0)
        parts = {"steps_cv2": 0.0, "decode_share": 0.0, "load_cv2": wait_variance(step, seconds)}
    else:
        is_closed = configuration.arrivals == "closed"
        one_minus = np.ones_like(elasticity) if is_closed else 1 - elasticity
        noise = float(configuration.arrivals in ("poisson", "bursty"))
        parts = {
            "steps_cv2": _steps_cv2(configuration),
            "decode_share": decode_share if latency == "e2e" else 1.0,
            "load_cv2": load_variance(one_minus, held, noise),
        }
    if latency == "tpot":
        seconds = seconds * _later(configuration)
    spread = request_spread(
        heterogeneity=found["spread_heterogeneity"], load_factor=found["load_factor"], **parts
    )
    return Spread(
        np.asarray(spread),
        found["spread_skew"],
        np.asarray(tail_excess(found["backlog_s"], 1 - elasticity, seconds)),
    )


def _later(configuration: Configuration) -> float:
    """Return the tokens of an answer after its first; at least 1."""
    return max(configuration.output_len - 1.0, 1.0)


def _steps_cv2(configuration: Configuration) -> np.ndarray | float:
    """Return Var(N) / N^2 of the steps of one request; 0 without drafts."""
    drafts = configuration.scenario.num_speculative_tokens
    if not drafts:
        return 0.0
    variance = steps_variance_renewal(
        max(configuration.output_len - 1, 1.0), list(configuration.rates), drafts
    )
    return np.asarray(np.maximum(variance, 0.0) / configuration.steps**2)


def draw_requests(mean_s: np.ndarray, about: Spread, rng: np.random.Generator) -> np.ndarray:
    """Draw one request's latency for each draw of the mean, s; infinite past capacity."""
    finite = np.isfinite(mean_s)
    drawn = request_draws(
        np.where(finite, mean_s, 1.0),
        rng,
        spread=about.spread,
        skew=about.skew,
        excess=about.excess,
    )
    return np.where(finite, drawn, np.inf)


def quantiles_of_run(
    configuration: Configuration,
    mean_s: np.ndarray,
    about: Spread,
    levels: np.ndarray,
    rng: np.random.Generator,
    latency: str = "e2e",
) -> np.ndarray:
    """Draw the percentiles that a fresh run of ``num_requests`` would report, s, (draw, level).

    Each draw's quantiles, with the sampling error of order statistics and the misfit of
    `bayes_sd.tail_likelihood`, whose covariance `bayes_sd.percentile_ratios` gives.
    """
    found = configuration.cell.request_spread(latency)
    if found is None:
        raise ValueError("the fit has no percentiles")
    n = configuration.scenario.num_requests
    at = expected_levels(levels, [n])[0]
    finite = np.isfinite(mean_s)
    central = request_quantile(
        at,
        np.where(finite, mean_s, 1.0),
        spread=about.spread,
        skew=about.skew,
        excess=about.excess,
    )
    factor = np.linalg.cholesky(ratio_covariance(at))
    standard = rng.standard_normal(central.shape)
    dof = found["percentile_dof"] + 1
    tail = np.sqrt(dof / rng.chisquare(dof))
    bulk = np.sqrt(about.spread**2 / n + found["percentile_misfit_sd"] ** 2)
    scale = np.repeat((bulk * tail)[:, None], central.shape[1], axis=1)
    top_dof = found["percentile_top_dof"] + 1
    top = np.sqrt(bulk**2 + (found["excess_misfit"] * about.excess) ** 2)
    heavy = top * np.sqrt(top_dof / rng.chisquare(top_dof))
    if levels[-1] >= 0.985:
        scale[:, -1] = heavy
    # Tails as heavy as Cauchy's reach factors that are no numbers.
    error = np.clip((scale * standard) @ factor.T, -MAX_LOG_ERROR, MAX_LOG_ERROR)
    return np.where(finite[:, None], central * np.exp(error), np.inf)


def quantiles_about(
    configuration: Configuration,
    batch: np.ndarray,
    mean_s: np.ndarray | None,
    levels: np.ndarray,
    kind: str,
    random_seed: int,
    *,
    latency: str = "e2e",
) -> np.ndarray:
    """Draw quantiles of the latency of requests, s, (draw, level); infinite past capacity.

    Parameters
    ----------
    configuration : Configuration
        A scenario looked up in a fit.
    batch, mean_s : array, (draw,)
        Requests in the system, and mean of the latency, s; None if the fit does not know it.
    levels : array, (level,)
        Rising, above 0 and below 1.
    kind : {"mean", "run"}
        Of all requests, or those that one fresh benchmark run would report.
    random_seed : int
        Seed of the run.
    latency : {"e2e", "ttft", "tpot"}
        Which latency.

    Raises
    ------
    DataError
        If no fitted run had what is asked for.
    """
    about = None if mean_s is None else spread_of(configuration, batch, mean_s, latency)
    if mean_s is None or about is None:
        raise unknown_spread(latency)
    if kind == "run":
        rng = configuration_rng(configuration, random_seed + 3)
        return quantiles_of_run(configuration, mean_s, about, levels, rng, latency)
    finite = np.isfinite(mean_s)
    drawn = request_quantile(levels, np.where(finite, mean_s, 1.0), **vars(steady(about)))
    return np.where(finite[:, None], drawn, np.inf)


def unknown_spread(latency: str) -> DataError:
    """Return the error to raise where the spread of requests is asked for and not known."""
    names = ", ".join(f"{p}_{latency}_s" for p in ("p50", "p90", "p95"))
    return DataError(
        f"percentiles of {latency} are not known: no fitted run had them, so nothing is known of "
        f"the spread of requests. Fit runs with {names} or p99_{latency}_s beside "
        f"mean_{latency}_s, or ask for the mean."
    )
