"""Costs of a pair that was not fitted, drawn from the population of those that were.

A new model on a known deployment has that deployment's level, moved by the size law, and differs
from it as the fitted models differ among themselves. A new deployment has no level but the
prior's. What the population does not describe (shares, the form of the bend, jumps) is drawn from
the prior, and error scales from the fitted bases. So the answer is as wide as what is known.
"""

import json
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from bayes_sd.exceptions import ArgumentError, UnknownPairError
from bayes_sd.nearest import unknown_label
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.physics.jumps import JUMP_TOKENS
from bayes_sd.posterior import TTFT_FIELDS, Cell, cell, find_label, fitted_bases, flat_draws
from bayes_sd.priors import (
    DRAFTER_COSTS,
    REFERENCE,
    VERIFIER_COSTS,
    Prior,
    deployment_center,
)
from bayes_sd.scenario import Scenario

OF_BASES = ("discrepancy_sd", "load_discrepancy_sd", "request_cv")


def new_cell(tree: xr.DataTree, scenario: Scenario, rng: np.random.Generator) -> Cell:
    """Draw the costs of a pair that was not fitted.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenario : Scenario
        With ``verifier`` (a fitted base) or ``verifier_params_b``; with drafts, also
        ``drafter_params_b``; ``deployment`` if it was fitted.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    Cell
        ``base`` is -1 where the verifier is new.

    Raises
    ------
    ArgumentError
        If a size that is needed is missing.
    UnknownPairError
        If the named verifier or deployment was not fitted.
    """
    priors = stored_priors(tree)
    posterior = tree["posterior"].dataset
    size = posterior.sizes["chain"] * posterior.sizes["draw"]
    known = None if scenario.verifier is None else _known_base(tree, scenario.verifier)
    if known is None:
        found = _new_base(tree, scenario, priors, size, rng)
    else:
        found = cell(tree, fitted_bases(tree)[known], drafts=False)
    costs = vars(found.costs).copy()
    if scenario.num_speculative_tokens:
        if "drafter_size_exponent" not in posterior:
            raise ArgumentError(
                "no fitted run has a drafter, so there is no population of drafters to draw from. "
                "Fit runs with speculation too."
            )
        place = _deployment(tree, scenario, known)
        costs |= _draft_costs(tree, scenario, priors, place, costs, size, rng)
    return Cell(
        found.base,
        None,
        scenario.pair,
        CostCoefficients(**costs),
        **{name: getattr(found, name) for name in (*OF_BASES, "boot_sd", "extrapolation_sd")},
        **{name: getattr(found, name) for name in TTFT_FIELDS},
    )


def stored_priors(tree: xr.DataTree) -> dict[str, Prior]:
    """Return the priors that a fit was made with.

    Raises
    ------
    ArgumentError
        If the fit does not hold them (it was made by an earlier version).
    """
    if "priors" not in tree.attrs:
        raise ArgumentError("this fit does not hold its priors: fit again with this version.")
    found = json.loads(tree.attrs["priors"])
    return {n: Prior(f, c, s, unit, "") for n, (f, c, s, unit) in found.items()}


def _known_base(tree: xr.DataTree, name: str) -> int:
    at = find_label(name, fitted_bases(tree))
    if at is None:
        raise UnknownPairError(
            unknown_label("verifier", name, fitted_bases(tree), "the fitted bases")
            + " For a new one leave it out and give verifier_params_b."
        )
    return at


def _deployment(tree: xr.DataTree, scenario: Scenario, base: int | None) -> int | None:
    """Return the number of the deployment, None for a new one."""
    constant = tree["constant_data"].dataset
    if base is not None:
        return int(constant["deployment_of_base"].values[base])
    if scenario.deployment is None:
        return None
    labels = [str(d) for d in constant["deployment"].values]
    at = find_label(scenario.deployment, labels)
    if at is None:
        raise UnknownPairError(
            unknown_label("deployment", scenario.deployment, labels, "the fitted ones")
            + " For a new one leave it out."
        )
    return at


def _log_cost(
    tree: xr.DataTree,
    kind: str,
    cost: str,
    log_size: Any,
    place: int | None,
    prior: Prior,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return draws of the log of a cost: level, size law and spread between models."""
    posterior = tree["posterior"].dataset.sel({f"{kind}_cost": cost})
    exponent, spread = (
        flat_draws(posterior[f"{kind}_{name}"]) for name in ("size_exponent", "group_sd")
    )
    if place is None:
        label = "cpu" if _all_cpu(tree) else "gpu"
        center = deployment_center(prior, cost, label)
        level = center + prior.spread * rng.standard_normal(len(spread))
    else:
        level = flat_draws(posterior[f"log_{kind}_level"].isel(deployment=place))
    return np.asarray(level + exponent * log_size + spread * rng.standard_normal(len(spread)))


def _all_cpu(tree: xr.DataTree) -> bool:
    return all("cpu" in str(d).lower() for d in tree["constant_data"].dataset["deployment"].values)


def _sample(prior: Prior, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return draws of a log-normal or normal prior."""
    standard = rng.standard_normal(size)
    if prior.family == "lognormal":
        return np.asarray(np.exp(prior.log_center + prior.spread * standard))
    return np.asarray(prior.center + prior.spread * standard)


def _new_base(
    tree: xr.DataTree,
    scenario: Scenario,
    priors: dict[str, Prior],
    size: int,
    rng: np.random.Generator,
) -> Cell:
    if scenario.verifier_params_b is None:
        raise ArgumentError(
            "a new verifier must come with its size, verifier_params_b (1e9 parameters). Got none: "
            "add it, or name a fitted base as verifier."
        )
    place = _deployment(tree, scenario, None)
    active = scenario.verifier_active_params_b or scenario.verifier_params_b
    logs = {
        cost: np.log(
            (scenario.verifier_params_b if cost == "verify_fixed_s" else active)
            / REFERENCE["verifier_params_b"]
        )
        for cost in VERIFIER_COSTS
    }
    cost = {
        c: np.exp(_log_cost(tree, "verifier", c, logs[c], place, priors[c], rng))
        for c in VERIFIER_COSTS
    }
    stall = cost["prefill_stall_s"] / REFERENCE["input_len_tokens"]
    share = expit(_sample(priors["context_share"], size, rng))
    context = (scenario.input_len_tokens or REFERENCE["input_len_tokens"]) + (
        scenario.output_len_tokens or 128.0
    ) / 2
    jumps = {
        f"jump_{tokens}_s": cost["verify_fixed_s"] * expit(_sample(priors["jump_share"], size, rng))
        for tokens in JUMP_TOKENS
    }
    costs = CostCoefficients(
        prefill_fixed_s=cost["prefill_fixed_s"],
        prefill_per_token_s=stall * _sample(priors["prefill_ratio"], size, rng),
        prefill_stall_per_token_s=stall,
        verify_fixed_s=cost["verify_fixed_s"],
        verify_per_request_s=(1 - share) * cost["verify_per_request_s"],
        verify_growth_per_draft=np.zeros(1),
        context_per_token_s=share * cost["verify_per_request_s"] / context,
        draft_fixed_s=np.zeros(1),
        draft_per_request_s=np.zeros(1),
        knee_s_per_token=stall * _sample(priors["knee_ratio"], size, rng),
        knee_tokens=cost["knee_tokens"],
        knee_width_tokens=cost["knee_tokens"] * _sample(priors["knee_width"], size, rng),
        mixed_step_s=cost["mixed_step_s"],
        idle_drafter_s=_sample(priors["idle_drafter_s"], size, rng),
        **jumps,
    )
    return Cell(-1, None, scenario.pair, costs, **_errors(tree, place, priors, size, rng))


def _errors(
    tree: xr.DataTree,
    place: int | None,
    priors: dict[str, Prior],
    size: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return error scales: of a fitted base drawn at random, of the deployment, or the prior's."""
    posterior = tree["posterior"].dataset
    draw = np.arange(size)
    chosen = rng.integers(posterior.sizes["base"], size=size)
    of_bases = [n for n in (*OF_BASES, *TTFT_FIELDS) if n in posterior]
    boot = _sample(priors["boot_sd"], size, rng)
    if place is not None:
        boot = flat_draws(posterior["boot_sd"].isel(deployment=place))
    return {
        "boot_sd": boot,
        "extrapolation_sd": flat_draws(posterior["extrapolation_sd"]),
    } | {name: flat_draws(posterior[name])[draw, chosen] for name in of_bases}


def _draft_costs(
    tree: xr.DataTree,
    scenario: Scenario,
    priors: dict[str, Prior],
    place: int | None,
    costs: dict[str, Any],
    size: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    if scenario.drafter_params_b is None:
        raise ArgumentError(
            "a new drafter must come with its size, drafter_params_b (1e9 parameters). "
            "Got none: add it."
        )
    log_size = np.log(scenario.drafter_params_b / REFERENCE["drafter_params_b"])
    found = {
        cost: np.exp(_log_cost(tree, "drafter", cost, log_size, place, priors[cost], rng))
        for cost in DRAFTER_COSTS
    }
    growth = _sample(priors["verify_growth_per_draft"], size, rng)
    return found | {"verify_growth_per_draft": growth * np.ones_like(costs["verify_fixed_s"])}
