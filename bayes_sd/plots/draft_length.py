"""Which draft length is best at each load, and how sure that is."""

from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from bayes_sd.plots.bands import ROOM
from bayes_sd.plots.style import axes_or_new, colors_of, load_label, name_of, text_color_on

PREFIX = "p_best_k"
LISTED = 0.01  # a draft length whose P(best) stays below this is not in the legend
NAMED = 0.1  # an area at least so high has its name written into it
STRIP = (1.03, 0.09)  # foot and height of the strip of chosen draft lengths, of the axis' length


def plot_draft_length(policy: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the probability that each draft length is best against load, and the chosen one.

    Parameters
    ----------
    policy : pandas.DataFrame
        Result of `draft_length_policy`: one row per load, columns ``num_speculative_tokens``,
        ``verdict``, ``status`` and ``p_best_k<k>``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
        Stacked probabilities, one area per draft length; above them a strip with the chosen k,
        in brackets where another is within a hundredth, with a star where it is extrapolated.

    Examples
    --------
    >>> plot_draft_length(policy).figure.savefig("draft_length.png")  # doctest: +SKIP
    """
    ax = axes_or_new(ax)
    columns = [name for name in policy.columns if str(name).startswith(PREFIX)]
    lengths = [int(str(name).removeprefix(PREFIX)) for name in columns]
    colors = colors_of(lengths)
    load = policy.index.to_numpy(dtype=float)
    shares = policy[columns].to_numpy(dtype=float).T
    if len(load) == 1:  # an area needs a width
        load, shares = load[0] * np.array([0.95, 1.05]), np.repeat(shares, 2, axis=1)
    ax.stackplot(
        load,
        shares,
        colors=[colors[k] for k in lengths],
        edgecolor="white",
        linewidth=0.8,
    )
    listed = [k for k, share in zip(lengths, shares, strict=True) if share.max() >= LISTED]
    handles = [Patch(facecolor=colors[k], label=name_of(k)) for k in listed]
    _name_areas(ax, load, shares, lengths, colors)
    if (1 - shares.sum(axis=0)).max() >= LISTED:
        ax.fill_between(
            load, shares.sum(axis=0), 1, facecolor="white", edgecolor="0.6", hatch="//", linewidth=0
        )
        handles.append(Patch(facecolor="white", edgecolor="0.6", hatch="//", label="past capacity"))
    ax.set_xlim(load[0], load[-1])
    ax.set_ylim(0, 1)
    starred = _draw_choices(ax, policy, colors)
    ax.set_xlabel(load_label(str(policy.index.name)))
    ax.set_ylabel("P(k has the lowest mean latency)")
    _explain(ax, policy, starred=starred, hidden=[k for k in lengths if k not in listed])
    ax.legend(
        handles=handles[::-1],
        fontsize=8,
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        title="Draft length",
        title_fontsize=8,
    )
    return ax


def _name_areas(
    ax: Axes, load: np.ndarray, shares: np.ndarray, lengths: list[int], colors: dict[int, str]
) -> None:
    """Write each draft length into its area, where that is high enough."""
    foot = np.cumsum(shares, axis=0) - shares
    inner = slice(1, -1) if len(load) > 2 else slice(None)
    for i, k in enumerate(lengths):
        at = int(np.argmax(shares[i, inner])) + (inner.start or 0)
        if shares[i, at] >= NAMED:
            ax.text(
                load[at],
                foot[i, at] + shares[i, at] / 2,
                name_of(k),
                color=text_color_on(colors[k]),
                fontsize=8,
                ha="center",
                va="center",
            )


def _draw_choices(ax: Axes, policy: pd.DataFrame, colors: dict[int, str]) -> bool:
    """Draw the strip of chosen draft lengths; return whether any is extrapolated."""
    load = policy.index.to_numpy(dtype=float)
    middles = (load[1:] + load[:-1]) / 2
    left, right = ax.get_xlim()
    edges = np.concatenate([[left], middles, [right]])
    rows = list(
        zip(policy["num_speculative_tokens"], policy["verdict"], policy["status"], strict=True)
    )
    starred = False
    for chosen, group in groupby(range(len(rows)), key=lambda i: _text(*rows[i])):
        members = list(group)
        start, end = edges[members[0]], edges[members[-1] + 1]
        drafts = rows[members[0]][0]
        color = "white" if pd.isna(drafts) else colors[int(drafts)]
        foot, height = STRIP
        ax.add_patch(
            Rectangle(
                (start, foot),
                end - start,
                height,
                transform=ax.get_xaxis_transform(),
                facecolor=color,
                edgecolor="white",
                clip_on=False,
            )
        )
        is_narrow = end - start < ROOM * len(chosen) / 4 * (right - left)
        ax.text(
            (start + end) / 2,
            foot + height / 2,
            chosen,
            transform=ax.get_xaxis_transform(),
            ha="center",
            va="center",
            fontsize=6 if is_narrow else 8,
            color=text_color_on(color),
        )
        starred |= chosen.endswith("*")
    ax.annotate(
        "chosen k",
        (1.01, STRIP[0] + STRIP[1] / 2),
        xycoords="axes fraction",
        fontsize=8,
        va="center",
        annotation_clip=False,
    )
    return starred


def _text(drafts: Any, verdict: str, status: str) -> str:
    """Return what the strip says of one load."""
    if pd.isna(drafts):
        return "–"
    text = str(drafts)
    if verdict == "near tie":
        text = f"({text})"
    if verdict == "not enough data":
        text += "?"
    return text + ("*" if status == "extrapolated" else "")


def _explain(ax: Axes, policy: pd.DataFrame, *, starred: bool, hidden: list[int]) -> None:
    """Say below the plot what the signs mean, as far as they occur."""
    verdicts = set(policy["verdict"])
    notes = []
    if "near tie" in verdicts:
        notes.append("(k): another k costs at most 1 % more.")
    if "not enough data" in verdicts:
        notes.append("k?: not enough data to choose.")
    if "past capacity" in verdicts:
        notes.append("–: every k is past capacity.")
    if starred:
        parts = {p for text in policy["outside"] for p in str(text).split(", ") if p}
        notes.append(f"*: extrapolated in {', '.join(sorted(parts))}.")
    if hidden:
        names = ", ".join(name_of(k) for k in hidden)
        notes.append(f"Not listed, below {100 * LISTED:g} % at every load: {names}.")
    ax.annotate(
        "\n".join([" ".join(notes[:3]), " ".join(notes[3:])]).strip(),
        (0.0, 0.0),
        xycoords="axes fraction",
        xytext=(0, -38),
        textcoords="offset points",
        fontsize=7.5,
        va="top",
        annotation_clip=False,
    )
