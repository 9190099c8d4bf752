"""A non-negative least-squares fit of the law, one cell at a time: a start, and covariates.

For a fixed place of the knee the law is linear in its costs, so the best place on a grid is found
without local optima. The chains start there (`bayes_sd.start`), and the spread of requests takes
its elasticity from it (`bayes_sd.percentile_graph`).
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.optimize import nnls
from scipy.special import expit

from bayes_sd.acceptance_graph import steps_of_runs
from bayes_sd.acceptance_levels import pooled_rates
from bayes_sd.labels import experts_fraction
from bayes_sd.physics.acceptance import expected_steps_renewal
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.physics.experts import expert_coverage
from bayes_sd.physics.jumps import JUMP_TOKENS, jump_time
from bayes_sd.physics.latency import latency_slope, request_latency
from bayes_sd.physics.step_time import knee_time
from bayes_sd.priors import REFERENCE, RESOURCE, Prior, deployment_center
from bayes_sd.run_load import REQUEST, load_of_runs

KNEE_STEPS = np.linspace(-2.0, 2.5, 19)  # places tried, in prior standard deviations
NUM_COSTS = 7 + len(JUMP_TOKENS)
PULL = 0.02  # weight of the prior's medians: one of them counts as one run with a 2 % error


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
        "num_speculative_tokens": np.maximum(data["num_draft_steps"].values, 1),
    }
    count = np.bincount(base, minlength=data.sizes["base"])
    return xr.Dataset(
        {
            name: ("base", np.bincount(base, values, minlength=data.sizes["base"]) / count)
            for name, values in means.items()
        },
        coords={"base": data["base"]},
    )


@dataclass(frozen=True)
class LeastSquares:
    """The law of each base as least squares finds it.

    Attributes
    ----------
    costs : array, (base, cost)
        Seconds: own prefill and a neighbour's at the mean prompt; fixed part of a step and of a
        draft; a request in a step, and its drafts each; a mixed step; the jumps.
    knee : array, (base, 2)
        Place of the knee, tokens, and its slope, s per token.
    """

    costs: np.ndarray
    knee: np.ndarray


def least_squares(data: xr.Dataset, priors: dict[str, Prior], lengths: xr.Dataset) -> LeastSquares:
    """Fit the law to the mean latencies of each base, by relative errors.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    priors : dict of str to Prior
        Table of priors, whose medians pull a little.
    lengths : xarray.Dataset
        Result of `reference_lengths`.

    Returns
    -------
    LeastSquares
    """
    steps = expected_steps_of_runs(data)
    load = load_of_runs(data)
    drafts, verified = data["num_draft_steps"].values, data["num_verified_tokens"].values
    requests = load.requests_per_step
    tokens = requests * verified
    mixed = 1 - np.exp(-load.others / np.maximum(steps, 1e-9))
    columns = [
        np.ones(len(steps)),
        load.others,
        steps * _expert_loading(data, tokens, mixed, priors),
        steps * drafts,
        steps * requests,
        steps * requests * drafts,
        steps * mixed,
        *_jump_columns(steps, tokens, load.requests_variance * verified**2),
    ]
    features = np.stack(columns, axis=-1)
    latency = data["mean_e2e_s"].values
    costs = np.empty((data.sizes["base"], NUM_COSTS))
    knee = np.empty((data.sizes["base"], 2))
    for base in range(data.sizes["base"]):
        at = data["base_of_run"].values == base
        medians, center = _medians(data, base, lengths, priors)
        costs[base], knee[base] = _best_knee(
            features[at], steps[at], tokens[at], latency[at], medians, center, priors
        )
    return LeastSquares(costs, knee)


def load_covariates(
    data: xr.Dataset, priors: dict[str, Prior], lengths: xr.Dataset
) -> tuple[np.ndarray, np.ndarray]:
    """Return elasticity and share of the own prefill in the latency of each run, both (run,).

    Parameters
    ----------
    data, priors, lengths
        As in `least_squares`.

    Returns
    -------
    elasticity, own_prefill_share : array
        d log L / d log B at the run's batch, and what of its latency does not grow with a
        request's steps: the measured time to first token, else prior medians (runs at one prompt
        length do not tell the own prefill from the steps), and half of the latency at most.

    Notes
    -----
    Held-out runs (weight 0) take part, as in the starting point.
    """
    found = least_squares(data, priors, lengths)
    base = data["base_of_run"].values
    own, stall, fixed, draft, per_request, per_draft, mixed, *jumps = found.costs[base].T
    prompt = lengths["input_len_tokens"].values[base]
    fraction = experts_fraction(data)[base]
    place, slope = found.knee[base].T
    costs = CostCoefficients(
        prefill_fixed_s=own,
        prefill_per_token_s=0.0,
        prefill_stall_per_token_s=stall / prompt,
        verify_fixed_s=fixed,
        verify_per_request_s=per_request,
        verify_growth_per_draft=0.0,
        context_per_token_s=0.0,
        draft_fixed_s=draft,
        draft_per_request_s=per_draft,
        knee_s_per_token=slope,
        knee_tokens=place,
        knee_width_tokens=priors["knee_width"].center * place,
        mixed_step_s=mixed,
        **{f"jump_{t}_s": jump for t, jump in zip(JUMP_TOKENS, jumps, strict=True)},
        expert_share=np.where(fraction < 1, _expert_share(priors), 0.0),
        expert_load_cv=priors["expert_load_cv"].center,
        experts_fraction=fraction,
    )
    load = load_of_runs(data)
    terms = {
        "requests_per_step": load.requests_per_step,
        "others": load.others,
        "requests_variance": load.requests_variance,
        **{name: data[name].values for name in REQUEST},
        "input_len_tokens": prompt,
        "num_steps": expected_steps_of_runs(data),
    }
    latency = request_latency(costs, **terms)
    rise = latency_slope(
        costs, requests_slope=load.requests_slope, others_slope=load.others_slope, **terms
    )
    elasticity = data["effective_batch_observed"].values * rise / latency
    medians = [_medians(data, b, lengths, priors)[0][0] for b in range(data.sizes["base"])]
    first = data["mean_ttft_s"].values
    first = np.where(np.isnan(first), np.array(medians)[base], first)
    return np.asarray(elasticity), np.minimum(first / data["mean_e2e_s"].values, 0.5)


def _jump_columns(steps: np.ndarray, tokens: np.ndarray, variance: np.ndarray) -> list[np.ndarray]:
    """Return what the height of each jump is multiplied with."""
    heights = np.eye(len(JUMP_TOKENS))
    return [steps * jump_time(tokens, tuple(height), variance) for height in heights]


def _expert_loading(
    data: xr.Dataset, tokens: np.ndarray, mixed: np.ndarray, priors: dict[str, Prior]
) -> np.ndarray:
    """Return the share of a full verifier pass that each run's steps load, at prior medians."""
    fraction = experts_fraction(data)[data["base_of_run"].values]
    share = _expert_share(priors)
    routing = (fraction, priors["expert_load_cv"].center)
    prompt = data["input_len_tokens"].values
    coverage = (1 - mixed) * expert_coverage(tokens, *routing)
    coverage = coverage + mixed * expert_coverage(tokens + prompt, *routing)
    return np.asarray(np.where(fraction < 1, 1 - share * (1 - coverage), 1.0))


def _expert_share(priors: dict[str, Prior]) -> float:
    return float(expit(priors["expert_share"].center))


def expected_steps_of_runs(data: xr.Dataset) -> np.ndarray:
    """Return the expected steps of each run, with the pooled rates of counted acceptance."""
    steps = steps_of_runs(data)
    emitted = np.maximum(data["output_len_tokens"].values - 1, 0)
    at = np.flatnonzero(np.isnan(steps))
    if len(at):
        rates = pooled_rates(data)[data["group_of_run"].values[at]]
        drafts = data["num_speculative_tokens"].values[at]
        steps[at] = expected_steps_renewal(emitted[at], list(rates.T), drafts)
    return steps


def _medians(
    data: xr.Dataset, base: int, lengths: xr.Dataset, priors: dict[str, Prior]
) -> tuple[np.ndarray, float]:
    """Return the prior medians of the linear costs of a base, and log place of the knee."""
    deployment = str(data["deployment"].values[data["deployment_of_base"].values[base]])
    verifier = float(np.nan_to_num(data["verifier_params_b"].values[base], nan=8.0))
    pairs = np.flatnonzero(data["base_of_pair"].values == base)
    drafter = np.nanmean(
        np.append(data["drafter_params_b"].values[pairs], np.nan_to_num(0.05 * verifier))
    )
    size = {
        "verifier": np.log(verifier / REFERENCE["verifier_params_b"]),
        "drafter": np.log(drafter / REFERENCE["drafter_params_b"]),
    }
    log = {
        name: deployment_center(priors[name], name, deployment)
        + priors[f"{name}.size_exponent"].center
        * size["drafter" if name.startswith("draft") else "verifier"]
        for name in RESOURCE
    }
    prompt = lengths["input_len_tokens"].values[base] / REFERENCE["input_len_tokens"]
    cost = {name: float(np.exp(value)) for name, value in log.items()}
    stall = cost["prefill_stall_s"] * prompt
    return np.array(
        [
            cost["prefill_fixed_s"] + stall,
            stall,
            cost["verify_fixed_s"],
            cost["draft_fixed_s"],
            cost["verify_per_request_s"],
            cost["draft_per_request_s"],
            cost["mixed_step_s"],
            *[cost["verify_fixed_s"] * expit(priors["jump_share"].center)] * len(JUMP_TOKENS),
        ]
    ), log["knee_tokens"]


def _best_knee(
    features: np.ndarray,
    steps: np.ndarray,
    tokens: np.ndarray,
    latency: np.ndarray,
    medians: np.ndarray,
    log_knee: float,
    priors: dict[str, Prior],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the linear costs in seconds, and place and slope of the knee, of least error."""
    best = (np.inf, medians, np.array([np.exp(log_knee), 0.0]))
    slope = medians[1] * priors["knee_ratio"].center / 512.0
    scale = np.append(medians, slope)
    for place in np.exp(log_knee + KNEE_STEPS * priors["knee_tokens"].spread):
        bend = steps * knee_time(tokens, 1.0, place, priors["knee_width"].center * place)
        relative = np.column_stack([features, bend]) * scale / latency[:, None]
        design = np.vstack([relative, PULL * np.eye(NUM_COSTS + 1)])
        target = np.append(np.ones(len(latency)), np.full(NUM_COSTS + 1, PULL))
        found, error = nnls(design, target)
        if error < best[0]:
            # A cost of 0 has no logarithm: start a tenth of the median above it.
            best = (
                error,
                np.maximum(found[:NUM_COSTS], 0.1) * medians,
                np.array([place, found[NUM_COSTS] * slope]),
            )
    return best[1], best[2]
