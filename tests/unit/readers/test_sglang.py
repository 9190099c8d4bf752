"""Results of SGLang's bench_serving: figures as printed, the server's account, loads, bad input.

The files are built (see their README); expected figures are typed in from what they print.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from bayes_sd.exceptions import FormatError
from bayes_sd.readers import sglang, vllm_bench
from bayes_sd.readers.content import Content
from tests.damaged_results import are_sound, checked, damaged, read, written

FILES = Path(__file__).parents[2] / "files" / "sglang"
OPEN, CLOSED, TREE = (
    json.loads(line) for line in (FILES / "built_2026.jsonl").read_text().splitlines()
)
OLDER = json.loads((FILES / "built_refactored_module.jsonl").read_text())
EAGLE3 = CLOSED["server_info"]


@pytest.fixture
def run_of(tmp_path):
    """Read one result with some fields changed; return its run and the reading."""

    def of(base, **changes):
        result = {k: v for k, v in (base | changes).items() if v != "absent"}
        reading = read(sglang, tmp_path / "a.jsonl", result)
        return (reading.runs[0] if reading.runs else None), reading

    return of


def test_several_runs_in_one_file():
    content = Content(FILES / "built_2026.jsonl")
    assert sglang.recognises(content.sample)
    reading = sglang.read(content)
    assert reading.skipped == []
    assert [run["_entry"] for run in reading.runs] == ["line 1", "line 2", "line 3"]
    assert [run["note"] for run in reading.runs[:2]] == ["off", "k3"]
    checked(reading.runs)


def test_an_open_run_without_speculation(run_of):
    run, reading = run_of(OPEN)
    assert run["engine"] == "sglang"
    assert run["engine_version"] == "0.5.9"
    assert run["verifier"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert (run["method"], run["num_speculative_tokens"]) == ("none", 0)
    assert (run["tensor_parallel_size"], run["max_num_seqs"]) == (2, 48)
    assert "dtype" not in run  # auto
    assert run["num_requests"] == 24
    assert run["input_len_tokens"] == 2394 / 24
    assert run["output_len_tokens"] == 1326 / 24
    assert run["mean_e2e_s"] == pytest.approx(0.622458042)
    assert run["p99_e2e_s"] == pytest.approx(0.81102879)
    assert run["p50_ttft_s"] == pytest.approx(0.0601995)
    assert run["p90_tpot_s"] == pytest.approx(0.011564512)
    assert run["mean_itl_s"] == pytest.approx(0.010423337)  # one token a delivery
    assert run["mean_in_system_requests"] == pytest.approx(2.171004)
    assert (run["load_kind"], run["arrivals"]) == ("open", "poisson")
    assert run["request_rate_rps"] == run["target_rate_rps"] == 4.0
    assert run["completed_rate_rps"] == pytest.approx(3.487792)
    assert run["workload"] == "random"
    assert reading.requests == [None]
    assert any("the file lists no send times" in note for note in reading.notes)


def test_a_closed_run_with_eagle3(run_of):
    run, reading = run_of(CLOSED)
    assert (run["load_kind"], run["concurrency"], run["arrivals"]) == ("closed", 4, "closed")
    assert run["is_throughput_test"] is False
    assert "request_rate_rps" not in run
    assert (run["method"], run["num_speculative_tokens"]) == ("eagle3", 3)
    assert run["drafter"] == "lmsys/sglang-EAGLE3-LLaMA3.1-Instruct-8B"
    assert run["dtype"] == "fp8"
    assert "num_draft_steps" not in run
    assert run["mean_acceptance_length"] == 2.71
    assert run["mean_tpot_s"] == pytest.approx(0.005010634)
    assert not any("itl" in name for name in run)
    assert sum("itl is left out" in note for note in reading.notes) == 1
    assert sum("runs of one server blend" in note for note in reading.notes) == 1


def test_a_tree_with_send_times(run_of):
    """Of 8 verified tokens one is the last accepted: 7 are drafted, in 5 levels."""
    run, reading = run_of(TREE)
    assert run["num_speculative_tokens"] == 7
    assert run["num_draft_steps"] == 5
    assert run["num_verified_tokens"] == 8
    start = np.array(TREE["start_times"])
    assert run["request_rate_rps"] == pytest.approx(23 / (start[-1] - start[0]))
    assert run["target_rate_rps"] == 4.0
    assert run["client_cap"] == 64
    assert len(reading.requests[0]) == 24
    assert not any("send times" in note for note in reading.notes)


def test_the_refactored_module(run_of):
    run, reading = run_of(OLDER)
    assert run["input_len_tokens"] == 1251 / 12
    assert run["output_len_tokens"] == 687 / 12
    assert run["mean_e2e_s"] == pytest.approx(0.333144167)
    assert run["mean_acceptance_length"] == 2.4
    assert "method" not in run
    assert "verifier" not in run
    # Not printed, but of the lists: by numpy.
    ttft = np.array(OLDER["ttfts"])
    e2e = ttft + np.array([sum(gaps) for gaps in OLDER["itls"]])
    tpot = (e2e - ttft) / (np.array(OLDER["output_lens"]) - 1)
    assert run["p90_ttft_s"] == pytest.approx(np.percentile(ttft, 90))
    assert run["p95_e2e_s"] == pytest.approx(np.percentile(e2e, 95), rel=1e-5)
    assert run["p90_tpot_s"] == pytest.approx(np.percentile(tpot, 90), rel=1e-5)
    assert run["request_rate_rps"] == 4.0
    assert reading.requests == [None]
    checked(reading.runs)


@pytest.mark.parametrize(
    ("backend", "accept", "engine", "has_itl"),
    [
        ("sglang", None, "sglang", False),
        ("sglang-native", 2.0, "sglang", False),
        ("sglang-oai", None, "sglang", True),
        ("sglang-oai-chat", 2.0, "sglang", False),
        ("vllm", None, "vllm", True),
        ("vllm-chat", None, "vllm", True),
        ("lmdeploy", None, "lmdeploy", True),
        ("trt", None, "tensorrt-llm", True),
        ("truss", None, None, True),
    ],
)
def test_itl_is_kept_where_it_is_between_deliveries(run_of, backend, accept, engine, has_itl):
    run, _ = run_of(OPEN, backend=backend, accept_length=accept, server_info=None)
    assert run.get("engine") == engine
    assert ("mean_itl_s" in run) == has_itl


@pytest.mark.parametrize(
    ("rate", "cap", "expected"),
    [
        (math.inf, None, ("closed", 24, True)),
        (math.inf, 24, ("closed", 24, True)),
        (math.inf, 64, ("closed", 64, True)),
        ("inf", 8, ("closed", 8, False)),
        (4.0, 8, ("open", None, None)),
        ("trace", None, (None, None, None)),
        (None, None, (None, None, None)),
    ],
)
def test_loads(run_of, rate, cap, expected):
    run, reading = run_of(OPEN, request_rate=rate, max_concurrency=cap)
    found = tuple(run.get(n) for n in ("load_kind", "concurrency", "is_throughput_test"))
    assert found == expected
    assert ("mean_in_system_requests" in run) == (expected[2] is not True)
    assert any("the load is not known" in n for n in reading.notes) == (expected[0] is None)


def test_a_replayed_trace_is_measured_from_its_send_times(run_of):
    for changes in ({"request_rate": "trace"}, {"dataset_name": "mooncake"}):
        run, _ = run_of(TREE, **changes)
        assert run["load_kind"] == "open"
        assert run["request_rate_rps"] == pytest.approx(3.5, rel=0.5)
        assert "target_rate_rps" not in run


def test_conversations_have_no_count_of_prompt_tokens(run_of):
    run, reading = run_of(OPEN, total_input_tokens=0)
    assert "input_len_tokens" not in run
    assert any("several turns" in note for note in reading.notes)


def test_failed_requests_are_left_out_of_the_lists(run_of):
    changes = {"completed": 22, "successes": [i not in (0, 5) for i in range(24)]}
    _, reading = run_of(TREE, **changes)
    assert len(reading.requests[0]) == 22
    errors = ["" if i not in (0, 5, 6) else "Traceback" for i in range(24)]
    _, reading = run_of(TREE, successes="absent", errors=errors)
    assert len(reading.requests[0]) == 21


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"completed": 0, "mean_e2e_latency_ms": math.nan}, "completed must be at least 1. Got 0"),
        ({"completed": "x"}, "completed must be a number. Got 'x'"),
        ({"duration": -1}, "duration must be at least 0"),
        ({"mean_ttft_ms": "fast"}, "mean_ttft_ms must be a number"),
        ({"request_rate": 0}, "request_rate must be above 0"),
        ({"request_rate": "fast"}, "request_rate must be a number"),
        ({"server_info": [1]}, "server_info: must be a JSON object"),
        ({"server_info": {"decode": [3]}}, "must be a JSON object. Got 3"),
        ({"server_info": {"speculative_algorithm": 3}}, "speculative_algorithm must be text"),
        ({"server_info": EAGLE3 | {"speculative_num_steps": "3 x"}}, "num_steps must be a number"),
        ({"ttfts": [1, "x"]}, "ttfts must be a list of numbers"),
        ({"ttfts": [1], "itls": [["x"]]}, "itls must be a list of lists of numbers"),
        ({"ttfts": [1], "itls": [[math.inf, -math.inf]]}, "itls must be a list of lists"),
    ],
)
def test_a_run_that_cannot_be_read_is_skipped_with_the_reason(tmp_path, changes, reason):
    reading = read(sglang, tmp_path / "a.jsonl", OPEN, OPEN | changes)
    assert len(reading.runs) == 1
    (skipped,) = reading.skipped
    assert skipped.startswith("line 2: ")
    assert reason in skipped


@pytest.mark.parametrize(
    "changes",
    [
        {"mean_e2e_latency_ms": math.nan, "accept_length": 0.5},
        {"start_times": TREE["start_times"][::-1]},
        {"start_times": [math.nan] * 24},
        {"start_times": [1e308, -1e308] * 12},
        {"latencies": [-1.0] * 24},
        {"successes": [False] * 24},
        {"latencies": "absent", "itls": []},
        {"concurrency": math.nan, "duration": 0},
        {"ttfts": [], "itls": 3},
    ],
)
def test_lists_that_cannot_be_leave_the_summary(run_of, changes):
    run, _ = run_of(TREE, **changes)
    assert run["mean_tpot_s"] == pytest.approx(0.005010634)
    checked([run])


def test_a_line_that_was_cut_takes_no_other_with_it(tmp_path):
    path = written(tmp_path / "a.jsonl", OPEN, CLOSED)
    path.write_bytes(path.read_bytes()[:-500])
    reading = sglang.read(Content(path))
    assert len(reading.runs) == 1
    assert reading.skipped[0].startswith("line 2 is no JSON")
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(FormatError, match="is no JSON"):
        sglang.read(Content(path))


@pytest.mark.parametrize(
    ("sample", "known"),
    [
        (OPEN, True),
        ([OPEN], True),
        (OLDER, True),
        ({k: v for k, v in OPEN.items() if k not in ("concurrency", "accept_length")}, True),
        ({k: v for k, v in OPEN.items() if k != "mean_e2e_latency_ms"}, False),
        ([[OPEN]], False),
        ({}, False),
        ([], False),
        (None, False),
    ],
)
def test_recognition(sample, known):
    assert sglang.recognises(sample) is known
    assert not vllm_bench.recognises(sample)


@given(result=damaged(OPEN) | damaged(CLOSED) | damaged(TREE) | damaged(OLDER))
@settings(max_examples=150, deadline=None)
def test_damaged_results_give_runs_or_reasons(tmp_path_factory, result):
    content = Content(written(tmp_path_factory.mktemp("a") / "a.jsonl", result, OPEN))
    assert sglang.recognises(content.sample) in (True, False)
    reading = sglang.read(content)
    assert len(reading.runs) + len(reading.skipped) == 2
    assert are_sound(reading.runs)
