"""GuideLLM reports to read in tests: those of the files, and small ones built from the fields."""

import gzip
import json
import warnings
from pathlib import Path

import pandas as pd

from bayes_sd.frames import check_runs
from bayes_sd.readers import guidellm
from bayes_sd.readers.content import Content

FILES = Path(__file__).resolve().parents[2] / "files" / "guidellm"
SIDE = {"sweep_id": "s", "verifier": "v", "method": "eagle", "num_speculative_tokens": 3}


def read_file(name):
    return guidellm.read(Content(FILES / name))


def load(name):
    raw = (FILES / name).read_bytes()
    return json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw)


def read(tmp_path, document):
    path = tmp_path / "benchmarks.json"
    path.write_text(json.dumps(document))
    return guidellm.read(Content(path))


def checked(reading):
    """Pass the runs with side information through the check of a table of runs."""
    rows = []
    for number, run in enumerate(reading.runs):
        cells = {n: v for n, v in run.items() if not n.startswith("_")}
        rows.append({**SIDE, "run_id": f"r{number}", **cells})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check_runs(pd.DataFrame(rows))


def said(reading, *words):
    return any(all(word in note for word in words) for note in reading.notes)


def statistics(mean, count, **others):
    p = dict.fromkeys(("p50", "p90", "p95", "p99"), mean)
    return {"mean": mean, "median": mean, "count": count, "percentiles": p, **others}


def metric(mean, done, cut=0, total=None):
    """Build one metric with its groups, of requests that are all alike."""
    return {
        "successful": statistics(mean, done),
        "errored": statistics(0.0, 0),
        "incomplete": statistics(0.0, cut),
        "total": statistics(mean if total is None else total, done + cut),
    }


def benchmark(strategy, *, done=200, cut=10, duration=50.0, in_flight=4.0, latency=1.0):
    """Build an entry of versions 0.5 to 0.8 from its documented fields; no real file is at hand."""
    tokens = 65
    return {
        "type_": "generative_benchmark",
        "config": {"id_": "b", "run_id": "run-7", "run_index": 0, "strategy": strategy},
        "metrics": {
            "request_totals": {"successful": done, "incomplete": cut, "errored": 0},
            "requests_per_second": metric(done / duration, done, cut),
            "request_concurrency": metric(in_flight, done, cut),
            "request_latency": metric(latency, done, cut),
            "time_to_first_token_ms": metric(200.0, done, cut),
            "inter_token_latency_ms": metric(1e3 * (latency - 0.2) / (tokens - 1), done, cut),
            "time_per_output_token_ms": metric(1e3 * latency / tokens, done, cut),
            "prompt_token_count": metric(512.0, done, cut),
            "output_token_count": metric(float(tokens), done, cut),
            "output_tokens_per_second": metric(done * tokens / duration, done, cut),
        },
        "requests": {"successful": [], "incomplete": [], "errored": []},
        "start_time": 1.77e9,
        "end_time": 1.77e9 + duration,
        "duration": duration,
    }


def report(*benchmarks):
    """Build a report of 0.5 and 0.6."""
    return {
        "metadata": {"version": 1, "guidellm_version": "0.6.0"},
        "args": {"profile": "sweep", "model": "org/model", "processor": "org/model"},
        "benchmarks": list(benchmarks),
    }


def listed(starts, latency=1.0):
    """Build a list of requests as from 0.5 on."""
    return [
        {
            "info": {"timings": {"request_start": t, "targeted_start": t}},
            "request_latency": latency,
            "time_to_first_token_ms": 200.0,
            "prompt_tokens": 512,
            "output_tokens": 65,
        }
        for t in starts
    ]
