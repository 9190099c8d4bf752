"""Where the chains start: at the least-squares fit of the same law, one cell at a time.

A chain that starts far from it can be caught where a knee below the measured loads writes the
linear part a second time. Only the start hangs on this: the posterior does not.
"""

import numpy as np
import xarray as xr
from scipy.special import logit

from bayes_sd.graph import first_pairs
from bayes_sd.least_squares import least_squares, reference_lengths
from bayes_sd.priors import DRAFTER_COSTS, VERIFIER_COSTS, Prior

OFF_CENTER = 0.1


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
    found = least_squares(data, priors, lengths)
    knee = found.knee
    prefill, stall, fixed, draft, per_request, per_draft, mixed, *jumps = found.costs.T
    prompt, mean_steps = lengths["input_len_tokens"].values, lengths["num_steps"].values
    ratio = priors["knee_ratio"]
    slope = np.log(np.maximum(knee[:, 1], 1e-12) * prompt / stall)
    start = {
        "log_verifier_cost": np.log(np.stack([fixed, mixed], axis=-1)),
        "log_prefill": np.log(np.stack([np.maximum(prefill - stall, prefill / 4), stall], -1)),
        "jump_share_logit": logit(np.clip(np.stack(jumps, axis=-1) / fixed[:, None], 1e-6, 0.8)),
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
    return values
