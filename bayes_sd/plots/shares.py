"""Why a configuration is slow: what each part takes of its latency."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from bayes_sd.plots.bands import add_note
from bayes_sd.plots.style import axes_or_new, text_color_on

# Okabe and Ito's palette for any colour vision; hatches for print without colour.
LOOKS = {
    "prefill": ("#56b4e9", ""),
    "drafting": ("#e69f00", "//"),
    "verification": ("#0072b2", ""),
    "load": ("#999999", ".."),
}
OTHER = ("#cc79a7", "xx")
HEIGHT = 0.72  # of a bar, in rows
NAMED = 0.07  # a part at least so large has its share written into it


def plot_latency_shares(shares: xr.DataArray, *, ax: Axes | None = None) -> Axes:
    """Draw the share of latency that each part takes, one bar per scenario.

    Parameters
    ----------
    shares : xarray.DataArray
        Result of `latency_shares`: dims ``part``, ``sample``, ``scenario``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        Stacked bars of posterior means, with the share and its central 90 % interval in percent
        where there is room. Scenarios past capacity in all draws have no bar.

    Examples
    --------
    >>> plot_latency_shares(latency_shares(tree, scenarios))  # doctest: +SKIP
    """
    ax = axes_or_new(ax, rows=shares.sizes["scenario"])
    draws = shares.transpose("part", "sample", "scenario").values
    known = np.isfinite(draws).all(axis=0)
    labels = [str(s) for s in shares["scenario"].values]
    place = np.arange(len(labels))[::-1]
    for i in range(len(labels)):
        alive = draws[:, known[:, i], i]
        if not alive.size:
            ax.text(0.01, place[i], "past capacity", fontsize=8, va="center")
            continue
        left = 0.0
        for part, values in zip(shares["part"].values, alive, strict=True):
            color, hatch = LOOKS.get(str(part), OTHER)
            mean = float(values.mean())
            ax.barh(
                place[i],
                mean,
                left=left,
                height=HEIGHT,
                color=color,
                edgecolor="white",
                hatch=hatch,
                linewidth=0.8,
                label=str(part) if i == 0 else None,
            )
            if mean >= NAMED:
                low, high = np.quantile(values, [0.05, 0.95])
                ax.text(
                    left + mean / 2,
                    place[i],
                    f"{100 * mean:.0f}\n({100 * low:.0f}–{100 * high:.0f})",
                    color=text_color_on(color),
                    fontsize=7,
                    ha="center",
                    va="center",
                    bbox={"facecolor": color, "edgecolor": "none", "pad": 0.5},
                )
            left += mean
    ax.set_yticks(place, labels, fontsize=8)
    ax.set_xlim(0, 1)
    ax.set_xlabel("Share of the mean latency")
    add_note(
        ax,
        "Numbers: posterior mean, percent, with the central 90 % interval in brackets; "
        f"none below {100 * NAMED:g} %.",
    )
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize=8, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    return ax
