"""An update of acceptance: does it take milliseconds, and say what a refit says.

    python -m benchmarks.live_update

A fit of the first server starts of the dense CPU runs, of mean latencies. Another server start
then counts accepted drafts, at a draft length that the fit never saw. The counts are folded in by
`update_acceptance`, and for comparison the runs they are of are added and everything is fitted
again. Compared are the central 90 % intervals of the acceptance rate at each position that was
counted: the share of the wider one in which both lie.
"""

import time

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayes_sd.acceptance_update import update_acceptance
from bayes_sd.data import to_dataset
from bayes_sd.datasets import load_vllm_cpu, load_vllm_cpu_windows
from bayes_sd.fitting import fit
from bayes_sd.live_counts import AcceptCounts
from bayes_sd.live_window import LiveWindow, windows_of
from benchmarks.folds import markdown, stamp, write_results

type Floats = NDArray[np.float64]

FITTED = tuple(f"dense_{arm}_rep0" for arm in ("k0", "a60_k1", "a60_k5", "a85_k1", "a85_k5"))
NEW = {"drafter-a60": "dense_a60_k3_rep5", "drafter-a85": "dense_a85_k3_rep5"}
AMOUNTS = (1, 3, 6)  # windows of 30 s, from the lowest load on
DRAWS = {"draws": 2000, "tune": 1000}
TIMED_DRAWS = (1000, 4000)
TIMED_WINDOWS = (1, 12)
REPEATS = 200
BAR_MS, BAR_OVERLAP = 10.0, 0.9


def counts_of(windows: list[LiveWindow]) -> list[AcceptCounts]:
    """Return what some windows counted."""
    return [
        AcceptCounts(tuple(map(int, w.accepted)), int(w.num_drafts), int(w.num_requests))
        for w in windows
    ]


def fitted(new_runs: list[str]) -> xr.DataTree:
    """Fit the first server starts, and some runs besides."""
    frame = load_vllm_cpu("dense")
    is_wanted = frame["sweep_id"].isin(FITTED) | frame["run_id"].isin(new_runs)
    data = to_dataset(frame[is_wanted & ~frame["is_throughput_test"]].reset_index(drop=True))
    return fit(data, responses=(), random_seed=1, progressbar=False, **DRAWS)


def intervals(tree: xr.DataTree, drafter: str, chains: slice = slice(None)) -> Floats:
    """Return ends of central 90 % intervals of a drafter's rates, (end, position)."""
    rates = tree["posterior"]["conditional_acceptance_rate"].isel(chain=chains)
    group = next(g for g in rates["acceptance_group"].values if drafter in str(g))
    rates = rates.sel(acceptance_group=group).isel(position=slice(3))
    return rates.quantile([0.05, 0.95], dim=("chain", "draw")).values


def overlap(one: Floats, other: Floats) -> float:
    """Return the share of the wider of two intervals in which both lie, the least over positions.

    Examples
    --------
    >>> overlap(np.array([[0.0], [1.0]]), np.array([[0.1], [1.0]]))
    0.9
    """
    both = np.minimum(one[1], other[1]) - np.maximum(one[0], other[0])
    return float((both / np.maximum(one[1] - one[0], other[1] - other[0])).min())


def compare(base: xr.DataTree, windows: dict[str, pd.DataFrame], amount: int) -> list[dict]:
    """Update with so many windows of each drafter, refit with the same, and compare."""
    taken = {drafter: table.iloc[:amount] for drafter, table in windows.items()}
    refit = fitted([run for table in taken.values() for run in table.index])
    rows = []
    for drafter, table in taken.items():
        updated = update_acceptance(base, counts_of(windows_of(table)), drafter)
        target = intervals(refit, drafter)
        halves = [intervals(refit, drafter, chains) for chains in (slice(0, 2), slice(2, 4))]
        rows.append(
            {
                "drafter": drafter,
                "windows": amount,
                "drafts": float(table["num_drafts"].sum()),
                "effective_draws": float(updated.attrs["update_ess"]),
                "overlap": overlap(intervals(updated, drafter), target),
                "overlap_without_update": overlap(intervals(base, drafter), target),
                "overlap_of_halves_of_refit": overlap(*halves),
                "refit_verdict": str(refit.attrs["verdict"]),
            }
        )
    return rows


def with_draws(tree: xr.DataTree, count: int) -> xr.DataTree:
    """Return the first draws of each chain of a fit, so many together."""
    each = count // tree["posterior"].sizes["chain"]
    return xr.DataTree.from_dict(
        {
            path: dataset.isel(draw=slice(each), missing_dims="ignore")
            for path, dataset in tree.to_dict().items()
        }
    )


def time_update(base: xr.DataTree, drafter: str, table: pd.DataFrame) -> list[dict]:
    """Time updates with few and many draws and windows."""
    rows = []
    for draws in TIMED_DRAWS:
        tree = with_draws(base, draws)
        for windows in TIMED_WINDOWS:
            counts = (counts_of(windows_of(table)) * windows)[:windows]
            wall, used = [], []
            for _ in range(REPEATS):
                begun, busy = time.perf_counter(), time.process_time()
                update_acceptance(tree, counts, drafter, min_ess=1e-9)
                used.append(1e3 * (time.process_time() - busy))
                wall.append(1e3 * (time.perf_counter() - begun))
            rows.append(
                {
                    "draws": draws,
                    "windows": windows,
                    "median_ms": float(np.median(wall)),
                    "p95_ms": float(np.quantile(wall, 0.95)),
                    "processor_median_ms": float(np.median(used)),
                }
            )
    return rows


def text_of(agreement: list[dict], times: list[dict], verdict: str) -> str:
    """Return the result in words and tables."""
    worst = min(row["overlap"] for row in agreement)
    slowest = ", ".join(
        f"{max(row['median_ms'] for row in times if row['windows'] == count):.1f} ms with {count}"
        for count in TIMED_WINDOWS
    )
    compared = pd.DataFrame(
        {
            "drafter": row["drafter"],
            "windows": row["windows"],
            "drafts": f"{row['drafts']:,.0f}",
            "effective draws": f"{row['effective_draws']:,.0f}",
            "overlap with the refit": f"{row['overlap']:.1%}",
            "without the update": f"{row['overlap_without_update']:.1%}",
            "refit, two halves of its chains": f"{row['overlap_of_halves_of_refit']:.1%}",
        }
        for row in agreement
    )
    timed = pd.DataFrame(
        {
            "draws": f"{row['draws']:,}",
            "windows": row["windows"],
            "median, ms": f"{row['median_ms']:.1f}",
            "95th percentile, ms": f"{row['p95_ms']:.1f}",
            "processor, median, ms": f"{row['processor_median_ms']:.1f}",
        }
        for row in times
    )
    refits = {row["windows"]: row["refit_verdict"] for row in agreement}
    lines = [
        "# An update of acceptance against a refit",
        "",
        f"{stamp()}. The fit holds {len(FITTED)} server starts; new counts come from others, at "
        "k = 3, which the fit never saw.",
        "",
        f"90 % intervals of acceptance overlap by {worst:.1%} or more (wanted {BAR_OVERLAP:.0%}).",
        "The last column is how well two halves of one refit agree: that is chance of draws alone.",
        "",
        markdown(compared),
        "",
        f"Medians of {REPEATS} updates of the fit with most draws, by number of windows: "
        f"{slowest} (wanted: {BAR_MS:.0f} ms at most).",
        "",
        markdown(timed),
        "",
        "Verdicts:",
        "",
        f"- the fit: {verdict}",
        *[f"- refit with {windows} more: {text}" for windows, text in refits.items()],
    ]
    return "\n".join(lines)


def main() -> None:
    """Fit, update, refit, time, and write the result."""
    recorded = load_vllm_cpu_windows()
    windows = {drafter: recorded.loc[sweep] for drafter, sweep in NEW.items()}
    base = fitted([])
    agreement = [row for amount in AMOUNTS for row in compare(base, windows, amount)]
    times = time_update(base, *next(iter(windows.items())))
    text = text_of(agreement, times, str(base.attrs["verdict"]))
    write_results("live_update", text, {"agreement": agreement, "times": times})
    print(text)


if __name__ == "__main__":
    main()
