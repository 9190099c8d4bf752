"""The model: `build_model(data)` returns a `pm.Model`, with named dims and no sampling.

A run's latency at the batch it had is the physics of its cell times its boot's factor, and the
batch follows from rate and latency by Little's law. The batch is therefore not a free number per
run: to first order in the small errors it is integrated out in `bayes_sd.likelihoods`, and
`bayes_sd.predict.effective_batch` gives its posterior.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from bayes_sd.data import to_dataset
from bayes_sd.exceptions import DataError
from bayes_sd.graph import cost_coefficients, costs_of_runs, draw, first_pairs
from bayes_sd.likelihoods import latency_logp, latency_scale, observe_accepted, observe_latency
from bayes_sd.physics.acceptance import (
    expected_steps,
    expected_steps_renewal,
    positional_acceptance,
)
from bayes_sd.physics.latency import latency_slope, met_by_arrivals, met_slopes, request_latency
from bayes_sd.priors import DRAFTER_COSTS, VERIFIER_COSTS, Prior, check_priors, default_priors


@dataclass(frozen=True)
class Load:
    """What the requests of each run met; arrays over runs."""

    requests_per_step: np.ndarray
    others: np.ndarray
    requests_slope: np.ndarray
    others_slope: np.ndarray
    arrival_noise: np.ndarray


def load_of_runs(data: xr.Dataset) -> Load:
    """Return what the requests of each run met, given the batch that it had.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.

    Returns
    -------
    Load
        Arrays over runs. Slopes are derivatives in the batch; 0 where the batch is set by the
        control (closed loop, cap) and so does not answer to latency.
    """
    batch = data["effective_batch_observed"].values
    control = data["control"].values
    arrivals = np.where(control == "open", data["arrivals"].values, "closed")
    met = np.zeros((4, len(batch)))
    for kind in np.unique(arrivals):
        at = arrivals == kind
        met[:2, at] = met_by_arrivals(batch[at], str(kind))
        if kind != "closed":
            met[2, at], met[3, at] = met_slopes(batch[at], str(kind))
    noisy = np.isin(arrivals, ("poisson", "bursty")).astype(float)
    return Load(met[0], met[1], met[2], met[3], noisy)


def reference_lengths(data: xr.Dataset) -> xr.Dataset:
    """Return prompt, context and steps of each base's mean run, in tokens and steps.

    Steps are those of an acceptance of 0.7 where it is not known: only coordinates hang on it.
    """
    base = data["base_of_run"].values
    context = data["input_len_tokens"] + data["output_len_tokens"] / 2
    drafts = data["num_speculative_tokens"].values
    steps = steps_of_runs(data)
    emitted = np.maximum(data["output_len_tokens"].values - 1, 1)
    guess = expected_steps_renewal(emitted, [0.7] * int(drafts.max()), drafts)
    means = {
        "input_len_tokens": data["input_len_tokens"].values,
        "context_tokens": context.values,
        "num_steps": np.maximum(np.where(np.isnan(steps), guess, steps), 1),
        "num_speculative_tokens": np.maximum(drafts, 1),
    }
    count = np.bincount(base, minlength=data.sizes["base"])
    return xr.Dataset(
        {
            name: ("base", np.bincount(base, values, minlength=data.sizes["base"]) / count)
            for name, values in means.items()
        },
        coords={"base": data["base"]},
    )


def _acceptance(data: xr.Dataset, priors: dict[str, Prior]) -> list[Any]:
    """Add the acceptance hierarchy; return the conditional rates by position, each (group,)."""
    center = draw("acceptance_logit", priors["acceptance_logit"])
    spread = draw("acceptance_group_sd", priors["acceptance_group_sd"])
    intercept = pm.Normal("acceptance_intercept", center, spread, dims="acceptance_group")
    decay = draw("acceptance_decay", priors["acceptance_decay"], dims="acceptance_group")
    rates = positional_acceptance(intercept, decay, data.sizes["position"])
    by_position = pt.stack(rates, axis=-1)
    pm.Deterministic(
        "conditional_acceptance_rate", by_position, dims=("acceptance_group", "position")
    )
    trials = data["trials_at_position"].values
    run, position = np.nonzero(trials)
    group = data["group_of_run"].values[run]
    labels = [
        f"{r} position {j + 1}" for r, j in zip(data["run"].values[run], position, strict=True)
    ]
    pm.modelcontext(None).add_coord("count", labels)
    observe_accepted(
        "accepted",
        data["accepted_at_position"].values[run, position],
        trials[run, position],
        rate=by_position[group, position],
        concentration=draw("acceptance_concentration", priors["acceptance_concentration"]),
        dims="count",
    )
    return rates


def steps_of_runs(data: xr.Dataset) -> np.ndarray:
    """Return the expected steps of each run whose acceptance is known or not needed.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.

    Returns
    -------
    array of float, (run,)
        Steps to emit the answer after its first token; NaN where acceptance is to be estimated.
    """
    drafts = data["num_speculative_tokens"].values
    emitted = np.maximum(np.rint(data["output_len_tokens"].values).astype(int) - 1, 0)
    forced = data["forced_acceptance_rate"].values
    known = (drafts == 0) | ~np.isnan(forced)
    rate = np.where(drafts == 0, 0.0, np.nan_to_num(forced))
    keys, inverse = np.unique(
        np.stack([emitted, drafts, rate], axis=-1), axis=0, return_inverse=True
    )
    steps = [
        float(expected_steps(int(m), [float(a)] * int(k), int(k))) if k else m for m, k, a in keys
    ]
    return np.where(known, np.array(steps)[inverse], np.nan)


def _steps(data: xr.Dataset, priors: dict[str, Prior]) -> Any:
    """Return the expected steps of each run, (run,); adds acceptance where it is estimated."""
    known = steps_of_runs(data)
    estimated = np.flatnonzero(np.isnan(known))
    if not len(estimated):
        return pt.as_tensor(known)
    rates = _acceptance(data, priors)
    # One element per setting, not per run.
    group = data["group_of_run"].values[estimated]
    drafts = data["num_speculative_tokens"].values[estimated]
    emitted = data["output_len_tokens"].values[estimated] - 1
    keys, inverse = np.unique(
        np.stack([group, drafts, emitted], axis=-1), axis=0, return_inverse=True
    )
    number = keys[:, 0].astype(int)
    longest = int(drafts.max())
    steps = expected_steps_renewal(
        keys[:, 2], [rate[number] for rate in rates[:longest]], keys[:, 1].astype(int)
    )
    return pt.as_tensor(np.nan_to_num(known))[estimated].set(steps[inverse])


def build_model(data: Any, priors: dict[str, Prior] | None = None) -> pm.Model:
    """Return the hierarchical latency model of some runs.

    Parameters
    ----------
    data : xarray.Dataset or pandas.DataFrame
        Result of `to_dataset`, or a table that it takes.
    priors : dict of str to Prior, optional
        By default `default_priors(data)`.

    Returns
    -------
    pymc.Model
        Observes ``log_latency`` (run) given each run's control, and ``accepted`` (count) where
        acceptance was counted. Deterministics named as the fields of `CostCoefficients`, dims
        ``base`` or ``pair``. The data ``score_weight`` (run), 1 at first, is 0 for runs to hold
        out: folds then share one compilation.

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
    ['accepted', 'log_latency']
    """
    if not isinstance(data, xr.Dataset):
        data = to_dataset(data)
    if not data.sizes["run"]:
        raise DataError("the data set holds no run. Give at least one run with a mean latency.")
    priors = check_priors(default_priors(data) if priors is None else priors)
    load = load_of_runs(data)
    base, pair = data["base_of_run"].values, data["pair_of_run"].values
    coords = {
        dim: data[dim].values
        for dim in ("run", "sweep", "base", "pair", "deployment", "acceptance_group", "position")
    } | {
        "verifier_cost": list(VERIFIER_COSTS),
        "direct_cost": ["verify_fixed_s", "mixed_step_s"],
        "load_part": ["stall_s", "verify_s", "verify_drafts_s", "draft_s"],
        "drafting_base": data["base"].values[first_pairs(data)[0]],
        "drafter_cost": list(DRAFTER_COSTS),
        "prefill_part": ["prefill_fixed_s", "prefill_tokens_s"],
    }
    with pm.Model(coords=coords) as model:
        weight = pm.Data("score_weight", np.ones(data.sizes["run"]), dims="run")
        log_latency = pm.Data("log_mean_e2e", np.log(data["mean_e2e_s"].values), dims="run")
        of_base, of_pair = cost_coefficients(data, reference_lengths(data), priors)
        costs = costs_of_runs(of_base, of_pair, base, pair)
        terms = {
            "requests_per_step": load.requests_per_step,
            "others": load.others,
            "num_speculative_tokens": data["num_speculative_tokens"].values,
            "input_len_tokens": data["input_len_tokens"].values,
            "output_len_tokens": data["output_len_tokens"].values,
            "num_steps": _steps(data, priors),
        }
        latency = request_latency(costs, **terms)
        slope = latency_slope(
            costs,
            requests_slope=load.requests_slope,
            others_slope=load.others_slope,
            **terms,
        )
        one_minus_elasticity: Any = 1 - data["effective_batch_observed"].values * slope / latency
        boot_sd = draw("boot_sd", priors["boot_sd"], dims="deployment")
        of_sweep = data["deployment_of_base"].values[data["base_of_sweep"].values]
        # Not centred: a sweep of few runs tells about as much of its boot as the prior does.
        standard = pm.Normal("standard_boot", 0, 1, dims="sweep")
        boot = pm.Deterministic("log_boot", boot_sd[of_sweep] * standard, dims="sweep")
        discrepancy = draw("discrepancy_sd", priors["discrepancy_sd"], dims="base")
        request_cv = draw("request_cv", priors["request_cv"], dims="base")
        draw("extrapolation_sd", priors["extrapolation_sd"])
        scored = {
            "location": pt.log(latency) + boot[data["sweep_of_run"].values],
            "scale": latency_scale(
                discrepancy[base],
                request_cv[base],
                data["num_requests"].values,
                one_minus_elasticity,
                load.arrival_noise,
            ),
            "tail_dof": draw("tail_dof", priors["tail_dof"]),
            "one_minus_elasticity": one_minus_elasticity,
        }
        observe_latency("log_latency", log_latency, weight=weight, **scored)
        pm.Deterministic(
            "latency_log_density", latency_logp(log_latency, **scored, weight=1.0), dims="run"
        )
    model.bayes_sd_data, model.bayes_sd_priors = data, priors
    return model
