"""The model: `build_model(data)` returns a `pm.Model`, with named dims and no sampling.

A run's latency at the batch it had is the physics of its cell times its boot's factor, and the
batch follows from rate and latency by Little's law. The batch is therefore not a free number per
run: to first order in the small errors it is integrated out in `bayes_sd.likelihoods`, and
`bayes_sd.predict.effective_batch` gives its posterior. Boot effects are normal, as all errors of a
run are, and integrated out too.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from bayes_sd.acceptance_graph import add_steps
from bayes_sd.data import to_dataset
from bayes_sd.exceptions import DataError
from bayes_sd.expert_graph import expert_bases
from bayes_sd.graph import cost_coefficients, costs_of_runs, first_pairs
from bayes_sd.least_squares import load_covariates, reference_lengths
from bayes_sd.likelihoods import (
    boot_given_runs,
    latency_logp,
    latency_scale,
    observe_latency,
)
from bayes_sd.percentile_graph import add_percentiles, scored_latencies
from bayes_sd.physics.jumps import JUMP_TOKENS
from bayes_sd.physics.latency import latency_slope, request_latency
from bayes_sd.population import draw
from bayes_sd.priors import DRAFTER_COSTS, VERIFIER_COSTS, Prior, check_priors, default_priors
from bayes_sd.run_load import REQUEST, load_of_runs, observations
from bayes_sd.ttft_graph import add_ttft, has_ttft

RESPONSES = ("ttft", "percentiles")


def build_model(
    data: Any,
    priors: dict[str, Prior] | None = None,
    *,
    responses: Sequence[str] = RESPONSES,
    replaceable: bool = False,
) -> pm.Model:
    """Return the hierarchical latency model of some runs.

    Parameters
    ----------
    data : xarray.Dataset or pandas.DataFrame
        Result of `to_dataset`, or a table that it takes.
    priors : dict of str to Prior, optional
        By default `default_priors(data)`.
    responses : sequence of str, optional
        What is scored besides the mean latency, where the runs have it; all by default.
    replaceable : bool
        Whether the responses are data that can be set anew after compiling, by the names of
        `bayes_sd.run_load.observations`; sampling then takes about twice as long.

    Returns
    -------
    pymc.Model
        Observes ``log_latency`` (run) given each run's control, and ``accepted`` (count) where
        acceptance was counted. Deterministics named as the fields of `CostCoefficients`, dims
        ``base`` or ``pair``. Boot effects are integrated out: ``boot_mean`` and ``boot_scale``
        (sweep) are what is known of them given the other parameters, from which `fit` draws
        ``log_boot``. The data ``score_weight`` (run), 1 at first, is 0 for runs to hold out: folds
        then share one compilation.

    Raises
    ------
    ArgumentError
        If priors are missing, unknown or of another family.
    DataError
        If no run can be used.

    Examples
    --------
    >>> from bayes_sd.datasets import load_vllm_cpu
    >>> frame = load_vllm_cpu("dense", quiet_only=True)
    >>> model = build_model(to_dataset(frame[~frame["is_throughput_test"]]))
    >>> sorted(v.name for v in model.observed_RVs)
    ['accepted', 'log_latency', 'log_ttft', 'percentile_ratios', 'tpot_percentile_ratios', \
'ttft_percentile_ratios']
    """
    if not isinstance(data, xr.Dataset):
        data = to_dataset(data)
    if not data.sizes["run"]:
        raise DataError("the data set holds no run. Give at least one run with a mean latency.")
    priors = check_priors(default_priors(data) if priors is None else priors)
    lengths = reference_lengths(data)
    with pm.Model(coords=model_coords(data)) as model:
        weight = score_weight(data)
        log_latency, num_steps = _add_latency(data, priors, lengths, weight, replaceable)
        if "ttft" in responses and has_ttft(data).any():
            known = {"log_latency": log_latency, "num_steps": num_steps, "weight": weight}
            add_ttft(data, priors, lengths, **known)
        if scored := scored_latencies(data) if "percentiles" in responses else {}:
            covariates = load_covariates(data, priors, lengths)
            for latency, ratios in scored.items():
                add_percentiles(data, ratios, priors, covariates, latency=latency, weight=weight)
    model.bayes_sd_data, model.bayes_sd_priors = data, priors
    return model


def score_weight(data: xr.Dataset) -> Any:
    """Add the weight of each run, (run,), to the model in context: 1 at first, 0 to hold it out."""
    return pm.Data("score_weight", np.ones(data.sizes["run"]), dims="run")


def _add_latency(
    data: xr.Dataset, priors: dict[str, Prior], lengths: xr.Dataset, weight: Any, replaceable: bool
) -> tuple[Any, Any]:
    """Score mean latencies and acceptance; return log latency and steps of each run, (run,)."""
    load = load_of_runs(data)
    observed = dict(observations(data))
    if replaceable:  # else constants, from which the compiler computes what it can beforehand
        observed = {name: pm.Data(name, v, dims="run") for name, v in observed.items()}
    of_base, of_pair = cost_coefficients(data, lengths, priors)
    costs = costs_of_runs(data, of_base, of_pair)
    terms = {
        **{name: observed[name] for name in ("requests_per_step", "others")},
        "requests_variance": observed["requests_variance"] if load.is_noisy else 0.0,
        **{name: data[name].values for name in REQUEST},
        "num_steps": add_steps(data, priors, replaceable=replaceable),
    }
    latency = request_latency(costs, **terms)
    slope = latency_slope(
        costs, requests_slope=observed["requests_slope"], others_slope=load.others_slope, **terms
    )
    elasticity = observed["effective_batch"] * slope / latency
    one_minus: Any = 1 - load.feedback * elasticity
    boot_sd = draw("boot_sd", priors["boot_sd"], dims="deployment")
    boot_sd = boot_sd[data["deployment_of_base"].values[data["base_of_sweep"].values]]
    draw("extrapolation_sd", priors["extrapolation_sd"])
    scales = {
        name: draw(name, priors[name], dims="base")[data["base_of_run"].values]
        for name in ("discrepancy_sd", "load_discrepancy_sd", "request_cv")
    }
    scale = latency_scale(
        **scales,
        num_requests=data["num_requests"].values,
        elasticity=elasticity,
        one_minus_elasticity=one_minus,
        arrival_noise=load.arrival_noise,
    )
    log_latency, location = observed["log_mean_e2e"], pt.log(latency)
    known = {"scale": scale, "boot_sd": boot_sd, "sweep_of_run": data["sweep_of_run"].values}
    observe_latency(
        "log_latency",
        log_latency,
        location=location,
        one_minus_elasticity=one_minus,
        weight=weight,
        **known,
    )
    residual = log_latency - location
    density = latency_logp(
        residual, one_minus_elasticity=one_minus, weight=np.ones(data.sizes["run"]), **known
    )
    pm.Deterministic("latency_log_density", density, dims="sweep")
    mean, sd = boot_given_runs(residual, weight=weight, **known)
    pm.Deterministic("boot_mean", mean, dims="sweep")
    pm.Deterministic("boot_scale", sd, dims="sweep")
    return log_latency, terms["num_steps"]


def model_coords(data: xr.Dataset) -> dict[str, Any]:
    """Return the coordinates of every dim of the model."""
    dims = ("run", "sweep", "base", "pair", "deployment", "acceptance_group", "position")
    return {dim: data[dim].values for dim in dims} | {
        "verifier_cost": list(VERIFIER_COSTS),
        "direct_cost": ["verify_fixed_s", "mixed_step_s"],
        "load_part": ["stall_s", "verify_s", "verify_drafts_s", "draft_s"],
        "drafting_base": data["base"].values[first_pairs(data)[0]],
        "drafter_cost": list(DRAFTER_COSTS),
        "prefill_part": ["prefill_fixed_s", "prefill_tokens_s"],
        "jump": list(JUMP_TOKENS),
        "ttft_part": ["fixed", "prompt"],
        "expert_base": data["base"].values[expert_bases(data)],
    }
