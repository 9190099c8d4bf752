"""GuideLLM files that cannot be: refused or skipped with the reason, and nothing else happens."""

import copy
import json
import math
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayes_sd.exceptions import BayesSdError, FormatError
from bayes_sd.readers import guidellm
from bayes_sd.readers.content import Content
from tests.unit.readers.guidellm_reports import (
    FILES,
    benchmark,
    listed,
    load,
    read,
    report,
    said,
)


def edited(path, value):
    """Put a value into a good report."""
    document = report(benchmark({"type_": "constant", "rate": 4.0}), benchmark({}))
    place = document["benchmarks"][0]
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("metrics", "request_totals", "successful"), 0, "no request of this run was answered"),
        (("metrics", "request_totals", "successful"), 2.5, "a whole number"),
        (("metrics", "request_totals", "successful"), -4, "at least 0"),
        (("metrics", "request_latency", "successful", "mean"), "fast", "must be a number"),
        (("metrics", "request_latency", "successful", "mean"), -1.0, "at least 0"),
        (("metrics", "request_latency", "successful", "mean"), float("nan"), "no latency"),
        (("metrics", "request_latency"), None, "no latency"),
        (("metrics", "request_latency"), [1.0], "no latency"),
        (("metrics", "request_latency", "successful"), [1.0], "must be a JSON object"),
        (("metrics", "time_to_first_token_ms", "successful", "percentiles"), 3, "JSON object"),
        (("metrics",), None, "no request of this run was answered"),
        (("metrics",), "none", "must be a JSON object"),
        (("duration",), -3.0, "duration must be at least 0"),
        (("start_time",), "yesterday", "start_time must be a number"),
        (("config", "strategy", "rate"), 0, "above 0"),
        (("config", "strategy", "rate"), -2.0, "at least 0"),
        (("config", "strategy"), {"type_": "concurrent", "streams": 0}, "at least 1"),
        (("config", "strategy"), {"type_": "concurrent"}, "at least 1"),
        (("config", "strategy"), "constant", "must be a JSON object"),
        (("requests",), {"successful": 3}, "must be a list"),
    ],
)
def test_what_cannot_be_is_skipped_with_its_place_and_the_rest_is_kept(
    tmp_path, path, value, words
):
    reading = read(tmp_path, edited(path, value))
    assert len(reading.runs) == 1
    (message,) = reading.skipped
    assert message.startswith("entry 1: ")
    assert words in message


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metrics", "request_totals"), None),
        (("duration",), float("inf")),
        (("duration",), None),
        (("end_time",), 1.0),
        (("requests",), {"successful": [1, None, "x"]}),
        (("requests",), None),
        (("config", "backend"), "openai_http"),
        (("worker",), ["w"]),
    ],
)
def test_what_a_run_can_do_without_does_not_cost_the_run(tmp_path, path, value):
    reading = read(tmp_path, edited(path, value))
    assert len(reading.runs) == 2
    assert not reading.skipped


@pytest.mark.parametrize("document", [[], {"benchmarks": []}, {"benchmarks": 3}, 7, None, {}])
def test_file_without_runs_is_refused(tmp_path, document):
    path = tmp_path / "benchmarks.json"
    path.write_text(json.dumps(document))
    with pytest.raises(FormatError):
        guidellm.read(Content(path))


def test_truncated_file_is_refused(tmp_path):
    path = tmp_path / "benchmarks.json"
    path.write_bytes((FILES / "report_0.3.json").read_bytes()[:9000])
    with pytest.raises(FormatError, match="stopped while it wrote"):
        guidellm.read(Content(path))


def test_clock_that_ran_backwards(tmp_path):
    """A request whose answer ended before it was sent is left out, and said."""
    entry = benchmark({"type_": "constant", "rate": 4.0}, done=50, cut=0, duration=13.0)
    entry["requests"]["successful"] = listed(1.77e9 + np.arange(50) / 4.0)
    entry["requests"]["successful"][7]["request_latency"] = -2.0
    reading = read(tmp_path, report(entry))
    assert said(reading, "1 of 50 requests have times that cannot be")
    assert len(reading.requests[0]) == 49
    assert reading.runs[0]["request_rate_rps"] == pytest.approx(4.0)


def test_reading_takes_below_a_second_for_a_megabyte(tmp_path):
    document = load("poisson_0.8.1.json")
    document["benchmarks"] *= 20
    path = tmp_path / "benchmarks.json"
    path.write_text(json.dumps(document))
    begin = time.process_time()
    guidellm.read(Content(path))
    assert time.process_time() - begin < path.stat().st_size / 1e6


def small_samples():
    """Return samples of both kinds, small enough to change any part of them."""
    entry = benchmark({"type_": "constant", "rate": 4.0}, done=4, cut=0, duration=3.0)
    entry["requests"]["successful"] = listed(1.77e9 + np.arange(4) / 4.0)
    full = report(entry, benchmark({"type_": "throughput", "max_concurrency": 8}))
    bare = load("metrics_only.json")
    for metrics in bare:
        for groups in metrics.values():
            for found in groups.values():
                del found["cumulative_distribution_function"]
    return full, bare


def places(found, path=()):
    for name, value in found.items() if isinstance(found, dict) else enumerate(found):
        yield (*path, name)
        if isinstance(value, dict | list):
            yield from places(value, (*path, name))


SAMPLES = small_samples()
PLACES = [list(places(sample)) for sample in SAMPLES]
ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.sampled_from([0, -1, 1, 1e308, -1e308, 1e-308, "NaN", "1e400", "inf"])
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_change_of_a_file_ends_in_a_reading_or_an_error_of_ours(tmp_path, data):
    number = data.draw(st.integers(0, 1))
    document = copy.deepcopy(SAMPLES[number])
    for path in data.draw(st.lists(st.sampled_from(PLACES[number]), min_size=1, max_size=4)):
        place = document
        try:
            for name in path[:-1]:
                place = place[name]
            place[path[-1]] = data.draw(ANY_JSON)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took this place away
    guidellm.recognises(document)
    file = tmp_path / "any.json"
    file.write_text(json.dumps(document))
    try:
        reading = guidellm.read(Content(file))
    except BayesSdError:
        return
    assert len(reading.runs) == len(reading.requests)
    for run in reading.runs:
        assert all(not isinstance(v, float) or math.isfinite(v) for v in run.values())
