r"""The published linear law, and where two of its curves cross.

.. math:: L = C_1 + B \, C_2, \qquad B = \lambda L \;\Rightarrow\; L = \frac{C_1}{1 - \lambda C_2}

([1]_, equations 1 and 2.) C1 is the demand that does not depend on load, C2 the extra demand per
request in the system, both in seconds. It is the special case of `bayes_sd.physics.latency` with
no bend, no mixed steps and a dense model; otherwise use `solve_effective_batch`.

References
----------
.. [1] Kong et al. (2026). An interpretable latency model for speculative decoding in LLM serving.
   arXiv:2605.15051.
"""

import math
from typing import Any

import numpy as np

from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.physics.step_time import per_request_time


def load_independent_demand_s(
    costs: CostCoefficients,
    *,
    num_speculative_tokens: Any,
    input_len_tokens: Any,
    output_len_tokens: Any,
    num_steps: Any,
) -> Any:
    r"""Return C1 of L = C1 + B C2, in seconds: the latency of a request that meets nobody.

    :math:`C_1 = c_{1p} + c_{1q} p + N (c_{1v} + k c_{1d} + h)` with h the cost of one request in
    a step, for the request itself is always there. It holds for Poisson arrivals (B others met),
    below the bend, with all experts in use and no cost of mixed steps; `request_latency` covers
    the rest.

    Parameters
    ----------
    costs : CostCoefficients
        The cell's coefficients; the bend, the experts and `mixed_step_s` are left out.
    num_speculative_tokens, input_len_tokens, output_len_tokens, num_steps : number or array
        As in `bayes_sd.physics.latency.request_latency`.
    """
    context = input_len_tokens + output_len_tokens / 2
    own = per_request_time(costs, num_speculative_tokens, context)
    step = costs.verify_fixed_s + num_speculative_tokens * costs.draft_fixed_s + own
    return costs.prefill_fixed_s + costs.prefill_per_token_s * input_len_tokens + num_steps * step


def load_dependent_demand_s(
    costs: CostCoefficients,
    *,
    num_speculative_tokens: Any,
    input_len_tokens: Any,
    output_len_tokens: Any,
    num_steps: Any,
) -> Any:
    r"""Return C2 of L = C1 + B C2, in seconds: what each other request adds to the latency.

    :math:`C_2 = c_{2p} p + N h`, under the conditions of `load_independent_demand_s`. Without a
    cap on the batch, 1 / C2 is the capacity of this law in requests per second.

    Parameters
    ----------
    costs : CostCoefficients
        The cell's coefficients; the bend, the experts and `mixed_step_s` are left out.
    num_speculative_tokens, input_len_tokens, output_len_tokens, num_steps : number or array
        As in `bayes_sd.physics.latency.request_latency`.
    """
    context = input_len_tokens + output_len_tokens / 2
    per_step = per_request_time(costs, num_speculative_tokens, context)
    return costs.prefill_stall_per_token_s * input_len_tokens + num_steps * per_step


def closed_form_latency(c1_s: Any, c2_s: Any, rate_rps: Any) -> Any:
    """Return C1 / (1 - rate * C2), in seconds; infinite from saturation on.

    Parameters
    ----------
    c1_s, c2_s : number or array
        Load-independent and load-dependent demand, s.
    rate_rps : number or array
        Arrival rate, requests per second.

    Examples
    --------
    >>> closed_form_latency(2.0, 0.1, 5.0)
    4.0
    >>> closed_form_latency(2.0, 0.1, np.array([0.0, 10.0, 12.0]))
    array([ 2., inf, inf])
    """
    headroom, saturated = _headroom(c2_s, rate_rps)
    # inf ** 1 is infinite and inf ** 0 is 1: a switch that needs no branch.
    return c1_s / (headroom + saturated) * math.inf**saturated


def speedup(c1_off_s: Any, c2_off_s: Any, c1_on_s: Any, c2_on_s: Any, rate_rps: Any) -> Any:
    r"""Return latency without speculation over latency with it, at the same rate.

    .. math:: \frac{L_{off}}{L_{on}} = \frac{C_{1,off}}{C_{1,on}} \cdot
              \frac{1 - \lambda C_{2,on}}{1 - \lambda C_{2,off}}

    1 / C1R at no load, for C1R = C1_on / C1_off; 0 where only the configuration with speculation
    is saturated, infinite where only the one without is, NaN where both are.

    Parameters
    ----------
    c1_off_s, c2_off_s : number or array
        Demands without speculation, s.
    c1_on_s, c2_on_s : number or array
        Demands with it, s.
    rate_rps : number or array
        Arrival rate, requests per second.

    Examples
    --------
    >>> round(speedup(10.0, 0.1, 4.5, 0.11, 0.0), 3)
    2.222
    >>> round(speedup(10.0, 0.1, 4.5, 0.11, 9.0), 3)
    0.222
    """
    off, off_saturated = _headroom(c2_off_s, rate_rps)
    on, _ = _headroom(c2_on_s, rate_rps)
    with np.errstate(invalid="ignore"):  # 0 * inf: both saturated
        return c1_off_s * on / (c1_on_s * (off + off_saturated)) * math.inf**off_saturated


def linear_break_even_rate(c1_off_s: Any, c2_off_s: Any, c1_on_s: Any, c2_on_s: Any) -> Any:
    r"""Return the arrival rate at which two configurations are equally fast, in requests/s.

    .. math:: \lambda^* = \frac{C_{1,on} - C_{1,off}}{C_{1,on} C_{2,off} - C_{1,off} C_{2,on}}

    It is a break-even only if it is above 0 and below both capacities 1 / C2, which is so when
    one has the smaller C1 and the other the smaller C2. Otherwise the curves do not cross at any
    stable rate, and the one with the smaller C1 is faster wherever both run. Where C1 and C2
    stand in the same ratio the denominator is 0.

    Parameters
    ----------
    c1_off_s, c2_off_s : number or array
        Demands without speculation (or of any first configuration), s.
    c1_on_s, c2_on_s : number or array
        Demands with it (or of any second one), s.

    Examples
    --------
    >>> round(linear_break_even_rate(10.0, 0.1, 4.5, 0.11), 2)
    8.46
    """
    return (c1_on_s - c1_off_s) / (c1_on_s * c2_off_s - c1_off_s * c2_on_s)


def _headroom(c2_s: Any, rate_rps: Any) -> tuple[Any, Any]:
    """Return the positive part of 1 - rate * C2, and whether it is 0 or less."""
    headroom = 1 - rate_rps * c2_s
    return (headroom + abs(headroom)) / 2, headroom <= 0
