"""How often drafts are accepted at each position: the posterior over the counts."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from bayes_sd.exceptions import ArgumentError
from bayes_sd.plots.bands import add_grid, add_note, legend_above
from bayes_sd.plots.style import axes_or_new

COLOR = "#2b758e"


def plot_acceptance(
    rates: xr.DataArray,
    accepted: Sequence[float],
    trials: Sequence[float],
    *,
    level: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """Draw conditional acceptance rates by position, with what was counted.

    Parameters
    ----------
    rates : xarray.DataArray
        Draws of the conditional rate, dims (sample, position), 0 to 1.
    accepted, trials : sequence of float, one per position
        Accepted drafts, and those on trial: all before them were accepted. 0 trials: not counted.
    level : float
        Probability of the central interval.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        Bars with the median; hollow marks accepted / trials, with the trials beside them.

    Raises
    ------
    ArgumentError
        If counts and positions differ in number.

    Notes
    -----
    Counts lie above the rate at later positions where requests differ: the easy ones get there.

    Examples
    --------
    >>> plot_acceptance(rates, [700, 480], [1000, 700])  # doctest: +SKIP
    """
    draws = rates.transpose("sample", "position").values
    took, tried = np.asarray(accepted, dtype=float), np.asarray(trials, dtype=float)
    if not draws.shape[1] == len(took) == len(tried):
        raise ArgumentError(
            "accepted and trials must have one number per position. Got "
            f"{len(took)} and {len(tried)} for {draws.shape[1]} positions instead."
        )
    ax = axes_or_new(ax)
    position = np.arange(1, draws.shape[1] + 1)
    tail = (1 - level) / 2
    low, middle, high = np.quantile(draws, [tail, 0.5, 1 - tail], axis=0)
    ax.vlines(position, low, high, color=COLOR, linewidth=5, alpha=0.45, label="posterior")
    ax.scatter(position, middle, color=COLOR, marker="_", s=160, linewidth=2, zorder=2)
    counted = tried > 0
    share = took[counted] / tried[counted]
    ax.scatter(
        position[counted] + 0.14, share, facecolor="white", edgecolor="black", s=34, zorder=3,
        label="counted",
    )  # fmt: skip
    for x, y, n in zip(position[counted], share, tried[counted], strict=True):
        ax.annotate(
            f"{n:,.0f}", (x + 0.14, y), xytext=(6, 0), textcoords="offset points", fontsize=7.5,
            va="center",
        )  # fmt: skip
    ax.set_xticks(position)
    ax.set_xlim(0.5, len(position) + 0.8)
    ax.set_xlabel("Position of the draft")
    ax.set_ylabel("Conditional acceptance rate")
    add_note(
        ax,
        f"Bars: central {100 * level:g} % of the posterior, with its median; all requests weigh "
        "alike.",
        "Circles: accepted / trials, with the number of trials.",
    )
    legend_above(ax)
    add_grid(ax)
    return ax
