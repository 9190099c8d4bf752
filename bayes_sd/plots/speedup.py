"""From which load on speculation stops paying."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bayes_sd.plots.bands import (
    add_grid,
    add_note,
    checked,
    draw_band,
    log_ratio_axis,
    name_loads,
)
from bayes_sd.plots.style import axes_or_new, colors_of, markers_of, name_of

STRIP = 0.04  # height of a break-even's bar, of the axis


def plot_speedup(
    speedups: Mapping[int, pd.DataFrame],
    *,
    turns: Mapping[int, tuple[float, float, float]] | None = None,
    level: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """Draw the speedup of draft lengths over load, and where each stops paying.

    Parameters
    ----------
    speedups : mapping of int to pandas.DataFrame
        By draft length: latency without over latency with speculation. Index: the load; columns
        ``low``, ``median``, ``high``, as of ``PairComparison.difference("off", "k = 3")``.
    turns : mapping of int to (float, float, float), optional
        By draft length: low end, median and high end of the load at which it stops paying, as of
        ``BreakEven.interval()``. Not finite: there is none.
    level : float
        Probability of the intervals, for the note.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        Speedup on a log scale; above 1 speculation pays. A bar at the foot spans each turn's
        interval, with a tick at its median; turns at other loads are not drawn.

    Raises
    ------
    ArgumentError
        If a table lacks a column or has no rows.

    Examples
    --------
    >>> plot_speedup({3: comparison.difference("off", "on")})  # doctest: +SKIP
    """
    ax = axes_or_new(ax)
    lengths = sorted(speedups)
    colors, markers = colors_of(lengths), markers_of(lengths)
    for k in lengths:
        table = checked(speedups[k])
        draw_band(ax, table, colors[k], name_of(k), marker=markers[k])
        name_loads(ax, str(table.index.name))
    log_ratio_axis(ax)
    ends = ax.get_xlim()
    shown = [k for k in lengths if turns and k in turns and _is_within(turns[k], ends)]
    for row, k in enumerate(shown):
        low, middle, high = (turns or {})[k]
        foot = 0.02 + 1.3 * STRIP * row
        where = ax.get_xaxis_transform()
        for color, width in (("white", 7), (colors[k], 4)):  # a white edge, for the bands below
            ax.plot([low, high], [foot, foot], color=color, linewidth=width, transform=where)
            ax.plot(
                middle, foot, marker="|", color=color, transform=where, ms=12 + width / 4,
                mew=width / 2,
            )  # fmt: skip
    ax.set_xlim(ends)
    ax.set_ylabel("Speedup: latency off / on (log scale)")
    bars = (
        f"Bars at the foot: load at which it stops paying, central {100 * level:g} % and median."
        if shown
        else ""
    )
    zero = any((speedups[k]["low"] == 0).any() for k in lengths)
    add_note(
        ax,
        f"Bands: central {100 * level:g} %. Above 1 speculation pays.",
        bars,
        "A band that falls to the foot: with speculation it may be past capacity." if zero else "",
    )
    ax.legend(fontsize=8, frameon=False, title="Draft length", title_fontsize=8)
    add_grid(ax)
    return ax


def _is_within(turn: tuple[float, float, float], ends: tuple[float, float]) -> bool:
    """Tell whether a turn exists and part of its interval is on the axis."""
    return bool(np.isfinite(turn).all()) and turn[2] >= ends[0] and turn[0] <= ends[1]
