"""The model in blocks that share no parameter, to be sampled one by one.

First tokens and percentiles have parameters of their own, and see the mean latency as a constant
(`bayes_sd.ttft_graph`, `bayes_sd.percentile_graph`). The posterior of the whole model is then the
product of those of its blocks, and a sampler that moves them together pays for all with the short
steps of the one that needs them.
"""

from collections.abc import Sequence

import numpy as np
import pymc as pm
import xarray as xr

from bayes_sd.acceptance_graph import steps_of_runs
from bayes_sd.least_squares import load_covariates, reference_lengths
from bayes_sd.model import RESPONSES, build_model, model_coords, score_weight
from bayes_sd.percentile_graph import add_percentiles, scored_latencies
from bayes_sd.prior import Prior
from bayes_sd.ttft_graph import add_ttft, has_ttft

LATENCY = "latency"


def build_blocks(
    data: xr.Dataset, priors: dict[str, Prior], *, responses: Sequence[str] = RESPONSES
) -> dict[str, pm.Model]:
    """Return the models whose posteriors multiply to that of `build_model`.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    priors : dict of str to Prior
        Table of priors.
    responses : sequence of str
        As in `build_model`.

    Returns
    -------
    dict of str to pymc.Model
        ``latency`` first: mean latency and acceptance, and first tokens where the steps of some
        request hang on acceptance that was counted; then, where there are any, ``ttft`` and
        ``percentiles_e2e``, ``percentiles_ttft``, ``percentiles_tpot``. Each has the data
        ``score_weight``.

    Examples
    --------
    >>> from bayes_sd.data import to_dataset
    >>> from bayes_sd.datasets import load_scaling_study
    >>> from bayes_sd.priors import default_priors
    >>> frame = load_scaling_study(["Qwen/Qwen3-32B"])
    >>> data = to_dataset(frame[~frame["is_throughput_test"]])
    >>> list(build_blocks(data, default_priors(data)))
    ['latency', 'ttft', 'percentiles_e2e', 'percentiles_ttft', 'percentiles_tpot']
    """
    at, steps = has_ttft(data), steps_of_runs(data)
    ttft_apart = "ttft" in responses and at.any() and np.isfinite(steps[at]).all()
    within = ["ttft"] if "ttft" in responses and not ttft_apart else []
    blocks = {LATENCY: build_model(data, priors, responses=within)}
    lengths = reference_lengths(data)
    if ttft_apart:
        log_latency = np.log(data["mean_e2e_s"].values)
        with pm.Model(coords=model_coords(data)) as blocks["ttft"]:
            known = {"log_latency": log_latency, "num_steps": steps, "weight": score_weight(data)}
            add_ttft(data, priors, lengths, **known)
    scored = scored_latencies(data) if "percentiles" in responses else {}
    if not scored:
        return blocks
    covariates = load_covariates(data, priors, lengths)
    for latency, ratios in scored.items():
        with pm.Model(coords=model_coords(data)) as block:
            weight = score_weight(data)
            add_percentiles(data, ratios, priors, covariates, latency=latency, weight=weight)
        blocks[f"percentiles_{latency}"] = block
    return blocks
