"""Summaries of AIPerf and GenAI-Perf, against figures typed from the files."""

import shutil

import pytest

from bayes_sd.readers import aiperf
from bayes_sd.readers.content import Content
from tests.unit.readers.aiperf_files import (
    FILES,
    RECORDS,
    SUMMARY,
    checked,
    load,
    metric,
    phases,
    read_summary,
    said,
    summary,
)


@pytest.mark.parametrize("folder", RECORDS)
def test_files_are_recognised_and_their_runs_pass_the_schema(folder):
    content = Content(FILES / folder / SUMMARY)
    assert aiperf.recognises(content.sample)
    reading = aiperf.read(content)
    assert not reading.skipped
    assert len(checked(reading)) == 1


@pytest.mark.parametrize(
    "other",
    [
        None,
        3,
        "text",
        [],
        {},
        {"records": []},
        {"records": {}},
        {"request_throughput": 2.0, "completed": 3, "mean_ttft_ms": 3.0},  # vllm bench
        {"request_latency": {"mean": 1.0}, "requests_per_second": {}},  # GuideLLM's metrics
        {"timeslices": [{"request_latency": {"unit": "ms", "avg": 1.0}}]},
        {"metadata": {"request_start_ns": 1}, "metrics": {}},  # a record
    ],
)
def test_other_files_are_not_recognised(other):
    assert not aiperf.recognises(other)


def test_records_layout_of_october_2025():
    """Figures as they stand in the file, in ms; all 100 requests were sent at once."""
    reading = aiperf.read(Content(FILES / "2025-10" / SUMMARY))
    (run,) = reading.runs
    assert run["verifier"] == "openai/gpt-oss-20b"
    assert run["num_requests"] == 89
    assert run["mean_e2e_s"] == pytest.approx(9059.654633033708e-3)
    assert run["p99_e2e_s"] == pytest.approx(9297.609933759999e-3)
    assert run["mean_ttft_s"] == pytest.approx(2343.219436988764e-3)
    assert run["p90_ttft_s"] == pytest.approx(3796.9311679999996e-3)
    assert run["mean_tpot_s"] == pytest.approx(27.763065454471807e-3)  # inter_token_latency
    assert run["mean_itl_s"] == pytest.approx(27.755153106189347e-3)  # inter_chunk_latency
    assert run["p95_itl_s"] == pytest.approx(31.6586686e-3)
    assert run["input_len_tokens"] == 550
    assert run["output_len_tokens"] == pytest.approx(242.96629213483146)
    assert run["output_tokens_per_s"] == pytest.approx(2320.7222350404572)
    assert run["completed_rate_rps"] == pytest.approx(9.551622221540914)
    assert run["_duration_s"] == pytest.approx(9.317788951)
    assert run["_end_s"] == pytest.approx(1759522428.472358)  # 20:13:48 UTC
    assert run["_end_local"] == "20251003-131348"  # seven hours west of it
    assert run["date"] == "2025-10-03"
    assert (run["load_kind"], run["concurrency"]) == ("closed", 100)
    assert run["is_throughput_test"] is True
    assert said(reading, "11 of 100 requests failed")
    assert said(reading, "a burst")


def test_file_of_0_3_0():
    reading = aiperf.read(Content(FILES / "0.3.0_open" / SUMMARY))
    (run,) = reading.runs
    assert run["verifier"] == "mock-8b"
    assert run["num_requests"] == 40
    assert run["mean_e2e_s"] == pytest.approx(74.1524284e-3)
    assert run["p50_tpot_s"] == pytest.approx(2.4787202053571425e-3)
    assert run["p99_itl_s"] == pytest.approx(11.802669519999998e-3)
    assert run["output_len_tokens"] == 25.475
    assert (run["load_kind"], run["arrivals"]) == ("open", "poisson")
    assert run["request_rate_rps"] == run["target_rate_rps"] == 20
    assert "client_cap" not in run
    assert said(reading, "the rate asked for")
    assert said(reading, "its tokenizer 'tok'")


def test_file_of_0_13_0_with_acceptance():
    reading = aiperf.read(Content(FILES / "0.13.0_open" / SUMMARY))
    (run,) = reading.runs
    assert run["num_requests"] == 60  # not the 3 of the warm-up
    assert run["mean_e2e_s"] == pytest.approx(68.47520665e-3)
    assert run["p95_ttft_s"] == pytest.approx(15.011536e-3)
    assert run["mean_in_system_requests"] == pytest.approx(1.3158200106261144)
    assert run["num_drafts"] == 594
    assert run["num_draft_tokens"] == 1782
    assert run["num_accepted_tokens"] == 841 == 131 + 2 * 79 + 3 * 184
    assert run["accepted_length_counts"] == "200;131;79;184"
    assert run["mean_acceptance_length"] == pytest.approx(2.415824915824916)
    assert run["draft_acceptance_rate"] == pytest.approx(0.4719416386083053)  # the file has %
    assert run["num_speculative_tokens"] == 3 == 1782 / 594
    assert (run["client_cap"], run["request_rate_rps"]) == (50, 20)
    assert "_end_s" not in run  # 16:09:38 in a zone that the file does not tell
    assert run["_end_local"] == "20261202-160938"
    assert said(reading, "num_speculative_tokens is taken for 3")


def test_closed_loop_with_cancelled_requests():
    reading = aiperf.read(Content(FILES / "0.13.0_closed" / SUMMARY))
    (run,) = reading.runs
    assert run["num_requests"] == 36
    assert (run["load_kind"], run["arrivals"], run["concurrency"]) == ("closed", "closed", 4)
    assert run["is_throughput_test"] is False
    assert said(reading, "4 of 40 requests failed or were cancelled")


def test_summaries_of_phases_are_no_further_runs():
    """The tool writes the warm-up and the measured phase again, in the same layout."""
    for name, words in (("warmup", "warm-up"), ("profiling", "the same run as")):
        reading = aiperf.read(Content(FILES / "0.13.0_open" / "phases" / name / SUMMARY))
        assert not reading.runs
        assert words in reading.skipped[0]


def test_phase_whose_whole_is_not_there_is_read(tmp_path):
    folder = tmp_path / "phases" / "profiling"
    folder.mkdir(parents=True)
    shutil.copy(FILES / "0.13.0_open" / "phases" / "profiling" / SUMMARY, folder)
    (run,) = aiperf.read(Content(folder / SUMMARY)).runs
    assert run["num_requests"] == 60


def test_run_of_several_measured_phases_is_read_phase_by_phase(tmp_path):
    config = phases("constant", rate=4.0)
    config["phases"].append({"name": "more", "kind": "profiling", "type": "poisson", "rate": 8.0})
    document = summary(config)
    reading = read_summary(tmp_path, document)
    assert not reading.runs
    assert "profiling, more" in reading.skipped[0]
    assert "Read the files in phases/" in reading.skipped[0]
    folder = tmp_path / "phases" / "more"
    folder.mkdir(parents=True)
    (run,) = read_summary(folder, document).runs
    assert run["request_rate_rps"] == 8


def genai_perf(config, **others):
    """Build a summary of GenAI-Perf from the fields of its exporter; no real one is at hand."""
    document = summary(config, **others)
    for name in ("schema_version", "benchmark_duration"):
        document.pop(name)
    document["request_count"]["unit"] = "count"
    return document


def test_genai_perf_with_arguments_as_configuration(tmp_path):
    config = {
        "model": ["llama"],
        "backend": "vllm",
        "endpoint": None,
        "endpoint_type": "kserve",
        "service_kind": "triton",
        "streaming": True,
        "concurrency": 10,
        "request_rate": None,
        "tokenizer": "llama",
    }
    reading = read_summary(tmp_path, genai_perf(config))
    (run,) = reading.runs
    assert (run["verifier"], run["engine"]) == ("llama", "vllm")
    assert (run["load_kind"], run["concurrency"]) == ("closed", 10)
    assert run["_duration_s"] == pytest.approx(50.0)  # requests / throughput
    assert len(checked(reading)) == 1


def test_genai_perf_0_0_16(tmp_path):
    config = {
        "model_names": ["llama"],
        "endpoint": {"service_kind": "openai", "backend": "tensorrtllm", "streaming": True},
        "perf_analyzer": {"stimulus": {"request_rate": 4.0}, "warmup_request_count": 0},
        "tokenizer": {"name": "llama"},
    }
    (run,) = read_summary(tmp_path, genai_perf(config)).runs
    assert run["verifier"] == "llama"
    assert "engine" not in run  # the backend is that of another kind of service
    assert (run["load_kind"], run["arrivals"]) == ("open", "constant")


def test_genai_perf_without_number_of_requests(tmp_path):
    document = genai_perf({"model": ["m"], "concurrency": 10})
    document.pop("request_count")
    reading = read_summary(tmp_path, document)
    (run,) = reading.runs
    assert "num_requests" not in run
    assert said(reading, "Give num_requests")


def test_answers_that_were_not_streamed_have_no_first_token(tmp_path):
    """GenAI-Perf gives the latency as time to first token then."""
    config = {"model": ["m"], "concurrency": 10, "streaming": False}
    document = genai_perf(config)
    document["time_to_first_token"] = document["request_latency"]
    reading = read_summary(tmp_path, document)
    (run,) = reading.runs
    assert "mean_ttft_s" not in run
    assert run["mean_e2e_s"] == 1
    assert said(reading, "not streamed")


@pytest.mark.parametrize(
    ("unit", "factor"), [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("sec", 1.0), ("s", 1.0)]
)
def test_units_are_those_that_the_file_names(tmp_path, unit, factor):
    document = summary(phases("constant", rate=4.0), request_latency=metric(1 / factor, unit))
    (run,) = read_summary(tmp_path, document).runs
    assert run["mean_e2e_s"] == pytest.approx(1.0)


@pytest.mark.parametrize("unit", ["minutes", "", None, 3, ["ms"], "MS"])
def test_metric_of_an_unknown_unit_is_left_out(tmp_path, unit):
    document = summary(phases("constant", rate=4.0), time_to_first_token=metric(1.0, unit))
    reading = read_summary(tmp_path, document)
    (run,) = reading.runs
    assert "mean_ttft_s" not in run
    assert run["mean_e2e_s"] == 1
    assert said(reading, "time_to_first_token: unit must be one of ns, us, ms, sec, s")
    assert len(checked(reading)) == 1


def test_latency_of_zero_is_no_figure(tmp_path):
    chunks = metric(5.0) | {"p50": 0.0}  # chunks that arrive together
    document = summary(phases("constant", rate=4.0), inter_chunk_latency=chunks)
    reading = read_summary(tmp_path, document)
    (run,) = reading.runs
    assert "p50_itl_s" not in run
    assert run["mean_itl_s"] == 5e-3
    assert said(reading, "p50 of inter_chunk_latency is 0")
    assert len(checked(reading)) == 1


def test_cancelled_run_is_said_to_be(tmp_path):
    document = summary(phases("constant", rate=4.0), was_cancelled=True)
    assert said(read_summary(tmp_path, document), "the run was cancelled")


def test_hardware_is_that_of_the_telemetry(tmp_path):
    def telemetry(*names):
        gpus = {str(i): {"gpu_name": name, "gpu_index": i} for i, name in enumerate(names)}
        return {"summary": {}, "endpoints": {"localhost:9400": {"gpus": gpus}}}

    one = summary(phases("constant", rate=4.0), telemetry_data=telemetry("H200", "H200"))
    assert read_summary(tmp_path, one).runs[0]["hardware"] == "H200"
    two = summary(phases("constant", rate=4.0), telemetry_data=telemetry("H200", "L4"))
    assert "hardware" not in read_summary(tmp_path, two).runs[0]


def test_several_models_are_no_verifier(tmp_path):
    document = summary(phases("constant", rate=4.0))
    document["input_config"]["models"]["items"].append({"name": "other"})
    reading = read_summary(tmp_path, document)
    assert "verifier" not in reading.runs[0]
    assert said(reading, "2 models (m, other)")


def test_draft_length_is_not_guessed_where_steps_differ(tmp_path):
    document = load("0.13.0_open")
    document["total_draft_tokens"]["avg"] = 1700.0
    (run,) = read_summary(tmp_path, document).runs
    assert "num_speculative_tokens" not in run
    assert run["num_draft_tokens"] == 1700
