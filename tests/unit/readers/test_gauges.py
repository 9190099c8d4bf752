"""Means of sampled gauges, against means made with NumPy, and samples that cannot be."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_sd.exceptions import BayesSdError, FormatError
from bayes_sd.readers import gauges
from bayes_sd.readers.content import Content
from tests.damaged_results import VALUES, damaged, written

FILES = Path(__file__).parents[2] / "files" / "joined"
REAL = FILES / "dense_a60_k3" / "rep5_rate2.gauges.jsonl"


def lines(*rows):
    return [dict(zip(("t", "running", "waiting"), row, strict=True)) for row in rows]


def content(folder, *samples):
    return Content(written(folder / "x.gauges.jsonl", *samples))


def test_real_file_against_its_samples_and_another_program():
    """The window is 15 % to all of the time over which requests arrive, here of 29.5 s."""
    rows = [json.loads(line) for line in REAL.read_text().splitlines()]
    time = np.array([row["t"] for row in rows])
    running = np.array([row["running"] for row in rows])
    first = time[np.nonzero(running)[0][0]]
    inside = (time - first >= 4.43) & (time - first <= 29.533392)
    found = gauges.mean_over(Content(REAL), 0.15 * 29.533392, 29.533392)
    assert found == {"mean_running_requests": pytest.approx(running[inside].mean())}
    assert found["mean_running_requests"] == pytest.approx(2.68, abs=5e-4)  # of the data set
    assert gauges.recognises(Content(REAL).sample)


def test_burst_is_averaged_to_its_last_request():
    found = gauges.mean_over(Content(FILES / "burst.gauges.jsonl"), 0.0, np.inf)
    assert found["mean_running_requests"] == pytest.approx(55.0, abs=5e-4)  # of the data set


def test_time_zero_is_the_first_sample_with_a_request(tmp_path):
    rows = [(t, 0 if t < 100 else t - 100, 0) for t in range(90, 130)]
    found = gauges.mean_over(content(tmp_path, *lines(*rows)), 10.0, 20.0)
    assert found["mean_running_requests"] == pytest.approx(np.mean(np.arange(11, 22)))
    waiting = lines((0, 0, 0), (1, 0, 2), *((t, 4, 0) for t in range(2, 12)))
    found = gauges.mean_over(content(tmp_path, *waiting), 0.0, np.inf)
    assert found["mean_running_requests"] == pytest.approx(40 / 11)


def test_few_samples_are_no_mean(tmp_path):
    rows = lines(*((t, 3, 0) for t in range(10)))
    assert gauges.mean_over(content(tmp_path, *rows), 0.0, 3.5) == {}
    assert gauges.mean_over(content(tmp_path, *rows), 0.0, 4.5)
    assert gauges.mean_over(content(tmp_path, *lines((1, 0, 0), (2, 0, 0))), 0.0, np.inf) == {}


def test_samples_that_failed_are_passed_over(tmp_path):
    rows = lines(*((t, 3, 0) for t in range(8)), (8, None, None), (9, 3, None))
    assert len(gauges.samples(content(tmp_path, *rows))) == 9


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (lines((1, 2, 0), (2, "x", 0)), "line 2: running must be a number. Got 'x' instead"),
        (lines((1, 2, 0), (2, -1, 0)), "line 2: running must be at least 0"),
        (lines((1, 2, 0), (0.5, 1, 0)), "line 2: t must not go backwards. Got 0.5 after 1.0"),
        ([[1], {"t": 1}], "must be a JSON object"),
        (lines((None, 1, 1), (None, 2, 2)), "no sample with t and running"),
    ],
)
def test_samples_that_cannot_be(tmp_path, rows, reason):
    path = tmp_path / "x.jsonl"
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text if text.startswith("{") else '{"t": 0}\n' + text)
    with pytest.raises(FormatError) as caught:
        gauges.mean_over(Content(path), 0.0, 9.0)
    assert reason in str(caught.value)


def test_alone_they_are_no_run():
    reading = gauges.read(Content(REAL))
    assert reading.runs == []
    assert "NAME.gauges.jsonl beside NAME.json" in reading.skipped[0]


@pytest.mark.parametrize(
    "other",
    [
        None,
        3,
        [],
        [lines((1, 2, 3))],
        {},
        {"t": 1, "running": 2},
        {"t": "1", "running": 2, "waiting": 3},
        {"t": 1, "running": True, "waiting": 0},
        {"running": 1, "waiting": 2, "duration": 3},
    ],
)
def test_what_is_not_recognised(other):
    assert not gauges.recognises(other)


SAMPLE = lines(*((float(t), t % 5, 0) for t in range(20)))


@given(rows=damaged(SAMPLE), window=st.tuples(st.floats(), st.floats()))
@settings(max_examples=100, deadline=None)
def test_damage_ends_in_a_mean_or_a_typed_error(tmp_path_factory, rows, window):
    try:
        found = gauges.mean_over(content(tmp_path_factory.mktemp("x"), *rows), *window)
    except BayesSdError:
        return
    assert not found or found["mean_running_requests"] >= 0


@given(VALUES)
@settings(max_examples=50, deadline=None)
def test_anything_may_be_asked_about(sample):
    assert gauges.recognises(sample) in (True, False)
    assert gauges.recognises({"t": sample, "running": sample, "waiting": 0}) in (True, False)
