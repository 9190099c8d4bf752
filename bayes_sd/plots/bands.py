"""What plots over load share: a band with its median, the load axis, and a note below."""

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from bayes_sd.exceptions import ArgumentError
from bayes_sd.plots.style import load_label

COLUMNS = ("low", "median", "high")
OPACITY = 0.22
ROOM = 0.045  # of the length of an axis, for a label of four signs
Floats = npt.NDArray[np.float64]
_LOADS = {"rps": "request_rate_rps", "in flight": "concurrency"}


def checked(table: pd.DataFrame, columns: tuple[str, ...] = COLUMNS) -> pd.DataFrame:
    """Return a table by rising load, or say which columns it lacks.

    Raises
    ------
    ArgumentError
        If it has no rows, or lacks a column.
    """
    missing = [name for name in columns if name not in table]
    if missing or not len(table):
        raise ArgumentError(
            f"the table to plot must have rows and the columns {', '.join(columns)}. Got "
            f"{len(table)} rows and the columns {', '.join(map(str, table.columns))} instead."
        )
    return table.sort_index()


def draw_band(
    ax: Axes,
    table: pd.DataFrame,
    color: str,
    label: str,
    *,
    dashed: bool = False,
    marker: str | None = None,
) -> None:
    """Draw ``low`` to ``high`` as a band and ``median`` as a line, by the table's index.

    Points that are not finite are not drawn.
    """
    at = table.index.to_numpy(dtype=float)
    low, median, high = (table[name].to_numpy(dtype=float) for name in COLUMNS)
    drawn = np.isfinite(low) & np.isfinite(high)
    ax.fill_between(at, low, high, where=drawn, color=color, alpha=OPACITY, linewidth=0, zorder=1)
    ax.plot(
        at,
        np.where(drawn, median, np.nan),
        color=color,
        linestyle="--" if dashed else "-",
        linewidth=1.6,
        marker=marker,
        markersize=4,
        label=label,
        zorder=2,
    )


def name_loads(ax: Axes, name: str) -> None:
    """Label a load axis with its unit, from the name of a table's index."""
    ax.set_xlabel(load_label(_LOADS.get(name, name)))


def log_ratio_axis(ax: Axes) -> None:
    """Make the vertical axis logarithmic, with plain numbers and a line at 1."""
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    low, high = min(low, 0.9), max(high, 1.1)
    ax.set_ylim(low, high)
    close = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)  # most speedups lie between 1 and 2
    ax.yaxis.set_major_locator(LogLocator(subs=close if high / low < 5 else (1, 2, 3, 5)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.axhline(1.0, color="0.35", linewidth=1.0, zorder=1.5)


def add_note(ax: Axes, *lines: str) -> None:
    """Write below the plot what band and signs are."""
    ax.annotate(
        "\n".join(line for line in lines if line),
        (0.0, 0.0),
        xycoords="axes fraction",
        xytext=(0, -38),
        textcoords="offset points",
        fontsize=7.5,
        va="top",
        annotation_clip=False,
    )


def legend_above(ax: Axes) -> None:
    """Put the legend above the axes at the right, in one row, where it hides nothing."""
    ax.legend(fontsize=8, frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4)


def legend_beside(ax: Axes) -> None:
    """Put the legend of draft lengths to the right of the axes, where it hides nothing."""
    ax.legend(
        fontsize=8,
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        title="Draft length",
        title_fontsize=8,
    )


def labelled(places: Floats, span: float | None = None, room: float = ROOM) -> list[int]:
    """Return the numbers of the places that have room for a label, from the first on.

    Parameters
    ----------
    places : array
        Rising places on a linear axis.
    span : float, optional
        Length of the axis; by default from the first place to the last.
    room : float
        Room of a label, as a share of the axis.

    Examples
    --------
    >>> labelled(np.array([1.0, 1.1, 5.0, 9.0]))
    [0, 2, 3]
    """
    span = float(places[-1] - places[0]) if span is None else span
    kept = [0]
    for i in range(1, len(places)):
        if places[i] - places[kept[-1]] >= room * span:
            kept.append(i)
    return kept


def add_grid(ax: Axes) -> None:
    """Draw a light grid behind everything."""
    ax.grid(True, which="major", color="0.9", linewidth=0.6, zorder=0)
    ax.set_axisbelow(True)
