"""Make the bundled files from a folder with the collected measurements.

Usage: python data/convert.py FOLDER

FOLDER holds ``public_runs.csv``, ``vllm_cpu/runs.csv`` and ``vllm_cpu/raw``. Only names, constants
that the sources state, and the layout change; every figure is written as it is in the source. The
windows of live metrics are cut from the raw pages and gauges.
"""

import argparse
import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from bayes_sd.prometheus_windows import window_between
from bayes_sd.readers.content import Content
from bayes_sd.readers.gauges import samples
from bayes_sd.readers.metrics_page import parse_page
from bayes_sd.schema import COLUMNS

HERE = Path(__file__).resolve().parent

RENAMED = {
    "tp": "tensor_parallel_size",
    "verifier_active_b": "verifier_active_params_b",
    "n_experts": "num_experts",
    "k": "num_speculative_tokens",
    "isl": "input_len_tokens",
    "osl": "output_len_tokens",
    "n_requests": "num_requests",
    "request_rate_rps": "target_rate_rps",
    "arrival_rate_rps": "request_rate_rps",
    "achieved_rps": "completed_rate_rps",
    "output_tok_s": "output_tokens_per_s",
    "acceptance_rate": "draft_acceptance_rate",
    "mean_accept_len": "mean_acceptance_length",
    "per_position_acceptance": "acceptance_per_position",
    "forced_alpha": "forced_acceptance_rate",
    "mean_running": "mean_in_system_requests",
}


def write(frame: pd.DataFrame, name: str) -> None:
    """Write the non-blank columns in the order of the schema, the same bytes every time."""
    names = [c.name for c in COLUMNS if c.name in frame and frame[c.name].notna().any()]
    table = frame[names].copy()
    for entry in COLUMNS:
        if entry.name in table and entry.dtype == "int":
            table[entry.name] = table[entry.name].astype("Int64")
    pack(table, name)


def pack(table: pd.DataFrame, name: str) -> None:
    """Write a table as packed text."""
    text = table.to_csv(index=False, lineterminator="\n").encode()
    with (HERE / name).open("wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as packed:
        packed.write(text)


def scaling_study(public: pd.DataFrame) -> pd.DataFrame:
    """EAGLE-style drafters on five Qwen3 verifiers, forced acceptance."""
    frame = public[public["source_id"] == "speculators-scaling"].rename(columns=RENAMED)
    closed = frame["load_kind"] == "closed"
    frame["arrivals"] = closed.map({True: "closed", False: "constant"})
    frame["is_throughput_test"] = frame["run_id"].str.endswith("_i1")
    # The rate of a closed loop is a result, not a setting.
    frame["request_rate_rps"] = frame["request_rate_rps"].mask(closed)
    return frame


def atom_moe(public: pd.DataFrame) -> pd.DataFrame:
    """Nightly closed-loop runs of large mixture-of-experts models."""
    frame = public[public["source_id"] == "rocm-atom-dashboard"].rename(columns=RENAMED)
    frame["arrivals"] = "closed"
    # One image has up to three names within a night; the commit names the version once.
    frame["note"] = frame["note"] + "; image " + frame["engine_version"]
    frame["engine_version"] = "commit " + frame["run_id"].str.split("|").str[0]
    # The dashboard does not record it; the project's recipes ask for ten per request in flight.
    frame["num_requests"] = 10 * frame["concurrency"]
    return frame


def h200_70b(public: pd.DataFrame) -> pd.DataFrame:
    """Open-loop sweeps of Llama 70B on one H200."""
    chosen = (public["source_id"] == "do-gtc-2026-h200") & (public["load_kind"] == "open")
    frame = public[chosen].rename(columns=RENAMED)
    frame["arrivals"] = "poisson"
    # This load tool rescales its gaps so that the mean rate is the one asked for.
    frame["request_rate_rps"] = frame["target_rate_rps"]
    frame["max_num_seqs"] = frame["note"].str.extract(r"max seqs (\d+)")[0].astype(float)
    return frame


def vllm_cpu(runs: pd.DataFrame) -> pd.DataFrame:
    """Dense and mixture-of-experts runs of vLLM on one processor core."""
    burst = ~runs["request_rate"].lt(float("inf"))
    moe = runs["verifier"] == "moe"
    sweep = runs["config"] + "_rep" + runs["rep"].astype(str)
    drafter = runs["config"].str.extract(r"_(a\d+)_")[0]
    positions = runs[[f"accepted_pos{j}" for j in range(5)]]
    frame = pd.DataFrame(
        {
            "source_id": "vllm-cpu",
            "run_id": sweep + "_rate" + runs["request_rate"].map("{:g}".format),
            "sweep_id": sweep,
            "family_id": runs["verifier"],
            "engine": "vllm",
            "engine_version": "0.32.0",
            "hardware": "CPU, 1 model core",
            "tensor_parallel_size": 1,
            "dtype": "bf16",
            "verifier": "verifier-" + runs["verifier"],
            "verifier_params_b": moe.map({True: 0.170, False: 0.134}),
            "verifier_active_params_b": moe.map({True: 0.0285}),
            "num_experts": moe.map({True: 32}),
            "experts_per_token": moe.map({True: 2}),
            "drafter": "drafter-" + drafter,
            "drafter_params_b": drafter.notna().map({True: 0.0064}),
            "method": runs["method"],
            "num_speculative_tokens": runs["k"],
            "num_speculative_tokens_schedule": runs["k_schedule"],
            "load_kind": burst.map({True: "closed", False: "open"}),
            "arrivals": burst.map({True: "bursty", False: "poisson"}),
            "request_rate_rps": runs["offered_rps"].mask(burst),
            "target_rate_rps": runs["request_rate"].mask(burst),
            "completed_rate_rps": runs["achieved_rps"],
            "concurrency": runs["n_requests"].where(burst),
            "max_num_seqs": 64,
            "is_throughput_test": burst,
            "mean_in_system_requests": runs["client_in_system_mean"],
            "mean_running_requests": runs["running_mean"],
            "other_load_cores": runs["other_cpu"],
            "input_len_tokens": runs["isl"],
            "output_len_tokens": runs["osl"],
            "num_requests": runs["n_requests"],
            "workload": "random tokens",
            "sampling": "temperature 0",
            "output_tokens_per_s": runs["output_tokens_per_s"],
            "mean_acceptance_length": runs["acceptance_length"],
            "num_drafts": runs["drafts"],
            "num_draft_tokens": runs["draft_tokens"],
            "num_accepted_tokens": runs["accepted_tokens"],
            "accepted_per_position": positions.apply(
                lambda row: ";".join(f"{count:.0f}" for count in row.dropna()) or None, axis=1
            ),
            "date": pd.to_datetime(runs["date"].str[:8]).dt.strftime("%Y-%m-%d"),
        }
    )
    for latency in ("e2e", "ttft", "tpot", "itl"):
        for ours, theirs in (("mean", "mean"), ("p50", "median")):
            frame[f"{ours}_{latency}_s"] = runs[f"{latency}_{theirs}"]
        for percentile in ("p90", "p95", "p99"):
            frame[f"{percentile}_{latency}_s"] = runs[f"{latency}_{percentile}"]
    return frame


def vllm_cpu_windows(raw: Path) -> pd.DataFrame:
    """Cut one window of live metrics from each run at a fixed draft length and an open load."""
    rows = []
    for result in sorted(raw.glob("*/rep*_rate*.json")):
        configuration, run = result.parent.name, result.stem
        if not configuration.endswith("_dyn") and not run.endswith("inf"):
            sweep = f"{configuration}_{run.split('_')[0]}"
            rows.append({"sweep_id": sweep, "run_id": f"{configuration}_{run}"} | window_of(result))
    frame = pd.DataFrame(rows).sort_values(["sweep_id", "end_s"], ignore_index=True)
    begun = (frame["end_s"] - frame["duration_s"]).groupby(frame["sweep_id"]).transform("min")
    return frame.assign(process_start_s=begun.round())


def window_of(result: Path) -> dict[str, object]:
    """Return what the server's own metrics say of one run, from its first request to its last."""
    run = json.loads(result.read_text())
    before, after = result.with_suffix(".metrics.txt").read_text().split("# after")
    pages = [parse_page(text, name) for text, name in ((before, "before"), (after, "after"))]
    counted = window_between(pages, duration_s=run["duration"])
    gauges = samples(Content(result.with_suffix(".gauges.jsonl")))
    time_s = gauges[:, 0] - gauges[(gauges[:, 1] + gauges[:, 2] > 0).argmax(), 0]
    running = pd.Series(gauges[(time_s >= 0) & (time_s <= run["duration"]), 1])
    return {
        "duration_s": round(run["duration"], 3),
        "num_requests": int(counted.num_requests),
        "mean_e2e_s": round(counted.mean_e2e_s, 6),
        "mean_running_requests": round(running.mean(), 4),
        "var_running_requests": round(running.var(), 4),
        "num_gauge_samples": len(running),
        "num_drafts": counted.num_drafts if counted.accepted else None,
        "accepted": ";".join(f"{count:.0f}" for count in counted.accepted),
        "end_s": datetime.strptime(run["date"], "%Y%m%d-%H%M%S").replace(tzinfo=UTC).timestamp(),
    }


def main() -> None:
    """Read the folder named on the command line and write the files beside this script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    public = pd.read_csv(folder / "public_runs.csv", low_memory=False)
    write(scaling_study(public), "scaling_study.csv.gz")
    write(atom_moe(public), "atom_moe.csv.gz")
    write(h200_70b(public), "h200_70b.csv.gz")
    write(vllm_cpu(pd.read_csv(folder / "vllm_cpu" / "runs.csv")), "vllm_cpu.csv.gz")
    pack(vllm_cpu_windows(folder / "vllm_cpu" / "raw"), "vllm_cpu_windows.csv.gz")


if __name__ == "__main__":
    main()
