"""How far the posterior hangs on the priors: power scaling of the priors that stand at the top."""

from typing import Any

import arviz as az
import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from bayes_sd.exceptions import ArgumentError
from bayes_sd.new_pairs import stored_priors
from bayes_sd.prior import Prior
from bayes_sd.priors import DRAFTER_COSTS, VERIFIER_COSTS, deployment_center
from bayes_sd.quiet import quiet_logger

# Variables of the posterior whose prior is one line of the table, elementwise.
TOP_LEVEL = (
    "boot_sd",
    "discrepancy_sd",
    "load_discrepancy_sd",
    "request_cv",
    "extrapolation_sd",
    "knee_width",
    "first_wait_steps",
    "ttft_discrepancy_sd",
    "spread_heterogeneity",
    "spread_skew",
    "backlog_s",
    "load_factor",
    "acceptance_logit",
    "acceptance_group_sd",
    "acceptance_request_sd",
    "acceptance_run_sd",
    "acceptance_decay",
)


def prior_sensitivity(tree: xr.DataTree, var_names: list[str] | None = None) -> pd.DataFrame:
    """Return how strongly the posterior answers to its priors and to the data.

    The priors of the population (levels, size exponents and group scales of the costs) and of all
    error scales are raised to a power a little off 1, and likewise the likelihood; a sensitivity
    is the change of the posterior per change of the power [1]_. Priors of a single model given its
    population are part of the hierarchy, not of what was assumed beforehand, and are not scaled.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    var_names : list of str, optional
        Variables of the posterior; by default the cost coefficients that decide: verification,
        drafting, prefill, the knee, and the error scales.

    Returns
    -------
    pandas.DataFrame
        Columns ``prior``, ``likelihood`` (above 0.05 is sensitive) and ``diagnosis``, one row per
        element.

    Raises
    ------
    ArgumentError
        If the fit does not hold its priors.

    Notes
    -----
    The likelihood is that of the mean latencies; counts of acceptance are not scaled.

    References
    ----------
    .. [1] Kallioinen et al. (2024). Detecting and diagnosing prior and likelihood sensitivity with
       power-scaling. Statistics and Computing 34.

    Examples
    --------
    >>> prior_sensitivity(tree)  # doctest: +SKIP
    """
    priors = stored_priors(tree)
    posterior = tree["posterior"].to_dataset()
    scaled = {
        name: _log_density(posterior[name], priors[name])
        for name in TOP_LEVEL
        if name in posterior and name in priors
    } | _population(posterior, priors)
    if not scaled:
        raise ArgumentError("the fit has none of the variables whose priors are scaled.")
    usual = (
        "verify_fixed_s verify_per_request_s prefill_fixed_s prefill_stall_per_token_s "
        "mixed_step_s "
        "draft_fixed_s draft_per_request_s knee_tokens knee_s_per_token expert_share "
        "expert_load_cv discrepancy_sd boot_sd"
    ).split()
    names = var_names or [name for name in usual if name in posterior]
    whole = xr.DataTree.from_dict(
        {
            "posterior": posterior[names],
            "log_prior": xr.Dataset(scaled),
            "log_likelihood": tree["log_likelihood"].to_dataset().astype(float),
        }
    )
    with quiet_logger("arviz_stats.psense"):  # its advice is in the table
        return pd.DataFrame(az.psense_summary(whole))


def _log_density(values: xr.DataArray, prior: Prior) -> xr.DataArray:
    """Return the log prior density of each draw, summed over elements; constants do not matter."""
    x = values.values
    if prior.family == "lognormal":
        density = stats.norm(prior.log_center, prior.spread).logpdf(np.log(x)) - np.log(x)
    elif prior.family == "normal":
        density = stats.norm(prior.center, prior.spread).logpdf(x)
    else:
        shape = (prior.center / prior.spread) ** 2
        density = stats.gamma(shape, scale=prior.center / shape).logpdf(x)
    axes = tuple(range(2, density.ndim))
    return xr.DataArray(
        density.sum(axis=axes),
        dims=("chain", "draw"),
        coords={d: values[d] for d in ("chain", "draw")},
    )


def _population(posterior: xr.Dataset, priors: dict[str, Prior]) -> dict[str, xr.DataArray]:
    """Return the log prior of levels, size exponents and group scales, by name."""
    found: dict[str, xr.DataArray] = {}
    for kind, costs in (("verifier", VERIFIER_COSTS), ("drafter", DRAFTER_COSTS)):
        if f"log_{kind}_level" not in posterior:
            continue
        parts: list[Any] = []
        deployments = [str(d) for d in posterior["deployment"].values]
        for i, cost in enumerate(costs):
            level = posterior[f"log_{kind}_level"].values[..., i]
            for j, deployment in enumerate(deployments):
                center = deployment_center(priors[cost], cost, deployment)
                parts.append(stats.norm(center, priors[cost].spread).logpdf(level[..., j]))
            slope, scale = priors[f"{cost}.size_exponent"], priors[f"{cost}.group_sd"]
            exponent = posterior[f"{kind}_size_exponent"].values[..., i]
            spread = posterior[f"{kind}_group_sd"].values[..., i]
            parts.append(stats.norm(slope.center, slope.spread).logpdf(exponent))
            log = np.log(spread)
            parts.append(stats.norm(scale.log_center, scale.spread).logpdf(log) - log)
        found[f"{kind}_population"] = xr.DataArray(
            sum(parts), dims=("chain", "draw"), coords={d: posterior[d] for d in ("chain", "draw")}
        )
    return found
