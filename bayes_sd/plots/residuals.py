"""Where the law misses the measured runs: residuals over load."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bayes_sd.plots.bands import add_grid, add_note, checked, legend_beside
from bayes_sd.plots.style import axes_or_new, colors_of, markers_of, name_of

COLUMNS = ("effective_batch", "observed_e2e_s", "median_e2e_s", "low_e2e_s", "high_e2e_s")


def plot_residuals(runs: pd.DataFrame, *, level: float = 0.9, ax: Axes | None = None) -> Axes:
    """Draw each run's latency over its prediction, against the batch it held.

    Parameters
    ----------
    runs : pandas.DataFrame
        One row per run: ``effective_batch`` (requests), ``num_speculative_tokens``,
        ``observed_e2e_s``, and ``median_e2e_s``, ``low_e2e_s``, ``high_e2e_s`` of its prediction
        (``kind="run"``), s.
    level : float
        Probability of the interval, for the note.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        Residual in percent, with the predictive interval as a thin line; runs outside it are full,
        the others hollow. The title says how many lie outside, and how many chance allows.

    Raises
    ------
    ArgumentError
        If the table lacks a column or has no rows.

    Examples
    --------
    >>> plot_residuals(table).figure.savefig("residuals.png")  # doctest: +SKIP
    """
    table = checked(runs, (*COLUMNS, "num_speculative_tokens"))
    ax = axes_or_new(ax)
    lengths = sorted({int(k) for k in table["num_speculative_tokens"]})
    colors, markers = colors_of(lengths), markers_of(lengths)
    batch, observed, median, low, high = (table[n].to_numpy(dtype=float) for n in COLUMNS)
    outside = (observed < low) | (observed > high)
    residual = 100 * (observed / median - 1)
    drafts = table["num_speculative_tokens"].to_numpy(dtype=int)
    for k in lengths:
        here = drafts == k
        ends = [100 * (end[here] / median[here] - 1) for end in (low, high)]
        ax.vlines(batch[here], *ends, color=colors[k], linewidth=1.2, alpha=0.55, zorder=1)
        for out in (False, True):
            at = here & (outside == out)
            ax.scatter(
                batch[at],
                residual[at],
                s=28,
                marker=markers[k],
                facecolor=colors[k] if out else "white",
                edgecolor=colors[k],
                linewidth=1.0,
                zorder=2,
                label=None if out else name_of(k),
            )
    ax.axhline(0.0, color="0.35", linewidth=1.0)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel("Effective batch (requests, log scale)")
    ax.set_ylabel("Observed over predicted latency (%)")
    expected = (1 - level) * len(table)
    ax.set_title(
        f"{len(table)} runs: {int(np.sum(outside))} outside, {expected:.1f} expected by chance",
        loc="left",
        fontsize=9,
    )
    add_note(
        ax,
        f"Lines: central {100 * level:g} % for a fresh run (kind = run). Full marks lie outside.",
    )
    legend_beside(ax)
    add_grid(ax)
    return ax
