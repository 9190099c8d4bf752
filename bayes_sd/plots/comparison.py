"""Which of two candidates is faster, by how much, and how surely, over load."""

import pandas as pd
from matplotlib.axes import Axes

from bayes_sd.plots.bands import (
    add_grid,
    add_note,
    checked,
    draw_band,
    labelled,
    log_ratio_axis,
    name_loads,
)
from bayes_sd.plots.style import axes_or_new

COLOR = "#2b758e"


def plot_comparison(
    difference: pd.DataFrame,
    probability_faster: pd.Series,
    *,
    names: tuple[str, str] = ("first", "second"),
    level: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """Draw the ratio of two latencies over load, with P(first is faster) above each load.

    Parameters
    ----------
    difference : pandas.DataFrame
        Result of ``PairComparison.difference(first, second)``: index the load, columns ``low``,
        ``median``, ``high``.
    probability_faster : pandas.Series
        Result of ``PairComparison.probability_faster(first, second)``, by the same loads.
    names : (str, str)
        The two candidates.
    level : float
        Probability of the interval, for the note.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        Ratio on a log scale; below 1 the first is faster.

    Raises
    ------
    ArgumentError
        If the table lacks a column or has no rows.

    Examples
    --------
    >>> plot_comparison(found.difference("a", "b"), found.probability_faster("a", "b"))
    ... # doctest: +SKIP
    """
    ax = axes_or_new(ax)
    table = checked(difference)
    draw_band(ax, table, COLOR, "", marker="o")
    log_ratio_axis(ax)
    first, last = float(table.index[0]), float(table.index[-1])
    margin = 0.05 * (last - first) or 0.05 * last
    ax.set_xlim(first - margin, last + margin)  # the loads that have a probability only, too
    loads = table.index.to_numpy(dtype=float)
    for load in table.index[labelled(loads)]:
        ax.annotate(
            f"{probability_faster.loc[load]:.2f}",
            (float(load), 1.02),
            xycoords=("data", "axes fraction"),
            fontsize=8,
            ha="center",
            annotation_clip=False,
        )
    ax.set_title(f"P({names[0]} faster), by load:\n", loc="left", fontsize=9)
    name_loads(ax, str(table.index.name))
    ax.set_ylabel("Ratio of latencies (log scale)")
    add_note(
        ax,
        f"Ratio: {names[0]} / {names[1]}; below 1 {names[0]} is faster.",
        f"Band: central {100 * level:g} %. Not drawn where either is past capacity;",
        "to the edge: in some draws one is past capacity.",
    )
    add_grid(ax)
    return ax
