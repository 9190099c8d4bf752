r"""Time to first token of a run, given its latency.

.. math:: TTFT = \rho (c_{1p} + c_{1q} p) + \omega \; step(n, k)

A request waits for the step that runs as it arrives, and its prompt shares a step with the
requests that decode: about one step each, of which `first_wait_steps` counts how many. Prefills of
the neighbours fall into its decoding, not before its first token: TTFT hardly rises with the batch
where the engine has room, so a term of B prefills is not in it. Of what a request pays once not all
is paid before its first token, so the two are tied by a factor rho, of spread 0.3, not by equality:
with rho = 1 the first tokens of the scaling study, far more precise than any law of them, bent the
costs of the whole latency, and its held-out CRPS rose by a fifth.
"""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.population import draw
from bayes_sd.prior import Prior
from bayes_sd.run_load import TTFT_TAIL_DOF


def has_ttft(data: xr.Dataset) -> np.ndarray:
    """Mark runs whose mean time to first token is known and not bent by a full engine, (run,)."""
    known = np.isfinite(data["mean_ttft_s"].values)
    return np.asarray(known & (data["control"].values != "cap"), dtype=bool)


def add_ttft(
    data: xr.Dataset,
    priors: dict[str, Prior],
    costs: CostCoefficients,
    terms: dict[str, Any],
    latency: Any,
    *,
    boot: Any,
    weight: Any,
) -> None:
    """Score the mean time to first token of runs, to the model in context.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    priors : dict
        Table of priors.
    costs : CostCoefficients
        Per run.
    terms : dict
        Arguments of `request_latency`, per run.
    latency : tensor, (run,)
        The law's latency at the batch of the run, s.
    boot : tensor, (run,)
        Log factor of the run's boot.
    weight : tensor, (run,)
        1 to score a run, 0 to hold it out.
    """
    at = np.flatnonzero(has_ttft(data))
    of_base = data["base_of_run"].values[at]
    prompt = data["input_len_tokens"].values
    wait = draw("first_wait_steps", priors["first_wait_steps"], dims="base")
    spread = draw("ttft_discrepancy_sd", priors["ttft_discrepancy_sd"], dims="base")
    share = draw("ttft_own_share", priors["ttft_own_share"], dims="base")
    prefill = costs.prefill_fixed_s + costs.prefill_per_token_s * prompt
    decoding = latency - prefill - terms["others"] * costs.prefill_stall_per_token_s * prompt
    step = decoding / pt.maximum(terms["num_steps"], 1.0)
    location = pt.log(share[of_base] * prefill[at] + wait[of_base] * step[at]) + boot[at]
    observed = pm.Data("log_mean_ttft", np.log(data["mean_ttft_s"].values[at]))

    def logp(value: Any, place: Any, scale: Any, counted: Any) -> Any:
        return counted * pm.logp(pm.StudentT.dist(nu=TTFT_TAIL_DOF, mu=place, sigma=scale), value)

    pm.CustomDist("log_ttft", location, spread[of_base], weight[at], logp=logp, observed=observed)
