"""Summaries of AIPerf, and of GenAI-Perf that came before it: one JSON object per run.

``profile_export_aiperf.json`` holds one object per metric with its unit: in ``records`` up to
October 2025, at the top of the file since then; ``profile_export_genai_perf.json`` is laid out as
the latter. What was asked for is in ``input_config``, which has had four forms. Field names and
meanings: AIPerf 0.1.1 to 0.13.0 [1]_, Apache-2.0; GenAI-Perf to 0.0.16 [2]_.

References
----------
.. [1] https://github.com/ai-dynamo/aiperf
.. [2] https://github.com/triton-inference-server/perf_analyzer/tree/main/genai-perf
"""

import math
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_sd.exceptions import FormatError
from bayes_sd.readers.aiperf_load import load_cells, profiling_phases
from bayes_sd.readers.aiperf_metrics import (
    COUNTS,
    LATENCIES,
    PER_SECOND,
    SECONDS,
    STATISTICS,
    Metrics,
    acceptance,
)
from bayes_sd.readers.content import Content
from bayes_sd.readers.reading import Cells, Fields, Reading, short

UNIX_SECONDS = (1e9, 1e11)  # other clocks have another zero


def recognises(sample: Any) -> bool:
    """Tell whether a parsed object is such a summary."""
    if not isinstance(sample, dict):
        return False
    records = sample.get("records")
    metrics = records if isinstance(records, dict) else sample
    found = [metrics.get(name) for name in ("request_latency", "request_throughput")]
    return any(isinstance(m, dict) and "unit" in m and "avg" in m for m in found)


def read(content: Content) -> Reading:
    """Read one file with the summary of one run."""
    reading = Reading()
    reading.each(content.entries(), lambda fields: _run(fields, reading, content.path))
    return reading


def _run(fields: Fields, reading: Reading, path: Path) -> tuple[Cells, pd.DataFrame | None]:
    phase = _phase(fields, path)
    metrics = Metrics(fields.part("records") if "records" in fields else fields, reading)
    run: Cells = _identity(fields, reading)
    run |= {
        "num_requests": _num_requests(fields, metrics, reading),
        "input_len_tokens": metrics.positive("avg", COUNTS, "input_sequence_length"),
        "output_len_tokens": metrics.positive("avg", COUNTS, "output_sequence_length"),
        "completed_rate_rps": metrics.positive("avg", PER_SECOND, "request_throughput"),
        "output_tokens_per_s": metrics.positive("avg", PER_SECOND, "output_token_throughput"),
        "mean_in_system_requests": metrics.number("avg", COUNTS, "effective_concurrency"),
    }
    run |= _latencies(fields, metrics, reading)
    run |= acceptance(fields, metrics, reading)
    run |= _times(fields, run, metrics)
    _note_failures(fields, run, metrics, reading)
    run |= load_cells(fields, run, phase, reading)
    if run.get("load_kind") == "closed" and run.get("is_throughput_test"):
        run.pop("mean_in_system_requests")
    return run, None


def _phase(fields: Fields, path: Path) -> str:
    """Name the phase that a file is of; empty for the summary of a whole run.

    A run of several phases has a summary of each in ``phases/<name>/``, of the same layout.
    """
    if path.parent.parent.name != "phases":
        return ""
    name = path.parent.name
    whole = path.parent.parent.parent / path.name
    profiling = profiling_phases(fields)
    if not profiling:
        return ""
    if name not in [p.text("name") for p in profiling]:
        raise FormatError(f"{path} is the summary of the warm-up. Leave it out.")
    if len(profiling) == 1 and whole.is_file():
        raise FormatError(f"{path} is the same run as {whole}. Read that one.")
    return name


def _identity(fields: Fields, reading: Reading) -> Cells:
    """Return the model, the engine and the hardware, where the file tells."""
    asked = fields.part("input_config")
    endpoint = asked.part("endpoint") if isinstance(asked.values.get("endpoint"), dict) else asked
    models = [
        *_texts(asked.values.get("model")),
        *_texts(asked.values.get("model_names")),
        *_texts(endpoint.values.get("model_names")),
        *_texts(asked.part("models").values.get("items")),
    ]
    model = models[0] if len(set(models)) == 1 else ""
    if len(set(models)) > 1:
        reading.note(
            f"requests went to {len(set(models))} models ({', '.join(sorted(set(models)))}): "
            "verifier is left out. Give verifier=..., if they are one model."
        )
    tokenizer = asked.values.get("tokenizer")
    named = tokenizer.get("name") if isinstance(tokenizer, dict) else tokenizer
    if model and isinstance(named, str) and named.strip() not in ("", model):
        reading.note(
            f"the model is called {short(model)} and its tokenizer {short(named)}; verifier is "
            "the former. Give verifier=... if it is a nickname."
        )
    backend = ""  # GenAI-Perf writes one for other servers too, where it means nothing
    if endpoint.text("service_kind") in ("triton", "tensorrtllm_engine"):
        backend = endpoint.text("backend").lower()
    gpus = {
        " ".join(gpu["gpu_name"].split())
        for server in _objects(fields.part("telemetry_data", "endpoints").values)
        for gpu in _objects(server.get("gpus"))
        if isinstance(gpu.get("gpu_name"), str)
    }
    return {
        "verifier": model,
        "engine": {"tensorrtllm": "tensorrt-llm"}.get(backend, backend),
        "hardware": gpus.pop() if len(gpus) == 1 else "",
    }


def _texts(found: Any) -> list[str]:
    """Return names from a text, or a list of texts or of objects with a name."""
    listed = found if isinstance(found, list) else [found]
    names = [item.get("name") if isinstance(item, dict) else item for item in listed]
    return [" ".join(name.split()) for name in names if isinstance(name, str) and name.strip()]


def _objects(found: Any) -> list[dict[str, Any]]:
    values = list(found.values()) if isinstance(found, dict) else []
    return [value for value in values if isinstance(value, dict)]


def _num_requests(fields: Fields, metrics: Metrics, reading: Reading) -> float:
    """Return the number of requests that the averages are over."""
    found = metrics.number("avg", COUNTS, "request_count")
    if math.isnan(found) and "request_latency" in metrics.fields:
        found = metrics.fields.part("request_latency").count("count")
    if math.isnan(found):
        reading.note(
            "the file does not tell the number of requests (older ones of GenAI-Perf do not). "
            "Give num_requests."
        )
    elif found < 1 or found != math.floor(found):
        raise FormatError(
            f"{metrics.fields.at('request_count')} must be a whole number of at least 1. Got "
            f"{found:g} instead: without answered requests a run says nothing of latency."
        )
    return found


def _latencies(fields: Fields, metrics: Metrics, reading: Reading) -> Cells:
    asked = fields.part("input_config")
    endpoint = asked.values.get("endpoint")
    streaming = endpoint.get("streaming") if isinstance(endpoint, dict) else None
    if streaming is False or asked.values.get("streaming") is False:
        kinds = {"e2e": LATENCIES["e2e"]}
        reading.note("answers were not streamed: only the latency of whole requests is known.")
    else:
        kinds = LATENCIES
    return {
        f"{statistic}_{kind}_s": metrics.positive(theirs, SECONDS, *names)
        for kind, names in kinds.items()
        for statistic, theirs in STATISTICS.items()
    }


def _times(fields: Fields, run: Cells, metrics: Metrics) -> Cells:
    """Return day, length and end of a run."""
    seconds = metrics.number("avg", SECONDS, "benchmark_duration")
    if math.isnan(seconds):  # the tools' throughput is requests / duration
        seconds = run["num_requests"] / run["completed_rate_rps"]
    end = metrics.number("avg", SECONDS, "max_response_timestamp")
    started, stopped = _moment(fields.text("start_time")), _moment(fields.text("end_time"))
    cells: Cells = {"_duration_s": seconds}
    if started is not None:
        cells["date"] = started.date().isoformat()
    if stopped is not None and stopped.tzinfo is None:  # the client's clock, its zone not told
        cells["_end_local"] = stopped.strftime("%Y%m%d-%H%M%S")
    elif stopped is not None and math.isnan(end):
        end = stopped.timestamp()
    if UNIX_SECONDS[0] < end < UNIX_SECONDS[1]:
        cells["_end_s"] = end
    return cells


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _note_failures(fields: Fields, run: Cells, metrics: Metrics, reading: Reading) -> None:
    failed = metrics.number("avg", COUNTS, "error_request_count")
    if failed > 0:
        reading.note(
            f"{failed:.0f} of {failed + run['num_requests']:.0f} requests failed or were "
            "cancelled; figures are over the rest."
        )
    if fields.values.get("was_cancelled") is True:
        reading.note("the run was cancelled: figures are over what was finished by then.")
