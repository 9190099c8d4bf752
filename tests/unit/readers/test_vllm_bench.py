"""Results of vllm bench serve: real files of three versions, against what is known of them.

Figures of the measured runs (vLLM 0.32.0) come from the data set's own table, which was made from
the same files by another route; the others are what the tool printed, typed in from the files.
"""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from bayes_sd.readers import vllm_bench
from bayes_sd.readers.content import Content
from tests.damaged_results import are_sound, checked, damaged, read, written

FILES = Path(__file__).parents[2] / "files"
OURS = FILES / "vllm_bench"
EAGLE3 = json.loads((OURS / "open_loop_eagle3_0.14.1.json").read_text())
OLD = json.loads((OURS / "old_fork_closed_loop_conc4.json").read_text())
DETAILED = json.loads((OURS / "detailed_k3_0.32.json").read_text())

# File, then figures of the data set: requests, rate, mean in system, mean e2e, p95 ttft, mean
# tpot, p99 itl, drafts, accepted drafts by position. Times in seconds.
MEASURED = {
    "vllm_bench/detailed_k3_0.32.json": (
        120, 3.9994, 3.756, 0.952081, 0.114924, 0.013813, 0.077007, 2436, "2074;1737;1488",
    ),
    "vllm_bench/detailed_dynamic_drafts_0.32.json": (
        14, 0.3726, 0.285, 0.690727, 0.085304, 0.009858, 0.054955, 221, "179;152;135;120;100",
    ),
    "vllm_cpu/dense_a85_k3/rep5_rate0.4.json": (
        14, 0.3922, 0.28, 0.777896, 0.098657, 0.011248, 0.044655, 290, "248;197;166",
    ),
    "vllm_cpu/dense_a85_k3/rep5_rate2.json": (
        60, 1.9977, 1.81, 0.843976, 0.113236, 0.012199, 0.068868, 1221, "1030;864;732",
    ),
    "vllm_cpu/dense_k0/rep5_rate0.4.json": (
        14, 0.3922, 0.625, 1.743352, 0.082289, 0.026697, 0.033718, None, "",
    ),
}  # fmt: skip


def only(reading):
    assert reading.skipped == []
    (run,) = reading.runs
    return run


def read_file(path: Path):
    content = Content(path)
    assert vllm_bench.recognises(content.sample)
    return vllm_bench.read(content)


@pytest.mark.parametrize("name", MEASURED)
def test_measured_runs(name):
    requests, rate, in_system, e2e, ttft, tpot, itl, drafts, positions = MEASURED[name]
    reading = read_file(FILES / name)
    run = only(reading)
    assert run["num_requests"] == requests
    assert run["request_rate_rps"] == pytest.approx(rate, abs=1e-4)
    assert run["mean_in_system_requests"] == pytest.approx(in_system, abs=6e-4)
    assert run["mean_e2e_s"] == pytest.approx(e2e, abs=1e-6)
    assert run["p95_ttft_s"] == pytest.approx(ttft, abs=1e-6)
    assert run["mean_tpot_s"] == pytest.approx(tpot, abs=1e-6)
    assert run["p99_itl_s"] == pytest.approx(itl, abs=1e-6)
    assert run.get("num_drafts") == drafts
    assert run.get("accepted_per_position", "") == positions
    assert (run["load_kind"], run["arrivals"]) == ("open", "poisson")
    assert (run["input_len_tokens"], run["output_len_tokens"]) == (64, 64)
    assert run["date"] == "2026-12-01"
    assert len(reading.requests[0]) == requests
    checked(reading.runs)


def test_statistics_are_those_of_the_list_of_requests():
    """By numpy from the send times, latencies and lengths, not by the tool's summary."""
    bare = {k: v for k, v in DETAILED.items() if not k.endswith("_ms")} | {"mean_ttft_ms": 81.887}
    e2e, ttft = np.array(DETAILED["latencies"]), np.array(DETAILED["ttfts"])
    run, _ = vllm_bench._run(vllm_bench.Fields(bare), vllm_bench.Reading())
    assert run["mean_e2e_s"] == pytest.approx(e2e.mean())
    assert run["p95_e2e_s"] == pytest.approx(np.percentile(e2e, 95))
    assert run["p90_tpot_s"] == pytest.approx(np.percentile((e2e - ttft) / 63, 90))
    assert run["mean_ttft_s"] == 0.081887  # the tool's own figure is used where there is one


def test_latencies_of_versions_that_list_gaps_only(tmp_path):
    """Before 0.30 there is no list of latencies: they are the first token and the gaps."""
    older = {k: v for k, v in DETAILED.items() if k not in ("latencies", "queue_times")}
    reading = read(vllm_bench, tmp_path / "a.json", older)
    np.testing.assert_allclose(reading.requests[0]["e2e_s"], DETAILED["latencies"], atol=1e-3)


def test_version_0_14_1_with_speculation():
    reading = read_file(OURS / "open_loop_eagle3_0.14.1.json")
    run = only(reading)
    assert run["verifier"] == "/models/nvidia/Llama-3.3-70B-Instruct-FP8"
    assert run["engine"] == "vllm"  # only its servers have the counters
    assert run["num_requests"] == 300
    assert run["input_len_tokens"] == pytest.approx(1741762 / 300)
    assert run["output_len_tokens"] == pytest.approx(248481 / 300)
    assert run["request_rate_rps"] == run["target_rate_rps"] == 1.0
    assert run["completed_rate_rps"] == 0.8812106518654853
    assert run["mean_e2e_s"] == pytest.approx(57.25666473235271)
    assert run["p99_ttft_s"] == pytest.approx(8.517251679072795)
    assert run["p95_itl_s"] == pytest.approx(0.08745844464719993)
    assert "p90_e2e_s" not in run
    # 52 of 744,390 drafts accepted, of 248,130 drafts of 3; the file's rate is a percentage.
    assert run["num_speculative_tokens"] == 3
    assert run["draft_acceptance_rate"] == pytest.approx(52 / 744390)
    assert run["mean_acceptance_length"] == pytest.approx(1 + 52 / 248130)
    assert run["accepted_per_position"] == "52;0;0"
    assert "method" not in run
    assert reading.requests == [None]
    assert any("rate asked for" in note for note in reading.notes)
    checked(reading.runs)


def test_version_0_14_1_without_counters_does_not_say_whether_it_drafted():
    """Its peaks are older than the counters: files of 0.11 to 0.13 look the same and may draft."""
    reading = read_file(OURS / "open_loop_no_speculation_0.14.1.json")
    run = only(reading)
    assert run["mean_tpot_s"] == pytest.approx(0.03472775747211188)
    assert "method" not in run
    assert "num_speculative_tokens" not in run
    checked(reading.runs)


def test_a_file_newer_than_the_counters_and_without_them_did_not_draft():
    run = only(reading := read_file(FILES / "vllm_cpu/dense_k0/rep5_rate0.4.json"))
    assert (run["method"], run["num_speculative_tokens"]) == ("none", 0)
    assert any("method none" in note for note in reading.notes)


def test_the_older_fork():
    reading = read_file(OURS / "old_fork_closed_loop_conc4.json")
    run = only(reading)
    assert "request_goodput:" in OLD
    assert run["verifier"] == "moonshotai/Kimi-K2.5"
    assert (run["load_kind"], run["concurrency"], run["arrivals"]) == ("closed", 4, "closed")
    assert run["is_throughput_test"] is False
    assert run["num_requests"] == 40
    assert run["input_len_tokens"] == pytest.approx(926.7)
    assert run["output_len_tokens"] == pytest.approx(917.725)
    assert run["mean_e2e_s"] == pytest.approx(16.17588243483915)
    assert run["p90_ttft_s"] == pytest.approx(0.35386848766356724)
    assert run["mean_itl_s"] == pytest.approx(0.04869889880906398)
    assert "request_rate_rps" not in run
    checked(reading.runs)


def test_a_burst_is_no_latency_point():
    run = only(read_file(OURS / "detailed_burst_0.32.json"))
    assert run["is_throughput_test"] is True
    assert (run["load_kind"], run["concurrency"], run["num_requests"]) == ("closed", 128, 128)
    assert run["completed_rate_rps"] == pytest.approx(14.1634, abs=1e-4)
    assert "request_rate_rps" not in run
    assert "mean_in_system_requests" not in run
    checked([run])


def test_drafts_shorter_than_the_longest():
    """The schedule drafts 5 tokens up to 8 requests: 1105 tokens of 221 drafts, almost all of 5."""
    run = only(read_file(OURS / "detailed_dynamic_drafts_0.32.json"))
    assert run["num_speculative_tokens"] == 5
    assert run["num_draft_tokens"] == 1105
    assert "num_draft_steps" not in run
    fewer = copy.deepcopy(DETAILED) | {
        "spec_decode_num_drafts": 1000,
        "spec_decode_draft_tokens": 2200,
        "spec_decode_accepted_tokens": 900,
        "spec_decode_acceptance_rate": 100 * 900 / 2200,
        "spec_decode_acceptance_length": 1.9,
        "spec_decode_per_position_acceptance_rates": [0.5, 0.3, 0.1],
    }
    reading = vllm_bench.Reading()
    run, _ = vllm_bench._run(vllm_bench.Fields(fewer), reading)
    assert run["num_draft_steps"] == pytest.approx(2.2)
    assert run["accepted_per_position"] == "500;300;100"
    assert any(
        note.startswith("2.2 tokens were drafted per draft, of up to 3") for note in reading.notes
    )
    checked([run])


def test_several_runs_in_one_file(tmp_path):
    """With --append-result one file holds one object a line."""
    reading = read(vllm_bench, tmp_path / "runs.json", EAGLE3, OLD, EAGLE3 | {"request_rate": 2.0})
    assert [run["_entry"] for run in reading.runs] == ["line 1", "line 2", "line 3"]
    assert [run.get("request_rate_rps") for run in reading.runs] == [1.0, None, 2.0]
    checked(reading.runs)


def test_a_list_of_runs(tmp_path):
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([EAGLE3, OLD], indent=1))
    assert [run["_entry"] for run in read_file(path).runs] == ["entry 1", "entry 2"]


@pytest.mark.parametrize(
    "sample",
    [
        None,
        [],
        {},
        3,
        "x",
        [[EAGLE3]],
        {k: v for k, v in EAGLE3.items() if not k.endswith("_ms")},
        EAGLE3 | {"accept_length": 2.0},
        EAGLE3 | {"mean_e2e_latency_ms": 2.0},
        {"hw": "h200", "conc": 4},
    ],
)
def test_other_results_are_not_recognised(sample):
    assert not vllm_bench.recognises(sample)


def test_deeply_nested_lists_are_not_recognised():
    deep = []
    for _ in range(10_000):
        deep = [deep]
    assert not vllm_bench.recognises(deep)


@given(result=damaged(DETAILED) | damaged(EAGLE3) | damaged(OLD))
@settings(max_examples=150, deadline=None)
def test_damaged_results_give_runs_or_reasons(tmp_path_factory, result):
    content = Content(written(tmp_path_factory.mktemp("a") / "a.json", result, EAGLE3))
    assert vllm_bench.recognises(content.sample) in (True, False)
    reading = vllm_bench.read(content)
    assert len(reading.runs) + len(reading.skipped) == 2
    assert are_sound(reading.runs)
