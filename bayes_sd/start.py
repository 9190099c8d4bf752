"""Where the chains start: a non-negative least-squares fit of the same law, one cell at a time.

For a fixed place of the knee the law is linear in its costs, so the best place on a grid is found
without local optima. A chain that starts far from it can be caught where a knee below the
measured loads writes the linear part a second time. Only the start hangs on this: the posterior
does not.
"""

import numpy as np
import xarray as xr
from scipy.optimize import nnls

from bayes_sd.acceptance_graph import steps_of_runs
from bayes_sd.acceptance_levels import pooled_rates
from bayes_sd.graph import first_pairs
from bayes_sd.labels import experts_fraction
from bayes_sd.model import reference_lengths
from bayes_sd.physics.acceptance import expected_steps_renewal
from bayes_sd.physics.experts import expert_coverage
from bayes_sd.physics.jumps import JUMP_TOKENS, jump_time
from bayes_sd.physics.step_time import knee_time
from bayes_sd.priors import (
    DRAFTER_COSTS,
    REFERENCE,
    RESOURCE,
    VERIFIER_COSTS,
    Prior,
    deployment_center,
)
from bayes_sd.run_load import load_of_runs

KNEE_STEPS = np.linspace(-2.0, 2.5, 19)  # places tried, in prior standard deviations
OFF_CENTER = 0.1
NUM_COSTS = 7 + len(JUMP_TOKENS)
PULL = 0.02  # weight of the prior's medians: one of them counts as one run with a 2 % error


def starting_point(data: xr.Dataset, priors: dict[str, Prior]) -> dict[str, np.ndarray]:
    """Return starting values of the cost variables.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    priors : dict of str to Prior
        Table of priors; costs that no run tells of start at its medians.

    Returns
    -------
    dict of str to array
        By name of the model's variables, on the log scale.
    """
    lengths = reference_lengths(data)
    steps = _steps(data)
    load = load_of_runs(data)
    drafts = data["num_speculative_tokens"].values
    requests = load.requests_per_step
    tokens = requests * (drafts + 1)
    columns = [
        np.ones(len(steps)),
        load.others,
        steps * _expert_loading(data, tokens, priors),
        steps * drafts,
        steps * requests,
        steps * requests * drafts,
        steps * (1 - np.exp(-load.others / np.maximum(steps, 1e-9))),
        *_jump_columns(steps, tokens, load.requests_variance * (drafts + 1.0) ** 2),
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
    prefill, stall, fixed, draft, per_request, per_draft, mixed, *jumps = costs.T
    prompt, mean_steps = lengths["input_len_tokens"].values, lengths["num_steps"].values
    ratio = priors["knee_ratio"]
    slope = np.log(np.maximum(knee[:, 1], 1e-12) * prompt / stall)
    start = {
        "log_verifier_cost": np.log(np.stack([fixed, mixed], axis=-1)),
        "log_prefill": np.log(np.stack([np.maximum(prefill - stall, prefill / 4), stall], -1)),
        "log_jump_share": np.log(np.stack(jumps, axis=-1) / fixed[:, None]),
        "log_knee_tokens": np.log(knee[:, 0]),
        "log_knee_ratio": np.clip(
            slope, ratio.log_center - 2 * ratio.spread, ratio.log_center + 2 * ratio.spread
        ),
    }
    drafting, first = first_pairs(data)
    plain = np.setdiff1d(np.arange(data.sizes["base"]), drafting)
    load_cost = [stall, per_request * mean_steps]
    if len(plain):
        start["log_plain_load_cost"] = np.log(np.stack(load_cost, axis=-1)[plain])
    if len(drafting):
        scale = mean_steps * lengths["num_speculative_tokens"].values * per_draft
        parts = np.stack([*load_cost, 0.3 * scale, 0.7 * scale], axis=-1)
        start["log_load_cost"] = np.log(parts[drafting])
        of_pair = data["base_of_pair"].values
        start["log_draft_fixed"] = np.log(draft[of_pair])
        later = np.setdiff1d(np.arange(data.sizes["pair"]), first)
        if len(later):
            start["log_draft_ratio"] = np.zeros(len(later))
    return start | _population_start(data, start, priors)


def _jump_columns(steps: np.ndarray, tokens: np.ndarray, variance: np.ndarray) -> list[np.ndarray]:
    """Return what the height of each jump is multiplied with."""
    heights = np.eye(len(JUMP_TOKENS))
    return [steps * jump_time(tokens, tuple(height), variance) for height in heights]


def _expert_loading(data: xr.Dataset, tokens: np.ndarray, priors: dict[str, Prior]) -> np.ndarray:
    """Return the share of a full verifier pass that each run's steps load, at prior medians."""
    fraction = experts_fraction(data)[data["base_of_run"].values]
    share = 1 / (1 + np.exp(-priors["expert_share"].center))
    coverage = expert_coverage(tokens, fraction, priors["expert_load_cv"].center)
    return np.asarray(np.where(fraction < 1, 1 - share * (1 - coverage), 1.0))


def _population_start(
    data: xr.Dataset, start: dict[str, np.ndarray], priors: dict[str, Prior]
) -> dict[str, np.ndarray]:
    """Return size exponents, group scales and error scales, which start near their medians.

    A jitter of these by the usual factor of e would blur the likelihood, and let the costs wander
    off before the chain has found its step size. None starts at its prior's very mode: where the
    data say nothing of it the gradient is 0 there, and nutpie refuses such a start.
    """
    aside = 1 + OFF_CENTER
    kinds = {"verifier": VERIFIER_COSTS}
    if data.sizes["pair"]:
        kinds["drafter"] = DRAFTER_COSTS
    values = {}
    for kind, names in kinds.items():
        exponents = {n: priors[f"{n}.size_exponent"] for n in names}
        values[f"{kind}_size_exponent"] = np.array(
            [exponents[n].center + OFF_CENTER * exponents[n].spread for n in names]
        )
        values[f"{kind}_group_sd"] = aside * np.array(
            [priors[f"{n}.group_sd"].center for n in names]
        )
    for name in ("discrepancy_sd", "load_discrepancy_sd"):
        values[name] = np.full(data.sizes["base"], aside * priors[name].center)
    values["knee_width"] = np.full(data.sizes["base"], aside * priors["knee_width"].center)
    values["tail_dof"] = np.array(aside * priors["tail_dof"].center)
    return values


def _steps(data: xr.Dataset) -> np.ndarray:
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
            *[cost["verify_fixed_s"] * priors["jump_share"].center] * len(JUMP_TOKENS),
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
