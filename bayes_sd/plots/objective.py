"""Up to which load an objective is met, and how surely."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bayes_sd.exceptions import ArgumentError
from bayes_sd.plots.bands import add_grid, add_note, name_loads
from bayes_sd.plots.style import axes_or_new, colors_of, markers_of, name_of


def plot_slo_attainment(
    p_slo_met: pd.DataFrame,
    *,
    max_rates: Mapping[int, float] | None = None,
    certainty: float = 0.95,
    slo: str = "the objective",
    ax: Axes | None = None,
) -> Axes:
    """Draw P(objective met) over load for draft lengths, and the highest load of each.

    Parameters
    ----------
    p_slo_met : pandas.DataFrame
        Index: the load, named ``request_rate_rps`` or ``concurrency``. One column per draft
        length, as of ``MaxRate.probability_met(loads)``.
    max_rates : mapping of int to float, optional
        By draft length: ``MaxRate.rate``, drawn as a vertical line; 0 or not finite: none.
    certainty : float
        Probability asked for, drawn as a horizontal line.
    slo : str
        The objective in words.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn into.

    Raises
    ------
    ArgumentError
        If the table is empty, or holds what is no probability.

    Examples
    --------
    >>> plot_slo_attainment(table, max_rates={3: found.rate})  # doctest: +SKIP
    """
    values = p_slo_met.to_numpy(dtype=float)
    if not values.size or np.nanmin(values) < 0 or np.nanmax(values) > 1:
        raise ArgumentError(
            "p_slo_met must hold probabilities from 0 to 1, by load and draft length. Got "
            f"{values.size} values instead."
            if not values.size
            else "p_slo_met must hold probabilities from 0 to 1. Got values from "
            f"{np.nanmin(values):g} to {np.nanmax(values):g} instead."
        )
    ax = axes_or_new(ax)
    table = p_slo_met.sort_index()
    lengths = [int(k) for k in table.columns]
    colors, markers = colors_of(lengths), markers_of(lengths)
    load = table.index.to_numpy(dtype=float)
    unit = "in flight" if str(table.index.name) == "concurrency" else "requests/s"
    for k, column in zip(lengths, table.columns, strict=True):
        rate = (max_rates or {}).get(k, 0.0)
        found = bool(0 < rate < np.inf)
        name = f"{name_of(k)}: up to {rate:.3g} {unit}" if found else name_of(k)
        ax.plot(
            load,
            table[column].to_numpy(dtype=float),
            color=colors[k],
            linestyle="--" if k == 0 else "-",
            linewidth=1.6,
            marker=markers[k],
            markersize=4,
            markevery=max(len(load) // 12, 1),
            label=name,
        )
        if found:
            ax.plot([rate, rate], [0, certainty], color=colors[k], linewidth=1.2, linestyle=":")
            ax.plot(rate, certainty, marker="v", color=colors[k], markersize=7, zorder=3)
    ax.axhline(certainty, color="0.35", linewidth=1.0)
    ax.set_ylim(-0.02, 1.04)
    name_loads(ax, str(table.index.name))
    ax.set_ylabel("P(objective met)")
    ax.set_title(slo, loc="left", fontsize=9)
    add_note(
        ax,
        f"Horizontal line: the certainty asked for, {certainty:g}. Dotted, with a triangle: the "
        "highest load that keeps it.",
    )
    ax.legend(fontsize=8, frameon=False, title="Draft length", title_fontsize=8)
    add_grid(ax)
    return ax
