"""The model of the mean latency as a textbook writes it: the yardstick of `benchmarks/sampling.py`.

Same data, same law, same likelihood with the batch integrated out, and the same priors as
`build_model(data, responses=())`, written down another way:

- every cost, level, exponent and boot is a standard normal, scaled and shifted ("non-centred");
- scales of groups and boots are half-normal with the library's medians, so they may reach 0;
- no sums and shares of costs, no least-squares start: nutpie's defaults, jitter included.

The batch is not sampled run by run, though a textbook might: that form has as many free numbers
more as there are runs, and another posterior. So the comparison is on the textbook's side.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from bayes_sd.acceptance_graph import steps_of_runs
from bayes_sd.exceptions import ArgumentError
from bayes_sd.graph import costs_of_runs
from bayes_sd.labels import experts_fraction
from bayes_sd.least_squares import reference_lengths
from bayes_sd.likelihoods import latency_scale, log_stable
from bayes_sd.physics.jumps import JUMP_TOKENS
from bayes_sd.physics.latency import latency_slope, request_latency
from bayes_sd.population import draw, log_sizes
from bayes_sd.priors import (
    DRAFTER_COSTS,
    REFERENCE,
    VERIFIER_COSTS,
    Prior,
    deployment_center,
)
from bayes_sd.run_load import load_of_runs, observations

HALF_NORMAL_MEDIAN = 0.67449  # of a half-normal of scale 1: the normal's 75 % quantile
ERRORS = ("discrepancy_sd", "load_discrepancy_sd", "request_cv")

type Tensors = dict[str, Any]


def build_textbook_model(data: xr.Dataset, priors: dict[str, Prior]) -> pm.Model:
    """Return the model of the mean latency in its textbook form.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`: dense verifiers, acceptance forced or no drafts.
    priors : dict of str to Prior
        Table of priors.

    Returns
    -------
    pymc.Model
        Costs, scales and boots are deterministics or variables named as in `build_model`.

    Raises
    ------
    ArgumentError
        If a run's acceptance is to be estimated, or a verifier has experts.
    """
    num_steps = steps_of_runs(data)
    if np.isnan(num_steps).any() or (experts_fraction(data) < 1).any():
        raise ArgumentError(
            "the textbook form must have dense verifiers with known acceptance. Got other runs."
        )
    dims = ("run", "sweep", "base", "pair", "deployment")
    coords = {dim: data[dim].values for dim in dims} | {
        "verifier_cost": list(VERIFIER_COSTS),
        "drafter_cost": list(DRAFTER_COSTS),
        "jump": list(JUMP_TOKENS),
    }
    with pm.Model(coords=coords) as model:
        of_base, of_pair = _costs(data, priors)
        for name, value in of_base.items():
            pm.Deterministic(name, value, dims="base")
        for name, value in of_pair.items():
            pm.Deterministic(name, value, dims="pair")
        _observe(data, priors, of_base, of_pair, num_steps)
    return model


def _standard(name: str, dims: str | Sequence[str]) -> Any:
    return pm.Normal(f"standard_{name}", 0, 1, dims=dims)


def _log(name: str, prior: Prior, dims: str | Sequence[str]) -> Any:
    """Return the log of a log-normal, or a normal, scaled from a standard normal."""
    center = prior.log_center if prior.family == "lognormal" else prior.center
    return center + prior.spread * _standard(name, dims)


def _half_normal(name: str, medians: Any, dims: str) -> Any:
    return pm.HalfNormal(name, np.asarray(medians) / HALF_NORMAL_MEDIAN, dims=dims)


def _group_costs(
    kind: str, names: tuple[str, ...], data: xr.Dataset, priors: dict[str, Prior], sizes: Tensors
) -> Tensors:
    """Return the logs of the costs of each base or pair: their law plus a scaled deviation.

    Also returns their laws alone, as ``law of <name>``.
    """
    dim, over = f"{kind}_cost", "base" if kind == "verifier" else "pair"
    base = data["base_of_pair"].values if over == "pair" else np.arange(data.sizes["base"])
    deployment = data["deployment_of_base"].values[base]
    centers = np.array(
        [
            [deployment_center(priors[n], n, str(d)) for n in names]
            for d in data["deployment"].values
        ]
    )
    spreads = np.array([priors[n].spread for n in names])
    slopes = [priors[f"{n}.size_exponent"] for n in names]
    level = pm.Deterministic(
        f"log_{kind}_level",
        centers + spreads * _standard(f"{kind}_level", ("deployment", dim)),
        dims=("deployment", dim),
    )
    exponent = pm.Deterministic(
        f"{kind}_size_exponent",
        np.array([s.center for s in slopes])
        + np.array([s.spread for s in slopes]) * _standard(f"{kind}_size_exponent", dim),
        dims=dim,
    )
    group_sd = _half_normal(
        f"{kind}_group_sd", [priors[f"{n}.group_sd"].center for n in names], dim
    )
    deviation = group_sd * _standard(f"log_{kind}_cost", (over, dim))
    found = {}
    for i, name in enumerate(names):
        law = level[deployment, i] + exponent[i] * sizes[name]
        found[f"law of {name}"] = law
        found[name] = law + deviation[:, i]
    return found


def _costs(data: xr.Dataset, priors: dict[str, Prior]) -> tuple[Tensors, Tensors]:
    """Return the coefficients of each base and of each pair, in seconds."""
    log_size, log_active, log_drafter_size = log_sizes(data, priors)
    sizes = dict.fromkeys(VERIFIER_COSTS, log_active) | {"verify_fixed_s": log_size}
    log = _group_costs("verifier", VERIFIER_COSTS, data, priors, sizes)
    lengths = reference_lengths(data)
    cost = {name: pt.exp(log[name]) for name in VERIFIER_COSTS}
    stall = cost["prefill_stall_s"] / REFERENCE["input_len_tokens"]
    share = pm.math.sigmoid(_log("context_share", priors["context_share"], "base"))
    per_request = cost["verify_per_request_s"]
    width = pt.exp(_log("knee_width", priors["knee_width"], "base"))
    jump = pm.math.sigmoid(_log("jump_share", priors["jump_share"], ("base", "jump")))
    idle = pt.exp(_log("idle_drafter", priors["idle_drafter_s"], "deployment"))
    of_base = {
        "prefill_fixed_s": cost["prefill_fixed_s"],
        "prefill_per_token_s": stall
        * pt.exp(_log("prefill_ratio", priors["prefill_ratio"], "base")),
        "prefill_stall_per_token_s": stall,
        "verify_fixed_s": cost["verify_fixed_s"],
        "verify_per_request_s": (1 - share) * per_request,
        "context_per_token_s": share * per_request / lengths["context_tokens"].values,
        "mixed_step_s": cost["mixed_step_s"],
        "knee_s_per_token": stall * pt.exp(_log("knee_ratio", priors["knee_ratio"], "base")),
        "knee_tokens": cost["knee_tokens"],
        "knee_width_tokens": cost["knee_tokens"] * width,
        "idle_drafter_s": idle[data["deployment_of_base"].values],
        **{
            f"jump_{place}_s": jump[:, i] * cost["verify_fixed_s"]
            for i, place in enumerate(JUMP_TOKENS)
        },
    }
    if not data.sizes["pair"]:
        return of_base, {}
    sizes = dict.fromkeys(DRAFTER_COSTS, log_drafter_size)
    log_draft = _group_costs("drafter", DRAFTER_COSTS, data, priors, sizes)
    of_pair = {name: pt.exp(log_draft[name]) for name in DRAFTER_COSTS}
    growth = _log("verify_growth", priors["verify_growth_per_draft"], "base")
    per_draft = pt.exp(log["law of verify_per_request_s"] + growth)
    growth_per_draft = per_draft / of_base["verify_per_request_s"]
    of_pair["verify_growth_per_draft"] = growth_per_draft[data["base_of_pair"].values]
    return of_base, of_pair


def _observe(
    data: xr.Dataset,
    priors: dict[str, Prior],
    of_base: Tensors,
    of_pair: Tensors,
    num_steps: np.ndarray,
) -> None:
    """Score the mean latency of each run: the likelihood of `build_model`."""
    load, observed = load_of_runs(data), observations(data)
    costs = costs_of_runs(data, of_base, of_pair)
    terms = {name: observed[name] for name in ("requests_per_step", "others")} | {
        "requests_variance": observed["requests_variance"] if load.is_noisy else 0.0,
        "num_speculative_tokens": data["num_speculative_tokens"].values,
        "input_len_tokens": data["input_len_tokens"].values,
        "output_len_tokens": data["output_len_tokens"].values,
        "num_steps": num_steps,
    }
    latency = request_latency(costs, **terms)
    slope = latency_slope(
        costs, requests_slope=observed["requests_slope"], others_slope=load.others_slope, **terms
    )
    elasticity = observed["effective_batch"] * slope / latency
    one_minus: Any = 1 - load.feedback * elasticity
    boot_sd = _half_normal(
        "boot_sd", np.full(data.sizes["deployment"], priors["boot_sd"].center), "deployment"
    )
    of_sweep = data["deployment_of_base"].values[data["base_of_sweep"].values]
    boot = boot_sd[of_sweep] * _standard("boot", "sweep")
    pm.Deterministic("log_boot", boot, dims="sweep")
    scales = {
        name: draw(name, priors[name], dims="base")[data["base_of_run"].values] for name in ERRORS
    }
    draw("extrapolation_sd", priors["extrapolation_sd"])
    pm.Normal(
        pt.log(latency) + boot[data["sweep_of_run"].values],
        latency_scale(
            **scales,
            num_requests=data["num_requests"].values,
            elasticity=elasticity,
            one_minus_elasticity=one_minus,
            arrival_noise=load.arrival_noise,
        ),
        observed=observed["log_mean_e2e"],
        dims="run",
    )
    pm.Potential("change_of_variables", log_stable(pt.as_tensor(one_minus)))
