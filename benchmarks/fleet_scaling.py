"""How a fleet of fits grows with groups and with processes, and what kills of workers change.

    python -m benchmarks.fleet_scaling              # 1, 8 and 64 groups on 1 and 2 processes, kills
    python -m benchmarks.fleet_scaling --large      # 512 groups as well, hours
    python -m benchmarks.fleet_scaling --quick      # 1 and 2 groups, 1 kill, few draws; no file

Groups are made of the runs of Qwen3-8B in the scaling study: latencies times a factor of the group,
rates divided by it, so Little's law holds, and one per cent of noise per run. All have the same
shape, as those of a fleet that is measured by one protocol have. A chain has one core wherever it
runs, so two processes have twice the cores of one. Processes are started before the clock is. A
first fit leaves compiled functions on disk, but each process still compiles the model once; so
efficiency is told twice, of all the time and without the longest compilation of each fleet.

A process is killed (SIGKILL) while groups are fitted, after waits that are drawn at random, until
enough were; every draw is then compared with that of the fleet that nobody disturbed.
"""

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_sd.datasets import load_scaling_study
from bayes_sd.fleet import fit_many
from bayes_sd.fleet_cluster import client_of
from bayes_sd.fleet_fits import FleetFits
from benchmarks.fleet_kills import Killer
from benchmarks.folds import markdown, stamp, write_results

SIZES, LARGE, WORKERS = (1, 8, 64), 512, (1, 2)
KILLS, KILL_EVERY_S = 20, 45.0  # a worker that starts anew compiles for most of a minute
VERIFIER, ACCEPTANCE, DRAFT_LENGTHS = "Qwen/Qwen3-8B", 0.7, (1, 3, 5)
FACTOR_SD, NOISE_SD = 0.3, 0.01
EFFICIENCY_BAR, GROWTH_BAR = 0.85, 0.1
RATES = ("request_rate_rps", "target_rate_rps", "completed_rate_rps")
DROPPED = ("mean_in_system_requests", "mean_tpot_s", "mean_ttft_s")


def fleet_of(size: int) -> pd.DataFrame:
    """Return the runs of so many groups; those of a smaller fleet are among them."""
    runs = load_scaling_study([VERIFIER])
    wanted = runs["forced_acceptance_rate"].sub(ACCEPTANCE).abs() < 1e-6
    wanted &= runs["num_speculative_tokens"].isin(DRAFT_LENGTHS) & ~runs["is_throughput_test"]
    quantiles = [name for name in runs if name.startswith(("e2e_p", "ttft_p", "tpot_p", "itl_p"))]
    runs = runs[wanted].drop(columns=[*quantiles, *DROPPED], errors="ignore")
    parts = []
    for number in range(size):
        rng = np.random.default_rng([number, 1])
        factor = np.exp(FACTOR_SD * rng.standard_normal())
        noise = np.exp(NOISE_SD * rng.standard_normal(len(runs)))
        slower = {
            "verifier": f"server-{number:03d}",
            "mean_e2e_s": runs["mean_e2e_s"] * factor * noise,
        }
        slower |= {name: runs[name] / factor for name in RATES if name in runs}
        parts.append(runs.assign(**slower))
    return pd.concat(parts, ignore_index=True)


def timed(size: int, workers: int, folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Fit a fleet into an empty folder; return times, and how many groups failed."""
    with client_of(None, workers) as client:
        begun = time.perf_counter()
        fits = fit_many(fleet_of(size), "verifier", folder, client=client, **settings)
        wall = time.perf_counter() - begun
    trees = [fits.load(name) for name in fits.groups.loc[fits.groups["error"] == "", "group"]]
    compiling = np.array([tree.attrs["compile_s"] for tree in trees])
    return {
        "groups": size,
        "processes": workers,
        "wall_s": wall,
        "group_s": fits.groups["seconds"].to_numpy(),
        "compile_s": compiling,
        "sampling_s": np.array([tree.attrs["sampling_s"] for tree in trees]),
        "failed": int((fits.groups["status"] == "failed").sum()),
        "converged": int(fits.groups["converged"].fillna(False).sum()),
    }


def kill_run(
    size: int, kills: int, every_s: float, folders: tuple[Path, Path], settings: dict[str, Any]
) -> dict[str, Any]:
    """Fit a fleet while its workers are killed, and compare every draw with an undisturbed one."""
    undisturbed, disturbed = folders
    with client_of(None, WORKERS[-1]) as client:
        killer = Killer(client.cluster, kills, every_s)
        begun = time.perf_counter()
        with killer:
            fits = fit_many(fleet_of(size), "verifier", disturbed, client=client, **settings)
        wall = time.perf_counter() - begun
    before = fit_many(fleet_of(size), "verifier", undisturbed, **settings)
    return {
        "groups": size,
        "kills": killer.done,
        "wall_s": wall,
        "failed": int((fits.groups["status"] == "failed").sum()),
        "equal": sum(same_draws(fits, before, name) for name in fits.groups["group"]),
        "of_earlier": int((before.groups["status"] == "kept").sum()),
    }


def same_draws(one: FleetFits, other: FleetFits, group: str) -> bool:
    """Tell whether two fits of a group have the same draws, to the last bit."""
    try:
        trees = one.load(group), other.load(group)
    except ValueError:
        return False
    first, second = (tree["posterior"].to_dataset() for tree in trees)
    return bool(first.equals(second))


def efficiency(results: list[dict[str, Any]], size: int) -> float:
    """Return wall time on one process over that on all, per process."""
    wall = {r["processes"]: r["wall_s"] for r in results if r["groups"] == size}
    return wall[WORKERS[0]] / wall[WORKERS[-1]] / (WORKERS[-1] / WORKERS[0])


def efficiency_once_compiled(results: list[dict[str, Any]], size: int) -> float:
    """Return efficiency of the time that is left without the longest compilation of each fleet."""
    left = {
        r["processes"]: r["wall_s"] - r["compile_s"].max(initial=0)
        for r in results
        if r["groups"] == size
    }
    return left[WORKERS[0]] / left[WORKERS[-1]] / (WORKERS[-1] / WORKERS[0])


def growth(results: list[dict[str, Any]], workers: int) -> float:
    """Return by how much a group takes longer in the largest fleet than in one of 8 (or least)."""
    own = {r["groups"]: r["wall_s"] / r["groups"] for r in results if r["processes"] == workers}
    sizes = sorted(own)
    return own[sizes[-1]] / own[sizes[1] if len(sizes) > 2 else sizes[0]] - 1


def report(results: list[dict[str, Any]], killed: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    rows = [
        {
            "groups": r["groups"],
            "processes": r["processes"],
            "wall, s": f"{r['wall_s']:.1f}",
            "wall per group, s": f"{r['wall_s'] / r['groups']:.2f}",
            "median of a group, s": f"{np.median(r['group_s']):.2f}",
            "longest compilation, s": f"{r['compile_s'].max(initial=0):.1f}",
            "median compilation, s": f"{np.median(r['compile_s']):.1f}",
            "median sampling, s": f"{np.median(r['sampling_s']):.1f}",
            "failed": r["failed"],
            "converged": r["converged"],
        }
        for r in results
    ]
    sizes = sorted({r["groups"] for r in results})
    by_size, without = (
        ", ".join(f"{share(results, size):.2f} at {size}" for size in sizes[1:])
        for share in (efficiency, efficiency_once_compiled)
    )
    grown = ", ".join(f"{100 * growth(results, w):+.0f} % on {w}" for w in WORKERS)
    kept = f"{killed['equal']} of {killed['groups']} groups"
    return "\n\n".join(
        [
            "# A fleet of fits",
            markdown(pd.DataFrame(rows)),
            f"- Efficiency of {WORKERS[-1]} processes, by groups: {by_size} (bar: at least "
            f"{EFFICIENCY_BAR} at {sizes[-1]}).",
            f"- The same without the longest compilation of each fleet: {without}.",
            f"- A group takes longer in the largest fleet by: {grown} processes (bar: at most "
            f"{100 * GROWTH_BAR:.0f} %).",
            f"- With {killed['kills']} kills of a worker at random, {kept} have the draws of the "
            f"undisturbed fleet to the last bit, {killed['failed']} failed; "
            f"{killed['wall_s']:.0f} s.",
        ]
    )


def main() -> None:
    """Fit the fleets, print the table and write it."""
    parser = argparse.ArgumentParser(description="How a fleet of fits scales, and survives kills.")
    parser.add_argument("--quick", action="store_true", help="smoke test; writes no file")
    parser.add_argument("--large", action="store_true", help=f"{LARGE} groups as well")
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--kill-every", type=float, default=KILL_EVERY_S, help="seconds, mean")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--tune", type=int, default=500)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sizes = (*SIZES, LARGE) if options.large else SIZES
    if options.quick:
        sizes, options.draws, options.tune, options.kills = (1, 2), 20, 50, 1
    settings = {
        "responses": (),
        "draws": options.draws,
        "tune": options.tune,
        "progressbar": False,
    }
    with tempfile.TemporaryDirectory(prefix="fleet_scaling_") as name:
        top = Path(name)
        timed(1, WORKERS[0], top / "warm", settings)
        results = [timed(s, w, top / f"{s}-{w}", settings) for s in sizes for w in WORKERS]
        size = min(sizes[-1], SIZES[-1])
        folders = (top / f"{size}-{WORKERS[-1]}", top / "kills")
        killed = kill_run(size, options.kills, options.kill_every, folders, settings)
    command = " ".join(["python -m benchmarks.fleet_scaling", *sys.argv[1:]])
    text = (
        f"{report(results, killed)}\n\n`{command}`: {options.draws} draws after {options.tune} in "
        f"each of 4 chains, {len(fleet_of(1))} runs a group, mean latency alone. {stamp()}"
    )
    print(text)
    if not options.quick:
        figures = {"stamp": stamp(), "options": vars(options), "kills": killed}
        lists = [{k: getattr(v, "tolist", lambda v=v: v)() for k, v in r.items()} for r in results]
        write_results("fleet_scaling", text, figures | {"fleets": lists})


if __name__ == "__main__":
    main()
