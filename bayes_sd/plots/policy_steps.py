"""The draft length that a policy takes at each load, and how sure each is."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bayes_sd.plots.bands import add_note, checked, labelled, name_loads
from bayes_sd.plots.style import axes_or_new, colors_of

COLUMNS = ("num_speculative_tokens", "probability_best", "verdict")
SURE = 0.9


def plot_policy(policy: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the chosen draft length as steps over load, with P(best) at each load.

    Parameters
    ----------
    policy : pandas.DataFrame
        Result of `draft_length_policy` for one prompt length.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        Marks are full where P(best) is at least 0.9, hollow where it is below; crosses at the foot
        where every draft length is past capacity.

    Raises
    ------
    ArgumentError
        If the table lacks a column or has no rows.

    Examples
    --------
    >>> plot_policy(draft_length_policy(tree, scenario, [1, 4, 8]))  # doctest: +SKIP
    """
    table = checked(policy, COLUMNS)
    ax = axes_or_new(ax)
    load = table.index.to_numpy(dtype=float)
    chosen = (
        table["num_speculative_tokens"].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    )
    best = table["probability_best"].to_numpy(dtype=float)
    ax.step(load, chosen, where="mid", color="0.45", linewidth=1.4, zorder=1)
    served = ~np.isnan(chosen)
    colors = colors_of(sorted({int(k) for k in chosen[served]}))
    span = float(load[-1] - load[0])
    rows = {k: load[chosen == k] for k in colors}  # labels of one draft length stand in a row
    written = {(x, k) for k, at in rows.items() for x in at[labelled(at, span)]}
    for x, k, p in zip(load[served], chosen[served], best[served], strict=True):
        color = colors[int(k)]
        ax.scatter(
            x, k, s=48, facecolor=color if p >= SURE else "white", edgecolor=color, lw=1.5, zorder=3
        )
        if (x, k) in written:
            ax.annotate(
                f"{p:.2f}",
                (x, k),
                xytext=(0, 8),
                textcoords="offset points",
                fontsize=8,
                ha="center",
            )
    if (~served).any():
        ax.scatter(load[~served], np.zeros((~served).sum()), marker="x", color="0.35", s=36)
    top = max(int(np.nanmax(chosen)) if served.any() else 0, 1)
    ax.set_yticks(range(top + 1), ["off", *map(str, range(1, top + 1))])
    ax.set_ylim(-0.3, top + 0.6)
    name_loads(ax, str(table.index.name))
    ax.set_ylabel("Draft length k (tokens per step)")
    past = " Crosses: every draft length is past capacity." if (~served).any() else ""
    add_note(ax, f"Numbers: P(k has the lowest mean latency); hollow below {SURE:g}.{past}")
    ax.grid(True, axis="y", color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    return ax
