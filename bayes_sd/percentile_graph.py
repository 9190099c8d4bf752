r"""Percentiles of a run's request latency, given its mean: how wide requests spread, and why.

The same form for end-to-end latency, time to first token and time per token, each with parameters
of its own (`PREFIX`). What spreads them differs:

- **e2e**: how many steps a request takes, in the share of its latency that they make; the batch
  that wanders under random arrivals; heterogeneity.
- **tpot**: the same, and all of it grows with the steps.
- **ttft**: a request waits for the rest of the running step, which is uniform on it, so its
  variance is step^2 / 12; heterogeneity. A uniform wait shows as a skewness near -0.2.
"""

from typing import Any

import numpy as np
import pytensor.tensor as pt
import xarray as xr

from bayes_sd.acceptance_levels import pooled_rates
from bayes_sd.least_squares import expected_steps_of_runs
from bayes_sd.percentile_ratios import MIN_REQUESTS, RatioData, ratio_data
from bayes_sd.physics.acceptance import expected_steps_renewal
from bayes_sd.physics.request_spread import (
    load_variance,
    request_spread,
    steps_variance_renewal,
    tail_excess,
    wait_variance,
)
from bayes_sd.population import draw
from bayes_sd.prior import Prior
from bayes_sd.run_load import load_of_runs
from bayes_sd.spread_priors import PREFIX
from bayes_sd.tail_likelihood import observe_ratios


def scored_latencies(data: xr.Dataset) -> dict[str, RatioData]:
    """Return by latency the whitened percentiles that some run has, such that they count."""
    found = {latency: percentile_data(data, latency) for latency in PREFIX}
    return {latency: ratios for latency, ratios in found.items() if ratios is not None}


def percentile_data(data: xr.Dataset, latency: str = "e2e") -> RatioData | None:
    """Return the whitened percentiles of a latency; None if no run has any.

    Runs at a limit on requests in flight do not count: what their requests wait for is not in the
    law of the spread.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    latency : {"e2e", "ttft", "tpot"}
        Which latency.
    """
    if f"{latency}_quantile_s" not in data:
        return None
    mean = data[f"mean_{latency}_s"].values
    capped = data["control"].values == "cap"
    quantile = data[f"{latency}_quantile_s"].values
    # A quantile or a mean of 0, as of one-token answers, has no logarithm.
    counts = (quantile > 0) & (mean > 0)[:, None] & ~capped[:, None]
    quantile = np.where(counts, quantile, np.nan)
    usable = np.isfinite(quantile).any(axis=1) & (data["num_requests"].values >= MIN_REQUESTS)
    if not usable.any():
        return None
    return ratio_data(quantile, mean, data["num_requests"].values, list(data["quantile"].values))


def steps_cv2_of_runs(data: xr.Dataset) -> np.ndarray:
    """Return Var(N) / N^2 of each run's requests, (run,).

    At the forced rates; else at the pooled rates of the run's acceptance group, for the spread
    hangs on them so little that their uncertainty does not matter.
    """
    drafts = data["num_speculative_tokens"].values
    emitted = np.maximum(data["output_len_tokens"].values - 1, 1)
    longest = max(int(drafts.max(initial=0)), 1)
    rates = np.repeat(np.nan_to_num(data["known_acceptance_rate"].values)[:, None], longest, 1)
    group = data["group_of_run"].values
    if (group >= 0).any():
        pooled = np.zeros((len(drafts), longest))
        found = pooled_rates(data)[:, :longest]
        pooled[group >= 0, : found.shape[1]] = found[group[group >= 0]]
        rates = np.where((group >= 0)[:, None], pooled, rates)
    columns = list(rates.T)
    steps = expected_steps_renewal(emitted, columns, drafts)
    variance = steps_variance_renewal(emitted, columns, drafts)
    return np.asarray(np.where(drafts > 0, np.maximum(variance, 0) / steps**2, 0.0))


def add_percentiles(
    data: xr.Dataset,
    ratios: RatioData,
    priors: dict[str, Prior],
    covariates: tuple[np.ndarray, np.ndarray],
    *,
    latency: str,
    weight: Any,
) -> None:
    """Score the percentiles of runs as ratios to their mean, in the model in context.

    Elasticity and prefill share are numbers of a least-squares fit, not those of the graph: how
    requests spread then says nothing of the costs. Scored through the graph's, the ratios could
    outbid the mean latency: on simulated runs of one server all chains agreed on costs that gave
    percentiles their elasticity and missed the means by half.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    ratios : RatioData
        The latency's, of `scored_latencies`.
    priors : dict
        Table of priors.
    covariates : tuple of array, (run,)
        Result of `load_covariates`: elasticity, and share of the own prefill.
    latency : {"e2e", "ttft", "tpot"}
        Which latency; its parameters have the prefix of `PREFIX`.
    weight : tensor, (run,)
        1 to score a run, 0 to hold it out.
    """
    prefix, base = PREFIX[latency], data["base_of_run"].values
    parts, seconds = _parts(data, covariates, latency)
    parts = {name: np.where(ratios.is_scored, part, 1.0) for name, part in parts.items()}

    def drawn(name: str, dims: str | None = None) -> Any:
        return draw(prefix + name, priors[prefix + name], dims=dims)

    heterogeneity, skew, backlog, misfit = (
        drawn(name, "base")[base]
        for name in ("spread_heterogeneity", "spread_skew", "backlog_s", "percentile_misfit_sd")
    )
    observe_ratios(
        f"{prefix}percentile_ratios",
        ratios,
        spread=request_spread(
            heterogeneity=heterogeneity, load_factor=drawn("load_factor"), **parts
        ),
        skew=skew,
        excess=tail_excess(backlog, 1 - covariates[0], np.where(ratios.is_scored, seconds, 1.0)),
        misfit_sd=misfit,
        excess_misfit=drawn("excess_misfit"),
        dof=drawn("percentile_dof") + 1,
        top_dof=drawn("percentile_top_dof") + 1,
        weight=pt.as_tensor(weight) * ratios.is_scored,
    )


def _parts(
    data: xr.Dataset, covariates: tuple[np.ndarray, np.ndarray], latency: str
) -> tuple[dict[str, Any], np.ndarray]:
    """Return what the spread of each run's requests is made of, and the seconds of p99's excess."""
    elasticity, own_prefill_share = covariates
    e2e, first = data["mean_e2e_s"].values, data["mean_ttft_s"].values
    if latency == "ttft":
        step = e2e / np.maximum(expected_steps_of_runs(data), 1.0)
        of_wait = wait_variance(step, first)
        return {"steps_cv2": 0.0, "decode_share": 0.0, "load_cv2": of_wait}, first
    load = load_of_runs(data)
    wandering = load_variance(
        1 - load.feedback * elasticity, data["effective_batch_observed"].values, load.arrival_noise
    )
    share = 1 - own_prefill_share
    parts = {
        "steps_cv2": steps_cv2_of_runs(data),
        "decode_share": share if latency == "e2e" else 1.0,
        "load_cv2": wandering,
    }
    return parts, e2e if latency == "e2e" else share * e2e
