r"""Spread of one request's latency about the mean of its run: the scale, and what makes it.

On the log scale a request's latency has the scale s, from three independent parts:

- **acceptance**: how many steps this request happens to take, `steps_variance_renewal`.
  It needs no estimate: acceptance gives it, and on the scaling study it is nearly all there is.
- **load**: the batch wanders while requests arrive at random, `load_variance`. It needs none
  either; a factor near 1 is estimated.
- **heterogeneity**: lengths, prompts, hosts. Estimated.

`bayes_sd.physics.request_quantiles` has the shape around that scale, and
`benchmarks/tail_forms.py` compares shapes and load functions. The formulas use arithmetic,
comparisons and ``abs``, so that they run on floats, arrays and graph variables.
"""

from collections.abc import Sequence
from typing import Any

from bayes_sd.physics.acceptance import tokens_per_step_distribution

ELASTICITY_ROOM = 0.05  # 1 - elasticity at least: no run lasts long enough to swing wider


def steps_variance_renewal(
    num_tokens: Any, rates: Sequence[Any], num_speculative_tokens: Any
) -> Any:
    r"""Return the variance of the number of steps to emit a number of tokens, in closed form.

    .. math:: \operatorname{Var} N(m) \approx \frac{2 a m + 5 a^2 - 4 b - a - 1/12}{E^2}
              - \frac{m + a - 1/2}{E}, \qquad a = \frac{E[S^2]}{2 E}, \; b = \frac{E[S^3]}{6 E}

    The leading term is m Var(S) / E^3 ([1]_); the constant is the residue at 1 of the generating
    function x (1 + f) / ((1 - x) (1 - f)^2) of E[N^2], f that of the tokens S of a step. Against
    the exact recursion at m = 127 and k up to 10 the error is below 1e-8 steps^2 for rates up to
    0.8 and 0.005 at 0.95.

    Parameters
    ----------
    num_tokens : number or array
        Tokens to emit, m: those after the first.
    rates : sequence of numbers or arrays
        Conditional acceptance rates, one element per position.
    num_speculative_tokens : int or array
        Draft length k; at k = 0 the variance is 0.

    Returns
    -------
    number or array
        steps^2. At a rate of 1, where the count is a staircase, the variance over the places on it.

    Raises
    ------
    ValueError
        If k is negative or larger than the number of rates.

    References
    ----------
    .. [1] Feller (1968). An Introduction to Probability Theory and Its Applications, vol. 1, 3rd
       ed., chapter XIII.

    Examples
    --------
    >>> print(f"{steps_variance_renewal(127, [0.8] * 4, 4):.2f}")
    8.72
    """
    first, second, third = 0.0, 0.0, 0.0
    for s, chance in enumerate(
        tokens_per_step_distribution(rates, num_speculative_tokens), start=1
    ):
        first, second, third = first + s * chance, second + s**2 * chance, third + s**3 * chance
    a, b = second / (2 * first), third / (6 * first)
    squared = 2 * a * num_tokens + 5 * a**2 - 4 * b - a - 1 / 12
    return squared / first**2 - (num_tokens + a - 0.5) / first


def load_variance(one_minus_elasticity: Any, effective_batch: Any, arrival_noise: Any) -> Any:
    r"""Return the variance of log latency that comes from the batch wandering during a run.

    .. math:: \frac{\varepsilon^2}{B (1 - \varepsilon)} \, A(1 - \varepsilon), \qquad
              A(x) = 2 (x - 1 + e^{-x}) / x^2

    The number in the system, dB = rate - B / L(B), returns to its mean at the rate (1 - eps) / L
    and is driven by arrivals and departures of intensity 2 rate, so its stationary variance is
    B / (1 - eps) (linear noise approximation [1]_, section X.1); A is the variance of its mean over
    one latency as a share of that. For eps -> 0 it is the 2 / 3 or so that M/G/infinity has.

    Parameters
    ----------
    one_minus_elasticity : number or array
        1 - d log L / d log B; 1 in a closed loop.
    effective_batch : number or array
        B, requests, above 0.
    arrival_noise : number or array
        1 for Poisson arrivals, 0 for even ones.

    Examples
    --------
    >>> print(f"{load_variance(0.5, 10.0, 1.0):.4f}")
    0.0426

    References
    ----------
    .. [1] van Kampen (2007). Stochastic Processes in Physics and Chemistry, 3rd ed.
    """
    room = (one_minus_elasticity + ELASTICITY_ROOM) / 2
    room = room + abs(one_minus_elasticity - ELASTICITY_ROOM) / 2
    # Series of A, to 4e-4 for 0 < x <= 1.
    mean = 1 - room / 3 + room**2 / 12 - room**3 / 60 + room**4 / 360
    return arrival_noise * (1 - one_minus_elasticity) ** 2 * mean / (effective_batch * room)


def wait_variance(step_s: Any, mean_ttft_s: Any) -> Any:
    r"""Return the variance of log ttft that comes from waiting for the rest of a running step.

    A request that arrives at a random moment of a step waits a uniform part of it, of variance
    step^2 / 12; the logarithm divides by the mean. At most 1 / 3, as if all of a ttft were such a
    wait.

    Parameters
    ----------
    step_s : number or array
        Time of one step, s.
    mean_ttft_s : number or array
        Mean time to first token, s, above 0.

    Examples
    --------
    >>> print(f"{wait_variance(0.03, 0.1):.4f}")
    0.0075
    """
    share = step_s / mean_ttft_s
    share = (share + 2 - abs(share - 2)) / 2
    return share**2 / 12


def request_spread(
    *,
    steps_cv2: Any,
    decode_share: Any,
    heterogeneity: Any,
    load_factor: Any,
    load_cv2: Any,
) -> Any:
    """Return the scale s of log latency of one request in a run.

    s^2 = steps_cv2 x decode_share^2 + heterogeneity^2 + load_factor^2 x load_cv2.

    For ttft, which takes no steps, ``load_cv2`` is `wait_variance`.

    Parameters
    ----------
    steps_cv2 : number or array
        Var(N) / N^2 of the number of steps, see `steps_variance_renewal`; 0 without drafts.
    decode_share : number or array
        Share of the latency that grows with the steps: 1 - (own prefill) / L for e2e, 1 for time
        per token, 0 for time to first token.
    heterogeneity : number or array
        What else tells requests apart (lengths, prompts, hosts), on the log scale.
    load_factor : number or array
        Near 1: how far `load_variance` is right.
    load_cv2 : number or array
        Result of `load_variance`.

    Examples
    --------
    >>> s = request_spread(
    ...     steps_cv2=0.006, decode_share=0.9, heterogeneity=0.02, load_factor=1, load_cv2=0.01
    ... )
    >>> print(f"{s:.3f}")
    0.124
    """
    steps = steps_cv2 * decode_share**2
    return (steps + heterogeneity**2 + load_factor**2 * load_cv2) ** 0.5


def tail_excess(backlog_s: Any, one_minus_elasticity: Any, mean_latency_s: Any) -> Any:
    """Return delta: backlog seconds x elasticity / mean latency.

    A backlog of requests, as a load tool leaves at its start, delays those that meet it by some
    seconds in proportion to how latency answers to load, whatever the latency itself is.

    Parameters
    ----------
    backlog_s : number or array
        Seconds; a property of deployment and load tool.
    one_minus_elasticity : number or array
        1 - d log L / d log B.
    mean_latency_s : number or array
        Mean of the run.

    Examples
    --------
    >>> tail_excess(0.4, 0.5, 2.0)
    0.1
    """
    return backlog_s * (1 - one_minus_elasticity) / mean_latency_s
