"""GuideLLM files as their tool wrote them, against figures typed from them and counted apart."""

import copy

import numpy as np
import pytest

from bayes_sd.datasets import load_scaling_study
from bayes_sd.readers import guidellm
from bayes_sd.readers.content import Content
from tests.unit.readers.guidellm_reports import FILES, checked, load, read, read_file, said

NAMES = (
    "report_0.3.json",
    "metrics_only.json",
    "sweep_0.8.1.json",
    "poisson_0.8.1.json",
    "burst_0.8.1.json.gz",
)


@pytest.mark.parametrize("name", NAMES)
def test_files_are_recognised_and_their_runs_pass_the_schema(name):
    content = Content(FILES / name)
    assert guidellm.recognises(content.sample)
    reading = guidellm.read(content)
    assert not reading.skipped
    assert len(checked(reading)) == len(reading.runs) > 0


@pytest.mark.parametrize(
    "other",
    [
        None,
        3,
        "text",
        [],
        [1],
        {},
        {"benchmarks": []},
        {"benchmarks": [{"name": "test_sort", "stats": {"mean": 1.0}}]},  # pytest-benchmark
        {"request_throughput": 2.0, "completed": 3},
        {"request_latency": {"unit": "ms", "avg": 1.0}},  # AIPerf
        [{"request_latency": 3.0, "requests_per_second": 1.0, "request_concurrency": 1.0}],
    ],
)
def test_other_files_are_not_recognised(other):
    assert not guidellm.recognises(other)


def test_report_of_0_3():
    """Figures as they stand in the file: latency in s, the others in ms."""
    reading = read_file("report_0.3.json")
    (run,) = reading.runs
    assert run["num_requests"] == 46
    assert run["mean_e2e_s"] == pytest.approx(0.6444743664368339)
    assert run["p50_e2e_s"] == pytest.approx(0.6424565315246582)  # it has no p50, only a median
    assert run["p99_e2e_s"] == pytest.approx(0.6891846656799316)
    assert run["mean_ttft_s"] == pytest.approx(16.792535781860348e-3)
    assert run["mean_tpot_s"] == pytest.approx(4.941609043733832e-3)  # inter_token_latency_ms
    assert run["input_len_tokens"] == pytest.approx(257.1086956521739)
    assert run["output_len_tokens"] == pytest.approx(128)
    assert run["completed_rate_rps"] == pytest.approx(1.5481806532737452)
    assert run["mean_in_system_requests"] == pytest.approx(0.9977433642674269)
    assert (run["load_kind"], run["concurrency"], run["arrivals"]) == ("closed", 1, "closed")
    assert run["verifier"] == "example_model"
    assert run["date"] == "2025-06-05"
    assert run["_sweep"] == "93e36b31-b454-471d-ba62-6b2671585485"
    assert run["_end_s"] == pytest.approx(1749157198.18)
    assert reading.requests == [None]
    assert said(reading, "1 of 47 requests are listed")
    assert said(reading, "cut off", "1 of 47 (entry 1)")


def test_sweep_of_0_8_1_as_counted_apart():
    """Expected: a table made with another program from the whole file (rates to 4 digits)."""
    reading = read_file("sweep_0.8.1.json")
    one, full, early, last = reading.runs
    assert [run["num_requests"] for run in reading.runs] == [28, 256, 110, 254]
    assert [run["mean_e2e_s"] for run in reading.runs] == pytest.approx(
        [0.75848, 8.500853, 1.701742, 6.253902]
    )
    assert [run["p95_e2e_s"] for run in reading.runs] == pytest.approx(
        [0.887709, 10.791823, 2.835647, 8.089456]
    )
    assert [run["mean_ttft_s"] for run in reading.runs] == pytest.approx(
        [0.05842, 4.376971, 0.231536, 1.909082], rel=1e-5
    )
    assert [run["mean_tpot_s"] for run in reading.runs] == pytest.approx(
        [0.011103, 0.065421, 0.023323, 0.068951], rel=1e-4
    )
    assert [run["completed_rate_rps"] for run in reading.runs] == pytest.approx(
        [1.272727, 11.636364, 5.0, 11.545455]
    )
    assert (one["load_kind"], one["concurrency"]) == ("closed", 1)
    assert "is_throughput_test" not in one
    assert (full["load_kind"], full["concurrency"]) == ("closed", 128)
    assert full["is_throughput_test"]
    assert early["load_kind"] == last["load_kind"] == "open"
    assert early["request_rate_rps"] == pytest.approx(5.588, abs=5e-4)  # asked for: 3.345
    assert early["target_rate_rps"] == pytest.approx(3.345455)
    assert early["client_cap"] == 128
    assert "is_throughput_test" not in early
    # Its requests are not in this file: 323 in 22 s; by their starts it is 14.6896.
    assert last["request_rate_rps"] == pytest.approx(14.6896, rel=0.005)
    assert len({run["_sweep"] for run in reading.runs}) == 1


def test_faults_of_poisson_arrivals_are_measured_and_said():
    """Correlation of gaps 0.584, 25 requests dated 1970: counted by another program."""
    reading = read_file("sweep_0.8.1.json")
    assert said(reading, "entry 3", "repeat", "0.58")
    assert said(reading, "entry 3", "25 of 123 requests", "sent at once")
    assert said(reading, "entry 3", "5.59", "3.35 asked for")
    assert reading.runs[2]["arrivals"] == "bursty"


def test_poisson_arrivals_that_came_as_asked_for():
    reading = read_file("poisson_0.8.1.json")
    slow, fast = reading.runs
    assert slow["request_rate_rps"] == pytest.approx(2.4222, abs=5e-5)
    assert fast["request_rate_rps"] == pytest.approx(6.0742, abs=5e-5)
    assert [run["arrivals"] for run in reading.runs] == ["poisson", "poisson"]
    assert [run["mean_e2e_s"] for run in reading.runs] == pytest.approx([1.976573, 2.511273])
    assert said(reading, "9 of 49 (entry 1), 12 of 122 (entry 2)")
    assert not said(reading, "repeat")
    assert not said(reading, "vary")


def test_start_fault_that_made_a_burst_is_no_latency_point():
    reading = read_file("burst_0.8.1.json.gz")
    assert [run["request_rate_rps"] for run in reading.runs] == pytest.approx(
        [9.4417, 11.5256], abs=5e-5
    )
    assert all(run["is_throughput_test"] for run in reading.runs)
    assert {run["arrivals"] for run in reading.runs} == {"bursty"}
    assert said(reading, "entry 1", "175 of 185", "a burst")
    assert said(reading, "entry 2", "169 of 229", "a burst")


def test_requests_listed_are_those_of_the_file():
    entry = load("poisson_0.8.1.json")["benchmarks"][1]
    frame = read_file("poisson_0.8.1.json").requests[1]
    listed = entry["requests"]["successful"]
    assert len(frame) == len(listed) == 110
    assert frame["e2e_s"].mean() == pytest.approx(2.511273, abs=1e-4)
    ttft = [1e-3 * r["time_to_first_token_ms"] for r in listed]
    np.testing.assert_allclose(frame["ttft_s"], ttft)
    starts = [r["info"]["timings"]["request_start"] for r in listed]
    np.testing.assert_allclose(frame["start_s"], starts, rtol=0, atol=1e-6)
    assert (frame["output_len_tokens"] == 64).all()


def test_time_between_deliveries_is_per_step_and_tpot_per_token():
    """Three drafts of which 0.85 agree: about 3.1 tokens a delivery; none without speculation."""
    drafting = read_file("sweep_0.8.1.json").runs[0]
    assert 2.9 < drafting["mean_itl_s"] / drafting["mean_tpot_s"] < 3.3
    plain = read_file("poisson_0.8.1.json").runs[0]
    assert plain["mean_itl_s"] == pytest.approx(plain["mean_tpot_s"], rel=1e-3)


def test_bare_metrics_agree_with_the_bundled_study():
    """The bundled table was made from the same file by another program."""
    reading = read_file("metrics_only.json")
    study = load_scaling_study()
    names = ("Qwen3-8B_a0.80_k3_i0", "Qwen3-8B_a0.80_k3_i2")
    found = study.set_index("run_id").loc[list(names)]
    one, full, rate = reading.runs
    for run, (_, row) in zip((one, rate), found.iterrows(), strict=True):
        assert run["load_kind"] == row["load_kind"]
        assert run["arrivals"] == row["arrivals"]
        for name in (
            "num_requests",
            "mean_e2e_s",
            "p50_e2e_s",
            "p99_e2e_s",
            "mean_ttft_s",
            "mean_tpot_s",
            "p95_tpot_s",
            "completed_rate_rps",
            "output_tokens_per_s",
            "input_len_tokens",
        ):
            assert run[name] == pytest.approx(row[name], rel=1e-4), name
        # The study took the finished requests only, this is of all in flight.
        assert run["mean_in_system_requests"] == pytest.approx(
            row["mean_in_system_requests"], rel=0.005
        )
    assert one["concurrency"] == 1
    assert rate["request_rate_rps"] == pytest.approx(2.81111, rel=1e-3)  # 253 in 90 s
    assert rate["client_cap"] == 128
    assert "target_rate_rps" not in rate
    assert full["is_throughput_test"]
    assert full["concurrency"] == 128
    assert full["mean_in_system_requests"] == pytest.approx(127.88868195730734)
    assert said(reading, "bare list", "order of a sweep", "constant")


def test_bare_metrics_of_newer_versions(tmp_path):
    """Poisson arrivals are told by the number in flight; rates of ends lack those cut off."""
    entries = load("sweep_0.8.1.json")["benchmarks"]
    reading = read(tmp_path, [entry["metrics"] for entry in entries])
    assert [run.get("load_kind") for run in reading.runs] == ["closed", "closed", "open", "open"]
    assert reading.runs[2]["request_rate_rps"] == pytest.approx(123 / 22, rel=0.01)
    assert reading.runs[3]["request_rate_rps"] == pytest.approx(323 / 22, rel=0.01)
    assert reading.runs[2]["arrivals"] == "poisson"


def test_bare_metrics_in_another_order_have_no_load(tmp_path):
    one, full, rate = load("metrics_only.json")
    for order in ([one, rate, full], [full, one, rate], [rate, full], [one, full]):
        reading = read(tmp_path, order)
        kinds = [run.get("load_kind") for run in reading.runs]
        assert kinds == (["closed"] if order[0] is one else [None]) + [None] * (len(order) - 1)
        assert said(reading, "does not have the order of a sweep", "load_kind")


def test_bare_metrics_whose_entries_cannot_all_be_read(tmp_path):
    one, full, rate = load("metrics_only.json")
    dead = copy.deepcopy(rate)
    dead["request_latency"]["successful"]["count"] = 0
    reading = read(tmp_path, [one, full, dead, rate, 5])
    assert [run["_entry"] for run in reading.runs] == ["entry 1", "entry 2", "entry 4"]
    assert reading.runs[2]["load_kind"] == "open"
    assert len(reading.skipped) == 2
    assert "entry 3" in reading.skipped[0]
    assert "no request of this run was answered" in reading.skipped[0]
