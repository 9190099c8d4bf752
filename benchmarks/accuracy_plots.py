"""Plots of the accuracy table: calibration, error by load, reliability of the sign of speedup."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.accuracy_models import OURS

LEVELS = np.linspace(0.05, 0.95, 19)
COLORS = {
    OURS: "#0b6e99",
    "pooled law": "#c4572d",
    "linear law": "#e0a030",
    "Gaussian process": "#6a4c93",
    "quantile trees": "#4f8a4f",
    "division by E": "#999999",
    "goodput": "#b5838d",
    "law per sweep": "#555555",
}
SHOWN = (OURS, "pooled law", "linear law", "Gaussian process", "quantile trees")
LOAD_BINS = 6
SIGN_BINS = np.array([0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0])


def coverage_curve(pit: np.ndarray) -> np.ndarray:
    """Return the share of runs inside the central interval of each of ``LEVELS``."""
    return np.array([(np.abs(pit - 0.5) <= level / 2).mean() for level in LEVELS])


def _methods(rows: pd.DataFrame) -> list[str]:
    return [name for name in SHOWN if (rows["method"] == name).any()]


def _lines(axes: Axes, rows: pd.DataFrame, title: str) -> None:
    axes.plot([0, 100], [0, 100], color="black", lw=0.8, ls=":")
    for name in _methods(rows):
        curve = coverage_curve(rows["pit"][rows["method"] == name].to_numpy())
        width = 2.4 if name == OURS else 1.2
        axes.plot(100 * LEVELS, 100 * curve, color=COLORS[name], lw=width, label=name)
    axes.set(title=title, xlabel="central interval, %", ylabel="runs inside, %")
    axes.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")


def calibration(rows: pd.DataFrame, extrapolating: tuple[str, ...]) -> Figure:
    """Draw coverage against level, on splits that interpolate and on those that extrapolate."""
    beyond = rows["split"].isin(extrapolating)
    figure, axes = _figure(1, 2, (9.4, 4.6))
    for part, title, place in ((~beyond, "New sweeps and boots", 0), (beyond, "Extrapolation", 1)):
        if part.any():
            _lines(axes[place], rows[part], title)
    axes[0].legend(frameon=False, fontsize=8, loc="upper left")
    return figure


def error_by_load(rows: pd.DataFrame, names: list[str]) -> Figure:
    """Draw the median error against the requests in flight, one panel for each data set."""
    figure, axes = _figure(1, len(names), (3.4 * len(names) + 0.6, 3.6))
    for place, name in enumerate(names):
        part = rows[(rows["data"] == name) & (rows["split"] == "sweeps")]
        for method in _methods(part):
            mine = part[part["method"] == method]
            group = pd.qcut(mine["batch"], LOAD_BINS, labels=False, duplicates="drop")
            by = mine.groupby(group)
            axes[place].plot(
                by["batch"].median(),
                by["error"].median(),
                "o-",
                ms=3,
                color=COLORS[method],
                lw=2.2 if method == OURS else 1.1,
                label=method,
            )
        axes[place].set(xscale="log", title=name, xlabel="requests in flight")
        axes[place].set_ylim(bottom=0)
    axes[0].set_ylabel("median error, %")
    axes[0].legend(frameon=False, fontsize=7)
    return figure


def reliability(signs: pd.DataFrame) -> Figure:
    """Draw how often speculation was faster, by the probability that was said of it."""
    figure, axes = _figure(1, 1, (5.0, 4.8))
    axes[0].plot([0, 1], [0, 1], color="black", lw=0.8, ls=":")
    for method in _methods(signs):
        mine = signs[signs["method"] == method]
        group = np.digitize(mine["p"], SIGN_BINS[1:-1], right=True)
        by = mine.assign(faster=mine["faster"].astype(float)).groupby(group)
        sizes = 12 + 90 * np.sqrt(by.size() / len(mine))
        said, true = by["p"].mean(), by["faster"].mean()
        width = 2.0 if method == OURS else 1.0
        axes[0].plot(said, true, color=COLORS[method], lw=width, label=f"{method} ({len(mine)})")
        axes[0].scatter(said, true, s=sizes, color=COLORS[method], lw=0)
    axes[0].set(xlabel="P(speculation is faster), said", ylabel="came true", aspect="equal")
    axes[0].set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    axes[0].legend(frameon=False, fontsize=8)
    return figure


def _figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9}):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.flat)


def save_plots(
    rows: pd.DataFrame, signs: pd.DataFrame, extrapolating: tuple[str, ...], folder: Path
) -> dict[str, str]:
    """Write the plots as PNG and return name of file by what it shows; only of what there is."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [n for n in rows["data"].unique() if ((rows["data"] == n) & _swept(rows)).any()]
    made = {"calibration": calibration(rows, extrapolating)}
    if names:
        made["error by load"] = error_by_load(rows, names[:5])
    if len(signs):
        made["reliability"] = reliability(signs)
    files = {}
    for title, figure in made.items():
        files[title] = f"{title.replace(' ', '_')}.png"
        figure.savefig(folder / files[title], dpi=110)
    return files


def _swept(rows: pd.DataFrame) -> pd.Series:
    return rows["split"] == "sweeps"
