"""Results of SGLang's ``bench_serving`` (``sglang.benchmark.serving``): one run a line.

Latency statistics are milliseconds, lists of requests (``--output-details``) seconds. Field names
and meanings: SGLang [1]_, Apache-2.0; both spellings of the totals, with and without ``_tokens``.

References
----------
.. [1] https://github.com/sgl-project/sglang/blob/main/python/sglang/benchmark/serving.py
"""

import math
from typing import Any

import numpy as np
import pandas as pd

from bayes_sd.readers.content import Content
from bayes_sd.readers.reading import Cells, Fields, Reading, is_blank
from bayes_sd.readers.requests import (
    GapStatistics,
    arrival_notes,
    cells_of_requests,
    disagreements,
    gap_statistics,
    measured_arrivals,
    requests_table,
)
from bayes_sd.readers.sglang_server import server_cells

KINDS = {"e2e": "e2e_latency", "ttft": "ttft", "tpot": "tpot", "itl": "itl"}
STATISTICS = {"mean": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
ENGINES = {"sglang": "sglang", "vllm": "vllm", "lmdeploy": "lmdeploy", "trt": "tensorrt-llm"}
NATIVE = ("sglang", "sglang-native")  # clients of the /generate endpoint
RETOKENIZED = ("total_output_tokens_retokenized", "total_output_retokenized")


def recognises(sample: Any) -> bool:
    """Tell whether a parsed object is such a result."""
    if isinstance(sample, list) and sample:
        sample = sample[0]
    if not isinstance(sample, dict):
        return False
    marks = all(name in sample for name in ("completed", "duration", "mean_e2e_latency_ms"))
    return marks and any(name in sample for name in ("concurrency", *RETOKENIZED))


def read(content: Content) -> Reading:
    """Read one file, with one run a line."""
    reading = Reading()
    reading.each(content.entries(), lambda fields: _run(fields, reading))
    return reading


@np.errstate(all="ignore")  # counts and times that cannot be, such as 1e308
def _run(fields: Fields, reading: Reading) -> tuple[Cells, pd.DataFrame | None]:
    completed = fields.completed()
    backend = fields.text("backend")
    duration = fields.number("duration")
    throughput = fields.number("request_throughput")
    if math.isnan(throughput) and duration > 0:
        throughput = completed / duration
    run: Cells = {
        "engine": ENGINES.get(backend.split("-")[0], ""),
        "num_requests": completed,
        "input_len_tokens": _mean_length(fields, completed, "total_input"),
        "output_len_tokens": _mean_length(fields, completed, "total_output"),
        "completed_rate_rps": throughput,
        "output_tokens_per_s": fields.number("output_throughput"),
        "workload": fields.text("dataset_name"),
        "note": fields.text("tag"),
        "_duration_s": duration,
    }
    run |= _latencies(fields)
    run |= {n: v for n, v in server_cells(fields, reading).items() if not is_blank(v)}
    run |= _acceptance(fields, run, backend, reading)
    _keep_gaps_between_deliveries(fields, run, backend, reading)
    requests, computed = _requests(fields, reading)
    if is_blank(run["input_len_tokens"]) and "input_len_tokens" not in computed:
        reading.note(
            "the tool counts no prompt tokens of conversations of several turns. Give "
            "input_len_tokens, the mean prompt length with all earlier turns."
        )
    gaps = None if requests is None else gap_statistics(requests["start_s"])
    run |= _load(fields, run, gaps, reading)
    if not run.get("is_throughput_test"):
        run["mean_in_system_requests"] = fields.number("concurrency")
    for message in disagreements(run, computed, fields.place):
        reading.note(message)
    if run.get("load_kind") == "closed":
        computed.pop("request_rate_rps", None)
    if run.get("is_throughput_test"):
        computed.pop("mean_in_system_requests", None)
    return {**computed, **{n: v for n, v in run.items() if not is_blank(v)}}, requests


def _mean_length(fields: Fields, completed: float, name: str) -> float:
    """Return tokens per request; NaN if the tool did not count them."""
    return fields.number(f"{name}_tokens", name) / completed or math.nan


def _latencies(fields: Fields) -> Cells:
    """Return what was measured; the tool writes 0 where it was not, as without streaming."""
    return {
        f"{statistic}_{kind}_s": fields.number(f"{word}_{name}_ms", scale=1e-3) or math.nan
        for kind, name in KINDS.items()
        for statistic, word in STATISTICS.items()
    }


def _acceptance(fields: Fields, run: Cells, backend: str, reading: Reading) -> Cells:
    """Return the server's average of accepted tokens per step."""
    length = fields.number("accept_length")
    if length >= 1 and run.get("method") != "none":
        reading.note(
            "mean_acceptance_length is the server's average since it started or flushed its cache: "
            "runs of one server blend, the warm-up requests among them."
        )
        return {"mean_acceptance_length": length}
    if 0 < length < 1:
        reading.note(
            f"accept_length is {length:.3g}, and each step gives 1 token at least: left out."
        )
    elif "method" not in run and backend.startswith("sglang"):
        reading.note(
            "accept_length is null, as it is without speculation, after few steps, or where the "
            "server did not answer. Give method and num_speculative_tokens: 'none' and 0 if the "
            "server did not draft."
        )
    return {}


def _keep_gaps_between_deliveries(
    fields: Fields, run: Cells, backend: str, reading: Reading
) -> None:
    """Take ITL out where it is not the time between deliveries.

    The native client divides the gap before a delivery by its tokens, and those of SGLang's
    OpenAI endpoints do so where accept_length is known.
    """
    divided = backend in NATIVE or (
        backend.startswith("sglang") and fields.number("accept_length") > 0
    )
    names = [n for n in run if n.endswith("_itl_s") and not is_blank(run[n])]
    if not divided or run.get("method") == "none" or not names:
        return
    for name in names:
        del run[name]
    reading.note(
        "itl is left out where the server drafts or may draft: the tool divides the gap before a "
        "delivery by its tokens, so its itl is a time per token and not between deliveries."
    )


def _requests(fields: Fields, reading: Reading) -> tuple[pd.DataFrame | None, Cells]:
    """Return the finished requests, if their send times are listed, and cells computed of them."""
    ttft = fields.numbers("ttfts")
    if ttft is None:
        return None, {}
    e2e = fields.numbers("latencies")
    if e2e is None:
        gaps = fields.items("itls")
        if len(gaps) != len(ttft) or not all(isinstance(g, list) for g in gaps):
            return None, {}
        try:
            e2e = ttft + np.array([math.fsum(g) for g in gaps])
        except (TypeError, ValueError, OverflowError):
            raise fields.wrong("itls", "a list of lists of numbers") from None
    start = fields.numbers("start_times")  # of recent tools and forks
    successes, errors = fields.items("successes"), fields.items("errors")
    failed = [not s for s in successes] if successes else [bool(e) for e in errors]
    frame, notes = requests_table(
        fields.place,
        start_s=np.arange(len(e2e)) if start is None else start,
        e2e_s=e2e,
        ttft_s=ttft,
        input_len_tokens=fields.numbers("input_lens"),
        output_len_tokens=fields.numbers("output_lens"),
        failed=failed,
    )
    for message in notes:
        reading.note(message)
    if frame is None:
        return None, {}
    computed = cells_of_requests(frame)
    if start is None:
        return None, {
            n: v for n, v in computed.items() if n.endswith(("_e2e_s", "_ttft_s", "_tpot_s"))
        }
    return frame, computed


def _load(fields: Fields, run: Cells, gaps: GapStatistics | None, reading: Reading) -> Cells:
    """Return how the run was loaded: open at a rate, closed at a cap, or all at once."""
    cap = fields.count("max_concurrency") or math.nan  # 0 is none to the tool
    replayed = fields.values.get("request_rate") == "trace" or (
        run["workload"] == "mooncake" and fields.text("backend") in NATIVE  # ignores its rate
    )
    measured = gaps is not None and math.isfinite(gaps.rate_rps)
    asked = math.nan if replayed else fields.any_number("request_rate")
    if asked <= 0:
        raise fields.wrong("request_rate", "above 0")
    if math.isinf(asked):
        return _all_at_once(run["num_requests"], cap, reading)
    if gaps is None or not measured:
        if math.isnan(asked):
            reading.note(
                "the load is not known: the arrivals followed a trace, or request_rate is missing, "
                "and the file lists no send times. Give load_kind='open' and request_rate_rps, or "
                "load_kind='closed' and concurrency."
            )
            return {"client_cap": cap}
        reading.note(
            "request_rate_rps is the rate asked for, as the file lists no send times: the tool "
            "draws its gaps freely, so the rate of a run scatters by about 1 / sqrt(requests). "
            "completed / duration contains the drain at the end."
        )
        load: Cells = {"request_rate_rps": asked, "arrivals": "poisson"}
    else:
        for message in arrival_notes(gaps, "" if replayed else "poisson", asked, fields.place):
            reading.note(message)
        load = {
            "request_rate_rps": gaps.rate_rps,
            "arrivals": measured_arrivals(gaps, "poisson"),
        }
    return {"load_kind": "open", "target_rate_rps": asked, "client_cap": cap} | load


def _all_at_once(sent: float, cap: float, reading: Reading) -> Cells:
    """Return the load of a run without gaps between requests, all sent or kept at a cap."""
    is_burst = not sent > cap
    if sent <= cap:
        reading.note(
            f"{sent:.0f} requests at most {cap:.0f} at a time were all sent at once: a burst, not "
            "a steady load (is_throughput_test)."
        )
    return {
        "load_kind": "closed",
        "arrivals": "closed",
        "concurrency": sent if math.isnan(cap) else cap,
        "is_throughput_test": is_burst,
    }
