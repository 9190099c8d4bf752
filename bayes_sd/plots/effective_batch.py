"""How many requests a server holds at each load."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bayes_sd.plots.bands import add_grid, add_note, checked, draw_band, name_loads
from bayes_sd.plots.style import axes_or_new, colors_of, markers_of, name_of


def plot_effective_batch(
    batches: Mapping[int, pd.DataFrame],
    *,
    max_num_seqs: int | None = None,
    level: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean number of requests in the system over load, for draft lengths.

    Parameters
    ----------
    batches : mapping of int to pandas.DataFrame
        By draft length. Index: the load; columns ``low``, ``median``, ``high``: quantiles of the
        draws of `effective_batch`, requests; not finite past capacity.
    max_num_seqs : int, optional
        The engine's limit, drawn as a line.
    level : float
        Probability of the interval, for the note.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        Requests on a log scale. A curve ends where the upper end of its band is past capacity.

    Raises
    ------
    ArgumentError
        If a table lacks a column or has no rows.

    Examples
    --------
    >>> plot_effective_batch({0: off, 3: on})  # doctest: +SKIP
    """
    ax = axes_or_new(ax)
    lengths = sorted(batches)
    colors, markers = colors_of(lengths), markers_of(lengths)
    cut = False
    for k in lengths:
        table = checked(batches[k])
        cut |= not np.isfinite(table["high"].to_numpy(dtype=float)).all()
        draw_band(ax, table, colors[k], name_of(k), dashed=k == 0, marker=markers[k])
        name_loads(ax, str(table.index.name))
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if max_num_seqs is not None:
        ax.axhline(max_num_seqs, color="0.35", linewidth=1.0, linestyle=":")
        ax.text(
            0.01, max_num_seqs, "max_num_seqs", fontsize=8, va="bottom",
            transform=ax.get_yaxis_transform(),
        )  # fmt: skip
    ax.set_ylabel("Effective batch (requests, log scale)")
    add_note(
        ax,
        f"Bands: central {100 * level:g} % of the mean number of requests in the system.",
        "A curve ends where the upper end of its band is past capacity." if cut else "",
    )
    ax.legend(fontsize=8, frameon=False, title="Draft length", title_fontsize=8)
    add_grid(ax)
    return ax
