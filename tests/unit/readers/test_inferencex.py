"""Aggregates of InferenceX against the result file they were made from.

The aggregate is real and its result file is among the files of vllm bench serve: what is worked out
is held to what the tool counted.
"""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings

from bayes_sd.exceptions import FormatError
from bayes_sd.readers import inferencex, sglang, vllm_bench
from bayes_sd.readers.content import Content
from tests.damaged_results import are_sound, checked, damaged, read, written

FILES = Path(__file__).parents[2] / "files"
AGGREGATE = json.loads((FILES / "inferencex" / "agg_mtp_conc4.json").read_text())
RESULT = json.loads((FILES / "vllm_bench" / "old_fork_closed_loop_conc4.json").read_text())


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


def test_the_aggregate_is_in_seconds(run_of):
    run, _ = run_of(AGGREGATE)
    for kind, name in (("e2e", "e2el"), ("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl")):
        assert run[f"mean_{kind}_s"] == pytest.approx(RESULT[f"mean_{name}_ms"] / 1000)
        assert run[f"p50_{kind}_s"] == pytest.approx(RESULT[f"median_{name}_ms"] / 1000)
        assert run[f"p90_{kind}_s"] == pytest.approx(RESULT[f"p90_{name}_ms"] / 1000)
        assert run[f"p99_{kind}_s"] == pytest.approx(RESULT[f"p99_{name}_ms"] / 1000)
    assert run["mean_e2e_s"] == 16.17588243483915


def test_the_deployment_and_the_load(run_of):
    run, reading = run_of(AGGREGATE)
    assert (run["load_kind"], run["concurrency"], run["arrivals"]) == ("closed", 4, "closed")
    assert run["hardware"] == "mi355x"
    assert run["engine"] == "vllm"
    assert run["engine_version"] == "vllm/vllm-openai-rocm:v0.21.0"
    assert run["dtype"] == "int4"
    assert run["verifier"] == "moonshotai/Kimi-K2.5"
    assert run["tensor_parallel_size"] == 8
    checked(reading.runs)


def test_lengths_and_rates_worked_out_are_those_counted(run_of):
    """40 requests, 37,068 and 36,709 tokens in 165.79 s; nominal lengths are 1,024."""
    run, reading = run_of(AGGREGATE)
    assert run["output_len_tokens"] == pytest.approx(36709 / 40, rel=2e-3)
    assert run["input_len_tokens"] == pytest.approx(37068 / 40, rel=2e-3)
    assert run["output_tokens_per_s"] == pytest.approx(221.42409193453412)
    assert run["completed_rate_rps"] == pytest.approx(0.2412749918924886, rel=2e-3)
    assert "lengths are worked out" in notes(reading)


def test_the_number_of_requests_is_asked_for(run_of):
    run, reading = run_of(AGGREGATE)
    assert "num_requests" not in run
    assert "num_requests is not in the aggregate" in notes(reading)


def test_lengths_that_cannot_be_worked_out_are_nominal_and_said(run_of):
    for changes in (
        {"mean_tpot": "absent"},
        {"input_tput_per_gpu": "absent"},
        {"output_tput_per_gpu": 0},
        {"disagg": True},
        {"osl": 8192},
    ):
        run, reading = run_of(AGGREGATE, **changes)
        assert run["input_len_tokens"] == 1024
        assert run["output_len_tokens"] == changes.get("osl", 1024)
        assert "real ones are about 0.9 of them" in notes(reading)
        assert "completed_rate_rps" not in run


def test_the_oldest_aggregates_have_no_nominal_lengths(run_of):
    run, _ = run_of(AGGREGATE, isl="absent", osl="absent", spec_decoding="absent")
    assert run["output_len_tokens"] == pytest.approx(917.725, rel=2e-3)
    assert "method" not in run


@pytest.mark.parametrize(
    ("changes", "method"),
    [
        ({"spec_decoding": "none"}, "none"),
        ({"spec_decoding": "absent", "mtp": "off"}, "none"),
        ({"spec_decoding": "absent", "mtp": "on"}, None),
        ({"spec_decoding": "mtp"}, None),
        ({"spec_decoding": "eagle3"}, "eagle3"),
        ({"spec_decoding": "dspark"}, "dspark"),
        ({"spec_decoding": "something new"}, None),
        ({"spec_decoding": "absent"}, None),
    ],
)
def test_methods(run_of, changes, method):
    run, reading = run_of(AGGREGATE, **changes)
    assert run.get("method") == method
    assert run.get("num_speculative_tokens") == (0 if method == "none" else None)
    drafted = set(changes.values()) & {"on", "mtp", "eagle3", "dspark", "something new"}
    assert ("Give num_speculative_tokens" in notes(reading)) == bool(drafted)
    checked(reading.runs)


def test_separate_pools_are_said(run_of):
    multi = {"disagg": True, "is_multinode": True, "tp": "absent", "prefill_tp": 4, "decode_tp": 16}
    run, reading = run_of(AGGREGATE, **multi)
    assert run["tensor_parallel_size"] == 16
    assert run["note"] == "disagg, is_multinode"
    assert "separate GPUs" in notes(reading)
    run, _ = run_of(AGGREGATE, ep=8, dp_attention="true", pp=2)
    assert run["note"] == "ep 8, pp 2, dp_attention"
    assert run["output_tokens_per_s"] == pytest.approx(2 * 221.42409193453412)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"conc": 0}, "conc must be at least 1. Got 0"),
        ({"conc": "four"}, "conc must be a number"),
        ({"conc": 2.5}, "conc must be a whole number"),
        ({"mean_e2el": -1.0}, "mean_e2el must be at least 0"),
        ({"mean_ttft": "x"}, "mean_ttft must be a number"),
        ({"tp": [8]}, "tp must be a number"),
    ],
)
def test_a_run_that_cannot_be_read_is_skipped_with_the_reason(tmp_path, changes, reason):
    reading = read(inferencex, tmp_path / "a.jsonl", AGGREGATE, AGGREGATE | changes)
    assert len(reading.runs) == 1
    (skipped,) = reading.skipped
    assert skipped.startswith("line 2: ")
    assert reason in skipped


def test_figures_that_are_none_are_left_out(run_of):
    run, _ = run_of(AGGREGATE, mean_itl=math.nan, p99_itl=math.inf, mean_ttft=0.0)
    assert not {"mean_itl_s", "p99_itl_s", "mean_ttft_s"} & set(run)
    checked([run])


def test_a_truncated_file(tmp_path):
    path = written(tmp_path / "a.json", AGGREGATE)
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(FormatError, match="is no JSON"):
        inferencex.read(Content(path))


@pytest.mark.parametrize("sample", [AGGREGATE, [AGGREGATE]])
def test_recognition(sample):
    assert inferencex.recognises(sample)
    assert not vllm_bench.recognises(sample)
    assert not sglang.recognises(sample)
    assert not inferencex.recognises(RESULT)


@given(result=damaged(AGGREGATE))
@settings(max_examples=100, deadline=None)
def test_damaged_results_give_runs_or_reasons(tmp_path_factory, result):
    content = Content(written(tmp_path_factory.mktemp("a") / "a.jsonl", result, AGGREGATE))
    assert inferencex.recognises(content.sample) in (True, False)
    reading = inferencex.read(content)
    assert len(reading.runs) + len(reading.skipped) == 2
    assert are_sound(reading.runs)
