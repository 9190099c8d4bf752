"""Loads of GuideLLM runs by strategy, and layouts of versions of which no file is at hand."""

import numpy as np
import pytest

from tests.unit.readers.guidellm_reports import (
    benchmark,
    checked,
    listed,
    metric,
    read,
    report,
    said,
)


def test_report_of_0_6_with_streams_kept_in_flight(tmp_path):
    kept = benchmark({"type_": "concurrent", "streams": 4})
    idle = benchmark({"type_": "concurrent", "streams": 16})
    reading = read(tmp_path, report(kept, idle))
    first, second = reading.runs
    assert (first["load_kind"], first["concurrency"], second["concurrency"]) == ("closed", 4, 16)
    assert first["verifier"] == "org/model"
    assert first["_sweep"] == "run-7"
    assert first["mean_tpot_s"] == pytest.approx(0.8 / 64)  # not the 1 / 65 of the other metric
    assert "request_rate_rps" not in first
    assert said(reading, "entry 2", "4 of 16")
    assert not said(reading, "entry 1:")
    checked(reading)


def test_rate_is_derived_from_totals_where_no_request_is_listed(tmp_path):
    strategy = {"type_": "constant", "rate": 4.2, "max_concurrency": 128}
    reading = read(tmp_path, report(benchmark(strategy)))
    (run,) = reading.runs
    assert run["request_rate_rps"] == pytest.approx((200 + 10) / 50)
    assert run["target_rate_rps"] == 4.2
    assert run["arrivals"] == "constant"
    assert said(reading, "(finished + cut off + failed) / duration")
    checked(reading)


def test_rate_of_a_run_that_was_answered_to_the_end_leaves_the_drain_out(tmp_path):
    """201 requests sent at 4 per second take 50 s, and the last answer one more."""
    strategy = {"type_": "constant", "rate": 4.0}
    reading = read(tmp_path, report(benchmark(strategy, done=201, cut=0, duration=51.0)))
    assert reading.runs[0]["request_rate_rps"] == pytest.approx(4.0)
    assert said(reading, "duration - mean latency")
    burst = benchmark(strategy, done=201, cut=0, duration=51.0, latency=45.0)
    reading = read(tmp_path, report(burst))
    assert "request_rate_rps" not in reading.runs[0]
    assert said(reading, "cannot be derived", "side information")


def test_rate_far_from_the_one_asked_for_is_said(tmp_path):
    reading = read(tmp_path, report(benchmark({"type_": "poisson", "rate": 9.0})))
    assert reading.runs[0]["request_rate_rps"] == pytest.approx(4.2)
    assert said(reading, "4.2", "9 asked for")


def test_run_near_its_cap_is_called_closed_in_fact(tmp_path):
    strategy = {"type_": "constant", "rate": 4.2, "max_concurrency": 32}
    near = read(tmp_path, report(benchmark(strategy, in_flight=30.0)))
    assert said(near, "30 requests were in flight", "at most 32", "closed in fact")
    assert not said(read(tmp_path, report(benchmark(strategy, in_flight=20.0))), "closed in fact")


def test_throughput_whose_cap_was_never_met(tmp_path):
    strategy = {"type_": "throughput", "max_concurrency": 10240}
    (run,) = read(tmp_path, report(benchmark(strategy, in_flight=150.0))).runs
    assert (run["concurrency"], run["is_throughput_test"]) == (150, True)


def test_strategy_that_is_not_known_leaves_the_load_to_the_user(tmp_path):
    reading = read(tmp_path, report(benchmark({"type_": "wave"}), benchmark({})))
    assert all("load_kind" not in run for run in reading.runs)
    assert said(reading, "'wave'", "load_kind")
    assert said(reading, "entry 2", "no strategy")


def test_trace_has_the_arrivals_that_were_measured(tmp_path):
    entry = benchmark({"type_": "trace", "time_scale": 1.0}, done=100, cut=0, duration=100.0)
    for gaps, name in ((np.ones(100), "constant"), (np.tile([0.01] * 9 + [9.91], 10), "bursty")):
        entry["requests"]["successful"] = listed(1.77e9 + np.cumsum(gaps))
        reading = read(tmp_path, report(entry))
        (run,) = reading.runs
        assert run["arrivals"] == name
        assert run["request_rate_rps"] == pytest.approx(99 / (gaps.sum() - gaps[0]))
        assert "target_rate_rps" not in run
    entry["requests"]["successful"] = []
    assert "arrivals" not in read(tmp_path, report(entry)).runs[0]


def test_even_arrivals_are_measured(tmp_path):
    entry = benchmark({"type_": "constant", "rate": 4.0}, done=200, cut=0)
    entry["requests"]["successful"] = listed(1.77e9 + np.arange(200) / 4.0)[::-1]
    reading = read(tmp_path, report(entry))
    assert reading.runs[0]["request_rate_rps"] == pytest.approx(4.0)
    assert reading.runs[0]["arrivals"] == "constant"
    assert not said(reading, "entry 1:")


def test_list_that_contradicts_the_figures_is_said(tmp_path):
    entry = benchmark({"type_": "constant", "rate": 4.0}, done=200, cut=0)
    entry["requests"]["successful"] = listed(1.77e9 + np.arange(200) / 4.0, latency=2.0)
    reading = read(tmp_path, report(entry))
    assert said(reading, "mean_e2e_s is 1 in the file and 2 by its own list")
    assert reading.runs[0]["mean_e2e_s"] == 1.0


def test_failed_requests_are_counted(tmp_path):
    entry = benchmark({"type_": "constant", "rate": 4.3})
    entry["metrics"]["request_totals"]["errored"] = 5
    reading = read(tmp_path, report(entry))
    assert said(reading, "requests failed: 5 of 215 (entry 1)")
    assert reading.runs[0]["request_rate_rps"] == pytest.approx(215 / 50)


def test_answers_that_were_not_streamed_have_no_time_to_first_token(tmp_path):
    entry = benchmark({"type_": "constant", "rate": 4.0})
    for name in ("time_to_first_token_ms", "inter_token_latency_ms"):
        entry["metrics"][name] = metric(0.0, 200, 10)
    reading = read(tmp_path, report(entry))
    assert not any("ttft" in name or "tpot" in name for name in reading.runs[0])
    assert said(reading, "not streamed")
    checked(reading)


def test_output_rate_printed_as_a_mean_over_requests_is_not_taken(tmp_path):
    """As version 0.4 prints it: 65 tokens in 1 s each, where the run made 260 a second."""
    entry = benchmark({"type_": "constant", "rate": 4.0})
    entry["metrics"]["output_tokens_per_second"] = metric(65.0, 200)
    reading = read(tmp_path, report(entry))
    assert reading.runs[0]["output_tokens_per_s"] == pytest.approx(200 * 65 / 50)
    assert said(reading, "tokens / duration")


def test_layout_of_0_4_with_strategy_under_scheduler(tmp_path):
    """Strategy, totals and run_id where the code of 0.4 keeps them; no file of it is at hand."""
    entry = benchmark({})
    entry["request_totals"] = entry["metrics"].pop("request_totals")
    entry["run_id"] = "run-4"
    del entry["config"]
    entry["scheduler"] = {"strategy": {"type_": "concurrent", "streams": 4}, "constraints": {}}
    entry["benchmarker"] = {"backend": {"model": "m4", "type_": "vllm_python"}}
    reading = read(tmp_path, {"benchmarks": [entry]})
    (run,) = reading.runs
    assert (run["concurrency"], run["num_requests"], run["_sweep"]) == (4, 200, "run-4")
    assert (run["verifier"], run["engine"]) == ("m4", "vllm")
