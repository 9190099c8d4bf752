"""GuideLLM reports (``benchmarks.json``), versions 0.2 to 0.8, and bare lists of their metrics.

One entry per strategy: synchronous and concurrent keep requests in flight, throughput sends all it
may, constant and poisson send at a rate. What was unfinished at the time limit is in no latency.
Field names and meanings: GuideLLM [1]_, Apache-2.0.

References
----------
.. [1] https://github.com/vllm-project/guidellm/tree/main/src/guidellm
"""

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from bayes_sd.exceptions import FormatError
from bayes_sd.readers import guidellm_sweep
from bayes_sd.readers.content import Content
from bayes_sd.readers.guidellm_load import read_load
from bayes_sd.readers.guidellm_metrics import (
    REAL_TIME_S,
    Counts,
    check_latency,
    read_counts,
    read_figures,
    read_requests,
)
from bayes_sd.readers.reading import Cells, Fields, Reading, is_blank
from bayes_sd.readers.requests import cells_of_requests, disagreements

MARKS = ("request_latency", "requests_per_second", "request_concurrency")
LAST_YEAR_S = 4e9
COMPARED = ("mean_e2e_s", "mean_ttft_s")  # means of others are over tokens in newer versions
# Of finished requests alone they say less than the file's own figures, which know all that ran.
NOT_OF_FINISHED = ("request_rate_rps", "completed_rate_rps", "mean_in_system_requests")


def recognises(sample: Any) -> bool:
    """Tell whether a parsed object is such a report, or a list of metrics out of one."""
    if isinstance(sample, list):
        return bool(sample) and _is_metrics(sample[0])
    if not isinstance(sample, dict) or not isinstance(sample.get("benchmarks"), list):
        return False
    metadata = sample.get("metadata")
    if isinstance(metadata, dict) and "guidellm_version" in metadata:
        return True
    first = sample["benchmarks"][:1]
    return any(isinstance(entry, dict) and _is_metrics(entry.get("metrics")) for entry in first)


def _is_metrics(found: Any) -> bool:
    return isinstance(found, dict) and all(
        isinstance(found.get(name), dict) and "successful" in found[name] for name in MARKS
    )


def read(content: Content) -> Reading:
    """Read one file, one run for each strategy of its sweep."""
    reading = Reading()
    ended: list[tuple[str, Counts]] = []
    if isinstance(content.json, list):
        guidellm_sweep.read(_numbered(content.json), reading, ended)
    else:
        report = Fields(content.json)
        entries = report.items("benchmarks")
        reading.each(_numbered(entries), lambda fields: _run(fields, report, reading, ended))
    if not reading.runs and not reading.skipped:
        raise FormatError("benchmarks must hold at least one run. Got none. Leave the file out.")
    _note_unfinished(ended, reading)
    return reading


def _numbered(entries: list[Any]) -> Iterable[tuple[str, Any]]:
    return ((f"entry {number}", entry) for number, entry in enumerate(entries, 1))


def _run(
    fields: Fields, report: Fields, reading: Reading, ended: list[tuple[str, Counts]]
) -> tuple[Cells, pd.DataFrame | None]:
    metrics = fields.part("metrics")
    counts = read_counts(fields, metrics)
    times = _times(fields)
    duration = times["_duration_s"]
    run = read_figures(metrics, counts, duration, reading)
    run |= _identity(fields, report, reading)
    run |= times
    listed = read_requests(fields, counts, reading)
    requests = None if listed is None else listed.finished
    if requests is not None and listed is not None:
        computed = {**cells_of_requests(requests), "mean_itl_s": listed.mean_itl_s}
        compared = {name: run[name] for name in COMPARED if name in run}
        for message in disagreements(compared, computed, fields.place):
            reading.note(message)
        computed = {n: v for n, v in computed.items() if n not in NOT_OF_FINISHED}
        run = {**computed, **{n: v for n, v in run.items() if not is_blank(v)}}
    check_latency(run, metrics, reading)
    run |= read_load(fields, run, counts, listed, reading)
    ended.append((fields.place, counts))
    return run, requests


def _identity(fields: Fields, report: Fields, reading: Reading) -> Cells:
    """Return what the file tells of server, model and its own run."""
    backends = [
        _told(fields, "config", "backend"),
        _told(fields, "benchmarker", "backend"),
        _told(report, "config", "spec", "backend"),
    ]
    arguments = [_told(report, "args", "backend_kwargs"), _told(report, "args")]
    worker, loader = _told(fields, "worker"), _told(fields, "request_loader")
    models = [*(p.text("model") for p in (*backends, *arguments)), worker.text("backend_model")]
    model = next((name for name in models if name), "")
    tokenizer = (
        _told(report, "config", "spec", "tokenizer").text("model")
        or _told(report, "args").text("processor")
        or loader.text("processor")
    )
    if model and tokenizer and model != tokenizer:
        reading.note(
            f"the model is called {model!r} and its tokenizer {tokenizer!r}; verifier is the "
            "former. Give verifier=... if it is a nickname."
        )
    is_vllm = any(place.text("kind", "type_").startswith("vllm") for place in backends)
    return {
        "verifier": model,
        "engine": "vllm" if is_vllm else "",
        # All strategies of one start of the tool drive one server.
        "_sweep": _told(fields, "config").text("run_id") or fields.text("run_id"),
    }


def _told(fields: Fields, *names: str) -> Fields:
    """Return an object that a run can do without; an empty one if it has another form."""
    try:
        return fields.part(*names)
    except FormatError:
        return Fields({})


def _times(fields: Fields) -> Cells:
    start, end = fields.any_number("start_time"), fields.any_number("end_time")
    duration = fields.number("duration")
    if math.isnan(duration) and end > start:
        duration = end - start
    cells: Cells = {"_duration_s": duration}
    if REAL_TIME_S < start < LAST_YEAR_S:
        cells["date"] = datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%d")
    if REAL_TIME_S < end < LAST_YEAR_S:
        cells["_end_s"] = end
    return cells


def _note_unfinished(ended: list[tuple[str, Counts]], reading: Reading) -> None:
    """Say how many requests of each run are in no latency."""
    cut = [f"{c.incomplete:.0f} of {c.started:.0f} ({p})" for p, c in ended if c.incomplete > 0]
    if cut:
        reading.note(
            f"requests cut off at the end of the run are in no latency: {', '.join(cut)}. Near "
            "saturation these are the slow ones, so latency reads low there."
        )
    failed = [f"{c.errored:.0f} of {c.started:.0f} ({p})" for p, c in ended if c.errored > 0]
    if failed:
        reading.note(f"requests failed: {', '.join(failed)}; figures are over the rest.")
