r"""Whether ranks are uniform: their empirical distribution against a simultaneous band.

If truth and posterior draws come from one joint distribution, the rank of the truth among L
independent draws is uniform on 0 to L, for every quantity [1]_. The number of N ranks below
i is then binomial with chance i / (L + 1). The band puts the same central probability at each i,
so narrow a tail that all of the curve is inside with the level asked for, and that tail is found
by simulation [2]_.

References
----------
.. [1] Talts et al. (2018). Validating Bayesian inference algorithms with simulation-based
   calibration. arXiv:1804.06788.
.. [2] Säilynoja, Bürkner and Vehtari (2022). Graphical test for discrete uniformity and its
   applications in goodness-of-fit evaluation and multiple sample comparison. Statistics and
   Computing 32(32), section 2.2.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from bayes_sd.exceptions import ArgumentError
from bayes_sd.validate import probability

NUM_NULL = 20_000
STRICT = 0.01  # chance that a right model is called wrong, of each of the two checks

type Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CalibrationVerdict:
    """Result of `calibration_verdict`.

    Attributes
    ----------
    passed : bool
        Whether no more quantities leave their band than chance allows, and none leaves it so far
        that chance would not, of so many.
    num_quantities, num_outside : int
        Quantities judged, and those whose ranks leave their band.
    expected_outside, allowed_outside : float, int
        Mean of the binomial number outside under a right model, and its 99 % quantile.
    smallest_p : float
        Smallest p value over the quantities, times their number (Bonferroni).
    worst : str
        The quantity that it belongs to.
    table : pandas.DataFrame
        One row per quantity: ``p_value``, ``outside``, ``mean_rank`` (0.5 if uniform),
        ``spread`` (of the ranks over that of uniform ones: above 1, intervals are too narrow).
    curves : xarray.Dataset
        For `plot_calibration`: ``difference`` (quantity, fraction), the ranks' empirical
        distribution less the uniform one; ``low``, ``high`` (fraction), the band. Attributes
        ``level``, ``num_simulations``.
    """

    passed: bool
    num_quantities: int
    num_outside: int
    expected_outside: float
    allowed_outside: int
    smallest_p: float
    worst: str
    table: pd.DataFrame
    curves: xr.Dataset

    def sentence(self) -> str:
        """Return the verdict in words."""
        level = self.curves.attrs["level"]
        found = (
            f"{self.num_outside} of {self.num_quantities} quantities leave their simultaneous "
            f"{100 * level:g} % band over {self.curves.attrs['num_simulations']} simulations "
            f"({self.expected_outside:.1f} expected by chance, up to {self.allowed_outside} "
            f"allowed); smallest p times {self.num_quantities}: {self.smallest_p:.2g} "
            f"({self.worst})."
        )
        return ("Calibrated: " if self.passed else "NOT CALIBRATED: ") + found


def calibration_verdict(result: xr.Dataset, *, level: float = 0.95) -> CalibrationVerdict:
    """Judge ranks by their empirical distribution.

    Parameters
    ----------
    result : xarray.Dataset
        As `run_sbc` returns: ``rank`` (simulation, quantity), whole numbers from 0 to the
        attribute ``num_ranks``. Quantities with the same ranks in every simulation count once.
    level : float
        Probability that all of one quantity's curve is inside its band, if it is uniform.

    Returns
    -------
    CalibrationVerdict
        Which quantities leave their band, and how many would by chance.

    Raises
    ------
    ArgumentError
        If the ranks are out of range, or the level is not a probability.

    Notes
    -----
    The quantities of one model are correlated, so the number outside varies more than a binomial
    one. The p value of the worst, times the number of quantities, holds whatever the correlation.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ranks = rng.integers(0, 100, size=(200, 3))
    >>> ranks[:, 2] = ranks[:, 2] // 2  # a truth that always lies low
    >>> result = xr.Dataset(
    ...     {"rank": (("simulation", "quantity"), ranks)},
    ...     coords={"quantity": ["a", "b", "c"]},
    ...     attrs={"num_ranks": 99},
    ... )
    >>> verdict = calibration_verdict(result)
    >>> verdict.passed, verdict.table["outside"].tolist()
    (False, [False, False, True])
    """
    probability(level, "level", ends=False)
    ranks = result["rank"].transpose("simulation", "quantity").values
    num_ranks = int(result.attrs["num_ranks"])
    # A cost and its logarithm have the same ranks, and are one quantity.
    kept = np.sort(np.unique(ranks, axis=1, return_index=True)[1])
    ranks = ranks[:, kept]
    names = [str(name) for name in result["quantity"].values[kept]]
    p_values = uniformity_p_values(ranks, num_ranks)
    outside = p_values < 1 - level
    number, expected = len(names), len(names) * (1 - level)
    allowed = int(stats.binom(number, 1 - level).ppf(1 - STRICT))
    smallest = min(1.0, float(p_values.min()) * number)
    middle = (ranks + 0.5) / (num_ranks + 1)
    table = pd.DataFrame(
        {
            "p_value": p_values,
            "outside": outside,
            "mean_rank": middle.mean(axis=0),
            "spread": middle.std(axis=0) / np.sqrt((1 - 1 / (num_ranks + 1) ** 2) / 12),
        },
        index=pd.Index(names, name="quantity"),
    )
    return CalibrationVerdict(
        passed=bool(outside.sum() <= allowed and smallest >= STRICT),
        num_quantities=number,
        num_outside=int(outside.sum()),
        expected_outside=expected,
        allowed_outside=allowed,
        smallest_p=smallest,
        worst=names[int(np.argmin(p_values))],
        table=table,
        curves=_curves(ranks, num_ranks, names, level),
    )


def rank_of_first(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return how many of the other rows lie below the first, ties broken at random.

    Parameters
    ----------
    values : array of float, (1 + draws, quantity)
        The truth, then the draws that it is ranked among.
    rng : numpy.random.Generator
        Breaks ties.

    Returns
    -------
    array of int, (quantity,)

    Examples
    --------
    >>> values = np.array([[2.0], [1.0], [3.0], [0.0]])
    >>> rank_of_first(values, np.random.default_rng(0))
    array([2])
    """
    below = (values[1:] < values[0]).sum(axis=0)
    ties = (values[1:] == values[0]).sum(axis=0)
    return np.asarray(below + rng.integers(0, ties + 1))


def uniformity_p_values(ranks: NDArray[np.integer], num_ranks: int) -> Floats:
    """Return the p value of each column of ranks against the uniform distribution.

    Parameters
    ----------
    ranks : array of int, (simulation, quantity)
        From 0 to ``num_ranks``.
    num_ranks : int
        L, the number of draws that the truth is ranked among.

    Returns
    -------
    array of float, (quantity,)
        Chance that uniform ranks come as near the edge of their binomial distributions, at the
        worst place of the curve; from 20,000 simulations, so at least 1 in 20,001.

    Raises
    ------
    ArgumentError
        If a rank is out of range.

    Examples
    --------
    >>> even = np.arange(200)[:, None] % 100
    >>> float(uniformity_p_values(even, 99)[0])
    1.0
    """
    if not np.issubdtype(ranks.dtype, np.integer) or ranks.min() < 0 or ranks.max() > num_ranks:
        raise ArgumentError(
            f"ranks must be whole numbers from 0 to num_ranks = {num_ranks}. Got "
            f"{ranks.dtype} from {ranks.min()} to {ranks.max()} instead."
        )
    null = _null(len(ranks), num_ranks)
    tails = _smallest_tail(_counts_below(ranks, num_ranks), len(ranks), num_ranks)
    at_least = np.searchsorted(null, tails * (1 + 1e-9), side="right")
    return np.asarray((at_least + 1) / (len(null) + 1))


def rank_band(num_simulations: int, num_ranks: int, level: float) -> tuple[Floats, Floats, Floats]:
    """Return the simultaneous band of the empirical distribution of uniform ranks.

    Parameters
    ----------
    num_simulations : int
        N.
    num_ranks : int
        L.
    level : float
        Probability that all of the curve is inside.

    Returns
    -------
    fraction, low, high : array of float, (L,)
        Where the curve is looked at, i / (L + 1), and the least and greatest share of ranks
        below that is inside.
    """
    null = _null(num_simulations, num_ranks)
    tail = np.quantile(null, 1 - level, method="inverted_cdf")
    fraction = np.arange(1, num_ranks + 1) / (num_ranks + 1)
    inside = _tails(num_simulations, num_ranks) >= tail
    low = np.argmax(inside, axis=1)
    high = num_simulations - np.argmax(inside[:, ::-1], axis=1)
    return fraction, low / num_simulations, high / num_simulations


def _curves(
    ranks: NDArray[np.integer], num_ranks: int, names: list[str], level: float
) -> xr.Dataset:
    fraction, low, high = rank_band(len(ranks), num_ranks, level)
    below = _counts_below(ranks, num_ranks).T / len(ranks)
    return xr.Dataset(
        {
            "difference": (("quantity", "fraction"), below - fraction),
            "low": ("fraction", low - fraction),
            "high": ("fraction", high - fraction),
        },
        coords={"quantity": names, "fraction": fraction},
        attrs={"level": level, "num_simulations": len(ranks)},
    )


def _counts_below(ranks: NDArray[np.integer], num_ranks: int) -> NDArray[np.intp]:
    """Return how many of each column's ranks are below 1, 2, ..., L: (L, column)."""
    counts = np.stack([np.bincount(c, minlength=num_ranks + 1) for c in ranks.T], axis=-1)
    return np.asarray(np.cumsum(counts, axis=0)[:-1])


def _smallest_tail(below: NDArray[np.intp], num_simulations: int, num_ranks: int) -> Floats:
    """Return the smallest one-sided binomial tail along each curve: (column,)."""
    tails = _tails(num_simulations, num_ranks)
    return np.asarray(tails[np.arange(num_ranks)[:, None], below].min(axis=0))


@cache
def _tails(num_simulations: int, num_ranks: int) -> Floats:
    """Return the smaller tail of each count at each place: (L, N + 1)."""
    fraction = np.arange(1, num_ranks + 1)[:, None] / (num_ranks + 1)
    counts = stats.binom(num_simulations, fraction)
    every = np.arange(num_simulations + 1)
    return np.asarray(np.minimum(counts.cdf(every), counts.sf(every - 1)))


@cache
def _null(num_simulations: int, num_ranks: int) -> Floats:
    """Return the smallest tails of simulated uniform ranks, sorted."""
    rng = np.random.default_rng(0)
    even = np.full(num_ranks + 1, 1 / (num_ranks + 1))
    below = np.cumsum(rng.multinomial(num_simulations, even, size=NUM_NULL), axis=1)[:, :-1]
    return np.sort(_smallest_tail(below.T, num_simulations, num_ranks))
