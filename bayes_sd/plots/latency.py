"""How latency rises with load, for each draft length."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from bayes_sd.plots.style import axes_or_new, colors_of, load_label, markers_of, name_of

KINDS = {"run": "a fresh run", "mean": "the mean latency", "request": "one request"}
MANY = 5  # curves whose bands would hide each other if they were as dark as those of a few


def plot_latency(curves: xr.Dataset, *, ax: Axes | None = None) -> Axes:
    """Draw latency against load with its predictive band, and the measured runs over it.

    Parameters
    ----------
    curves : xarray.Dataset
        Result of `latency_curves`: dims ``num_speculative_tokens``, ``rate`` and ``run``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        One line per draft length, with latency (s) on a log scale. A curve ends where the upper
        end of its band is past capacity; runs at their limit on requests in flight are hollow.

    Examples
    --------
    >>> plot_latency(curves).figure.savefig("latency.png")  # doctest: +SKIP
    """
    ax = axes_or_new(ax)
    lengths = [int(k) for k in curves["num_speculative_tokens"].values]
    colors, markers = colors_of(lengths), markers_of(lengths)
    rate = curves["rate"].values
    measured = curves["measured_draft_length"].values
    at_cap = curves["measured_at_cap"].values
    cut = False
    for k in lengths:
        low, median, high = (
            curves[f"{part}_e2e_s"].sel(num_speculative_tokens=k).values
            for part in ("low", "median", "high")
        )
        drawn = np.isfinite(high)
        cut |= not drawn.all()
        opacity = 0.25 if len(lengths) <= MANY else 0.12
        ax.fill_between(
            rate, low, high, where=drawn, color=colors[k], alpha=opacity, linewidth=0, zorder=1
        )
        ax.plot(
            rate,
            np.where(drawn, median, np.nan),
            color=colors[k],
            linestyle="--" if k == 0 else "-",
            linewidth=1.5,
            marker=markers[k],
            markersize=5,
            markevery=[],  # the marker is for the legend; on the curve it would look like a run
            label=name_of(k),
            zorder=2,
        )
        for hollow in (False, True):
            at = (measured == k) & (at_cap == hollow)
            ax.scatter(
                curves["measured_load"].values[at],
                curves["measured_e2e_s"].values[at],
                s=22,
                marker=markers[k],
                facecolor="none" if hollow else colors[k],
                edgecolor=colors[k] if hollow else "white",
                linewidth=1.0 if hollow else 0.5,
                zorder=3,
            )
    _explain(ax, curves, cut=cut)
    return ax


def _explain(ax: Axes, curves: xr.Dataset, *, cut: bool) -> None:
    """Label the axes with units, and say what band, points and ends of curves are."""
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    ax.yaxis.set_major_formatter(plain)
    ax.yaxis.set_minor_formatter(plain if high / low < 20 else NullFormatter())
    ax.set_xlabel(load_label(curves.attrs["load_name"]))
    ax.set_ylabel("End-to-end latency (s, log scale)")
    kind, level = curves.attrs["kind"], curves.attrs["level"]
    notes = [f"Bands: central {100 * level:g} % for {KINDS[kind]} (kind = {kind})."]
    if curves.sizes["run"]:
        points = "Points: measured runs"
        if curves["measured_at_cap"].values.any():
            points += ", hollow at the limit on requests in flight"
        notes[0] += f" {points}."
    if cut:
        notes.append(
            f"Not drawn: loads where more than {50 * (1 - level):g} % of the draws are past "
            "capacity."
        )
    ax.set_title(f"{curves.attrs['pair']}\n{curves.attrs['about']}", loc="left", fontsize=9)
    ax.annotate(
        "\n".join(notes),
        (0.0, 0.0),
        xycoords="axes fraction",
        xytext=(0, -38),
        textcoords="offset points",
        fontsize=7.5,
        va="top",
        annotation_clip=False,
    )
    ax.legend(fontsize=8, frameon=False, title="Draft length", title_fontsize=8)
    ax.grid(True, which="major", color="0.9", linewidth=0.6, zorder=0)
    ax.set_axisbelow(True)
