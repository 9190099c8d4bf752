"""Costs that only some servers have: experts, jumps between tile sizes, a drafter that idles."""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from bayes_sd.labels import experts_fraction
from bayes_sd.physics.experts import routed_load_cv
from bayes_sd.physics.jumps import JUMP_TOKENS
from bayes_sd.priors import Prior

JUMPS = tuple(f"jump_{place}_s" for place in JUMP_TOKENS)
EXPERTS = ("expert_share", "expert_load_cv", "hot_expert_growth")


def expert_bases(data: xr.Dataset) -> np.ndarray:
    """Return the numbers of the bases whose verifier is a mixture of experts."""
    return np.flatnonzero(experts_fraction(data) < 1)


def expert_costs(data: xr.Dataset, priors: dict[str, Prior]) -> dict[str, Any]:
    """Add share, imbalance and busiest expert of the bases that have experts.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    priors : dict
        Table of priors.

    Returns
    -------
    dict of tensors
        Fields of `CostCoefficients`, dims (base,); 0 for dense ones. Empty if all are dense.
    """
    moe = expert_bases(data)
    if not len(moe):
        return {}
    share = priors["expert_share"]
    logit = pm.Normal("expert_share_logit", share.center, share.spread, dims="expert_base")
    cv, growth = priors["expert_load_cv"], priors["hot_expert_growth"]
    log_cv = pm.Normal("log_expert_load_cv", cv.log_center, cv.spread, dims="expert_base")
    log_growth = pm.Normal(
        "log_hot_expert_growth", growth.log_center, growth.spread, dims="expert_base"
    )
    _observe_routing(data, moe, pt.exp(log_cv))
    values = (pm.math.sigmoid(logit), pt.exp(log_cv), pt.exp(log_growth))
    zeros = pt.zeros(data.sizes["base"])
    return {name: zeros[moe].set(value) for name, value in zip(EXPERTS, values, strict=True)}


def _observe_routing(data: xr.Dataset, moe: np.ndarray, load_cv: Any) -> None:
    """Score measured imbalance of the experts' token counts, where a run has them.

    The coefficient of variation of M counts has a relative error of about 1 / sqrt(2 M) if they
    were normal; layers and prompts differ more than that, so the error is at least a tenth.
    """
    if "routed_load_cv" not in data:
        return
    measured = data["routed_load_cv"].values
    base = data["base_of_run"].values
    at = np.flatnonzero((measured > 0) & np.isin(base, moe))
    if not len(at):
        return
    # Runs of one server route alike: their mean counts once, not each of them.
    bases = np.unique(base[at])
    mean = np.array([np.log(measured[at][base[at] == b]).mean() for b in bases])
    place = np.searchsorted(moe, bases)
    expected = routed_load_cv(experts_fraction(data)[bases], load_cv[place])
    error = np.maximum(1 / np.sqrt(2 * data["num_experts"].values[bases]), 0.1)
    pm.Normal("log_routed_load_cv", pt.log(expected), error, observed=mean)


def jump_costs(verify_fixed_s: Any, priors: dict[str, Prior]) -> dict[str, Any]:
    """Add the jumps of each base, as shares of its verifier pass, below 1.

    Without the limit a jump far above the measured tokens can stand for a bend: one chain of four
    stayed there, with a jump of three passes.

    Parameters
    ----------
    verify_fixed_s : tensor, (base,)
        Verifier pass at no load, s.
    priors : dict
        Table of priors.

    Returns
    -------
    dict of tensors
        Fields of `CostCoefficients`, dims (base,).
    """
    prior = priors["jump_share"]
    logit = pm.Normal("jump_share_logit", prior.center, prior.spread, dims=("base", "jump"))
    height = pm.math.sigmoid(logit) * verify_fixed_s[:, None]
    return {name: height[:, i] for i, name in enumerate(JUMPS)}


def has_idle_drafter(data: xr.Dataset) -> np.ndarray:
    """Mark runs whose server has a drafter loaded but does not draft, (run,)."""
    idle = data["is_speculation_loaded"].values & (data["num_speculative_tokens"].values == 0)
    return np.asarray(idle, dtype=bool)


def idle_drafter_cost(data: xr.Dataset, priors: dict[str, Prior]) -> Any:
    """Add the cost of a loaded drafter that is off, per deployment, (deployment,); s per step.

    Always part of the model, so that a scenario can ask for it: from the prior where no run tells.
    """
    prior = priors["idle_drafter_s"]
    log_cost = pm.Normal("log_idle_drafter", prior.log_center, prior.spread, dims="deployment")
    return pt.exp(log_cost)
