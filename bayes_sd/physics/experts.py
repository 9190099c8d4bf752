r"""Share of a mixture-of-experts layer that a step's tokens touch.

.. math:: \phi(T; v) = 1 - (1 + v^2 s T)^{-1/v^2}, \qquad
          s = \frac{(1 - m/M)^{-v^2} - 1}{v^2}

Each expert is hit at a rate that varies over experts as a gamma variable of mean s and
coefficient of variation v; the share not hit by T tokens is that gamma's Laplace transform at T.
s is such that one token touches m of M experts whatever v is. As v goes to 0 this becomes
:math:`1 - (1 - m/M)^T`, the balanced form of [1]_.

With :math:`r = 1 - m/M` and :math:`u = v^2` the same is
:math:`1 - r \, (r^u + T (1 - r^u))^{-1/u}`, in which nothing overflows when r is near 0 or v is
large; it is what is computed.

References
----------
.. [1] Kong et al. (2026). An interpretable latency model for speculative decoding in LLM serving.
   arXiv:2605.15051, section 4.6.
"""

from typing import Any

# Floors that keep 0/0 out of value and gradient. The first replaces v^2 by sqrt(v^4 + floor^2),
# flat at v = 0 as the formula is; it moves coverage by less than 3e-8. The second is r at m = M,
# and the base where r^u underflows and T = 0.
_CV_SQUARED_FLOOR = 1e-7
_UNTOUCHED_FLOOR = 1e-100


def expert_coverage(tokens: Any, experts_fraction: Any, expert_load_cv: Any) -> Any:
    """Return the share of experts that a step with so many tokens touches.

    Parameters
    ----------
    tokens : number or array
        Tokens in the step, T = n (k + 1) >= 0.
    experts_fraction : number or array
        Experts per token over all experts, m/M, above 0 and up to 1; 1 gives a coverage of 1.
    expert_load_cv : number or array
        Coefficient of variation v >= 0 of the router's expert weights; 0 is perfect balance.

    Returns
    -------
    number or array
        Coverage from 0 to 1, within 1e-7 of the formula at every v, 0 included, with a finite
        gradient.

    Notes
    -----
    Routing that draws the m experts of a token without replacement, by gamma-distributed weights,
    agrees within about 0.03.

    Examples
    --------
    >>> round(expert_coverage(8, 4 / 32, 0.0), 4)
    0.6564
    >>> round(expert_coverage(8, 4 / 32, 2.0), 4)
    0.3772
    """
    untouched, power, base = _parts(tokens, experts_fraction, expert_load_cv)
    return 1 - untouched * base ** (-1 / power)


def expert_coverage_slope(tokens: Any, experts_fraction: Any, expert_load_cv: Any) -> Any:
    r"""Return the derivative of the coverage in the number of tokens.

    :math:`d\phi/dT = r \, \frac{1 - r^u}{u} \, (r^u + T (1 - r^u))^{-1/u - 1}`.

    Parameters
    ----------
    tokens : number or array
        Tokens in the step, T.
    experts_fraction : number or array
        Experts per token over all experts, m/M.
    expert_load_cv : number or array
        Coefficient of variation v of the router's expert weights.

    Returns
    -------
    number or array
        Share of experts per token.

    Examples
    --------
    >>> round(expert_coverage_slope(8, 4 / 32, 0.0), 4)
    0.0459
    """
    untouched, power, base = _parts(tokens, experts_fraction, expert_load_cv)
    return untouched * (1 - untouched**power) / power * base ** (-1 / power - 1)


def routed_load_cv(experts_fraction: Any, expert_load_cv: Any) -> Any:
    r"""Return the coefficient of variation of the tokens that experts get, from the router's.

    An expert of rate R gets a token with chance :math:`1 - e^{-R}`, of mean m/M and variance
    :math:`E[e^{-2R}] - (1 - m/M)^2`, with :math:`E[e^{-2R}] = (1 + 2 v^2 s)^{-1/v^2}` from the
    gamma's Laplace transform. It is below v, and at most :math:`\sqrt{M/m - 1}`.

    Parameters
    ----------
    experts_fraction : number or array
        Experts per token over all experts, m/M, below 1.
    expert_load_cv : number or array
        Coefficient of variation v of the router's expert weights.

    Returns
    -------
    number or array
        Dimensionless; what counts of tokens per expert show.

    Examples
    --------
    >>> round(routed_load_cv(4 / 32, 1.0), 3)
    0.882
    """
    untouched, power, base = _parts(2.0, experts_fraction, expert_load_cv)
    twice = untouched * base ** (-1 / power)
    spread = twice - untouched * untouched
    return (spread * (spread > 0)) ** 0.5 / experts_fraction


def _parts(tokens: Any, experts_fraction: Any, expert_load_cv: Any) -> tuple[Any, Any, Any]:
    """Return r, u and the base r^u + T (1 - r^u)."""
    squared = expert_load_cv * expert_load_cv
    power = (squared * squared + _CV_SQUARED_FLOOR**2) ** 0.5
    untouched = 1 - experts_fraction + _UNTOUCHED_FLOOR
    hit = untouched**power
    return untouched, power, hit + tokens * (1 - hit) + _UNTOUCHED_FLOOR
