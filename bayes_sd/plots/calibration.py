"""Whether the fit gets back what was put in: ranks of the truth against what chance allows."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bayes_sd.plots.style import axes_or_new, colors_of

INSIDE_COLOR = "0.55"
BAND_COLOR = "0.88"
NAMED = 6  # curves outside the band that get a colour and their name, the farthest out


def plot_calibration(curves: xr.Dataset, *, ax: Axes | None = None) -> Axes:
    """Draw each quantity's distribution of ranks, less the uniform one, over the chance band.

    Parameters
    ----------
    curves : xarray.Dataset
        The attribute ``curves`` of `calibration_verdict`: ``difference`` (quantity, fraction),
        ``low`` and ``high`` (fraction), attributes ``level`` and ``num_simulations``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        Curves inside the band are grey; those that leave it are coloured and named. A curve above
        0 means truths that lie low among the draws, so a fit that says too much; one that is
        above on the left and below on the right means intervals that are too narrow.

    Examples
    --------
    >>> plot_calibration(verdict.curves).figure.savefig("calibration.png")  # doctest: +SKIP
    """
    ax = axes_or_new(ax)
    fraction = curves["fraction"].values
    low, high = curves["low"].values, curves["high"].values
    difference = curves["difference"].transpose("quantity", "fraction").values
    names = [str(name) for name in curves["quantity"].values]
    out = np.maximum(difference - high, low - difference).max(axis=1)
    outside = [int(i) for i in np.argsort(-out, kind="stable") if out[i] > 1e-12]
    ends = (0.0, 1.0)
    at = np.concatenate([[ends[0]], fraction, [ends[1]]])
    ax.fill_between(
        at,
        np.pad(low, 1),
        np.pad(high, 1),
        step="mid",
        color=BAND_COLOR,
        linewidth=0,
        zorder=0,
    )
    for i in [i for i in range(len(names)) if i not in outside[:NAMED]]:
        unnamed = i in outside
        ax.plot(
            at,
            np.pad(difference[i], 1),
            color="0.25" if unnamed else INSIDE_COLOR,
            linewidth=1.0 if unnamed else 0.6,
            alpha=1.0 if unnamed else 0.7,
            zorder=2 if unnamed else 1,
        )
    shades = list(colors_of([1, 2, 3, 5, 8, 12]).values())
    named = []
    for number, i in enumerate(outside[:NAMED]):
        (line,) = ax.plot(
            at, np.pad(difference[i], 1), color=shades[number], linewidth=1.6, label=names[i]
        )
        named.append(line)
    _explain(ax, curves, named, num_outside=len(outside), num_quantities=len(names))
    return ax


def _explain(
    ax: Axes, curves: xr.Dataset, named: list[Line2D], *, num_outside: int, num_quantities: int
) -> None:
    """Label the axes, and say what band and curves are."""
    level = curves.attrs["level"]
    ax.axhline(0.0, color="0.4", linewidth=0.8, zorder=1)
    ax.set_xlim(0, 1)
    ax.set_xlabel("Rank of the truth among the posterior draws (share of the largest)")
    ax.set_ylabel("Share of truths below, less the uniform share")
    ax.set_title(
        f"{curves.attrs['num_simulations']} simulations, {num_quantities} quantities: "
        f"{num_outside} outside, {num_quantities * (1 - level):.1f} expected by chance",
        loc="left",
        fontsize=9,
    )
    handles: list[Line2D | Patch] = [
        Patch(facecolor=BAND_COLOR, label=f"{100 * level:g} % band of one curve"),
        Line2D([], [], color=INSIDE_COLOR, linewidth=0.8, label="quantities inside it"),
        *named,
    ]
    if num_outside > len(named):
        more = f"{num_outside - len(named)} more outside"
        handles.append(Line2D([], [], color="0.25", linewidth=1.0, label=more))
    ax.legend(handles=handles, fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    ax.annotate(
        "Above 0: truths lie low among the draws. Above on the left and below on the right: "
        "intervals are too narrow;\nthe other way round: too wide.",
        (0.0, 0.0),
        xycoords="axes fraction",
        xytext=(0, -38),
        textcoords="offset points",
        fontsize=7.5,
        va="top",
        annotation_clip=False,
    )
