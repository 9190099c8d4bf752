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

from bayes_sd.expert_graph import (
    expert_costs,
    has_idle_drafter,
    idle_drafter_cost,
    jump_costs,
)
from bayes_sd.labels import experts_fraction
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.population import draw, draw_log, log_sizes, population
from bayes_sd.priors import DRAFTER_COSTS, REFERENCE, VERIFIER_COSTS, Prior
from bayes_sd.shares_of_sums import LoadShares, SumAndShare


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
    log_size, log_active, log_drafter_size = log_sizes(data, priors)
    # A step reads all experts that its tokens touch, and a token computes with its own only;
    # each expert sees m/M of the tokens, so that a step turns compute-bound M/m times as late.
    fraction = experts_fraction(data)
    offset = {"knee_tokens": -np.log(fraction)}
    level, exponent, group_sd = population("verifier", VERIFIER_COSTS, data, priors)

    def law(cost: str) -> Any:
        size = log_size if cost == "verify_fixed_s" else log_active
        return level[cost][deployment] + exponent[cost] * size + offset.get(cost, 0.0)

    drafter = population("drafter", DRAFTER_COSTS, data, priors) if data.sizes["pair"] else None
    prompt = lengths["input_len_tokens"].values
    direct = ("verify_fixed_s", "mixed_step_s")
    log_cost = pm.Normal(
        "log_verifier_cost",
        pt.stack([law(c) for c in direct], axis=-1),
        pt.stack([group_sd[c] for c in direct]),
        dims=("base", "direct_cost"),
    )
    stall, per_request, per_draft, first_draft = _load_costs(
        data, lengths, law, group_sd, (drafter, log_drafter_size), priors
    )
    log_stall = pt.log(stall)
    ratio = priors["prefill_ratio"]
    prefill = pm.Normal(
        "log_prefill",
        pt.stack([law("prefill_fixed_s"), log_stall + ratio.log_center], axis=-1),
        pt.stack([group_sd["prefill_fixed_s"], pt.constant(ratio.spread)]),
        dims=("base", "prefill_part"),
        transform=SumAndShare(),
    )
    share = pm.math.sigmoid(draw("context_share", priors["context_share"], dims="base"))
    per_token = stall / prompt
    knee = pt.exp(
        pm.Normal("log_knee_tokens", law("knee_tokens"), group_sd["knee_tokens"], dims="base")
    )
    of_base = {
        "prefill_fixed_s": pt.exp(prefill[:, 0]),
        "prefill_per_token_s": pt.exp(prefill[:, 1]) / prompt,
        "prefill_stall_per_token_s": per_token,
        "verify_fixed_s": pt.exp(log_cost[:, 0]),
        "verify_per_request_s": (1 - share) * per_request,
        "context_per_token_s": share * per_request / lengths["context_tokens"].values,
        "mixed_step_s": pt.exp(log_cost[:, 1]),
        "knee_s_per_token": per_token
        * pt.exp(draw_log("log_knee_ratio", priors["knee_ratio"], dims="base")),
        "knee_tokens": knee,
        "knee_width_tokens": knee * draw("knee_width", priors["knee_width"], dims="base"),
        "idle_drafter_s": idle_drafter_cost(data, priors)[deployment],
        **jump_costs(pt.exp(log_cost[:, 0]), priors),
        **expert_costs(data, priors),
    }
    of_pair: dict[str, Any] = {}
    if data.sizes["pair"]:
        base = data["base_of_pair"].values
        of_pair = _drafter_costs(data, drafter, log_drafter_size, first_draft)
        of_pair["verify_growth_per_draft"] = (per_draft / of_base["verify_per_request_s"])[base]
    for name, value in of_base.items():
        pm.Deterministic(name, value, dims="base")
    for name, value in of_pair.items():
        pm.Deterministic(name, value, dims="pair")
    return of_base, of_pair


def first_pairs(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the bases that have pairs, and the first pair of each."""
    return np.unique(data["base_of_pair"].values, return_index=True)


def _load_costs(
    data: xr.Dataset,
    lengths: xr.Dataset,
    law: Any,
    group_sd: dict[str, Any],
    drafter: tuple[Any, Any],
    priors: dict[str, Prior],
) -> tuple[Any, Any, Any, Any]:
    """Add all that grows with the batch; return it per base, in seconds.

    A neighbour's prefill (paid once) and a neighbour's place in each step (one verification, and
    with drafts one more of each) tell themselves apart only as steps and drafts vary. They are
    sampled as one sum, the load cost of the base's mean run, and its shares.

    Returns
    -------
    stall, per_request, per_draft : tensors, (base,)
        Of the mean prompt; of a request in a step; of verifying one more draft (0 without pairs).
    first_draft : tensor, (drafting base,)
        Drafting cost per request of the first pair of each base that has one.
    """
    longer = np.log(lengths["input_len_tokens"].values / REFERENCE["input_len_tokens"])
    log_steps = np.log(lengths["num_steps"].values)
    centers = [law("prefill_stall_s") + longer, law("verify_per_request_s") + log_steps]
    spreads = [group_sd["prefill_stall_s"], group_sd["verify_per_request_s"]]
    drafting, first = first_pairs(data)
    plain = np.setdiff1d(np.arange(data.sizes["base"]), drafting)
    stall = pt.zeros(data.sizes["base"])
    per_request, per_draft, first_draft = stall, stall, None
    if len(plain):
        cost = pm.Normal(
            "log_plain_load_cost",
            pt.stack(centers, axis=-1)[plain],
            pt.stack(spreads),
            shape=(len(plain), 2),
            transform=SumAndShare(),
        )
        stall = stall[plain].set(pt.exp(cost[:, 0]))
        per_request = per_request[plain].set(pt.exp(cost[:, 1] - log_steps[plain]))
    if len(drafting):
        growth = priors["verify_growth_per_draft"]
        log_drafts = np.log(lengths["num_speculative_tokens"].values[drafting])
        per_k = log_steps[drafting] + log_drafts
        (level, exponent, drafter_sd), log_size = drafter
        deployment = data["deployment_of_base"].values[drafting]
        name = "draft_per_request_s"
        cost = pm.Normal(
            "log_load_cost",
            pt.stack(
                [
                    *(c[drafting] for c in centers),
                    law("verify_per_request_s")[drafting] + growth.log_center + per_k,
                    level[name][deployment] + exponent[name] * log_size[first] + per_k,
                ],
                axis=-1,
            ),
            pt.stack([*spreads, pt.constant(growth.spread), drafter_sd[name]]),
            dims=("drafting_base", "load_part"),
            transform=LoadShares(),
        )
        stall = stall[drafting].set(pt.exp(cost[:, 0]))
        per_request = per_request[drafting].set(pt.exp(cost[:, 1] - log_steps[drafting]))
        per_draft = per_draft[drafting].set(pt.exp(cost[:, 2] - per_k))
        first_draft = pt.exp(cost[:, 3] - per_k)
    return stall, per_request, per_draft, first_draft


def _drafter_costs(
    data: xr.Dataset, drafter: Any, log_size: Any, first_draft: Any
) -> dict[str, Any]:
    """Add the other costs of drafting, dims (pair,): fixed, and per request of later pairs."""
    deployment = data["deployment_of_base"].values[data["base_of_pair"].values]
    level, exponent, group_sd = drafter
    law = {c: level[c][deployment] + exponent[c] * log_size for c in DRAFTER_COSTS}
    fixed = pm.Normal(
        "log_draft_fixed", law["draft_fixed_s"], group_sd["draft_fixed_s"], dims="pair"
    )
    base = data["base_of_pair"].values
    bases, first = first_pairs(data)
    later = np.setdiff1d(np.arange(data.sizes["pair"]), first)
    per_request = pt.zeros(data.sizes["pair"])[first].set(first_draft)
    if len(later):
        name = "draft_per_request_s"
        # Against the first pair of the same base, with which it is correlated: the same prior.
        reference = pt.log(per_request)[first][np.searchsorted(bases, base[later])]
        ratio = pm.Normal(
            "log_draft_ratio", law[name][later] - reference, group_sd[name], shape=len(later)
        )
        per_request = per_request[later].set(pt.exp(reference + ratio))
    return {"draft_fixed_s": pt.exp(fixed), "draft_per_request_s": per_request}


def costs_of_runs(
    data: xr.Dataset, of_base: dict[str, Any], of_pair: dict[str, Any]
) -> CostCoefficients:
    """Look up the coefficients of each run; a run without a drafter has k = 0, so any will do."""
    base, pair = data["base_of_run"].values, data["pair_of_run"].values
    idle = has_idle_drafter(data)
    needed = {n: v for n, v in of_base.items() if n != "idle_drafter_s" or idle.any()}
    # One look-up of a matrix, not one per coefficient: its gradient is one sum by group.
    rows = pt.stack(list(needed.values()), axis=-1)[base]
    fields = {name: rows[:, i] for i, name in enumerate(needed)}
    if idle.any():
        fields["idle_drafter_s"] = fields["idle_drafter_s"] * idle
    if "expert_share" in fields:
        fields["experts_fraction"] = experts_fraction(data)[base]
    if of_pair:
        rows = pt.stack(list(of_pair.values()), axis=-1)[np.maximum(pair, 0)]
        fields |= {name: rows[:, i] for i, name in enumerate(of_pair)}
    else:
        fields |= dict.fromkeys(
            ("draft_fixed_s", "draft_per_request_s", "verify_growth_per_draft"), 0.0
        )
    return CostCoefficients(**fields)
