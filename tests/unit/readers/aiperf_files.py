"""Files of AIPerf and GenAI-Perf to read in tests: real ones, and small ones built from fields."""

import gzip
import json
import warnings
from pathlib import Path

import pandas as pd

from bayes_sd.frames import check_runs
from bayes_sd.readers import aiperf, aiperf_records
from bayes_sd.readers.content import Content

FILES = Path(__file__).resolve().parents[2] / "files" / "aiperf"
SUMMARY = "profile_export_aiperf.json"
RECORDS = {
    "2025-10": "profile_export.jsonl",
    "0.3.0_open": "profile_export.jsonl.gz",
    "0.13.0_open": "profile_export.jsonl.gz",
    "0.13.0_closed": "profile_export.jsonl.gz",
}
SIDE = {
    "sweep_id": "s",
    "verifier": "v",
    "method": "eagle",
    "num_speculative_tokens": 3,
    "load_kind": "open",
}


def load(folder):
    return json.loads((FILES / folder / SUMMARY).read_text())


def load_records(folder):
    path = FILES / folder / RECORDS[folder]
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in raw.splitlines()]


def read_summary(tmp_path, document):
    path = tmp_path / SUMMARY
    path.write_text(json.dumps(document))
    return aiperf.read(Content(path))


def read_records(tmp_path, records):
    """Read records, or lines where they are text."""
    path = tmp_path / "profile_export.jsonl"
    lines = [item if isinstance(item, str) else json.dumps(item) for item in records]
    path.write_text("\n".join(lines) + "\n")
    return aiperf_records.read(Content(path))


def checked(reading, **side):
    """Pass the runs with side information through the check of a table of runs."""
    rows = []
    for number, run in enumerate(reading.runs):
        cells = {n: v for n, v in run.items() if not n.startswith("_")}
        rows.append({**SIDE, **side, "run_id": f"r{number}", **cells})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check_runs(pd.DataFrame(rows))


def said(reading, *words):
    return any(all(word in note for word in words) for note in reading.notes)


def metric(mean, unit="ms"):
    """Build a metric all of whose values are alike."""
    return {"unit": unit, **dict.fromkeys(("avg", "p50", "p90", "p95", "p99"), mean)}


def summary(config, *, requests=200, duration=50.0, latency=1000.0, **others):
    """Build a summary of AIPerf 0.13 from its documented fields; ``config`` is its input_config."""
    return {
        "schema_version": "1.4",
        "request_throughput": {"unit": "requests/sec", "avg": requests / duration},
        "request_latency": metric(latency),
        "request_count": {"unit": "requests", "avg": float(requests)},
        "time_to_first_token": metric(200.0),
        "inter_token_latency": metric((latency - 200.0) / 64),
        "output_sequence_length": metric(65.0, "tokens"),
        "input_sequence_length": metric(512.0, "tokens"),
        "benchmark_duration": {"unit": "sec", "avg": duration},
        "input_config": config,
        **others,
    }


def phases(kind, **fields):
    """Build the input_config of later AIPerf, with a warm-up and a measured phase."""
    return {
        "models": {"items": [{"name": "m"}]},
        "phases": [
            {"name": "warmup", "kind": "warmup", "type": "concurrency", "concurrency": 1},
            {"name": "profiling", "kind": "profiling", "type": kind, **fields},
        ],
    }


def record(number, *, e2e=1000.0, ttft=200.0, tokens=65, every=0.25, **others):
    """Build a record of AIPerf 0.13 from its fields; request ``number`` of an even stream."""
    start = 1_796_227_775_000_000_000 + int(number * every * 1e9)
    return {
        "metadata": {
            "request_start_ns": start,
            "request_end_ns": start + int(e2e * 1e6),
            "benchmark_phase": "profiling",
            "was_cancelled": False,
        },
        "metrics": {
            "request_latency": {"value": e2e, "unit": "ms"},
            "time_to_first_token": {"value": ttft, "unit": "ms"},
            "inter_chunk_latency": {"value": [20.0, 30.0, 40.0], "unit": "ms"},
            "input_sequence_length": {"value": 512, "unit": "tokens"},
            "output_sequence_length": {"value": tokens, "unit": "tokens"},
        },
        **others,
    }
