"""Popularity of experts, and tables from which the simulator draws them quickly."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaincinv

from bayes_sd.exceptions import ArgumentError
from bayes_sd.simulate_settings import SimulatedExperts

MAX_EXPONENT = 10.0  # of the Zipf law: beyond it one expert has all


class Router(NamedTuple):
    """What the engine needs to route tokens: M = 0 for a dense model.

    ``threshold`` and ``alias`` are Walker's tables [1]_: with u uniform on (0, M), expert
    i = floor(u) if u - i < threshold[i], else alias[i].

    References
    ----------
    .. [1] Walker (1977). An efficient method for generating discrete random variables with general
       distributions. ACM Transactions on Mathematical Software 3(3).
    """

    num_experts: int
    experts_per_token: int
    num_shards: int
    popularity: NDArray[np.float64]
    threshold: NDArray[np.float64]
    alias: NDArray[np.int64]


def expert_popularity(
    num_experts: int, load_cv: float, popularity: str = "gamma"
) -> NDArray[np.float64]:
    """Return the popularity of each expert, adding up to 1, the most popular first.

    ``gamma``: the quantiles at (i + 1/2) / M of a gamma distribution with the coefficient of
    variation asked for; that of so few quantiles is smaller. ``zipf``: 1 / rank^s, with s such
    that the M values themselves have it.

    Parameters
    ----------
    num_experts : int
        M.
    load_cv : float
        Coefficient of variation; 0 is equal popularity.
    popularity : {"gamma", "zipf"}
        The family.

    Raises
    ------
    ArgumentError
        If the coefficient of variation is too large for so few experts (zipf).

    Examples
    --------
    >>> weights = expert_popularity(8, 1.0, "zipf")
    >>> print(f"{weights.std() / weights.mean():.3f} {weights.sum():.3f}")
    1.000 1.000
    >>> gamma = expert_popularity(8, 1.0)
    >>> print(f"{gamma.std() / gamma.mean():.2f}")
    0.88
    """
    if load_cv == 0:
        return np.full(num_experts, 1.0 / num_experts)
    if popularity == "gamma":
        middles = (np.arange(num_experts)[::-1] + 0.5) / num_experts
        raw = gammaincinv(load_cv**-2, middles)
        return raw / raw.sum()
    rank = np.arange(1, num_experts + 1)

    def excess(exponent: float) -> float:
        found = rank**-exponent
        return float(found.std() / found.mean() - load_cv)

    highest = float(excess(MAX_EXPONENT) + load_cv)
    if load_cv > highest:
        raise ArgumentError(
            f"load_cv must be at most {highest:.3g} for {num_experts} experts of zipf popularity. "
            f"Got {load_cv:g} instead."
        )
    raw = rank ** -brentq(excess, 0.0, MAX_EXPONENT, xtol=1e-12)
    return raw / raw.sum()


def build_router(experts: SimulatedExperts | None) -> Router:
    """Return the tables of a verifier's experts; an empty router for a dense model."""
    if experts is None:
        return Router(0, 0, 1, np.ones(1), np.ones(1), np.zeros(1, dtype=np.int64))
    if isinstance(experts.popularity, str):
        weights = expert_popularity(experts.num_experts, experts.load_cv, experts.popularity)
    else:
        weights = np.array(experts.popularity) / sum(experts.popularity)
    return Router(
        experts.num_experts,
        experts.experts_per_token,
        experts.num_shards,
        weights,
        *_alias_tables(weights),
    )


def _alias_tables(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    share = weights * len(weights)
    threshold, alias = np.ones(len(weights)), np.arange(len(weights))
    small = [i for i, s in enumerate(share) if s < 1]
    large = [i for i, s in enumerate(share) if s >= 1]
    while small and large:
        low, high = small.pop(), large.pop()
        threshold[low], alias[low] = share[low], high
        share[high] -= 1 - share[low]
        (small if share[high] < 1 else large).append(high)
    return threshold, alias
