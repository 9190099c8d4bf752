"""Every prior of the model in one table: its unit, its place, its width, and the reason for both.

Costs are log-normal: a median in seconds and a standard deviation of the logarithm. Medians hold
for the reference sizes of `REFERENCE` on a data-centre GPU; `default_priors` moves them for
deployments on a CPU. No prior was chosen by looking at the fit of the bundled data: each follows
from hardware figures, from a published range, or says only what would be absurd.
"""

from dataclasses import replace

import numpy as np
import xarray as xr

from bayes_sd.acceptance_priors import acceptance_priors
from bayes_sd.exceptions import ArgumentError
from bayes_sd.prior import Prior
from bayes_sd.spread_priors import spread_priors

REFERENCE = {"verifier_params_b": 8.0, "drafter_params_b": 0.5, "input_len_tokens": 512.0}
# Bytes and operations per second of one CPU core or socket against a data-centre GPU: tens of
# GB/s against 2-5 TB/s, and about 1 against several hundred TFLOP/s.
CPU_SLOWDOWN = {"memory": 100.0, "compute": 300.0, "host": 2.0}


def _cost(median: float, spread: float, reason: str) -> Prior:
    return Prior("lognormal", median, spread, "s", reason)


def _table() -> dict[str, Prior]:
    size = "about linear in parameters (paper.md a.4), less where fixed overheads weigh"
    between = "deployed models of one size differ by tens of per cent; never exactly by 0"
    table = {
        # Costs of a verifier of REFERENCE size and prompt length on one GPU.
        "prefill_stall_s": _cost(
            0.028, 1.0, "2 x 8e9 x 512 operations at 300 TFLOP/s, within a factor of 5"
        ),
        "prefill_fixed_s": _cost(0.03, 1.0, "tokenising, scheduling, network: 6 to 150 ms"),
        "verify_fixed_s": _cost(0.008, 0.8, "16 GB of weights at 2 TB/s, within a factor of 4"),
        "verify_per_request_s": _cost(
            2e-4, 1.2, "attention over a few hundred tokens and sampling: 30 us to 1.4 ms"
        ),
        "mixed_step_s": _cost(
            1e-3, 1.2, "a step that holds a prefill leaves the captured graph: 0.1 to 7 ms of host"
        ),
        "knee_tokens": Prior(
            "lognormal", 100.0, 0.7, "tokens", "FLOP/s over byte/s at 2 bytes a weight, not at peak"
        ),
        # Costs of a drafter of REFERENCE size.
        "draft_fixed_s": _cost(1e-3, 0.8, "1 GB at 2 TB/s plus a launch: 0.3 to 4 ms"),
        "draft_per_request_s": _cost(2e-5, 1.5, "a small share of verification; 2 to 240 us"),
    }
    sizes = {
        "prefill_stall_s": (1.0, 0.25, size),
        "prefill_fixed_s": (0.2, 0.2, "mostly independent of the model"),
        "verify_fixed_s": (0.9, 0.25, size),
        "verify_per_request_s": (0.6, 0.25, "KV bytes grow slower than parameters"),
        "mixed_step_s": (0.0, 0.1, "host time, not model time"),
        "knee_tokens": (0.0, 0.1, "a property of the hardware"),
        "draft_fixed_s": (0.6, 0.25, "linear in parameters plus a launch"),
        "draft_per_request_s": (0.6, 0.25, "KV bytes grow slower than parameters"),
    }
    spreads = {"mixed_step_s": 0.8, "knee_tokens": 0.4, "draft_per_request_s": 0.5}
    for name, (slope, sd, reason) in sizes.items():
        table[f"{name}.size_exponent"] = Prior("normal", slope, sd, "1", reason)
        table[f"{name}.group_sd"] = Prior("lognormal", spreads.get(name, 0.3), 0.3, "1", between)
    return (
        table
        | acceptance_priors()
        | spread_priors()
        | {
            "prefill_ratio": Prior(
                "lognormal", 1.0, 0.25, "1", "my prefill takes what a neighbour's stalls me"
            ),
            "context_share": Prior(
                "normal", -1.5, 1.0, "logit", "KV reads: 4 to 54 % of the per-request cost"
            ),
            "verify_growth_per_draft": Prior(
                "lognormal",
                0.05,
                1.0,
                "1",
                "a further token of one request reads the same KV: 1-26 %",
            ),
            "knee_ratio": Prior(
                "lognormal",
                0.6,
                0.4,
                "1",
                "above the knee a token costs about what a prompt token does",
            ),
            "knee_width": Prior("lognormal", 0.3, 0.4, "1", "the bend spans a part of its place"),
            "jump_share": Prior(
                "normal", -3.9, 1.2, "logit", "the next tile costs 0.3 to 13 % of a pass, never one"
            ),
            "idle_drafter_s": _cost(
                3e-4, 1.2, "host work of a loaded drafter that is off: 0.04 to 2 ms a step"
            ),
            "expert_share": Prior(
                "normal", 1.5, 1.0, "logit", "expert weights are 46 to 96 % of what a step reads"
            ),
            "expert_load_cv": Prior(
                "lognormal", 0.6, 0.6, "1", "routers are trained to balance, and do not: 0.2 to 1.6"
            ),
            "hot_expert_growth": Prior(
                "lognormal",
                0.3,
                0.8,
                "1",
                "the busiest expert sets the pace where one waits for it",
            ),
            "first_wait_steps": Prior(
                "lognormal",
                1.0,
                0.5,
                "steps",
                "a prompt waits for the running step, then shares one",
            ),
            "ttft_discrepancy_sd": Prior(
                "lognormal", 0.07, 0.7, "1", "queueing of prefills is not in the law of ttft"
            ),
            "load_discrepancy_sd": Prior(
                "lognormal", 0.02, 0.7, "1", "what load adds is missed by 1 to 6 % more"
            ),
            "boot_sd": Prior("lognormal", 0.01, 0.8, "1", "0.3 % to 14 % seen (cases C13, C14)"),
            "discrepancy_sd": Prior("lognormal", 0.02, 0.7, "1", "the law misses by 1 to 3 %"),
            "request_cv": Prior(
                "lognormal", 0.15, 0.4, "1", "spread of requests in a run, design effect included"
            ),
            "extrapolation_sd": Prior(
                "lognormal",
                0.05,
                0.5,
                "1/doubling",
                "what a law may bend outside the measured range",
            ),
            "missing_verifier_params_b": Prior("lognormal", 8.0, 1.3, "1e9", "1 to 70 B"),
            "missing_drafter_share": Prior(
                "lognormal", 0.05, 1.0, "1", "1 to 26 % of the verifier"
            ),
        }
    )


RESOURCE = {
    "prefill_stall_s": "compute",
    "prefill_fixed_s": "host",
    "verify_fixed_s": "memory",
    "verify_per_request_s": "memory",
    "mixed_step_s": "host",
    "knee_tokens": "knee",
    "draft_fixed_s": "memory",
    "draft_per_request_s": "memory",
}
VERIFIER_COSTS = tuple(n for n in RESOURCE if not n.startswith("draft"))
DRAFTER_COSTS = tuple(n for n in RESOURCE if n.startswith("draft"))


def is_cpu(deployment: str) -> bool:
    """Tell whether a deployment's label names a CPU.

    Examples
    --------
    >>> is_cpu("vllm 0.32.0, CPU, 1 model core")
    True
    """
    return "cpu" in deployment.lower()


def deployment_center(prior: Prior, name: str, deployment: str) -> float:
    """Return the logarithm of a cost's prior median on a deployment.

    Parameters
    ----------
    prior : Prior
        Log-normal prior for a data-centre GPU.
    name : str
        A cost of ``RESOURCE``.
    deployment : str
        Label; one that names a CPU is slower by ``CPU_SLOWDOWN``.

    Returns
    -------
    float
        Log of seconds (or of tokens for the knee, which on a CPU comes earlier).
    """
    if not is_cpu(deployment):
        return prior.log_center
    slowdown = {**CPU_SLOWDOWN, "knee": CPU_SLOWDOWN["memory"] / CPU_SLOWDOWN["compute"]}
    return prior.log_center + float(np.log(slowdown[RESOURCE[name]]))


def default_priors(data: xr.Dataset | None = None) -> dict[str, Prior]:
    """Return every prior by name.

    Parameters
    ----------
    data : xarray.Dataset, optional
        Result of `to_dataset`. Costs on a deployment that names a CPU, and nothing else in it,
        get a wider prior: machines that are called CPU differ more than GPUs do.

    Returns
    -------
    dict of str to Prior
        Override one with ``default_priors(data) | {"boot_sd": Prior(...)}``.

    Examples
    --------
    >>> priors = default_priors()
    >>> priors["verify_fixed_s"].center, priors["verify_fixed_s"].unit
    (0.008, 's')
    >>> priors |= {"boot_sd": Prior("lognormal", 0.05, 0.5, "1", "noisy neighbours")}
    """
    priors = _table()
    if data is not None and all(is_cpu(str(d)) for d in data["deployment"].values):
        for name in RESOURCE:
            priors[name] = replace(priors[name], spread=1.3 * priors[name].spread)
    return priors


def check_priors(priors: dict[str, Prior]) -> dict[str, Prior]:
    """Return the priors if complete and known, else say which names are wrong.

    Raises
    ------
    ArgumentError
        If a prior is missing, unknown, or of the wrong family.
    """
    table = _table()
    unknown = sorted(set(priors) - set(table))
    missing = sorted(set(table) - set(priors))
    if unknown or missing:
        raise ArgumentError(
            f"priors must be those of default_priors(). Unknown: {unknown}; missing: {missing}. "
            'Override one with default_priors(data) | {"name": Prior(...)}.'
        )
    for name, prior in priors.items():
        if prior.family != table[name].family:
            raise ArgumentError(
                f"prior {name!r} must be {table[name].family!r}. Got {prior.family!r} instead. "
                "The model is written for that family: keep it, and move its centre and spread."
            )
    return priors
