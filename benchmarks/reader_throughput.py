"""How fast per-request files are read, and in how much memory: 200 MB of AIPerf records.

    python benchmarks/reader_throughput.py            # 200 MB in a temporary folder; 1 min
    python benchmarks/reader_throughput.py --mb 2048  # two gigabytes; --skip pandas: it needs 20 GB
    python benchmarks/reader_throughput.py --quick    # 10 MB; writes no file

The records have the fields of AIPerf 0.13 and changed numbers: some 600 bytes of metadata, three
dozen metrics, and a list of the times between the chunks of the answer. Each method reads the file
once in a fresh process, one after the other.
"""

import argparse
import importlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import orjson

BAR_MB_PER_S = 100.0
BAR_MB = 1000.0  # of memory, whatever the size of the file
LIMIT_GB = 20  # of address space, so that a method that needs more ends alone
MEAN_CHUNKS = 250
NOT_USED = (  # metrics of a record beside those that a reader takes, with their units
    *(
        (f"http_req_{name}", "ms")
        for name in ("waiting", "blocked", "duration", "sending", "total")
    ),
    *((f"http_req_{name}", "ms") for name in ("connecting", "dns_lookup", "receiving")),
    *((f"http_req_data_{name}", "KB") for name in ("sent", "received")),
    *((f"http_req_chunks_{name}", "count") for name in ("sent", "received")),
    *((f"usage_{name}_tokens", "tokens") for name in ("prompt", "completion", "total")),
    ("time_to_second_token", "ms"),
    ("time_to_first_output_token", "ms"),
    ("osl_mismatch_diff_pct", "%"),
    ("e2e_output_token_throughput", "tokens/sec/user"),
    ("output_token_throughput_per_user", "tokens/sec/user"),
    ("prefill_throughput_per_user", "tokens/sec/user"),
)


def write_records(path: Path, megabytes: float) -> int:
    """Write a file of so many megabytes; return the number of records."""
    rng = np.random.default_rng(0)
    start, count, size = 1_796_227_775_079_025_588, 0, 0
    with path.open("wb") as file:
        while size < megabytes * 1e6:
            chunks = int(rng.integers(MEAN_CHUNKS // 2, MEAN_CHUNKS * 3 // 2))
            gaps_ns = rng.gamma(20.0, 1.1e6, chunks).astype(np.int64)
            ttft_ns = int(rng.gamma(4.0, 3e7))
            line = orjson.dumps(record(count, start, ttft_ns, gaps_ns, rng.random(25))) + b"\n"
            file.write(line)
            start += int(rng.exponential(5e7))
            count, size = count + 1, size + len(line)
    return count


def record(
    number: int, start: int, ttft_ns: int, gaps_ns: np.ndarray, noise: np.ndarray
) -> dict[str, Any]:
    """Return one record; times in ms come from ns as the tool makes them, with all their digits."""
    e2e_ns, tokens = ttft_ns + int(gaps_ns.sum()), 2 * len(gaps_ns) + 1
    name = f"{number:08x}-4b32-4923-93b2-f7e257e89934"
    metrics: dict[str, Any] = {
        metric: {"value": float(noise[i]) * 100, "unit": unit}
        for i, (metric, unit) in enumerate(NOT_USED)
    }
    metrics |= {
        "request_latency": {"value": e2e_ns * 1e-6, "unit": "ms"},
        "time_to_first_token": {"value": ttft_ns * 1e-6, "unit": "ms"},
        "inter_token_latency": {"value": (e2e_ns - ttft_ns) * 1e-6 / (tokens - 1), "unit": "ms"},
        "inter_chunk_latency": {"value": (gaps_ns * 1e-6).tolist(), "unit": "ms"},
        "input_sequence_length": {"value": 512 + number % 512, "unit": "tokens"},
        "output_sequence_length": {"value": tokens, "unit": "tokens"},
    }
    metadata = {
        "session_num": number,
        "x_request_id": name,
        "x_correlation_id": name,
        "conversation_id": f"session_{number:06d}",
        "turn_index": 0,
        "credit_issued_ns": start - 1_773_356,
        "request_start_ns": start,
        "request_ack_ns": start + ttft_ns // 2,
        "request_end_ns": start + e2e_ns,
        "worker_id": "worker_8db76f35",
        "record_processor_id": "record_processor_1415f1a2",
        "benchmark_phase": "profiling",
        "was_cancelled": False,
    }
    return {"metadata": metadata, "metrics": metrics, "error": None}


def read_ours(path: Path) -> tuple[int, float]:
    """Read with the library; return the number of requests and their mean latency, s."""
    from bayes_sd.readers import aiperf_records
    from bayes_sd.readers.content import Content

    (run,) = aiperf_records.read(Content(path)).runs
    return int(run["num_requests"]), run["mean_e2e_s"]


def read_json(path: Path) -> tuple[int, float]:
    """Read with the standard library, line by line, and keep one latency a line."""
    latencies = []
    with path.open("rb") as file:
        for line in file:
            latencies.append(json.loads(line)["metrics"]["request_latency"]["value"] * 1e-3)
    return len(latencies), sum(latencies) / len(latencies)


def read_pandas(path: Path) -> tuple[int, float]:
    """Read with pandas, the whole file as one table, and take the latencies."""
    import pandas as pd

    frame = pd.read_json(path, lines=True)
    latencies = frame["metrics"].map(lambda metrics: metrics["request_latency"]["value"]) * 1e-3
    return len(frame), float(latencies.mean())


METHODS: dict[str, Callable[[Path], tuple[int, float]]] = {
    "bayes_sd": read_ours,
    "json": read_json,
    "pandas": read_pandas,
}
IMPORTS = {
    "bayes_sd": ("bayes_sd.readers.aiperf_records", "bayes_sd.readers.content"),
    "pandas": ("pandas",),
}
TITLES = {
    "bayes_sd": "`bayes_sd`: all latencies, percentiles, arrivals",
    "json": "`json`, line by line: one latency",
    "pandas": "`pandas.read_json(lines=True)`: one latency",
}


def work(method: str, path: Path) -> None:
    """Read with one method in this process, and print its figures as JSON."""
    limit = LIMIT_GB << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for module in IMPORTS.get(method, ()):
        importlib.import_module(module)
    begun, used = time.perf_counter(), time.process_time()
    count, mean_s = METHODS[method](path)
    found = {
        "seconds": time.perf_counter() - begun,
        "cpu_s": time.process_time() - used,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        "requests": count,
        "mean_e2e_s": mean_s,
    }
    print(json.dumps(found))


def measure(method: str, path: Path) -> dict[str, Any]:
    """Read with one method in a fresh process; what went wrong stands under ``failed``."""
    command = [sys.executable, __file__, "--worker", method, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"signal {-done.returncode}"])[-1]
        return {"failed": last[:100]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"mb_per_s": path.stat().st_size / 1e6 / found["seconds"]}


def report(figures: dict[str, Any], command: str) -> str:
    """Return the table and what it says, as Markdown."""
    import pandas as pd

    from benchmarks.folds import markdown

    rows = [
        {
            "method": TITLES[method],
            "MB/s": f"{one['mb_per_s']:.0f}" if "mb_per_s" in one else "failed",
            "s": f"{one['seconds']:.1f}" if "seconds" in one else one["failed"],
            "s of processor": f"{one['cpu_s']:.1f}" if "cpu_s" in one else "",
            "peak memory, MB": f"{one['peak_mb']:.0f}" if "peak_mb" in one else "",
        }
        for method, one in figures["methods"].items()
    ]
    ours = figures["methods"]["bayes_sd"]
    speed, memory = ours["mb_per_s"], ours["peak_mb"]
    return (
        "# Reading per-request files\n\n"
        f"{figures['megabytes']:.0f} MB of AIPerf records, {figures['requests']} requests with "
        f"about {MEAN_CHUNKS} chunks each, made for this measurement; read from the page cache, "
        f"each method in a fresh process; imports count in memory, not in time. `{command}`\n\n"
        f"{markdown(pd.DataFrame(rows))}\n\n"
        f"Bars: {BAR_MB_PER_S:.0f} MB/s {'met' if speed >= BAR_MB_PER_S else 'NOT met'} "
        f"({speed:.0f}); {BAR_MB:.0f} MB of memory {'met' if memory < BAR_MB else 'NOT met'} "
        f"({memory:.0f}). {why(ours, figures['megabytes'])}"
    )


def why(ours: dict[str, Any], megabytes: float) -> str:
    """Say what bounds the speed."""
    share = ours["cpu_s"] / ours["seconds"]
    text = (
        "About half of the time is parsing by orjson, mostly of times between chunks; memory "
        "holds five numbers per request and a histogram of those times."
    )
    if megabytes / ours["seconds"] < BAR_MB_PER_S and share < 0.9:
        text += (
            f" The process had a core for {share:.0%} of the time: others were running. By its "
            f"own processor time it reads {megabytes / ours['cpu_s']:.0f} MB/s."
        )
    return text


def main() -> None:
    """Write a file, read it with each method, print the table and write it to ``results``."""
    parser = argparse.ArgumentParser(description="Speed and memory of reading records.")
    parser.add_argument("--mb", type=float, default=200.0, help="size of the file, MB")
    parser.add_argument("--skip", nargs="*", choices=("json", "pandas"), default=[])
    parser.add_argument("--quick", action="store_true", help="smoke test; writes no file")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker[0], Path(options.worker[1]))
        return
    megabytes = 10.0 if options.quick else options.mb
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile_export.jsonl"
        requests = write_records(path, megabytes)
        methods = {m: measure(m, path) for m in METHODS if m not in options.skip}
    # Imported late: the peak memory of a new process is at least that of the one that started it.
    from benchmarks.folds import stamp, write_results

    if "failed" in methods["bayes_sd"]:
        raise SystemExit(f"bayes_sd: {methods['bayes_sd']['failed']}")
    for found in methods.values():
        if "failed" not in found:
            assert found["requests"] == requests
            assert np.isclose(found["mean_e2e_s"], methods["bayes_sd"]["mean_e2e_s"], rtol=1e-9)
    arguments = [f"--mb {megabytes:g}"] if megabytes != 200 else []
    arguments += [f"--skip {' '.join(options.skip)}"] if options.skip else []
    command = " ".join(["python benchmarks/reader_throughput.py", *arguments])
    figures = {"megabytes": megabytes, "requests": requests, "methods": methods}
    versions = ", ".join(f"{name} {version(name)}" for name in ("orjson", "pandas"))
    figures["stamp"] = f"{stamp()}, {versions}"
    text = f"{report(figures, command)}\n\n{figures['stamp']}"
    print(text)
    if not options.quick:
        write_results("reader_throughput", text, figures)


if __name__ == "__main__":
    main()
