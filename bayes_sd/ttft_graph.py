r"""Time to first token of a run, given the time that its steps took.

.. math:: TTFT = c_{1t} + c_{2t} p + \omega \; step, \qquad step = e2e / N

A request waits for the step that runs as it arrives, and its prompt shares a step with the
requests that decode: about one step each, of which `first_wait_steps` counts how many. Prefills of
the neighbours fall into its decoding, not before its first token: TTFT hardly rises with the batch
where the engine has room, so a term of B prefills is not in it.

The step is the run's own, its measured latency over its steps, and the prefill before the first
token has coefficients of its own, and no boot but that of the step: first tokens say nothing of
the costs of the whole latency. Tied to those (by equality, by a factor of spread 0.3, or by a
common boot), the first tokens of the scaling study, far more precise than any law of them, bent the
costs: on held-out sweeps the CRPS of the mean latency rose by a tenth to a quarter
(`benchmarks/heldout.py`, run with each of these forms in turn).
"""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from bayes_sd.population import draw
from bayes_sd.prior import Prior
from bayes_sd.priors import REFERENCE, deployment_center
from bayes_sd.run_load import TTFT_TAIL_DOF
from bayes_sd.shares_of_sums import SumAndShare


def has_ttft(data: xr.Dataset) -> np.ndarray:
    """Mark runs whose mean time to first token is known and not bent by a full engine, (run,)."""
    known = np.isfinite(data["mean_ttft_s"].values)
    return np.asarray(known & (data["control"].values != "cap"), dtype=bool)


def ttft_centers(data: xr.Dataset, priors: dict[str, Prior]) -> np.ndarray:
    """Return log prior medians of the two prefill costs before a first token, (base, 2).

    Fixed, and of a prompt of the reference length; as for the whole latency the deployment's
    level and the size law, at prior medians.
    """
    deployments = data["deployment"].values[data["deployment_of_base"].values]
    active = np.nan_to_num(data["verifier_active_params_b"].values, nan=8.0)
    rows = []
    for name in ("prefill_fixed_s", "prefill_stall_s"):
        level = [deployment_center(priors[name], name, str(d)) for d in deployments]
        exponent = priors[f"{name}.size_exponent"].center
        rows.append(level + exponent * np.log(active / REFERENCE["verifier_params_b"]))
    return np.stack(rows, axis=-1)


def add_ttft(
    data: xr.Dataset,
    priors: dict[str, Prior],
    lengths: xr.Dataset,
    *,
    log_latency: Any,
    num_steps: Any,
    weight: Any,
) -> None:
    """Score the mean time to first token of runs, in the model in context.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    priors : dict
        Table of priors.
    lengths : xarray.Dataset
        ``input_len_tokens`` per base: runs at this prompt tell the sum of the two costs.
    log_latency : array or tensor, (run,)
        Log of the measured mean latency, log s.
    num_steps : tensor, (run,)
        Expected steps of a request.
    weight : tensor, (run,)
        1 to score a run, 0 to hold it out.
    """
    at = np.flatnonzero(has_ttft(data))
    of_base = data["base_of_run"].values[at]
    spreads = [priors[name].spread for name in ("prefill_fixed_s", "prefill_stall_s")]
    prompt = lengths["input_len_tokens"].values
    longer = np.log(prompt / REFERENCE["input_len_tokens"])
    own = pt.exp(
        pm.Normal(
            "log_ttft_own",
            ttft_centers(data, priors) + np.stack([np.zeros_like(longer), longer], axis=-1),
            spreads,
            dims=("base", "ttft_part"),
            transform=SumAndShare(),
        )
    )
    fixed = pm.Deterministic("ttft_fixed_s", own[:, 0], dims="base")
    per_token = pm.Deterministic("ttft_per_token_s", own[:, 1] / prompt, dims="base")
    wait = draw("first_wait_steps", priors["first_wait_steps"], dims="base")
    spread = draw("ttft_discrepancy_sd", priors["ttft_discrepancy_sd"], dims="base")
    step = (pt.exp(pt.as_tensor(log_latency)) / pt.maximum(num_steps, 1.0))[at]
    prefill = fixed[of_base] + per_token[of_base] * data["input_len_tokens"].values[at]
    location = pt.log(prefill + wait[of_base] * step)
    observed = pm.Data("log_mean_ttft", np.log(data["mean_ttft_s"].values[at]))

    def logp(value: Any, place: Any, scale: Any, counted: Any) -> Any:
        density = pm.logp(pm.StudentT.dist(nu=TTFT_TAIL_DOF, mu=place, sigma=scale), value)
        return counted * density

    pm.CustomDist("log_ttft", location, spread[of_base], weight[at], logp=logp, observed=observed)
