"""The population that costs come from: level per deployment, size law, spread between models."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from bayes_sd.priors import REFERENCE, Prior, deployment_center


def draw(name: str, prior: Prior, **kwargs: Any) -> Any:
    """Add one random variable with a prior of the table to the model in context."""
    if prior.family == "lognormal":
        return pm.LogNormal(name, prior.log_center, prior.spread, **kwargs)
    if prior.family == "normal":
        return pm.Normal(name, prior.center, prior.spread, **kwargs)
    return pm.Gamma(name, mu=prior.center, sigma=prior.spread, **kwargs)


def draw_log(name: str, prior: Prior, **kwargs: Any) -> Any:
    """Add the logarithm of a log-normal variable: better coordinates for costs."""
    return pm.Normal(name, prior.log_center, prior.spread, **kwargs)


def population(
    kind: str, costs: tuple[str, ...], data: xr.Dataset, priors: dict[str, Prior]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Add the population of some costs: log level per deployment, size exponent, group scale.

    Parameters
    ----------
    kind : {"verifier", "drafter"}
        Prefix of the variables.
    costs : tuple of str
        Names in the table of priors.
    data : xarray.Dataset
        Result of `to_dataset`.
    priors : dict
        Table of priors.

    Returns
    -------
    level, exponent, group_sd : dict of tensors
        By cost: (deployment,), scalar, scalar. Levels are log seconds at the reference size.
    """
    dim = f"{kind}_cost"
    deployments = [str(d) for d in data["deployment"].values]
    centers = np.array([[deployment_center(priors[c], c, d) for c in costs] for d in deployments])
    spreads = np.array([priors[c].spread for c in costs])
    level = pm.Normal(f"log_{kind}_level", centers, spreads, dims=("deployment", dim))
    slopes = [priors[f"{c}.size_exponent"] for c in costs]
    exponent = pm.Normal(
        f"{kind}_size_exponent",
        np.array([s.center for s in slopes]),
        np.array([s.spread for s in slopes]),
        dims=dim,
    )
    scales = [priors[f"{c}.group_sd"] for c in costs]
    group_sd = pm.LogNormal(
        f"{kind}_group_sd",
        np.array([s.log_center for s in scales]),
        np.array([s.spread for s in scales]),
        dims=dim,
    )
    by_cost = [{c: x[..., i] for i, c in enumerate(costs)} for x in (level, exponent, group_sd)]
    return by_cost[0], by_cost[1], by_cost[2]


def log_sizes(data: xr.Dataset, priors: dict[str, Prior]) -> tuple[Any, Any, Any]:
    """Return log sizes relative to the reference; unknown ones are latent.

    Of all parameters and of those used per token, (base,), and of the drafters, (pair,).
    """
    total = data["verifier_params_b"].values
    verifier = _log_size("verifier", total, priors["missing_verifier_params_b"])
    active = np.nan_to_num(data["verifier_active_params_b"].values / total, nan=1.0)
    drafter = data["drafter_params_b"].values
    log_drafter: Any = np.log(np.nan_to_num(drafter, nan=1.0))
    if np.isnan(drafter).any():
        missing = np.flatnonzero(np.isnan(drafter))
        share = draw_log(
            "log_missing_drafter_share", priors["missing_drafter_share"], shape=len(missing)
        )
        of_base = verifier[data["base_of_pair"].values]
        log_drafter = pt.as_tensor(log_drafter)[missing].set(of_base[missing] + share)
    verifier_reference = np.log(REFERENCE["verifier_params_b"])
    return (
        verifier - verifier_reference,
        verifier + np.log(active) - verifier_reference,
        log_drafter - np.log(REFERENCE["drafter_params_b"]),
    )


def _log_size(name: str, sizes: np.ndarray, prior: Prior) -> Any:
    missing = np.flatnonzero(np.isnan(sizes))
    known = pt.as_tensor(np.log(np.nan_to_num(sizes, nan=1.0)))
    if not len(missing):
        return known
    return known[missing].set(draw_log(f"log_missing_{name}_size", prior, shape=len(missing)))
