"""The cost coefficients of one cell: one class that all formulas read."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, eq=False)
class CostCoefficients:
    """Cost coefficients of one cell, or of many as arrays that broadcast.

    Each field is a number, an array, a labelled array or a graph variable. Index 1 is paid once
    per step or request whatever the load, index 2 once per request in the step.

    Attributes
    ----------
    prefill_fixed_s
        Fixed cost of a request: its prefill's fixed part, start-up, network (c1p), s.
    prefill_per_token_s
        Prefill of one of the request's own prompt tokens (c1q), s per token.
    prefill_stall_per_token_s
        What one prompt token of a neighbour's prefill adds to this request's latency (c2p), s per
        token; about the same as `prefill_per_token_s`.
    verify_fixed_s
        Verifier pass at no load: reading the weights (c1v), s per step.
    verify_per_request_s
        Verification of one request with no draft (c2v), s per step.
    verify_growth_per_draft
        Relative growth of that cost with each drafted token (kappa), 1.
    context_per_token_s
        Reading one token of a request's KV cache (c2x), s per step and token.
    draft_fixed_s
        One draft step at no load (c1d), s per draft step.
    draft_per_request_s
        One draft step's cost per request (c2d), s per draft step.
    knee_s_per_token
        Added slope above the bend from memory-bound to compute-bound, s per token of a step.
    knee_tokens
        Place of the bend, tokens in a step.
    knee_width_tokens
        Width over which it bends, tokens.
    mixed_step_s
        What a step costs more if it holds a prefill, however many (c_m), s per such step.
    jump_64_s, jump_128_s, jump_256_s
        What a step costs more from that many tokens on, the next tile size of the kernels (see
        `bayes_sd.physics.jumps`), s per step.
    idle_drafter_s
        What a step costs more with k = 0 if a drafter is loaded, s per step.
    expert_share
        Part of `verify_fixed_s` that is expert weights (w), 0 to 1; 0 for a dense model.
    expert_load_cv
        Coefficient of variation of the router's expert weights (v), 1.
    hot_expert_growth
        How much longer the expert part of the work per token takes per unit of the router's
        imbalance, for the busiest expert sets the pace: 1 + hot_expert_growth * expert_load_cv.
    experts_fraction
        Experts per token over all experts (m/M), above 0 and up to 1; 1 for a dense model.

    Examples
    --------
    >>> costs = CostCoefficients(
    ...     prefill_fixed_s=0.01,
    ...     prefill_per_token_s=1e-4,
    ...     prefill_stall_per_token_s=1e-4,
    ...     verify_fixed_s=0.02,
    ...     verify_per_request_s=1e-4,
    ...     verify_growth_per_draft=0.1,
    ...     context_per_token_s=1e-7,
    ...     draft_fixed_s=1e-3,
    ...     draft_per_request_s=1e-5,
    ...     knee_s_per_token=5e-5,
    ...     knee_tokens=80.0,
    ...     knee_width_tokens=20.0,
    ... )
    >>> from bayes_sd.physics.step_time import step_time
    >>> round(
    ...     step_time(costs, requests_per_step=8, num_speculative_tokens=3, context_tokens=512), 5
    ... )
    0.02473
    """

    prefill_fixed_s: Any
    prefill_per_token_s: Any
    prefill_stall_per_token_s: Any
    verify_fixed_s: Any
    verify_per_request_s: Any
    verify_growth_per_draft: Any
    context_per_token_s: Any
    draft_fixed_s: Any
    draft_per_request_s: Any
    knee_s_per_token: Any
    knee_tokens: Any
    knee_width_tokens: Any
    mixed_step_s: Any = 0.0
    jump_64_s: Any = 0.0
    jump_128_s: Any = 0.0
    jump_256_s: Any = 0.0
    idle_drafter_s: Any = 0.0
    expert_share: Any = 0.0
    expert_load_cv: Any = 0.0
    hot_expert_growth: Any = 0.0
    experts_fraction: Any = 1.0


def is_zero(value: Any) -> bool:
    """Tell a term that is switched off by a plain 0, so that a graph does not carry it.

    Examples
    --------
    >>> is_zero(0.0), is_zero(1e-3)
    (True, False)
    """
    return isinstance(value, int | float) and value == 0
