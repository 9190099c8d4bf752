r"""What a step costs more if it holds a neighbour's prefill, in seconds.

.. math:: c_m + c_{1v} w \, [\phi(T + p) - \phi(T)]

The first part is paid whatever the model is; the second because the p prompt tokens touch experts
that the T tokens of the step would have left alone (`bayes_sd.physics.experts`). It is nothing for
a dense model, most of `verify_fixed_s` when a mixture of experts is nearly idle, and nothing again
once its steps touch all experts anyway. What the prompt costs by its own tokens is
`prefill_stall_per_token_s`. A prompt split into chunks has a smaller p in more steps; one chunk
touches nearly all experts all the same.
"""

from typing import Any

from bayes_sd.physics.coefficients import CostCoefficients, is_zero
from bayes_sd.physics.experts import expert_coverage, expert_coverage_slope


def mixed_step_time(costs: CostCoefficients, tokens: Any, input_len_tokens: Any) -> Any:
    """Return what a step that holds a prefill costs more, in seconds; formula of the module.

    Parameters
    ----------
    costs : CostCoefficients
        The cell's coefficients.
    tokens : number or array
        Tokens T that the step verifies.
    input_len_tokens : number or array
        Prompt tokens p of the prefill in the step.

    Examples
    --------
    A dense model pays the fixed part only: see the tests.
    """
    if is_zero(costs.expert_share):
        return costs.mixed_step_s
    experts = costs.verify_fixed_s * costs.expert_share
    return costs.mixed_step_s + experts * _rise(expert_coverage, costs, tokens, input_len_tokens)


def mixed_step_slope(costs: CostCoefficients, tokens: Any, input_len_tokens: Any) -> Any:
    """Return the derivative of `mixed_step_time` in T, in seconds per token: never positive.

    Parameters as there.
    """
    if is_zero(costs.expert_share):
        return 0.0
    experts = costs.verify_fixed_s * costs.expert_share
    return experts * _rise(expert_coverage_slope, costs, tokens, input_len_tokens)


def _rise(function: Any, costs: CostCoefficients, tokens: Any, prompt: Any) -> Any:
    """Return what the prompt's tokens add to a function of the tokens in a step."""
    routing = (costs.experts_fraction, costs.expert_load_cv)
    return function(tokens + prompt, *routing) - function(tokens, *routing)
