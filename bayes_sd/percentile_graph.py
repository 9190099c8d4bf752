"""Percentiles of a run's request latency, given its mean: how wide requests spread, and why."""

from typing import Any

import numpy as np
import pytensor.tensor as pt
import xarray as xr

from bayes_sd.acceptance_levels import pooled_rates
from bayes_sd.percentile_ratios import MIN_REQUESTS, RatioData, ratio_data
from bayes_sd.physics.acceptance import expected_steps_renewal
from bayes_sd.physics.request_spread import (
    load_variance,
    request_spread,
    steps_variance_renewal,
    tail_excess,
)
from bayes_sd.population import draw
from bayes_sd.prior import Prior
from bayes_sd.run_load import load_of_runs
from bayes_sd.tail_likelihood import observe_ratios


def percentile_data(data: xr.Dataset) -> RatioData | None:
    """Return the whitened percentiles of end-to-end latency; None if no run has any.

    Runs at a limit on requests in flight do not count: what their requests wait for is not in the
    law of the spread.
    """
    if "e2e_quantile_s" not in data:
        return None
    capped = data["control"].values == "cap"
    quantile = np.where(capped[:, None], np.nan, data["e2e_quantile_s"].values)
    usable = np.isfinite(quantile).any(axis=1) & (data["num_requests"].values >= MIN_REQUESTS)
    if not usable.any():
        return None
    return ratio_data(
        quantile,
        data["mean_e2e_s"].values,
        data["num_requests"].values,
        list(data["quantile"].values),
    )


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
    elasticity: np.ndarray,
    own_prefill_share: np.ndarray,
    *,
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
        Result of `percentile_data`.
    priors : dict
        Table of priors.
    elasticity, own_prefill_share : array, (run,)
        Result of `load_covariates`.
    weight : tensor, (run,)
        1 to score a run, 0 to hold it out.
    """
    base = data["base_of_run"].values
    load = load_of_runs(data)
    heterogeneity, skew, backlog, misfit = (
        draw(name, priors[name], dims="base")[base]
        for name in ("spread_heterogeneity", "spread_skew", "backlog_s", "percentile_misfit_sd")
    )
    wandering = load_variance(
        1 - load.feedback * elasticity,
        data["effective_batch_observed"].values,
        load.arrival_noise,
    )
    spread = request_spread(
        steps_cv2=steps_cv2_of_runs(data),
        decode_share=1 - own_prefill_share,
        heterogeneity=heterogeneity,
        load_factor=draw("load_factor", priors["load_factor"]),
        load_cv2=wandering,
    )
    observe_ratios(
        "percentile_ratios",
        ratios,
        spread=spread,
        skew=skew,
        excess=tail_excess(backlog, 1 - elasticity, data["mean_e2e_s"].values),
        misfit_sd=misfit,
        excess_misfit=draw("excess_misfit", priors["excess_misfit"]),
        dof=draw("percentile_dof", priors["percentile_dof"]) + 1,
        top_dof=draw("percentile_top_dof", priors["percentile_top_dof"]) + 1,
        weight=pt.as_tensor(weight) * ratios.is_scored,
    )
