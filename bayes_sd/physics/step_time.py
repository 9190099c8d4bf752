r"""Time of one engine step, in seconds.

A step serves n requests of mean context x tokens, each with k drafted tokens, so that the
verifier sees T = n (k + 1) tokens. A tree or adaptive drafting has d draft passes and u verified
tokens of a request in place of k and k + 1 (below, k stands for d, and for u - 1 next to kappa):

.. math:: step(n, k) = c_{1v} [1 - w + w \phi(T)] + k c_{1d}
          + n [h \, c_{2v} (1 + \kappa k) + c_{2x} x + k c_{2d}] + h \, knee(T) + jumps(T)

with h = 1 + w eta v what the busiest expert makes of work per token (1 for a dense model), and
`bayes_sd.physics.jumps` for the last term. With k = 0 and a drafter loaded a step costs c_i more.
The law of [1]_ is the case w = kappa = knee = jumps = 0 with the context term inside c2v.

References
----------
.. [1] Kong et al. (2026). An interpretable latency model for speculative decoding in LLM serving.
   arXiv:2605.15051.
"""

from typing import Any

from bayes_sd.physics.coefficients import CostCoefficients, is_zero
from bayes_sd.physics.experts import expert_coverage, expert_coverage_slope
from bayes_sd.physics.jumps import jump_slope, jump_time

# Added to a squared width (tokens squared): a width of 0 then still has a slope at the bend.
_SQUARED_WIDTH_FLOOR = 1e-12


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
    requests_variance: Any = 0.0,
    *,
    num_draft_steps: Any = None,
    num_verified_tokens: Any = None,
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
    requests_variance : number or array, default 0
        Variance of n over the steps; it smooths the jumps.
    num_draft_steps : number or array, optional
        Draft passes d of a step; k by default.
    num_verified_tokens : number or array, optional
        Tokens u of a request that a step verifies; k + 1 by default.

    Examples
    --------
    See `CostCoefficients`.
    """
    passes, verified = draft_shape(num_speculative_tokens, num_draft_steps, num_verified_tokens)
    tokens = requests_per_step * verified
    bend = knee_time(tokens, costs.knee_s_per_token, costs.knee_tokens, costs.knee_width_tokens)
    jumps = _jumps_s(costs)
    if jumps:
        stairs = jump_time(tokens, jumps, requests_variance * verified * verified)
    else:
        stairs = 0.0
    fixed = costs.verify_fixed_s
    if not is_zero(costs.expert_share):
        coverage = expert_coverage(tokens, costs.experts_fraction, costs.expert_load_cv)
        fixed = fixed * (1 - costs.expert_share * (1 - coverage))
        bend = bend * _hot_expert(costs)
    if not is_zero(costs.idle_drafter_s):
        fixed = fixed + costs.idle_drafter_s * (num_speculative_tokens == 0)
    per_request = per_request_time(costs, passes, context_tokens, num_verified_tokens=verified)
    drafting = passes * costs.draft_fixed_s
    return fixed + drafting + requests_per_step * per_request + bend + stairs


def step_time_slope(
    costs: CostCoefficients,
    requests_per_step: Any,
    num_speculative_tokens: Any,
    context_tokens: Any,
    requests_variance: Any = 0.0,
    *,
    num_draft_steps: Any = None,
    num_verified_tokens: Any = None,
) -> Any:
    """Return what one more request adds to the step, in seconds: the derivative in n.

    Parameters as in `step_time`. The bend, the jumps and the growing expert coverage are in it.
    """
    passes, verified = draft_shape(num_speculative_tokens, num_draft_steps, num_verified_tokens)
    tokens = requests_per_step * verified
    bend = knee_slope(tokens, costs.knee_s_per_token, costs.knee_tokens, costs.knee_width_tokens)
    if not is_zero(costs.expert_share):
        coverage = expert_coverage_slope(tokens, costs.experts_fraction, costs.expert_load_cv)
        bend = bend * _hot_expert(costs)
        bend = bend + costs.verify_fixed_s * costs.expert_share * coverage
    jumps = _jumps_s(costs)
    if jumps:
        bend = bend + jump_slope(tokens, jumps, requests_variance * verified * verified)
    per_request = per_request_time(costs, passes, context_tokens, num_verified_tokens=verified)
    return per_request + verified * bend


def draft_shape(
    num_speculative_tokens: Any, num_draft_steps: Any = None, num_verified_tokens: Any = None
) -> tuple[Any, Any]:
    """Return draft passes and verified tokens of a step, those of a chain where not given.

    Examples
    --------
    >>> draft_shape(3)
    (3, 4)
    >>> draft_shape(15, num_draft_steps=5, num_verified_tokens=16)
    (5, 16)
    """
    passes = num_speculative_tokens if num_draft_steps is None else num_draft_steps
    verified = num_speculative_tokens + 1 if num_verified_tokens is None else num_verified_tokens
    return passes, verified


def per_request_time(
    costs: CostCoefficients,
    num_draft_steps: Any,
    context_tokens: Any,
    *,
    num_verified_tokens: Any = None,
) -> Any:
    r"""Return the part of a step that grows with each request, below the bend, in seconds.

    :math:`h \, c_{2v} (1 + \kappa (u - 1)) + c_{2x} x + d c_{2d}`. Parameters as in `step_time`; a
    chain's u = d + 1 by default.
    """
    drafted = num_draft_steps if num_verified_tokens is None else num_verified_tokens - 1
    verifying = 1 + costs.verify_growth_per_draft * drafted
    if not is_zero(costs.expert_share):
        verifying = verifying * _hot_expert(costs)
    return (
        costs.verify_per_request_s * verifying
        + costs.context_per_token_s * context_tokens
        + num_draft_steps * costs.draft_per_request_s
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


def _jumps_s(costs: CostCoefficients) -> tuple[Any, ...]:
    jumps = (costs.jump_64_s, costs.jump_128_s, costs.jump_256_s)
    return () if all(is_zero(height) for height in jumps) else jumps


def _hot_expert(costs: CostCoefficients) -> Any:
    """Return what the busiest expert makes of the work per token, h."""
    return 1 + costs.expert_share * costs.hot_expert_growth * costs.expert_load_cv
