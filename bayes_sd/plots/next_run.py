"""What to measure next: the regret that each run is expected to save."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bayes_sd.plots.bands import add_note, checked
from bayes_sd.plots.style import axes_or_new

COLUMNS = ("candidate", "num_requests", "regret_after", "regret_reduction", "reduction_error")
FIRST, OTHERS = "#0072b2", "#b8b8b8"
SHOWN = 12


def plot_next_run(runs: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the expected fall in regret from each run that could be made, the most useful on top.

    Parameters
    ----------
    runs : pandas.DataFrame
        Result of ``NextRun.to_frame()``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        At most 12 bars, with two standard errors; the first is dark where it is more than that.

    Raises
    ------
    ArgumentError
        If the table lacks a column or has no rows.

    Examples
    --------
    >>> plot_next_run(next_run(tree, candidates).to_frame())  # doctest: +SKIP
    """
    table = checked(runs, COLUMNS).sort_values("regret_reduction", ascending=False, kind="stable")
    shown = table.iloc[:SHOWN]
    ax = axes_or_new(ax)
    saved = 100 * shown["regret_reduction"].to_numpy(dtype=float)
    error = 200 * shown["reduction_error"].to_numpy(dtype=float)
    place = np.arange(len(shown))[::-1]
    colors = [FIRST if i == 0 and saved[0] > error[0] else OTHERS for i in range(len(shown))]
    ax.barh(place, saved, xerr=error, color=colors, height=0.65, ecolor="0.25", capsize=2)
    ax.axvline(0.0, color="0.35", linewidth=1.0)
    title, names = _names(shown)
    ax.set_title(title, loc="left", fontsize=9)
    ax.set_yticks(place, names, fontsize=8)
    ax.set_xlabel("Expected fall in regret (% of latency)")
    now = 100 * float(table["regret_after"].iloc[0] + table["regret_reduction"].iloc[0])
    hidden = len(table) - len(shown)
    add_note(
        ax,
        f"Expected regret now: {now:.2g} % of latency.",
        "Whiskers: two standard errors of the estimate, from the number of draws.",
        "Blue: the run to make next." if colors[0] == FIRST else "",
        f"{hidden} runs that save less are not shown." if hidden else "",
    )
    ax.grid(True, axis="x", color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    return ax


def _names(runs: pd.DataFrame) -> tuple[str, list[str]]:
    """Return what all runs share, and the rest of each one's name."""
    labels = [str(label).replace(" rps", " requests/s").split(", ") for label in runs["candidate"]]
    alike = 0
    while all(len(parts) > alike + 1 and parts[alike] == labels[0][alike] for parts in labels):
        alike += 1
    shared = labels[0][:alike]
    counts = [int(n) for n in runs["num_requests"]]
    if len(set(counts)) == 1:
        shared = [*shared, f"{counts[0]} requests each"]
        return ", ".join(shared), [", ".join(parts[alike:]) for parts in labels]
    rest = [", ".join(parts[alike:]) for parts in labels]
    return ", ".join(shared), [f"{name} (n = {n})" for name, n in zip(rest, counts, strict=True)]
