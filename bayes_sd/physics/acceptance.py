r"""Acceptance of drafted tokens: from conditional rates to tokens and steps.

A step checks k drafted tokens in order and stops at the first that is rejected; the verifier then
adds one token of its own. With :math:`a_j` the chance that draft j is accepted given that all
before it were, and :math:`q_j = \prod_{i \le j} a_i`, a step emits S tokens with

.. math:: P(S > j) = q_j \; [j \le k], \qquad E[S] = 1 + \sum_{j=1}^{k} q_j .

The formulas use arithmetic and comparisons only, so that they run on floats, NumPy arrays,
labelled arrays and PyTensor variables; ``expected_steps`` alone needs NumPy. A sequence of rates
has one element per position, each a number or an array of any shape.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray


def positional_acceptance(intercept_logit: Any, decay_logit: Any, num_positions: int) -> list[Any]:
    r"""Return the conditional acceptance rate of each draft position.

    :math:`\operatorname{logit} a_j = \theta - \delta (j - 1)` for j = 1, 2, ...

    Parameters
    ----------
    intercept_logit : number or array
        Logit of the first position's rate, :math:`\theta`.
    decay_logit : number or array
        Fall of the logit from one position to the next, :math:`\delta`. Either sign: later
        positions are harder, but requests that reach them are the easier ones.
    num_positions : int
        Number of positions, at least the largest k in use.

    Examples
    --------
    >>> [round(a, 3) for a in positional_acceptance(1.0, 0.5, 3)]
    [0.731, 0.622, 0.5]
    """
    if num_positions < 0:
        raise ValueError(f"num_positions must be at least 0. Got {num_positions} instead.")
    # e ** x, not exp(x): labelled graph variables have the operator but not NumPy's function.
    return [
        1 / (1 + math.e ** (decay_logit * position - intercept_logit))
        for position in range(num_positions)
    ]


def unconditional_acceptance(rates: Sequence[Any]) -> list[Any]:
    r"""Return the chance that drafts 1 to j are all accepted, for each position j.

    :math:`q_j = \prod_{i \le j} a_i`, what engines count per position, divided by the drafts.

    Parameters
    ----------
    rates : sequence of numbers or arrays
        Conditional acceptance rates, one element per position.

    Examples
    --------
    >>> [round(q, 3) for q in unconditional_acceptance([0.8, 0.5, 0.5])]
    [0.8, 0.4, 0.2]
    """
    products: list[Any] = []
    running: Any = 1.0
    for rate in rates:
        running = running * rate
        products.append(running)
    return products


def mean_acceptance_length(rates: Sequence[Any], num_speculative_tokens: Any) -> Any:
    r"""Return the expected tokens per step, the verifier's own token counted.

    :math:`E = 1 + \sum_{j=1}^{k} \prod_{i \le j} a_i`; for equal rates this is the
    :math:`(1 - a^{k+1}) / (1 - a)` of [1]_, without its 0/0 at a = 1.

    Parameters
    ----------
    rates : sequence of numbers or arrays
        Conditional acceptance rates, one element per position; positions above k do not count.
    num_speculative_tokens : int or array
        Draft length k; each element is switched on by comparison, so it may vary by run.

    Raises
    ------
    ValueError
        If k is negative or larger than the number of rates (seen for numbers and arrays; a graph
        variable's values are not known yet).

    References
    ----------
    .. [1] Leviathan, Kalman and Matias (2023). Fast inference from transformers via speculative
       decoding. ICML.

    Examples
    --------
    >>> round(mean_acceptance_length([0.8] * 4, 4), 4)
    3.3616
    >>> mean_acceptance_length([0.5, 0.5], np.array([0, 1, 2]))
    array([1.  , 1.5 , 1.75])
    """
    return 1.0 + sum(_survival(rates, num_speculative_tokens))


def draft_acceptance_rate(rates: Sequence[Any], num_speculative_tokens: Any) -> Any:
    r"""Return accepted tokens over drafted tokens, as engines print it.

    :math:`(E - 1) / k`. This is **not** the conditional rate: drafts behind a rejected one count
    as drafted, so it falls with k though each :math:`a_j` stays the same. Rates for two values of
    k cannot be compared, and :math:`a = 0.8` gives 0.59 at k = 4. At k = 0 nothing is drafted and
    the ratio has no meaning; 0 is returned.

    Parameters
    ----------
    rates : sequence of numbers or arrays
        Conditional acceptance rates, one element per position.
    num_speculative_tokens : int or array
        Draft length k.

    Raises
    ------
    ValueError
        If k is negative or larger than the number of rates.

    Examples
    --------
    >>> round(draft_acceptance_rate([0.8] * 4, 4), 4)
    0.5904
    """
    accepted = sum(_survival(rates, num_speculative_tokens), start=0.0)
    return accepted / (num_speculative_tokens + (num_speculative_tokens < 1))


def tokens_per_step_distribution(rates: Sequence[Any], num_speculative_tokens: Any) -> list[Any]:
    r"""Return the chance that a step emits s tokens, for s = 1 to len(rates) + 1.

    :math:`P(S = s) = q_{s-1} [s - 1 \le k] - q_s [s \le k]` with :math:`q_0 = 1`.

    Parameters
    ----------
    rates : sequence of numbers or arrays
        Conditional acceptance rates, one element per position.
    num_speculative_tokens : int or array
        Draft length k; more than k + 1 tokens have probability 0.

    Raises
    ------
    ValueError
        If k is negative or larger than the number of rates.

    Examples
    --------
    >>> [round(p, 3) for p in tokens_per_step_distribution([0.8, 0.5, 0.9], 2)]
    [0.2, 0.4, 0.4, 0.0]
    """
    survival = [1.0, *_survival(rates, num_speculative_tokens), 0.0]
    return [above - below for above, below in pairwise(survival)]


def expected_steps(
    num_tokens: int | NDArray[np.integer[Any]],
    rates: Sequence[Any],
    num_speculative_tokens: int | NDArray[np.integer[Any]],
) -> NDArray[np.float64]:
    r"""Return the expected number of steps to emit a number of tokens, exactly.

    :math:`N(m) = 1 + \sum_s P(S = s) \, N(m - s)`, with N = 0 for m at or below 0: the last step
    may emit more than is needed. Time: m (k + 1) times the elements of the rates. For the model
    graph use `expected_steps_renewal`.

    Parameters
    ----------
    num_tokens : int or array of int
        Tokens to emit, m >= 0. For a request of g output tokens m = g - 1, for prefill emits the
        first.
    rates : sequence of floats or arrays
        Conditional acceptance rates, one element per position.
    num_speculative_tokens : int or array of int
        Draft length k. The three arguments broadcast.

    Returns
    -------
    array
        Expected steps, in the broadcast shape (0-d for numbers).

    Raises
    ------
    ValueError
        If num_tokens is negative or not of an integer type, or k is outside 0 to len(rates).

    Examples
    --------
    >>> expected_steps(np.array([0, 1, 2, 3]), [0.5], 1)
    array([0.  , 1.  , 1.5 , 2.25])
    """
    tokens = np.asarray(num_tokens)
    if tokens.dtype.kind not in "iu" or (tokens < 0).any():
        raise ValueError(
            "num_tokens must be whole numbers of at least 0, of an integer type. "
            f"Got {num_tokens!r} instead."
        )
    chances = tokens_per_step_distribution(rates, num_speculative_tokens)
    if all(np.ndim(chance) == 0 for chance in chances):
        once = _steps_up_to(int(tokens.max(initial=0)), list(map(float, chances)))
        return np.asarray(once[tokens])
    shape = np.broadcast_shapes(tokens.shape, *(np.shape(chance) for chance in chances))
    pmf = np.stack([np.broadcast_to(np.asarray(chance, float), shape) for chance in chances])
    recent = np.zeros_like(pmf)  # recent[s - 1] is N(m - s)
    steps = np.zeros(shape)
    for emitted in range(1, int(tokens.max(initial=0)) + 1):
        now = 1.0 + np.einsum("s...,s...->...", pmf, recent)
        recent[1:] = recent[:-1]
        recent[0] = now
        steps = np.where(tokens == emitted, now, steps)
    return steps


def _steps_up_to(num_tokens: int, chances: list[float]) -> NDArray[np.float64]:
    """Return N(0) to N(num_tokens) for one set of rates, of which there is one recursion only."""
    steps = [0.0] * len(chances)  # the last is N(0)
    for _ in range(num_tokens):
        steps.append(1.0 + math.sumprod(chances, steps[: -len(chances) - 1 : -1]))
    return np.array(steps[len(chances) - 1 :])


def expected_steps_renewal(
    num_tokens: Any, rates: Sequence[Any], num_speculative_tokens: Any
) -> Any:
    r"""Return the expected number of steps to emit a number of tokens, in closed form.

    .. math:: N(m) \approx \frac{1}{E[S]} \left( m + \frac{E[S(S-1)]}{2 E[S]} \right)
              = \frac{1}{E} \left( m + \frac{1}{E} \sum_{j=1}^{k} j \, q_j \right)

    Wald's identity with the limit of the mean overshoot in lattice renewal theory ([1]_, [2]_):
    the plain m / E forgets that the last step emits more than is needed. It is exact for k = 0.
    Largest error against `expected_steps` for m >= 64, k up to 10 and equal rates up to:

    ========== ======= ======= ====== ==== ====
    rate       0.8     0.9     0.95   0.99 1
    this form  0.001 % 0.006 % 0.22 % 4 %  8 %
    m / E      5 %     6 %     7 %    10 % 13 %
    ========== ======= ======= ====== ==== ====

    At a rate of 1 each step emits k + 1 tokens and the count is a staircase, ceil(m / (k + 1)):
    the error is then up to half a step at any m, and 4 % at m = 128. It is less than half a step
    at any m >= 1 for equal rates. Where the rates are known, `expected_steps` can be data instead.

    Parameters
    ----------
    num_tokens : number or array
        Tokens to emit, m. For a request of g output tokens m = g - 1, for prefill emits the first.
    rates : sequence of numbers or arrays
        Conditional acceptance rates, one element per position.
    num_speculative_tokens : int or array
        Draft length k.

    Raises
    ------
    ValueError
        If k is negative or larger than the number of rates.

    References
    ----------
    .. [1] Feller (1968). An Introduction to Probability Theory and Its Applications, vol. 1, 3rd
       ed., chapter XIII (recurrent events and renewal theory).
    .. [2] Gut (2009). Stopped Random Walks, 2nd ed., chapters II and III.

    Examples
    --------
    >>> round(expected_steps_renewal(255, [0.8] * 4, 4), 3)
    76.322
    >>> round(255 / mean_acceptance_length([0.8] * 4, 4), 3)
    75.857
    """
    survival = _survival(rates, num_speculative_tokens)
    mean = 1.0 + sum(survival)
    overshoot = sum(position * q for position, q in enumerate(survival, start=1)) / mean
    return (num_tokens + overshoot) / mean


def _survival(rates: Sequence[Any], num_speculative_tokens: Any) -> list[Any]:
    """Return P(S > j) for each position j: the running product up to k, zero above."""
    _check_draft_length(num_speculative_tokens, len(rates))
    products = unconditional_acceptance(rates)
    return [(num_speculative_tokens >= j) * q for j, q in enumerate(products, start=1)]


def _check_draft_length(num_speculative_tokens: Any, num_positions: int) -> None:
    known = getattr(num_speculative_tokens, "values", num_speculative_tokens)
    if not isinstance(known, int | float | np.number | np.ndarray):
        return  # a graph variable: it has no values yet
    if np.any(np.asarray(known) < 0) or np.any(np.asarray(known) > num_positions):
        raise ValueError(
            f"num_speculative_tokens must be from 0 to {num_positions}, the number of rates. "
            f"Got {known!r} instead. Give one conditional rate for each draft position."
        )
