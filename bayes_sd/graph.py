"""Building blocks of the model's graph: geometry, hierarchy of costs, acceptance.

The coordinates follow what the data can tell. Costs that only ever appear as a sum (a fixed and a
per-token part of prefill at one prompt length; a drafter's and a verifier's cost of one more
draft) are sampled as that sum and a share: `SumAndShare` changes nothing about the prior.
"""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.logprob.transforms import Transform

from bayes_sd.physics.step_time import CostCoefficients
from bayes_sd.priors import DRAFTER_COSTS, REFERENCE, VERIFIER_COSTS, Prior, deployment_center


class SumAndShare(Transform):
    """Sample two positive costs, given by their logs, as log of their sum and logit of a share.

    With t = log(a + b) and l = log a - log b, the Jacobian of (log a, log b) in (t, l) has
    determinant -1: log a = t + log sigmoid(l) and log b = t + log sigmoid(-l) give
    (1)(-sigmoid(l)) - (sigmoid(-l))(1) = -1. So the prior on (log a, log b) is untouched.
    """

    name = "sum_and_share"
    ndim_supp = 1

    def forward(self, value: Any, *inputs: Any) -> Any:
        """Return (log of the sum, logit of the first's share); last axis of size 2."""
        first, second = value[..., 0], value[..., 1]
        return pt.stack([pt.logaddexp(first, second), first - second], axis=-1)

    def backward(self, value: Any, *inputs: Any) -> Any:
        """Return the logs of both costs; last axis of size 2."""
        total, logit = value[..., 0], value[..., 1]
        return pt.stack([total - pt.softplus(-logit), total - pt.softplus(logit)], axis=-1)

    def log_jac_det(self, value: Any, *inputs: Any) -> Any:
        """Return 0, for each pair of costs."""
        return pt.zeros(value.shape[:-1])


def draw(name: str, prior: Prior, **kwargs: Any) -> Any:
    """Add one random variable with a prior of the table to the model in context."""
    if prior.family == "lognormal":
        return pm.LogNormal(name, prior.log_center, prior.spread, **kwargs)
    if prior.family == "normal":
        return pm.Normal(name, prior.center, prior.spread, **kwargs)
    return pm.Gamma(name, mu=prior.center, sigma=prior.spread, **kwargs)


def _draw_log(name: str, prior: Prior, **kwargs: Any) -> Any:
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


def _log_sizes(data: xr.Dataset, priors: dict[str, Prior]) -> tuple[Any, Any]:
    """Return log sizes relative to the reference: (base,), (pair,); unknown ones are latent."""
    verifier = _log_size(
        "verifier", data["verifier_params_b"].values, priors["missing_verifier_params_b"]
    )
    drafter = data["drafter_params_b"].values
    log_drafter: Any = np.log(np.nan_to_num(drafter, nan=1.0))
    if np.isnan(drafter).any():
        missing = np.flatnonzero(np.isnan(drafter))
        share = _draw_log(
            "log_missing_drafter_share", priors["missing_drafter_share"], shape=len(missing)
        )
        of_base = verifier[data["base_of_pair"].values]
        log_drafter = pt.as_tensor(log_drafter)[missing].set(of_base[missing] + share)
    return (
        verifier - np.log(REFERENCE["verifier_params_b"]),
        log_drafter - np.log(REFERENCE["drafter_params_b"]),
    )


def _log_size(name: str, sizes: np.ndarray, prior: Prior) -> Any:
    missing = np.flatnonzero(np.isnan(sizes))
    known = pt.as_tensor(np.log(np.nan_to_num(sizes, nan=1.0)))
    if not len(missing):
        return known
    return known[missing].set(_draw_log(f"log_missing_{name}_size", prior, shape=len(missing)))


def cost_coefficients(
    data: xr.Dataset, lengths: xr.Dataset, priors: dict[str, Prior]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Add the cost hierarchy and return the coefficients of each base and pair, in seconds.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    lengths : xarray.Dataset
        ``input_len_tokens``, ``context_tokens`` and ``num_steps`` per base: the mean over its
        runs, at which sums of costs are sampled.
    priors : dict
        Table of priors.

    Returns
    -------
    of_base, of_pair : dict of tensors
        Fields of `CostCoefficients` by name, dims (base,) and (pair,), stored as deterministics.
    """
    deployment = data["deployment_of_base"].values
    log_size, log_drafter_size = _log_sizes(data, priors)
    level, exponent, group_sd = population("verifier", VERIFIER_COSTS, data, priors)

    def law(cost: str) -> Any:
        return level[cost][deployment] + exponent[cost] * log_size

    prompt = lengths["input_len_tokens"].values
    direct = ("verify_fixed_s", "mixed_step_s")
    log_cost = pm.Normal(
        "log_verifier_cost",
        pt.stack([law(c) for c in direct], axis=-1),
        pt.stack([group_sd[c] for c in direct]),
        dims=("base", "direct_cost"),
    )
    # Both grow with the batch, and differ only in that one is paid once and one at each step.
    longer = np.log(prompt / REFERENCE["input_len_tokens"])
    log_steps = np.log(lengths["num_steps"].values)
    per_other = pm.Normal(
        "log_load_cost",
        pt.stack(
            [law("prefill_stall_s") + longer, law("verify_per_request_s") + log_steps], axis=-1
        ),
        pt.stack([group_sd["prefill_stall_s"], group_sd["verify_per_request_s"]]),
        dims=("base", "load_part"),
        transform=SumAndShare(),
    )
    log_stall = per_other[:, 0]
    ratio = priors["prefill_ratio"]
    prefill = pm.Normal(
        "log_prefill",
        pt.stack([law("prefill_fixed_s"), log_stall + ratio.log_center], axis=-1),
        pt.stack([group_sd["prefill_fixed_s"], pt.constant(ratio.spread)]),
        dims=("base", "prefill_part"),
        transform=SumAndShare(),
    )
    share = pm.math.sigmoid(draw("context_share", priors["context_share"], dims="base"))
    per_request = pt.exp(per_other[:, 1] - log_steps)
    per_token = pt.exp(log_stall) / prompt
    knee = pt.exp(_log_knee(law("knee_tokens"), group_sd["knee_tokens"], data, priors))
    of_base = {
        "prefill_fixed_s": pt.exp(prefill[:, 0]),
        "prefill_per_token_s": pt.exp(prefill[:, 1]) / prompt,
        "prefill_stall_per_token_s": per_token,
        "verify_fixed_s": pt.exp(log_cost[:, 0]),
        "verify_per_request_s": (1 - share) * per_request,
        "context_per_token_s": share * per_request / lengths["context_tokens"].values,
        "mixed_step_s": pt.exp(log_cost[:, 1]),
        "knee_s_per_token": per_token
        * pt.exp(_draw_log("log_knee_ratio", priors["knee_ratio"], dims="base")),
        "knee_tokens": knee,
        "knee_width_tokens": knee * draw("knee_width", priors["knee_width"]),
    }
    of_pair: dict[str, Any] = {}
    if data.sizes["pair"]:
        of_pair = _drafter_costs(data, of_base["verify_per_request_s"], log_drafter_size, priors)
    for name, value in of_base.items():
        pm.Deterministic(name, value, dims="base")
    for name, value in of_pair.items():
        pm.Deterministic(name, value, dims="pair")
    return of_base, of_pair


def _log_knee(center: Any, spread: Any, data: xr.Dataset, priors: dict[str, Prior]) -> Any:
    """Add the log place of the knee, (base,), started one prior sd late.

    A knee that starts below the measured loads is a second way to write the linear part, and a
    chain can be caught there; one that starts late slides down to where the data bend.
    """
    prior = priors["knee_tokens"]
    deployments = data["deployment"].values[data["deployment_of_base"].values]
    late = [deployment_center(prior, "knee_tokens", str(d)) + prior.spread for d in deployments]
    return pm.Normal("log_knee_tokens", center, spread, dims="base", initval=np.array(late))


def _drafter_costs(
    data: xr.Dataset, per_request: Any, log_size: Any, priors: dict[str, Prior]
) -> dict[str, Any]:
    """Add the costs of drafting and, per pair, of verifying one more draft; dims (pair,)."""
    base = data["base_of_pair"].values
    deployment = data["deployment_of_base"].values[base]
    level, exponent, group_sd = population("drafter", DRAFTER_COSTS, data, priors)
    law = {c: level[c][deployment] + exponent[c] * log_size for c in DRAFTER_COSTS}
    fixed = pm.Normal(
        "log_draft_fixed", law["draft_fixed_s"], group_sd["draft_fixed_s"], dims="pair"
    )
    # Pairs of one verifier share most of the cost of verifying a further draft: their common
    # part has three quarters of the prior's variance.
    growth = priors["verify_growth_per_draft"]
    common = pm.Normal("verify_growth_of_base", 0, 1, dims="base")
    center = growth.log_center + np.sqrt(0.75) * growth.spread * common[base]
    per_draft = pm.Normal(
        "log_per_draft",
        pt.stack([center + pt.log(per_request[base]), law["draft_per_request_s"]], axis=-1),
        pt.stack([pt.constant(0.5 * growth.spread), group_sd["draft_per_request_s"]]),
        dims=("pair", "draft_part"),
        transform=SumAndShare(),
    )
    return {
        "draft_fixed_s": pt.exp(fixed),
        "draft_per_request_s": pt.exp(per_draft[:, 1]),
        "verify_growth_per_draft": pt.exp(per_draft[:, 0]) / per_request[base],
    }


def costs_of_runs(
    of_base: dict[str, Any], of_pair: dict[str, Any], base: Any, pair: np.ndarray
) -> CostCoefficients:
    """Look up the coefficients of each run; a run without a drafter has k = 0, so any will do."""
    fields = {name: value[base] for name, value in of_base.items()}
    if of_pair:
        number = np.maximum(pair, 0)
        fields |= {name: value[number] for name, value in of_pair.items()}
    else:
        fields |= dict.fromkeys(
            ("draft_fixed_s", "draft_per_request_s", "verify_growth_per_draft"), 0.0
        )
    return CostCoefficients(**fields)
