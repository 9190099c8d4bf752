r"""Latency of one request among others, in seconds.

A request of p prompt and g output tokens meets O others; its steps hold n requests and it takes N
of them:

.. math:: L = c_{1p} + c_{1q} p + O \, c_{2p} p + N \, [step(n, k) + (1 - e^{-O / N}) mixed],
          \qquad x = p + g / 2

The O prefills fall into N steps, so a share 1 - exp(-O/N) of the steps holds one at least. Such a
step costs more, however many it holds (`bayes_sd.physics.mixed_step`): it leaves the captured
graph, and the host pays; and the prompt touches most experts of a mixture. On the scaling data
this term takes the error on the unseen highest loads of the smallest verifier from 17 to 5 %
(`benchmarks/step_forms.py`); for large verifiers it is lost in the step.

What a request meets, given the mean number in the system B = rate * L (Little's law), depends on
how the others arrive: see `bayes_sd.physics.arrivals`.
"""

from typing import Any

from bayes_sd.physics.arrivals import met_by_arrivals, met_slopes, met_variance
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.physics.jumps import exponential
from bayes_sd.physics.mixed_step import mixed_step_slope, mixed_step_time
from bayes_sd.physics.step_time import draft_shape, step_time, step_time_slope

# Keeps the share of mixed steps defined for answers of one token, which take no step at all.
_STEPS_FLOOR = 1e-9


def request_latency(
    costs: CostCoefficients,
    *,
    requests_per_step: Any,
    others: Any,
    num_speculative_tokens: Any,
    input_len_tokens: Any,
    output_len_tokens: Any,
    num_steps: Any,
    requests_variance: Any = 0.0,
    num_draft_steps: Any = None,
    num_verified_tokens: Any = None,
) -> Any:
    """Return the mean latency of a request, in seconds; the formula is the module's.

    Parameters
    ----------
    costs : CostCoefficients
        The cell's coefficients.
    requests_per_step : number or array
        Requests n in a step, this one counted; see `met_by_arrivals`.
    others : number or array
        Others O whose prefill stalls this request.
    num_speculative_tokens : number or array
        Draft length k.
    input_len_tokens : number or array
        Prompt tokens p.
    output_len_tokens : number or array
        Output tokens g; the mean context of a step is p + g / 2.
    num_steps : number or array
        Expected steps N to emit the g - 1 tokens after the first; see
        `bayes_sd.physics.acceptance.expected_steps`.
    requests_variance : number or array, default 0
        Variance of n over the steps; see `met_variance`.
    num_draft_steps, num_verified_tokens : number or array, optional
        Draft passes of a step, and tokens of a request that it verifies, where they are not those
        of a chain, k and k + 1: trees, and draft lengths that change within a run (their means).

    Examples
    --------
    >>> costs = CostCoefficients(
    ...     prefill_fixed_s=0.05,
    ...     prefill_per_token_s=0.0,
    ...     prefill_stall_per_token_s=1e-4,
    ...     verify_fixed_s=0.02,
    ...     verify_per_request_s=1e-4,
    ...     verify_growth_per_draft=0.0,
    ...     context_per_token_s=0.0,
    ...     draft_fixed_s=1e-3,
    ...     draft_per_request_s=0.0,
    ...     knee_s_per_token=0.0,
    ...     knee_tokens=100.0,
    ...     knee_width_tokens=10.0,
    ... )
    >>> latency = request_latency(
    ...     costs,
    ...     requests_per_step=5,
    ...     others=4,
    ...     num_speculative_tokens=3,
    ...     input_len_tokens=1000,
    ...     output_len_tokens=256,
    ...     num_steps=100,
    ... )
    >>> print(f"{latency:.1f}")
    2.8
    """
    context = input_len_tokens + output_len_tokens / 2
    prefill = costs.prefill_fixed_s + costs.prefill_per_token_s * input_len_tokens
    stalls = others * costs.prefill_stall_per_token_s * input_len_tokens
    shape = {"num_draft_steps": num_draft_steps, "num_verified_tokens": num_verified_tokens}
    step = step_time(
        costs, requests_per_step, num_speculative_tokens, context, requests_variance, **shape
    )
    verified = draft_shape(num_speculative_tokens, **shape)[1]
    mixed = mixed_step_time(costs, requests_per_step * verified, input_len_tokens)
    share = 1 - _unmixed_share(others, num_steps)
    return prefill + stalls + num_steps * (step + share * mixed)


def latency_slope(
    costs: CostCoefficients,
    *,
    requests_per_step: Any,
    others: Any,
    requests_slope: Any,
    others_slope: Any,
    num_speculative_tokens: Any,
    input_len_tokens: Any,
    output_len_tokens: Any,
    num_steps: Any,
    requests_variance: Any = 0.0,
    num_draft_steps: Any = None,
    num_verified_tokens: Any = None,
) -> Any:
    r"""Return what one more request in the system adds to the latency, in seconds: dL / dB.

    .. math:: \frac{dL}{dB} = [c_{2p} p + e^{-O / N} mixed] \frac{dO}{dB}
              + N \left[ \frac{\partial step}{\partial n}
              + (1 - e^{-O / N}) \frac{\partial mixed}{\partial n} \right] \frac{dn}{dB}

    Parameters
    ----------
    requests_slope, others_slope : number or array
        dn/dB and dO/dB, see `met_slopes`.
    costs, requests_per_step, others, num_speculative_tokens : see `request_latency`
    input_len_tokens, output_len_tokens, num_steps, requests_variance : see `request_latency`
    num_draft_steps, num_verified_tokens : see `request_latency`

    Examples
    --------
    For the linear law it is C2: see the tests.
    """
    context = input_len_tokens + output_len_tokens / 2
    shape = {"num_draft_steps": num_draft_steps, "num_verified_tokens": num_verified_tokens}
    step = step_time_slope(
        costs, requests_per_step, num_speculative_tokens, context, requests_variance, **shape
    )
    verified = draft_shape(num_speculative_tokens, **shape)[1]
    tokens = requests_per_step * verified
    unmixed = _unmixed_share(others, num_steps)
    stall = costs.prefill_stall_per_token_s * input_len_tokens
    met = stall + unmixed * mixed_step_time(costs, tokens, input_len_tokens)
    rise = mixed_step_slope(costs, tokens, input_len_tokens)
    return others_slope * met + num_steps * requests_slope * (
        step + (1 - unmixed) * verified * rise
    )


def latency_elasticity(
    costs: CostCoefficients,
    *,
    effective_batch: Any,
    arrivals: str,
    num_speculative_tokens: Any,
    input_len_tokens: Any,
    output_len_tokens: Any,
    num_steps: Any,
    num_draft_steps: Any = None,
    num_verified_tokens: Any = None,
) -> Any:
    r"""Return the relative rise of latency per relative rise of the batch.

    .. math:: \varepsilon = \frac{d \log L}{d \log B} = \frac{B}{L} \frac{dL}{dB}

    It says how strongly load feeds back through Little's law B = rate * L:

    - at a fixed rate, a relative change d of the latency at fixed batch becomes d / (1 - eps);
    - log rate = log B - log L(B), so the change of variables from rate to batch has the log weight
      log(1 - eps);
    - the batch is stable below eps = 1, and capacity is where it reaches 1.

    For evenly spaced arrivals the step's part counts above B = 1 only.

    Parameters
    ----------
    costs : CostCoefficients
        The cell's coefficients.
    effective_batch : number or array
        Mean number of requests in the system, B.
    arrivals : str
        As in `met_by_arrivals`.
    num_speculative_tokens, input_len_tokens, output_len_tokens, num_steps : number or array
        As in `request_latency`.
    num_draft_steps, num_verified_tokens : number or array, optional
        As in `request_latency`.

    Returns
    -------
    number or array
        Dimensionless; 0 for B = 0.

    Raises
    ------
    ValueError
        If the arrivals are not known.

    Examples
    --------
    For the linear law L = C1 + C2 B it is C2 B / L: see the tests.
    """
    requests_per_step, others = met_by_arrivals(effective_batch, arrivals)
    requests_slope, others_slope = met_slopes(effective_batch, arrivals)
    terms = {
        "requests_per_step": requests_per_step,
        "others": others,
        "num_speculative_tokens": num_speculative_tokens,
        "input_len_tokens": input_len_tokens,
        "output_len_tokens": output_len_tokens,
        "num_steps": num_steps,
        "requests_variance": met_variance(effective_batch, arrivals),
        "num_draft_steps": num_draft_steps,
        "num_verified_tokens": num_verified_tokens,
    }
    slope = latency_slope(costs, requests_slope=requests_slope, others_slope=others_slope, **terms)
    return effective_batch * slope / request_latency(costs, **terms)


def _unmixed_share(others: Any, num_steps: Any) -> Any:
    """Return the share of steps that hold no neighbour's prefill."""
    return exponential(-others / (num_steps + _STEPS_FLOOR))
