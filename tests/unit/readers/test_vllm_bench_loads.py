"""Loads of vllm bench serve that no real file at hand has, and files with something wrong.

Built from a real result by changing the documented fields.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from bayes_sd.exceptions import FormatError
from bayes_sd.readers import vllm_bench
from bayes_sd.readers.content import Content
from tests.damaged_results import checked, read, written

OURS = Path(__file__).parents[2] / "files" / "vllm_bench"
EAGLE3 = json.loads((OURS / "open_loop_eagle3_0.14.1.json").read_text())
DETAILED = json.loads((OURS / "detailed_k3_0.32.json").read_text())


@pytest.fixture
def run_of(tmp_path):
    """Read one result with some fields changed; return its run and the reading."""

    def of(base, **changes):
        result = {k: v for k, v in (base | changes).items() if v != "absent"}
        reading = read(vllm_bench, tmp_path / "a.json", result)
        return (reading.runs[0] if reading.runs else None), reading

    return of


@pytest.mark.parametrize(
    ("rate", "cap", "kind", "concurrency", "is_burst"),
    [
        ("inf", None, "closed", 300, True),
        (math.inf, None, "closed", 300, True),
        ("inf", 0, "closed", 300, True),
        ("inf", 64, "closed", 64, False),
        ("inf", 300, "closed", 300, True),
        ("inf", 512, "closed", 512, True),
        (2.5, None, "open", None, None),
        ("2.5", 64, "open", None, None),
    ],
)
def test_loads(run_of, rate, cap, kind, concurrency, is_burst):
    run, _ = run_of(EAGLE3, request_rate=rate, max_concurrency=cap)
    assert run["load_kind"] == kind
    assert run.get("concurrency") == concurrency
    assert run.get("is_throughput_test") == is_burst
    assert run.get("request_rate_rps") == (2.5 if kind == "open" else None)
    assert run.get("client_cap") == (cap if kind == "open" else None)
    checked([run])


def test_a_cap_that_all_prompts_exceed_is_no_burst_though_many_failed(run_of):
    changes = {"request_rate": "inf", "max_concurrency": 64, "completed": 50, "failed": 250}
    run, reading = run_of(EAGLE3, **changes)
    assert run["is_throughput_test"] is False
    assert "250 of 300 requests failed; figures are over the rest." in reading.notes


def test_client_queue_times_do_not_stand_for_latencies(run_of):
    """2026 files with a cap and a rate have both; the law is of the time in the server."""
    run, _ = run_of(
        EAGLE3,
        max_concurrency=64,
        mean_client_queue_time_ms=9e5,
        mean_e2el_including_client_queue_ms=1e6,
        p99_client_queue_time_ms=1e6,
    )
    assert run["mean_e2e_s"] == pytest.approx(57.25666473235271)
    assert run["client_cap"] == 64


@pytest.mark.parametrize(
    ("burstiness", "arrivals", "note"),
    [
        (0.25, "bursty", ""),  # gaps vary by 2 of their mean: 1 / sqrt(shape)
        (1.0, "poisson", ""),
        ("absent", "poisson", ""),
        (4, "poisson", "between constant and poisson"),
        (100, "constant", ""),
        ("inf", "constant", ""),
        (math.inf, "constant", ""),
    ],
)
def test_arrivals_by_burstiness(run_of, burstiness, arrivals, note):
    run, reading = run_of(EAGLE3, burstiness=burstiness)
    assert run["arrivals"] == arrivals
    assert any(note in text for text in reading.notes)
    assert any("burstiness" in text for text in reading.notes) == bool(note)
    checked([run])


def with_start_times(gaps, **changes):
    """Give a detailed result of 120 requests other send times."""
    start = 50.0 + np.concatenate([[0.0], np.cumsum(gaps)])
    return DETAILED | {"start_times": start.tolist(), **changes}


@pytest.mark.parametrize(
    ("shape", "burstiness", "arrivals", "said"),
    [
        (0.1, 0.1, "bursty", ""),
        (0.1, 1.0, "bursty", "a Poisson process has 1"),
        (1e6, 1e6, "constant", ""),
        (1e6, 1.0, "poisson", "a Poisson process has 1"),
        (1.0, 100, "poisson", "even arrivals have 0"),
    ],
)
def test_arrivals_are_measured_from_send_times(run_of, rng, shape, burstiness, arrivals, said):
    gaps = rng.gamma(shape, 1 / (4 * shape), 119)
    result = with_start_times(gaps, burstiness=burstiness)
    run, reading = run_of(result)
    assert run["arrivals"] == arrivals
    assert run["request_rate_rps"] == pytest.approx(119 / gaps.sum(), rel=1e-4)
    assert run["target_rate_rps"] == 4
    assert any(said in text for text in reading.notes)
    assert any("of their mean" in text for text in reading.notes) == bool(said)


def test_a_rate_that_was_not_reached_is_said(run_of):
    run, reading = run_of(with_start_times(np.full(119, 0.5), burstiness=100))
    assert run["request_rate_rps"] == pytest.approx(2.0)
    assert any("sent at 2 per second, not at the 4 asked for" in note for note in reading.notes)


def test_a_server_that_fell_behind_is_said(run_of):
    """Without send times: 300 requests in 900 s, the last of which took 79 s, are not 1 per s."""
    _, reading = run_of(EAGLE3, duration=900.0)
    assert any("fell behind" in note for note in reading.notes)
    _, reading = run_of(EAGLE3)
    assert not any("fell behind" in note for note in reading.notes)


def test_failed_requests_keep_slots_of_zeros(run_of):
    """As the tool writes them: no times, no tokens, a text of the error."""
    changes = {"completed": 118, "failed": 2}
    for name, empty in (("ttfts", 0.0), ("latencies", 0.0), ("itls", []), ("output_lens", 0)):
        changes[name] = [*DETAILED[name]]
        changes[name][3] = changes[name][7] = empty
    changes["errors"] = ["" if i not in (3, 7) else "Service Unavailable" for i in range(120)]
    run, reading = run_of(DETAILED, **changes)
    assert len(reading.requests[0]) == run["num_requests"] == 118
    assert "2 of 120 requests failed; figures are over the rest." in reading.notes
    assert "2 of 120 requests failed; left out." in reading.notes
    assert run["request_rate_rps"] == pytest.approx(117 / 119 * 3.9994, rel=1e-3)


def test_rates_of_few_digits_are_kept_as_rates(run_of):
    run, _ = run_of(
        EAGLE3,
        spec_decode_accepted_tokens=300_000,
        spec_decode_acceptance_rate=100 * 300_000 / 744_390,
        spec_decode_acceptance_length=1 + 300_000 / 248_130,
        spec_decode_per_position_acceptance_rates=[0.62, 0.36, 0.229],
    )
    assert run["acceptance_per_position"] == "0.62;0.36;0.229"
    assert "accepted_per_position" not in run
    checked([run])


def test_no_rates_by_position(run_of):
    run, _ = run_of(EAGLE3, spec_decode_per_position_acceptance_rates=[])
    assert run["num_speculative_tokens"] == 3
    checked([run])


def test_zeros_of_what_was_not_measured_are_left_out(run_of):
    """Without streaming the tool prints 0 for the time to the first token and between tokens."""
    zeros = {k: 0.0 for k in EAGLE3 if k.endswith("_ms") and "e2el" not in k}
    run, _ = run_of(EAGLE3, **zeros)
    assert [name for name in run if "ttft" in name or "tpot" in name or "itl" in name] == []
    checked([run])


def test_a_load_that_is_not_told_is_left_to_side_information(run_of):
    run, reading = run_of(EAGLE3, request_rate="absent")
    assert "load_kind" not in run
    assert any("Give load_kind='open' and request_rate_rps" in note for note in reading.notes)


def test_a_list_that_contradicts_the_summary_is_said(run_of):
    run, reading = run_of(DETAILED, mean_e2el_ms=1200.0)
    assert run["mean_e2e_s"] == pytest.approx(1.2)
    assert any("mean_e2e_s is 1.2 in the file and 0.9521 by its own" in n for n in reading.notes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"completed": 0}, "completed must be at least 1. Got 0"),
        ({"completed": None, "failed": 9}, "completed must be at least 1. Got nothing"),
        ({"completed": "many"}, "completed must be a number. Got 'many'"),
        ({"completed": -3}, "completed must be at least 0. Got -3"),
        ({"completed": 2.5}, "completed must be a whole number"),
        ({"request_rate": 0}, "request_rate must be above 0. Got 0"),
        ({"request_rate": "fast"}, "request_rate must be a number. Got 'fast'"),
        ({"burstiness": 0}, "burstiness must be above 0"),
        ({"duration": -1.0}, "duration must be at least 0"),
        ({"mean_e2el_ms": "57 s"}, "mean_e2el_ms must be a number. Got '57 s'"),
        ({"mean_e2el_ms": -1}, "mean_e2el_ms must be at least 0"),
        ({"total_input_tokens": [1]}, "total_input_tokens must be a number. Got a list of 1"),
        ({"ramp_up_strategy": "linear"}, "ramp_up_strategy must be absent. Got 'linear'"),
        ({"spec_decode_per_position_acceptance_rates": [85, 70, 50]}, "fractions from 0 to 1"),
        ({"spec_decode_per_position_acceptance_rates": [math.nan]}, "fractions from 0 to 1"),
        ({"spec_decode_per_position_acceptance_rates": 0.8}, "a list of numbers"),
        ({"ttfts": [1, "x"], "start_times": [1]}, "ttfts must be a list of numbers"),
        ({"ttfts": [1, 2], "start_times": [1, 2], "itls": [[1], ["x"]]}, "a list of lists of"),
        (
            {"ttfts": [1], "start_times": [1], "itls": [[math.inf, -math.inf]]},
            "itls must be a list of lists of numbers",
        ),
    ],
)
def test_a_run_that_cannot_be_read_is_skipped_with_the_reason(tmp_path, changes, reason):
    reading = read(vllm_bench, tmp_path / "a.json", EAGLE3, EAGLE3 | changes)
    assert len(reading.runs) == 1
    (skipped,) = reading.skipped
    assert skipped.startswith("line 2: ")
    assert reason in skipped


@pytest.mark.parametrize(
    "changes",
    [
        {"mean_e2el_ms": math.nan, "p99_e2el_ms": math.inf},
        {"start_times": DETAILED["start_times"][::-1]},
        {"start_times": [math.nan] * 120},
        {"start_times": [5.0] * 120},
        {"start_times": [1e308, -1e308] * 60},
        {"latencies": [-1.0] * 120},
        {"latencies": [1e308] * 120},
        {"itls": "absent", "latencies": "absent"},
        {"itls": 3, "latencies": DETAILED["latencies"]},
        {"errors": ["x"] * 120},
        {"output_lens": [0] * 120},
        {"input_lens": [1, 2]},
    ],
)
def test_lists_that_cannot_be_leave_the_summary(run_of, changes):
    """Clocks that go back, times that are none, no finished request: the printed figures stand."""
    run, _ = run_of(DETAILED, **changes)
    assert run["num_requests"] == 120
    assert run["mean_tpot_s"] == pytest.approx(0.013813, abs=1e-6)
    checked([run])


def test_a_truncated_file(tmp_path):
    path = written(tmp_path / "a.json", EAGLE3)
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(FormatError, match="If the run was stopped while it wrote the file"):
        vllm_bench.read(Content(path))
