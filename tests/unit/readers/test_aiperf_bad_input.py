"""AIPerf files that cannot be: refused or skipped with the reason, and nothing else happens."""

import copy
import json
import math
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayes_sd.exceptions import BayesSdError, FormatError
from bayes_sd.readers import aiperf, aiperf_records
from bayes_sd.readers.content import Content
from tests.unit.readers.aiperf_files import (
    SUMMARY,
    load,
    load_records,
    phases,
    read_records,
    read_summary,
    record,
    summary,
)


def edited(path, value):
    """Put a value into a good summary."""
    document = summary(phases("poisson", rate=4.0))
    place = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("request_count", "avg"), 0, "at least 1"),
        (("request_count", "avg"), 2.5, "whole number"),
        (("request_count", "avg"), -4, "at least 0"),
        (("request_count", "avg"), "many", "must be a number"),
        (("request_count",), 200, "must be a JSON object"),
        (("request_latency", "avg"), "fast", "must be a number"),
        (("request_latency", "avg"), -1.0, "at least 0"),
        (("request_latency", "avg"), [1.0], "must be a number"),
        (("request_latency",), [1.0], "must be a JSON object"),
        (("time_to_first_token", "p99"), True, "must be a number"),
        (("benchmark_duration", "avg"), -3.0, "at least 0"),
        (("records",), 3, "must be a JSON object"),
        (("input_config",), "none", "must be a JSON object"),
        (("input_config", "phases"), {}, "must be a list"),
        (("input_config", "phases"), [3], "must be a JSON object"),
        (("input_config", "phases"), [], "one measured phase. Got none"),
        (("input_config", "phases", 1, "rate"), "quick", "must be a number"),
        (("input_config", "phases", 1, "rate"), -2.0, "at least 0"),
        (("input_config", "phases", 1, "concurrency"), 2.5, "whole number"),
        (("input_config", "phases", 1, "rate_ramp"), "5m", "must be a number"),
        (("pooled_spec_decode_acceptance_histogram",), {"x": 1}, "whole numbers up to"),
        (("pooled_spec_decode_acceptance_histogram",), {"99999": 1}, "whole numbers up to"),
        (("pooled_spec_decode_acceptance_histogram",), {"1": -1}, "at least 0"),
        (("pooled_spec_decode_acceptance_histogram",), [3], "must be a JSON object"),
    ],
)
def test_figures_that_cannot_be_are_told(tmp_path, path, value, words):
    reading = read_summary(tmp_path, edited(path, value))
    assert not reading.runs
    assert words in reading.skipped[0]


@pytest.mark.parametrize("value", [math.nan, math.inf, None, "NaN"])
def test_statistics_that_are_no_numbers_are_not_there(tmp_path, value):
    (run,) = read_summary(tmp_path, edited(("request_latency", "avg"), value)).runs
    assert "mean_e2e_s" not in run
    assert run["p50_e2e_s"] == 1


@pytest.mark.parametrize("name", ["start_time", "end_time"])
@pytest.mark.parametrize("value", ["yesterday", 3, None, {}, "0001-01-01T00:00:00+14:00"])
def test_times_that_are_none_are_left_out(tmp_path, name, value):
    (run,) = read_summary(tmp_path, edited((name,), value)).runs
    assert "_end_s" not in run


def test_drafts_beyond_the_range_of_numbers_give_no_draft_length(tmp_path):
    document = load("0.13.0_open")
    document["total_draft_tokens"]["avg"] = 1e308
    document["total_spec_decode_steps"]["avg"] = 1e-3
    (run,) = read_summary(tmp_path, document).runs
    assert "num_speculative_tokens" not in run


def test_truncated_summary_is_refused(tmp_path):
    path = tmp_path / SUMMARY
    path.write_text(json.dumps(summary({}), indent=1)[:-200])
    with pytest.raises(FormatError, match="no JSON"):
        aiperf.read(Content(path))


def test_missing_sections_leave_cells_out(tmp_path):
    document = {"request_latency": {"unit": "ms", "avg": 3.0}}
    (run,) = read_summary(tmp_path, document).runs
    assert run == {"mean_e2e_s": 3e-3}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.sampled_from(["", "x", "ms", "ns", "inf", "1e999", "2020-01-01", "-5", "warmup", "gamma"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


def places(document, path=()):
    """List all places of a document."""
    yield path
    if isinstance(document, dict):
        for name, value in document.items():
            yield from places(value, (*path, name))
    elif isinstance(document, list):
        for number, value in enumerate(document[:5]):
            yield from places(value, (*path, number))


def replaced(document, path, value):
    document = copy.deepcopy(document)
    place = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return document


SUMMARIES = [load("2025-10"), load("0.3.0_open"), load("0.13.0_open")]
LINES = load_records("0.13.0_closed")[:12]
ALIKE = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@ALIKE
@given(data=st.data())
def test_whatever_stands_in_a_summary_only_our_errors_come_out(tmp_path, data):
    document = data.draw(st.sampled_from(SUMMARIES))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([p for p in places(document) if p]))
        document = replaced(document, path, data.draw(JSON))
    try:
        reading = read_summary(tmp_path, document)
    except BayesSdError:
        return
    assert reading.runs or reading.skipped


@ALIKE
@given(data=st.data())
def test_whatever_stands_in_records_only_our_errors_come_out(tmp_path, data):
    lines = list(LINES)
    for _ in range(data.draw(st.integers(1, 4))):
        number = data.draw(st.integers(0, len(lines) - 1))
        if isinstance(lines[number], dict):
            path = data.draw(st.sampled_from(list(places(lines[number]))))
            value = data.draw(JSON)
            lines[number] = replaced(lines[number], path, value) if path else value
    try:
        reading = read_records(tmp_path, lines)
    except BayesSdError:
        return
    assert reading.runs or reading.skipped
    for run in reading.runs:
        assert run["num_requests"] >= 2


@given(sample=JSON)
def test_recognising_never_raises(sample):
    assert not aiperf.recognises(sample)
    assert not aiperf_records.recognises(sample)


def test_a_megabyte_takes_less_than_a_second(tmp_path):
    lines = [record(n) for n in range(1800)] + ["{" * 1000] * 100
    begun = time.perf_counter()
    reading = read_records(tmp_path, lines)
    assert time.perf_counter() - begun < 1.5
    assert reading.runs[0]["num_requests"] == 1800
