"""Which share of its experts a step of a mixture of experts touches."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bayes_sd.plots.bands import add_grid, add_note, checked, draw_band
from bayes_sd.plots.style import axes_or_new

COLOR = "#2b758e"


def plot_expert_coverage(
    coverage: pd.DataFrame,
    *,
    balanced: pd.Series | None = None,
    marks: dict[str, float] | None = None,
    level: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of experts touched against the tokens of a step.

    Parameters
    ----------
    coverage : pandas.DataFrame
        Index: tokens in a step, n (k + 1). Columns ``low``, ``median``, ``high``, 0 to 1: quantiles
        over draws of `bayes_sd.physics.experts.expert_coverage`.
    balanced : pandas.Series, optional
        The same if every expert were as likely, 1 - (1 - m/M)^T, drawn dashed.
    marks : dict of str to float, optional
        Steps to mark, such as ``{"16 requests, k = 3": 64}``: name and tokens.
    level : float
        Probability of the interval, for the note.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn into.

    Raises
    ------
    ArgumentError
        If the table lacks a column or has no rows.

    Examples
    --------
    >>> plot_expert_coverage(table, marks={"alone, k = 3": 4})  # doctest: +SKIP
    """
    table = checked(coverage)
    ax = axes_or_new(ax)
    draw_band(ax, table, COLOR, "as routed")
    if balanced is not None:
        shown = balanced.sort_index()
        ax.plot(shown.index, shown, color="black", linestyle="--", lw=1.2, label="balanced router")
    for name, tokens in (marks or {}).items():
        ax.axvline(tokens, color="0.5", linewidth=0.8, linestyle=":")
        low = np.interp(tokens, table.index.to_numpy(dtype=float), table["median"]) < 0.5
        ax.annotate(  # away from the curve: above it where it is low
            name, (tokens, 0.98 if low else 0.02), xycoords=("data", "axes fraction"), rotation=90,
            fontsize=7.5, ha="right", va="top" if low else "bottom",
        )  # fmt: skip
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_ylim(0, 1.02)
    ax.set_xlabel("Tokens in a step (log scale)")
    ax.set_ylabel("Share of experts touched")
    add_note(ax, f"Band: central {100 * level:g} % of the posterior of the router's imbalance.")
    ax.legend(fontsize=8, frameon=False, loc="upper left")
    add_grid(ax)
    return ax
