"""Drift on recordings of a real engine: quiet at a new boot, loud when the drafter changes.

    python -m benchmarks.drift_recordings                 # fits of four folds, then recordings
    python -m benchmarks.drift_recordings --cache FOLDER  # keeps the fits for the next time

Four folds over the server starts of the dense CPU runs. What a fit never saw is watched: windows
of live metrics recorded during those runs, one of 30 s for each load. Three questions: is there an
alarm at a new boot of a configuration that was fitted; are residuals what the fit says; and is a
drafter that is changed told, as acceptance, and how soon.
"""

import argparse
import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_sd.data import to_dataset
from bayes_sd.datasets import load_vllm_cpu, load_vllm_cpu_windows
from bayes_sd.drift import SAME_LENGTH, DriftMonitor
from bayes_sd.drift_report import DriftReport
from bayes_sd.drift_streams import log_threshold
from bayes_sd.drift_watch import DAY_S, STREAMS
from bayes_sd.fitting import fit
from bayes_sd.live_window import windows_of
from bayes_sd.scenario import Scenario
from bayes_sd.storage import load, save
from benchmarks.folds import NUM_FOLDS, markdown, stamp, write_results

FALSE_ALARM = 0.01  # of any alarm within a day, as `check_drift` states it by default
OF_ITS_OWN = 0.05  # the same, if the stated time were as long as the recording
WINDOW_S = 32.0
DRAWS = {"draws": 1000, "tune": 1000}


def open_runs() -> pd.DataFrame:
    """Return the dense runs at an open load and a fixed draft length."""
    frame = load_vllm_cpu("dense")
    is_fixed = frame["num_speculative_tokens_schedule"].isna()
    return frame[is_fixed & ~frame["is_throughput_test"]].reset_index(drop=True)


def configuration_of(sweep: str) -> str:
    """Return what all server starts of one configuration share of their names."""
    return sweep.rsplit("_rep", 1)[0]


def scenario_of(sweep: str) -> Scenario:
    """Return what a server start runs: dense_a85_k3_rep5 is drafter a85 with k = 3."""
    *_, drafter, length = ("dense", "a85", *configuration_of(sweep).split("_")[1:])
    return Scenario(
        f"drafter-{drafter}", request_rate_rps=4.0, num_speculative_tokens=int(length[1:])
    )


def fitted(frame: pd.DataFrame, number: int, cache: Path | None) -> xr.DataTree:
    """Return the fit of a fold, from the cache if it is there."""
    path = None if cache is None else cache / f"drift_recordings_{number}.nc"
    data = to_dataset(frame.reset_index(drop=True))
    if path is not None and path.exists():
        tree = load(path)
        if tree.attrs["data_hash"] == data.attrs["data_hash"]:
            return tree
    tree = fit(data, responses=(), random_seed=number, progressbar=False, **DRAWS)
    if path is not None:
        save(tree, path)
    return tree


class Recordings:
    """The windows of each server start, and a monitor of each configuration."""

    def __init__(self, tree: xr.DataTree) -> None:
        self._tree = tree
        self._windows = load_vllm_cpu_windows()
        self._fresh: dict[str, DriftMonitor] = {}

    def watch(self, configuration: str, sweeps: list[str]) -> tuple[DriftReport, int]:
        """Show some server starts to a configuration's monitor; return when the last one began."""
        if configuration not in self._fresh:
            self._fresh[configuration] = DriftMonitor(
                self._tree,
                scenario_of(configuration),
                false_alarm=FALSE_ALARM,
                watch_load=False,
                window_s=WINDOW_S,
            )
        monitor = copy.deepcopy(self._fresh[configuration])
        for sweep in sweeps:
            windows = windows_of(self._windows.loc[sweep])
            for window in windows:
                report = monitor.see(window)
        return report, len(report.rows) - len(windows)


def highest(report: DriftReport, since: int) -> float:
    """Return the log of the highest statistic of any part since a window."""
    day = log_threshold(DAY_S * SAME_LENGTH / WINDOW_S, FALSE_ALARM / len(STREAMS))
    scores = [row[f"{part}_score"] for row in report.rows[since:] for part in STREAMS]
    return day * float(np.nanmax(scores))


def judge_boot(seen: Recordings, sweep: str, sweeps: list[str]) -> dict[str, Any]:
    """Watch a server start that the fit never saw: alone, and after each other one of its kind."""
    configuration = configuration_of(sweep)
    report, _ = seen.watch(configuration, [sweep])
    others = [s for s in sweeps if configuration_of(s) == configuration and s != sweep]
    after = [seen.watch(configuration, [other, sweep])[0] for other in others]
    own = log_threshold(len(report.rows), OF_ITS_OWN / len(STREAMS))
    return {
        "sweep": sweep,
        "is_fitted": bool(others),
        "windows": len(report.rows),
        "moved": list(report.moved),
        "share_of_own_threshold": highest(report, 0) / own,
        "restarts": len(others),
        "restarts_with_alarm": sum(r.is_alarm for r in after),
        "restarts_told_as_boot": sum("boot" in r.moved for r in after),
        **{f"{part}_z": [row[f"{part}_z"] for row in report.rows] for part in STREAMS[:2]},
    }


def judge_changes(seen: Recordings, sweep: str, sweeps: list[str]) -> list[dict[str, Any]]:
    """Watch a server start, and then each with another drafter at the same draft length."""
    configuration, found = configuration_of(sweep), []
    here = scenario_of(sweep)
    for other in sweeps:
        there = scenario_of(other)
        same_length = there.num_speculative_tokens == here.num_speculative_tokens > 0
        if not same_length or there.pair == here.pair:
            continue
        report, change = seen.watch(configuration, [sweep, other])
        told = {part: number for part, number in report.told_at.items() if part != "boot"}
        found.append(
            {
                "before": sweep,
                "after": other,
                "named": [part for part, number in told.items() if number >= change],
                "alarm_before": any(number < change for number in told.values()),
                "windows": min(told.values(), default=len(report.rows)) - change + 1,
            }
        )
    return found


def boots_table(boots: list[dict[str, Any]]) -> str:
    """Return a row for each server start."""
    rows = [
        {
            "server start": boot["sweep"],
            "windows": boot["windows"],
            "alarm": ", ".join(boot["moved"]) or "none",
            f"log statistic / threshold of {OF_ITS_OWN:.0%} in its own windows": (
                f"{boot['share_of_own_threshold']:.2f}"
            ),
            "after another boot: alarms, told as boot": (
                f"{boot['restarts_with_alarm']}, {boot['restarts_told_as_boot']} "
                f"of {boot['restarts']}"
            ),
            "cost z": " ".join(f"{z:.1f}" for z in boot["cost_z"]),
        }
        for boot in boots
    ]
    return markdown(pd.DataFrame(rows))


def residuals_table(boots: list[dict[str, Any]]) -> str:
    """Return how residuals of server starts compare with the standard normal that is stated."""
    rows = []
    for part in STREAMS[:2]:
        z = np.concatenate([boot[f"{part}_z"] for boot in boots])
        z = z[np.isfinite(z)]
        rows.append(
            {
                "part": part,
                "windows": len(z),
                "mean (stated 0)": f"{z.mean():.2f}",
                "standard deviation (stated 1)": f"{z.std():.2f}",
                "within 1.64 (stated 90 %)": f"{(abs(z) < 1.645).mean():.0%}",
                "beyond 3 (stated 0.3 %)": f"{(abs(z) > 3).mean():.1%}",
            }
        )
    return markdown(pd.DataFrame(rows))


def text_of(boots: list[dict], changes: list[dict], verdicts: list[str]) -> str:
    """Return the result in words and tables."""
    known = [boot for boot in boots if boot["is_fitted"]]
    new = [boot["sweep"] for boot in boots if not boot["is_fitted"]]
    alarms = sum(any(part != "boot" for part in boot["moved"]) for boot in known)
    passed = sum(boot["share_of_own_threshold"] >= 1 for boot in known)
    restarts, at_restart = (
        sum(boot[name] for boot in known) for name in ("restarts", "restarts_with_alarm")
    )
    right = sum(row["named"][:1] == ["acceptance"] for row in changes)
    alone = sum(row["named"] == ["acceptance"] for row in changes)
    delays = [row["windows"] for row in changes if row["named"]]
    lines = [
        "# Drift on recordings of vLLM on a CPU",
        "",
        f"{stamp()}. {len(boots)} server starts in {NUM_FOLDS} folds; each is watched by a fit "
        "that never saw it, of mean latencies. Windows of about 30 s, one for each load.",
        "",
        f"**New boots of configurations that were fitted**: an alarm at {alarms} of {len(known)} "
        f"(stated: any alarm within a day has probability {FALSE_ALARM:.0%} at most), and at "
        f"{at_restart} of {restarts} restarts from another boot. Were the threshold that of "
        f"{OF_ITS_OWN:.0%} within the few windows of a recording, {passed} of {len(known)} would "
        f"pass it (stated: {OF_ITS_OWN:.0%} at most).",
        "",
        f"**The drafter changes** (`a60` and `a85`, same draft length): acceptance is named first "
        f"in {right} of {len(changes)} changes, alone in {alone}. Windows until it is told: "
        f"{np.median(delays):g} at the median, {max(delays)} at most.",
        "",
        "Residuals of the new boots, window by window:",
        "",
        residuals_table(known),
        "",
        boots_table(boots),
        "",
        f"No other boot was in the fit of {', '.join(new)}: not counted above." if new else "",
        "In repeats 0 and 1 another program used the second core, and in repeat 0 of `dense_k0` "
        "and `dense_a85_k3` it had the same priority: what is told there did happen to the server.",
        "",
        "Verdicts of the fits:",
        "",
        *[f"- fold {number}: {verdict}" for number, verdict in enumerate(verdicts)],
    ]
    return "\n".join(lines)


def main() -> None:
    """Fit, watch, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, help="folder that keeps the fits")
    cache = parser.parse_args().cache
    frame = open_runs()
    sweeps = sorted(frame["sweep_id"].unique())
    boots, changes, verdicts = [], [], []
    for number in range(NUM_FOLDS):
        held = sweeps[number::NUM_FOLDS]
        tree = fitted(frame[~frame["sweep_id"].isin(held)], number, cache)
        verdicts.append(str(tree.attrs["verdict"]))
        seen = Recordings(tree)
        for sweep in held:
            boots.append(judge_boot(seen, sweep, sweeps))
            changes += judge_changes(seen, sweep, sweeps)
    boots.sort(key=lambda boot: boot["sweep"])
    text = text_of(boots, changes, verdicts)
    write_results(
        "drift_recordings",
        text,
        {"false_alarm_stated": FALSE_ALARM, "boots": boots, "changes": changes}
        | {"verdicts": verdicts},
    )
    print(text)


if __name__ == "__main__":
    main()
