"""From lists of requests to cells of a run: rates, arrivals, latencies, and what cannot be."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_sd.readers.requests import (
    GapStatistics,
    arrival_notes,
    cells_of_requests,
    disagreements,
    gap_statistics,
    measured_arrivals,
    requests_table,
)

N = 400


def arrivals(rng: np.random.Generator, kind: str, rate: float = 2.0, number: int = N) -> np.ndarray:
    """Draw send times of a process of which the law is known."""
    gaps = {
        "poisson": lambda: rng.exponential(1 / rate, number),
        "constant": lambda: np.full(number, 1 / rate),
        "bursty": lambda: rng.gamma(0.25, 4 / rate, number),
        "repeating": lambda: np.repeat(rng.exponential(1 / rate, number // 10), 10),
    }[kind]()
    return 1000.0 + np.cumsum(gaps)


@pytest.mark.parametrize(
    ("kind", "variation", "correlation"),
    [("poisson", 1.0, 0.0), ("constant", 0.0, 0.0), ("bursty", 2.0, 0.0), ("repeating", 1.0, 0.9)],
)
def test_gaps_of_known_processes(rng, kind, variation, correlation):
    found = gap_statistics(arrivals(rng, kind))
    assert found.num_gaps == N - 1
    assert found.rate_rps == pytest.approx(2.0, rel=0.3 if kind != "constant" else 1e-9)
    assert found.variation == pytest.approx(variation, abs=0.35)
    if kind != "constant":
        assert found.lag1_correlation == pytest.approx(correlation, abs=0.15)


def test_the_order_and_the_zero_of_the_clock_do_not_count(rng):
    start = arrivals(rng, "poisson")
    found = gap_statistics(rng.permutation(start) - 5000)
    assert found.rate_rps == pytest.approx(gap_statistics(start).rate_rps)
    assert found.rate_rps == pytest.approx((N - 1) / (start[-1] - start[0]))


@pytest.mark.parametrize(
    "start", [[], [1.0], [2.0, 2.0, 2.0], [0.0, math.nan], [-1e308, 1e308, 0.0], [0.0, math.inf]]
)
def test_times_that_have_no_rate(start):
    found = gap_statistics(start)
    assert math.isnan(found.rate_rps)
    assert measured_arrivals(found, "poisson") == "poisson"
    assert arrival_notes(found, "poisson", 2.0, "") == []


@pytest.mark.parametrize(
    ("kind", "asked", "said", "name"),
    [
        ("poisson", "poisson", "", "poisson"),
        ("constant", "constant", "", "constant"),
        ("bursty", "bursty", "", "bursty"),
        ("constant", "poisson", "a Poisson process has 1", "poisson"),
        ("bursty", "poisson", "a Poisson process has 1", "bursty"),
        ("poisson", "constant", "even arrivals have 0", "poisson"),
        ("bursty", "constant", "even arrivals have 0", "bursty"),
        ("repeating", "poisson", "share one seed", "poisson"),
    ],
)
def test_arrivals_are_measured_not_believed(rng, kind, asked, said, name):
    found = gap_statistics(arrivals(rng, kind))
    notes = arrival_notes(found, asked, math.nan, "run 1")
    assert [said in note for note in notes] == ([True] if said else [])
    assert all(note.startswith("run 1: ") for note in notes)
    assert measured_arrivals(found, asked) == name


def test_a_rate_that_was_not_kept_is_said():
    start = np.arange(100) / 5.0
    (note,) = arrival_notes(gap_statistics(start), "constant", 10.0, "")
    assert note.startswith("requests were sent at 5 per second, not at the 10 asked for")
    assert arrival_notes(gap_statistics(start), "constant", 5.2, "") == []


def test_few_gaps_say_nothing_of_the_arrivals():
    few = GapStatistics(2.0, 3.0, 0.9, 20)
    assert arrival_notes(few, "poisson", 2.0, "") == []
    assert measured_arrivals(few, "poisson") == "poisson"


def columns(**changes):
    return {
        "start_s": np.array([0.0, 1.0, 2.0, 3.0]),
        "e2e_s": np.array([1.0, 2.0, 3.0, 4.0]),
        "ttft_s": np.array([0.1, 0.2, 0.3, 0.4]),
        "input_len_tokens": np.array([10.0, 10, 10, 10]),
        "output_len_tokens": np.array([11.0, 11, 11, 11]),
    } | changes


def test_a_table_of_finished_requests():
    frame, notes = requests_table("line 2", **columns())
    assert list(frame.columns) == list(columns())
    assert len(frame) == 4
    assert notes == []


@pytest.mark.parametrize("name", ["start_s", "e2e_s"])
def test_without_times_there_is_no_table(name):
    assert requests_table(**columns(**{name: None})) == (None, [])


def test_failed_requests_are_left_out_and_said():
    frame, notes = requests_table("line 2", **columns(failed=[False, True, False, True]))
    assert frame["start_s"].tolist() == [0.0, 2.0]
    assert notes == ["line 2: 2 of 4 requests failed; left out."]


def test_a_list_of_failures_of_another_length_is_not_used():
    frame, _ = requests_table(**columns(failed=[True]))
    assert len(frame) == 4


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("e2e_s", 0.0),
        ("e2e_s", -1.0),
        ("e2e_s", math.nan),
        ("e2e_s", math.inf),
        ("start_s", math.nan),
        ("start_s", -math.inf),
        ("ttft_s", -0.1),
        ("ttft_s", 2.5),
    ],
)
def test_times_that_cannot_be_are_left_out_with_the_first_of_them(name, value):
    wrong = columns()[name].copy()
    wrong[1] = value
    frame, notes = requests_table(**columns(**{name: wrong}))
    assert frame["e2e_s"].tolist() == [1.0, 3.0, 4.0]
    assert len(notes) == 1
    assert notes[0].startswith("1 of 4 requests have times that cannot be (request 2: ")


def test_lists_of_another_length_are_not_used():
    frame, notes = requests_table("line 2", **columns(ttft_s=np.array([0.1])))
    assert "ttft_s" not in frame
    assert notes == ["line 2: ttft_s has 1 values for 4 requests; not used."]
    assert requests_table(**columns(start_s=np.array([0.0])))[0] is None


def test_cells_by_hand():
    """Four requests: rate 3 / 3 s, mean e2e 2.5 s, tpot (e2e - ttft) / 10."""
    cells = cells_of_requests(requests_table(**columns())[0])
    assert cells["request_rate_rps"] == pytest.approx(1.0)
    assert cells["mean_e2e_s"] == pytest.approx(2.5)
    assert cells["p50_e2e_s"] == pytest.approx(2.5)
    assert cells["p90_e2e_s"] == pytest.approx(np.percentile([1, 2, 3, 4], 90))
    assert cells["mean_ttft_s"] == pytest.approx(0.25)
    assert cells["mean_tpot_s"] == pytest.approx(np.mean([0.09, 0.18, 0.27, 0.36]))
    assert cells["num_requests"] == 4
    # From 0.45 s to 3 s: 0.55 s of the first, 2, 1 and 0 s of the others.
    assert cells["mean_in_system_requests"] == pytest.approx((0.55 + 2 + 1) / 2.55)
    assert "mean_itl_s" not in cells


def test_too_few_requests_give_nothing():
    frame = pd.DataFrame({"start_s": [0.0], "e2e_s": [1.0]})
    assert cells_of_requests(frame) == {}
    assert cells_of_requests(frame.iloc[:0]) == {}


@pytest.mark.parametrize("value", [0.0, -3.0, math.nan, math.inf, 1e300])
def test_a_length_that_cannot_be_takes_only_what_needs_it(value):
    lengths = np.array([11.0, value, 11.0, 11.0])
    cells = cells_of_requests(requests_table(**columns(output_len_tokens=lengths))[0])
    assert cells["mean_e2e_s"] == pytest.approx(2.5)
    assert cells["mean_ttft_s"] == pytest.approx(0.25)
    assert "mean_tpot_s" not in cells
    assert "output_len_tokens" not in cells


def test_disagreement_of_printed_figures_with_the_list():
    printed = {"mean_e2e_s": 2.0, "p50_ttft_s": 1.0, "mean_tpot_s": 0.1, "p99_e2e_s": 9.0}
    computed = {"mean_e2e_s": 2.5, "p50_ttft_s": 1.005, "p99_e2e_s": 1.0}
    assert disagreements(printed, computed, "line 2") == [
        "line 2: mean_e2e_s is 2 in the file and 2.5 by its own list of requests; the file's "
        "figure is used."
    ]
    assert disagreements(printed, {}, "") == []
    assert disagreements({"mean_e2e_s": math.nan, "mean_itl_s": 0.0}, computed, "") == []


TIMES = st.lists(st.floats(width=64), max_size=8)


@given(start=TIMES, e2e=TIMES, ttft=TIMES, lengths=TIMES)
@settings(max_examples=150, deadline=None)
def test_any_lists_give_cells_that_can_be(start, e2e, ttft, lengths):
    frame, _ = requests_table(
        start_s=np.array(start),
        e2e_s=np.array(e2e),
        ttft_s=np.array(ttft),
        output_len_tokens=np.array(lengths),
    )
    if frame is not None:
        gap_statistics(frame["start_s"])
        assert all(math.isfinite(value) for value in cells_of_requests(frame).values())
