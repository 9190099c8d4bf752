"""Rows of InferenceX's web API, replays of agents, token positions: built from their fields."""

import json

import pytest
from hypothesis import given, settings

from bayes_sd.readers import inferencex, sglang, vllm_bench
from bayes_sd.readers.content import Content
from tests.damaged_results import are_sound, checked, damaged, read, written

# 640 requests of 7,400 and 920 tokens in 400 s at 5,000 W: energy per request, rounded as there.
REQUESTS, INPUTS, OUTPUTS, DURATION_S, POWER_W = 640, 640 * 7400, 640 * 920, 400.0, 5000.0
ENERGY_J = DURATION_S * POWER_W
ROW = {
    "id": "1",
    "hardware": "b200",
    "framework": "vllm",
    "model": "dsv4",
    "precision": "fp4",
    "spec_method": "none",
    "disagg": False,
    "is_multinode": False,
    "decode_tp": 8,
    "decode_ep": 8,
    "decode_dp_attention": True,
    "num_prefill_gpu": 64,
    "num_decode_gpu": 64,
    "benchmark_type": "single_turn",
    "isl": 8192,
    "osl": 1024,
    "conc": 64,
    "image": "vllm/vllm-openai:v0.30.0",
    "metrics": {
        "mean_e2el": 39.0,
        "mean_ttft": 1.0,
        "mean_tpot": 38.0 / 919,
        "median_tpot": 0.041,
        "p99_itl": 0.5,
        "input_tput_per_gpu": INPUTS / DURATION_S / 8,
        "output_tput_per_gpu": OUTPUTS / DURATION_S / 8,
        "power_valid": 1,
        "avg_total_gpu_power_w": POWER_W,
        "total_gpu_energy_j": ENERGY_J,
        "joules_per_successful_query": round(ENERGY_J / REQUESTS, 6),
        "joules_per_input_token": round(ENERGY_J / INPUTS, 6),
        "joules_per_output_token": round(ENERGY_J / OUTPUTS, 6),
    },
    "date": "2026-09-03",
    "run_url": "https://github.com/SemiAnalysisAI/InferenceX/actions/runs/1",
}
AGENTS = {
    "hw": "h200",
    "conc": 16,
    "framework": "sglang",
    "scenario_type": "agentic-coding",
    "num_requests_successful": 10,
    "request_metrics": {"latency": {"ttft": {"mean": 1.25}, "e2el": {"mean": 9.0}}},
}
POSITIONS = {
    "date": "20260301-101010",
    "model_id": "MiniMaxAI/MiniMax-M2.5",
    "num_prompts": 200,
    "request_rate": "inf",
    "burstiness": 1.0,
    "max_concurrency": 32,
    "duration": 100.0,
    "completed": 200,
    "good_completed": 150,
    "total_input_tokens": 204800,
    "total_output_tokens": 25600,
    "request_throughput": 2.0,
    "input_throughput": 2048.0,
    "output_throughput": 256.0,
    "median_ttft": 0.5,
    "p99_ttft": 1.5,
    "median_e2el": 12.0,
    "p99_e2el": 16.0,
    "median_tpot": 0.09,
    "p99_tpot": 0.12,
}


@pytest.fixture
def run_of(tmp_path):
    """Read one result with some fields changed; return its run and the reading."""

    def of(base, **changes):
        result = {k: v for k, v in (base | changes).items() if v != "absent"}
        reading = read(inferencex, tmp_path / "a.json", result)
        return (reading.runs[0] if reading.runs else None), reading

    return of


def notes(reading) -> str:
    return " | ".join(reading.notes)


def test_rows_of_the_web_api(tmp_path):
    """Energy over energy per request and per token: what was counted, not the nominal lengths."""
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([ROW, ROW | {"conc": 128, "spec_method": "mtp"}], indent=1))
    reading = inferencex.read(Content(path))
    assert reading.skipped == []
    first, second = reading.runs
    assert first["num_requests"] == REQUESTS
    assert first["input_len_tokens"] == pytest.approx(7400, rel=1e-5)
    assert first["output_len_tokens"] == pytest.approx(920, rel=1e-5)
    assert first["completed_rate_rps"] == pytest.approx(1.6)
    assert first["output_tokens_per_s"] == pytest.approx(1472, rel=1e-5)
    assert (first["method"], first["num_speculative_tokens"]) == ("none", 0)
    assert first["concurrency"] == 64
    assert second["concurrency"] == 128
    assert first["tensor_parallel_size"] == 8
    assert first["date"] == "2026-09-03"
    assert first["note"].startswith("decode_dp_attention, https://")
    assert "short name of the web API" in notes(reading)
    checked(reading.runs)


@pytest.mark.parametrize(
    "changes",
    [
        {"power_valid": 0},
        {"total_gpu_energy_j": None},
        {"joules_per_successful_query": ENERGY_J / 640.5},
        {"joules_per_successful_query": 1e-300},
        {"joules_per_output_token": 1e9},
    ],
)
def test_energy_that_tells_nothing_leaves_the_latencies(run_of, changes):
    run, _ = run_of(ROW, metrics=ROW["metrics"] | changes)
    assert "num_requests" not in run
    assert run["output_len_tokens"] == pytest.approx(920)
    assert run["input_len_tokens"] == pytest.approx(7400)
    assert "completed_rate_rps" not in run  # the counts of GPUs in rows cannot be trusted
    checked([run])


@pytest.mark.parametrize(
    "agents", [AGENTS, ROW | {"benchmark_type": "agentic_traces"}, AGENTS | {"scenario_type": ""}]
)
def test_agents_sessions_are_refused_with_the_reason(run_of, agents):
    run, reading = run_of(agents)
    assert run is None
    assert "sessions" in reading.skipped[0]


def test_token_positions(run_of):
    run, reading = run_of(POSITIONS)
    assert run["p50_e2e_s"] == 12.0
    assert run["p99_tpot_s"] == 0.12
    assert not any(name.startswith("mean_") for name in run)
    assert run["num_requests"] == 200
    assert (run["input_len_tokens"], run["output_len_tokens"]) == (1024, 128)
    assert (run["load_kind"], run["concurrency"]) == ("closed", 32)
    assert run["is_throughput_test"] is False
    assert "no means" in notes(reading)
    checked([run])
    run, _ = run_of(POSITIONS, request_rate=2.5)
    assert (run["load_kind"], run["request_rate_rps"], run["client_cap"]) == ("open", 2.5, 32)
    checked([run])
    assert run_of(POSITIONS, max_concurrency=None)[0]["is_throughput_test"] is True
    assert "load_kind" not in run_of(POSITIONS, request_rate=None)[0]


@pytest.mark.parametrize(
    ("base", "changes", "reason"),
    [
        (ROW, {"metrics": {"median_intvty": 30}}, "mean_e2el is missing, as are all latencies"),
        (ROW, {"metrics": [1]}, "metrics: must be a JSON object"),
        (POSITIONS, {"completed": 0}, "completed must be at least 1"),
        (POSITIONS, {"request_rate": -1}, "request_rate must be above 0"),
    ],
)
def test_a_run_that_cannot_be_read_is_skipped_with_the_reason(tmp_path, base, changes, reason):
    reading = read(inferencex, tmp_path / "a.jsonl", base, base | changes)
    assert len(reading.runs) == 1
    (skipped,) = reading.skipped
    assert skipped.startswith("line 2: ")
    assert reason in skipped


@pytest.mark.parametrize("sample", [ROW, [ROW], AGENTS, POSITIONS])
def test_recognition(sample):
    assert inferencex.recognises(sample)
    assert not vllm_bench.recognises(sample)
    assert not sglang.recognises(sample)


@pytest.mark.parametrize("sample", [None, [], {}, [[ROW]], ROW | {"metrics": [1]}, "x"])
def test_other_results_are_not_recognised(sample):
    assert not inferencex.recognises(sample)


@given(result=damaged(ROW) | damaged(POSITIONS) | damaged(AGENTS))
@settings(max_examples=100, deadline=None)
def test_damaged_results_give_runs_or_reasons(tmp_path_factory, result):
    content = Content(written(tmp_path_factory.mktemp("a") / "a.jsonl", result, ROW))
    assert inferencex.recognises(content.sample) in (True, False)
    reading = inferencex.read(content)
    assert len(reading.runs) + len(reading.skipped) == 2
    assert are_sound(reading.runs)
