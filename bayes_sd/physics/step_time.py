r"""Time of one engine step, in seconds.

A step serves n requests of mean context x tokens, each with k drafted tokens, so that the
verifier sees T = n (k + 1) tokens:

.. math:: step(n, k) = c_{1v} [1 - w + w \phi(T)] + k c_{1d}
          + n [c_{2v} (1 + \kappa k) + c_{2x} x + k c_{2d}] + knee(T)

The law of [1]_ is the case w = kappa = knee = 0 with the context term inside c2v.

References
----------
.. [1] Kong et al. (2026). An interpretable latency model for speculative decoding in LLM serving.
   arXiv:2605.15051.
"""

from dataclasses import dataclass
from typing import Any

from bayes_sd.physics.experts import expert_coverage, expert_coverage_slope

# Added to a squared width (tokens squared): a width of 0 then still has a slope at the bend.
_SQUARED_WIDTH_FLOOR = 1e-12


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
    expert_share
        Part of `verify_fixed_s` that is expert weights (w), 0 to 1; 0 for a dense model.
    expert_load_cv
        Coefficient of variation of the router's expert weights (v), 1.
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
    expert_share: Any = 0.0
    expert_load_cv: Any = 0.0
    experts_fraction: Any = 1.0


def knee_time(tokens: Any, knee_s_per_token: Any, knee_tokens: Any, knee_width_tokens: Any) -> Any:
    r"""Return the time that the bend to compute-bound adds to a step, in seconds.

    A smooth hinge :math:`h(x) = b (x + \sqrt{x^2 + d^2}) / 2` in x = T - T0, less its value at
    T = 0: exactly 0 without tokens, increasing and never negative, of slope b far above T0. It is
    computed as :math:`\frac{b T}{2} (1 + \frac{T - 2 T_0}{S(T) + S(0)})` with
    :math:`S(T) = \sqrt{(T - T_0)^2 + d^2}`, which is the same without the difference of two
    nearly equal numbers.

    Parameters
    ----------
    tokens : number or array
        Tokens in the step, T = n (k + 1) >= 0.
    knee_s_per_token : number or array
        Slope b far above the bend, s per token.
    knee_tokens : number or array
        Place T0 of the bend, tokens.
    knee_width_tokens : number or array
        Width d of the bend, tokens.

    Examples
    --------
    >>> round(knee_time(1080.0, 1e-5, 80.0, 20.0), 4)
    0.01
    >>> knee_time(0.0, 1e-5, 80.0, 20.0)
    0.0
    """
    here = _distance(tokens - knee_tokens, knee_width_tokens)
    at_zero = _distance(knee_tokens, knee_width_tokens)
    return knee_s_per_token * tokens / 2 * (1 + (tokens - 2 * knee_tokens) / (here + at_zero))


def knee_slope(tokens: Any, knee_s_per_token: Any, knee_tokens: Any, knee_width_tokens: Any) -> Any:
    r"""Return the derivative of `knee_time` in the number of tokens, in seconds per token.

    :math:`\frac{b}{2} (1 + x / \sqrt{x^2 + d^2})` with x = T - T0. Parameters as there.

    Examples
    --------
    >>> knee_slope(80.0, 1e-5, 80.0, 20.0)
    5e-06
    """
    excess = tokens - knee_tokens
    return knee_s_per_token / 2 * (1 + excess / _distance(excess, knee_width_tokens))


def step_time(
    costs: CostCoefficients,
    requests_per_step: Any,
    num_speculative_tokens: Any,
    context_tokens: Any,
) -> Any:
    """Return the time of one step, in seconds; the formula is the module's.

    Parameters
    ----------
    costs : CostCoefficients
        The cell's coefficients.
    requests_per_step : number or array
        Requests n in the step, this one counted.
    num_speculative_tokens : number or array
        Draft length k; 0 is a plain decoding step.
    context_tokens : number or array
        Mean context x of a request in the step, prompt and output so far, tokens.

    Examples
    --------
    See `CostCoefficients`.
    """
    tokens = requests_per_step * (num_speculative_tokens + 1)
    coverage = expert_coverage(tokens, costs.experts_fraction, costs.expert_load_cv)
    fixed = costs.verify_fixed_s * (1 - costs.expert_share + costs.expert_share * coverage)
    bend = knee_time(tokens, costs.knee_s_per_token, costs.knee_tokens, costs.knee_width_tokens)
    per_request = per_request_time(costs, num_speculative_tokens, context_tokens)
    drafting = num_speculative_tokens * costs.draft_fixed_s
    return fixed + drafting + requests_per_step * per_request + bend


def step_time_slope(
    costs: CostCoefficients,
    requests_per_step: Any,
    num_speculative_tokens: Any,
    context_tokens: Any,
) -> Any:
    """Return what one more request adds to the step, in seconds: the derivative in n.

    Parameters as in `step_time`. Both the bend and the growing expert coverage are in it.
    """
    per_token = num_speculative_tokens + 1
    tokens = requests_per_step * per_token
    coverage = expert_coverage_slope(tokens, costs.experts_fraction, costs.expert_load_cv)
    loading = costs.verify_fixed_s * costs.expert_share * coverage
    bend = knee_slope(tokens, costs.knee_s_per_token, costs.knee_tokens, costs.knee_width_tokens)
    per_request = per_request_time(costs, num_speculative_tokens, context_tokens)
    return per_request + per_token * (loading + bend)


def per_request_time(
    costs: CostCoefficients, num_speculative_tokens: Any, context_tokens: Any
) -> Any:
    r"""Return the part of a step that grows with each request, below the bend, in seconds.

    :math:`c_{2v} (1 + \kappa k) + c_{2x} x + k c_{2d}`. Parameters as in `step_time`.
    """
    verifying = 1 + costs.verify_growth_per_draft * num_speculative_tokens
    return (
        costs.verify_per_request_s * verifying
        + costs.context_per_token_s * context_tokens
        + num_speculative_tokens * costs.draft_per_request_s
    )


def ridge_tokens(
    flops_per_s: Any, bytes_per_s: Any, bytes_per_weight: Any, experts_fraction: Any = 1.0
) -> Any:
    """Return where a weight-bound step becomes compute-bound, in tokens per step.

    A token costs 2 operations per weight and a step reads each weight once, so the two times are
    equal at (flops_per_s / bytes_per_s) * bytes_per_weight / 2 tokens, the ridge point of the
    roofline [1]_. Each expert sees only m/M of the tokens: its ridge is M/m times as far. A prior
    guess for `knee_tokens`: the scaling data bends earlier, for nothing runs at its peak.

    Parameters
    ----------
    flops_per_s : number
        Peak arithmetic rate at the dtype in use, operations per second.
    bytes_per_s : number
        Memory bandwidth, bytes per second.
    bytes_per_weight : number
        2 for 16-bit weights, 1 for 8-bit ones.
    experts_fraction : number, default 1.0
        Experts per token over all experts, m/M.

    References
    ----------
    .. [1] Williams, Waterman and Patterson (2009). Roofline: an insightful visual performance
       model for multicore architectures. Communications of the ACM 52(4).

    Examples
    --------
    >>> round(ridge_tokens(312e12, 2.0e12, 2))  # one A100, 16-bit
    156
    """
    return flops_per_s / bytes_per_s * bytes_per_weight / 2 / experts_fraction


def _distance(excess: Any, width: Any) -> Any:
    return (excess * excess + width * width + _SQUARED_WIDTH_FLOOR) ** 0.5
