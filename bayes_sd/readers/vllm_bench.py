"""Results of ``vllm bench serve`` and of its older form ``benchmark_serving.py``.

One JSON object per run, or one a line (``--append-result``). Latency statistics are milliseconds,
lists of requests (``--save-detailed``) seconds. Field names and meanings: vLLM [1]_, Apache-2.0.

References
----------
.. [1] https://github.com/vllm-project/vllm/blob/main/vllm/benchmarks/serve.py
"""

import math
from typing import Any

import numpy as np
import pandas as pd

from bayes_sd.exceptions import FormatError
from bayes_sd.readers.content import Content
from bayes_sd.readers.reading import Cells, Fields, Reading, is_blank, short
from bayes_sd.readers.requests import (
    CONSTANT_VARIATION,
    POISSON_VARIATION,
    arrival_notes,
    cells_of_requests,
    disagreements,
    gap_statistics,
    measured_arrivals,
    requests_table,
)

KINDS = {"e2e": "e2el", "ttft": "ttft", "tpot": "tpot", "itl": "itl"}
STATISTICS = {"mean": ("mean",), "p50": ("p50", "median"), "p90": ("p90",), "p95": ("p95",)}
STATISTICS |= {"p99": ("p99",)}
MARKS = ("request_throughput", "output_throughput", "total_input_tokens", "completed", "duration")
# Keys that came after the counters of speculative decoding (vLLM pull requests 31739 and 32300 of
# January 2026): a file that has one of them and no counters is of a server that did not draft. The
# peaks (``max_concurrent_requests``) are older than the counters and say nothing of them.
RECENT = ("rtfx", "latencies", "queue_times")
NOT_OURS = ("accept_length", "concurrency", "mean_e2e_latency_ms")  # of SGLang's tool


def recognises(sample: Any) -> bool:
    """Tell whether a parsed object is such a result."""
    if isinstance(sample, list) and sample:
        sample = sample[0]
    if not isinstance(sample, dict) or any(name in sample for name in NOT_OURS):
        return False
    return all(name in sample for name in MARKS) and any(k.endswith("_ms") for k in sample)


def read(content: Content) -> Reading:
    """Read one file, with one run or one run a line."""
    reading = Reading()
    reading.each(content.entries(), lambda fields: _run(fields, reading))
    return reading


@np.errstate(all="ignore")  # counts and times that cannot be, such as 1e308
def _run(fields: Fields, reading: Reading) -> tuple[Cells, pd.DataFrame | None]:
    completed = fields.completed()
    run: Cells = {
        "engine": "vllm" if "vllm" in fields.text("backend", "endpoint_type").lower() else "",
        "verifier": fields.text("model_id"),
        "num_requests": completed,
        "input_len_tokens": fields.number("total_input_tokens") / completed,
        "output_len_tokens": fields.number("total_output_tokens") / completed,
        "completed_rate_rps": fields.number("request_throughput"),
        "output_tokens_per_s": fields.number("output_throughput"),
        "_duration_s": fields.number("duration"),
        "date": _day(fields.text("date")),
        "_end_local": fields.text("date"),
    }
    run |= _latencies(fields)
    run |= _acceptance(fields, reading)
    if "num_drafts" in run:  # only vLLM has these counters
        run["engine"] = "vllm"
    tokenizer = fields.text("tokenizer_id")
    if tokenizer and tokenizer != run["verifier"]:
        reading.note(
            f"the model is called {short(run['verifier'])} and its tokenizer {short(tokenizer)}; "
            "verifier is the former. Give verifier=... if it is a nickname."
        )
    failed = fields.count("failed")
    if failed > 0:
        reading.note(
            f"{failed:.0f} of {failed + completed:.0f} requests failed; figures are over the rest."
        )
    requests = _requests(fields, reading)
    gaps = None if requests is None else gap_statistics(requests["start_s"])
    run |= _load(fields, run, gaps, reading)
    if requests is not None:
        computed = cells_of_requests(requests)
        for message in disagreements(run, computed, fields.place):
            reading.note(message)
        if run.get("load_kind") == "closed" or run.get("is_throughput_test"):
            computed.pop("request_rate_rps", None)
        if run.get("is_throughput_test"):
            computed.pop("mean_in_system_requests", None)
        run = {**computed, **{n: v for n, v in run.items() if not is_blank(v)}}
    return run, requests


def _day(date: str) -> str:
    digits = date[:8]
    is_day = len(digits) == 8 and digits.isascii() and digits.isdigit()
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:]}" if is_day else ""


def _latencies(fields: Fields) -> Cells:
    """Return what was measured; the tool writes 0 where it was not, as without streaming."""
    return {
        f"{statistic}_{kind}_s": fields.number(*(f"{w}_{name}_ms" for w in words), scale=1e-3)
        or math.nan
        for kind, name in KINDS.items()
        for statistic, words in STATISTICS.items()
    }


def _acceptance(fields: Fields, reading: Reading) -> Cells:
    """Return what the server's counters said over the run; no speculation where they are absent."""
    drafts = fields.count("spec_decode_num_drafts")
    drafted = fields.count("spec_decode_draft_tokens")
    rate = fields.number("spec_decode_acceptance_rate", scale=1e-2)
    if math.isnan(drafts) and math.isnan(rate):
        if any(name in fields.values for name in RECENT):
            reading.note(
                "the file has no counters of drafts, though its tool writes them where a vLLM "
                "server drafts: taken for a server without speculation (method none). Give method "
                "and num_speculative_tokens if it was another engine, or behind a proxy."
            )
            return {"method": "none", "num_speculative_tokens": 0}
        return {}
    positions = fields.numbers("spec_decode_per_position_acceptance_rates")
    if positions is not None and not ((positions >= 0) & (positions <= 1)).all():
        raise fields.wrong("spec_decode_per_position_acceptance_rates", "fractions from 0 to 1")
    cells: Cells = {
        "num_drafts": drafts,
        "num_draft_tokens": drafted,
        "num_accepted_tokens": fields.count("spec_decode_accepted_tokens"),
        "draft_acceptance_rate": rate,
        "mean_acceptance_length": fields.number("spec_decode_acceptance_length"),
    }
    if positions is not None:
        cells["num_speculative_tokens"] = len(positions)
        counts = np.rint(positions * drafts)
        if drafts > 0 and counts.sum() == cells["num_accepted_tokens"]:
            cells["accepted_per_position"] = ";".join(f"{n:.0f}" for n in counts)
        elif drafts > 0:  # rates of too few digits for counts
            cells["acceptance_per_position"] = ";".join(f"{p:.12g}" for p in positions)
        if math.isfinite(drafted) and drafts > 0 and drafted < 0.999 * drafts * len(positions):
            cells["num_draft_steps"] = drafted / drafts
            reading.note(
                f"{drafted / drafts:.3g} tokens were drafted per draft, of up to {len(positions)}: "
                "num_draft_steps is set to the mean."
            )
    elif drafts > 0 and math.isfinite(drafted):
        cells["num_speculative_tokens"] = float(math.ceil(drafted / drafts - 1e-3))
    return cells


def _requests(fields: Fields, reading: Reading) -> pd.DataFrame | None:
    """Return the table of finished requests of a detailed file."""
    ttft, start = fields.numbers("ttfts"), fields.numbers("start_times")
    if ttft is None or start is None:
        return None
    e2e = fields.numbers("latencies")
    if e2e is None:
        gaps = fields.items("itls")
        if len(gaps) != len(ttft) or not all(isinstance(g, list) for g in gaps):
            return None
        try:
            e2e = ttft + np.array([math.fsum(g) for g in gaps])
        except (TypeError, ValueError, OverflowError):
            raise fields.wrong("itls", "a list of lists of numbers") from None
    errors = fields.items("errors")
    failed = [bool(e) for e in errors] if len(errors) == len(ttft) else None
    frame, notes = requests_table(
        fields.place,
        start_s=start,
        e2e_s=e2e,
        ttft_s=ttft,
        input_len_tokens=fields.numbers("input_lens"),
        output_len_tokens=fields.numbers("output_lens"),
        failed=failed,
    )
    for message in notes:
        reading.note(message)
    return frame


def _load(fields: Fields, run: Cells, gaps: Any, reading: Reading) -> Cells:
    """Return how the run was loaded: open at a rate, closed at a cap, or all at once."""
    asked = fields.any_number("request_rate")
    cap = fields.count("max_concurrency") or math.nan  # 0 is none to the tool
    sent = fields.count("num_prompts")
    sent = sent if sent >= run["num_requests"] else run["num_requests"]
    if fields.text("ramp_up_strategy"):
        raise FormatError(
            f"{fields.at('ramp_up_strategy')} must be absent. Got "
            f"{short(fields.text('ramp_up_strategy'))} instead: the rate changed during the run, "
            "which has no one load. Run each rate by itself."
        )
    if asked <= 0:
        raise fields.wrong("request_rate", "above 0")
    if math.isinf(asked) and math.isnan(cap):
        return {"load_kind": "closed", "concurrency": run["num_requests"]} | {
            "is_throughput_test": True,
            "arrivals": "closed",
        }
    if math.isinf(asked):
        if sent <= cap:
            reading.note(
                f"{sent:.0f} requests at most {cap:.0f} at a time were all sent at once: a burst, "
                "not a steady load (is_throughput_test)."
            )
        return {
            "load_kind": "closed",
            "arrivals": "closed",
            "concurrency": cap,
            "is_throughput_test": bool(sent <= cap),
        }
    if math.isnan(asked):
        reading.note(
            "request_rate is missing, so the load is not known. Give load_kind='open' and "
            "request_rate_rps, or load_kind='closed' and concurrency, as side information."
        )
        return {"client_cap": cap}
    arrivals = _asked_arrivals(fields, reading)
    rate = asked
    if gaps is not None and math.isfinite(gaps.rate_rps):
        rate = gaps.rate_rps
        for message in arrival_notes(gaps, arrivals, asked, fields.place):
            reading.note(message)
        arrivals = measured_arrivals(gaps, arrivals)
    else:
        reading.note(
            "request_rate_rps is the rate asked for, as the file lists no send times: recent tools "
            "stretch their gaps so that they add up to requests / rate, the rate of older ones "
            "scatters by about 1 / sqrt(requests). completed / duration contains the drain."
        )
        _check_drain(fields, run, asked, reading)
    return {
        "load_kind": "open",
        "arrivals": arrivals,
        "request_rate_rps": rate,
        "target_rate_rps": asked,
        "client_cap": cap,
    }


def _asked_arrivals(fields: Fields, reading: Reading) -> str:
    """Name the arrivals by the shape of their gamma-distributed gaps: 1 is a Poisson process."""
    shape = fields.any_number("burstiness")
    if math.isnan(shape):
        return "poisson"
    if shape <= 0:
        raise fields.wrong("burstiness", "above 0")
    variation = shape**-0.5
    if variation < CONSTANT_VARIATION:
        return "constant"
    if variation < POISSON_VARIATION[0]:
        reading.note(
            f"gaps between requests vary by {variation:.2f} of their mean (burstiness {shape:g}), "
            "between constant and poisson: taken for poisson, which queues more."
        )
    return "bursty" if variation > POISSON_VARIATION[1] else "poisson"


def _check_drain(fields: Fields, run: Cells, asked: float, reading: Reading) -> None:
    """Compare the rate asked for with completed / (duration - one latency)."""
    latency = run.get("p99_e2e_s", math.nan)
    latency = latency if math.isfinite(latency) else run["mean_e2e_s"]
    left = run["_duration_s"] - latency
    if not left > 0 or run["num_requests"] < 20:
        return
    without_drain = run["num_requests"] / left
    if without_drain < 0.8 * asked:
        where = f"{fields.place}: " if fields.place else ""
        reading.note(
            f"{where}{run['num_requests']:.0f} requests in {run['_duration_s']:.3g} s, of which "
            f"the last took about {latency:.3g} s, make {without_drain:.3g} per second, not the "
            f"{asked:.3g} asked for: the client or the server fell behind."
        )
