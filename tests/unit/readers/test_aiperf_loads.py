"""How AIPerf and GenAI-Perf say what load they made: each form of input_config, and its traps."""

import pytest

from tests.unit.readers.aiperf_files import checked, phases, read_summary, said, summary


def loadgen(**fields):
    """Build the input_config of early AIPerf."""
    return {"endpoint": {"model_names": ["m"]}, "loadgen": fields}


FORMS = {
    "loadgen": loadgen(concurrency=8),
    "phases": phases("concurrency", concurrency=8),
    "arguments": {"model": ["m"], "concurrency": 8, "request_rate": None},
    "stimulus": {"model_names": ["m"], "perf_analyzer": {"stimulus": {"concurrency": 8}}},
}


@pytest.mark.parametrize("form", FORMS)
def test_closed_loop_in_every_form(tmp_path, form):
    reading = read_summary(tmp_path, summary(FORMS[form]))
    (run,) = reading.runs
    assert (run["load_kind"], run["arrivals"], run["concurrency"]) == ("closed", "closed", 8)
    assert run["is_throughput_test"] is False
    assert "request_rate_rps" not in run
    assert len(checked(reading)) == 1


@pytest.mark.parametrize(
    ("config", "arrivals"),
    [
        (loadgen(request_rate=4.0), "poisson"),  # the default, left out where it is not set
        (loadgen(request_rate=4.0, request_rate_mode="constant"), "constant"),
        (loadgen(request_rate=4.0, arrival_pattern="poisson"), "poisson"),
        (loadgen(request_rate=4.0, arrival_pattern="gamma", arrival_smoothness=0.2), "bursty"),
        (phases("poisson", rate=4.0), "poisson"),
        (phases("constant", rate=4.0), "constant"),
        (phases("gamma", rate=4.0), "poisson"),
        (phases("gamma", rate=4.0, smoothness=1.0), "poisson"),
        (phases("gamma", rate=4.0, smoothness=0.2), "bursty"),
        (phases("gamma", rate=4.0, smoothness=100.0), "constant"),
        ({"request_rate": 4.0, "concurrency": None}, "constant"),
        ({"perf_analyzer": {"stimulus": {"request_rate": 4.0}}}, "constant"),
    ],
)
def test_open_load_in_every_form(tmp_path, config, arrivals):
    reading = read_summary(tmp_path, summary(config))
    (run,) = reading.runs
    assert run["load_kind"] == "open"
    assert run["arrivals"] == arrivals
    assert run["request_rate_rps"] == run["target_rate_rps"] == 4
    assert said(reading, "the rate asked for")
    assert not said(reading, "fell behind")
    assert len(checked(reading)) == 1


def test_gamma_arrivals_between_even_and_poisson_are_said_to_be(tmp_path):
    reading = read_summary(tmp_path, summary(phases("gamma", rate=4.0, smoothness=4.0)))
    assert reading.runs[0]["arrivals"] == "poisson"
    assert said(reading, "vary by 0.50 of their mean", "smoothness 4")


def test_rate_with_a_number_in_flight_is_open_load_with_a_cap(tmp_path):
    for config in (
        loadgen(request_rate=4.0, concurrency=32),
        phases("poisson", rate=4.0, concurrency=32),
    ):
        (run,) = read_summary(tmp_path, summary(config)).runs
        assert (run["load_kind"], run["client_cap"]) == ("open", 32)
        assert "concurrency" not in run


def test_rate_that_was_not_kept_is_said(tmp_path):
    document = summary(phases("poisson", rate=6.0))  # 200 in 50 s, each of 1 s: 4.06 per second
    assert said(read_summary(tmp_path, document), "make 4.06 per second, not the 6", "fell behind")


def test_concurrency_phase_keeps_one_in_flight_unless_told_otherwise(tmp_path):
    (run,) = read_summary(tmp_path, summary(phases("concurrency"))).runs
    assert run["concurrency"] == 1


def test_burst_is_no_steady_load(tmp_path):
    document = summary(
        phases("concurrency", concurrency=200),
        effective_concurrency={"unit": "requests", "avg": 90.0},
    )
    reading = read_summary(tmp_path, document)
    (run,) = reading.runs
    assert run["is_throughput_test"] is True
    assert "mean_in_system_requests" not in run
    assert said(reading, "a burst")


@pytest.mark.parametrize(
    "config",
    [
        loadgen(request_rate=4.0, request_rate_ramp_duration=20.0),
        loadgen(concurrency=8, concurrency_ramp_duration=20.0),
        phases("poisson", rate=4.0, rate_ramp={"duration": 20.0, "strategy": "linear"}),
        phases("poisson", rate=4.0, rate_ramp=20.0),
        phases("poisson", rate_series={"points": [[0, 1.0], [10, 2.0]]}),
        phases("concurrency", concurrency=8, adaptive_scale=True),
        phases("concurrency", concurrency=8, concurrency_ramp={}),
    ],
)
def test_load_that_changed_is_refused(tmp_path, config):
    reading = read_summary(tmp_path, summary(config))
    assert not reading.runs
    assert "no one load" in reading.skipped[0]
    assert "Run each load by itself" in reading.skipped[0]


def test_short_ramp_and_ramps_that_are_off_are_no_change_of_load(tmp_path):
    config = phases("concurrency", concurrency=8, concurrency_ramp=2.0, adaptive_scale=False)
    assert read_summary(tmp_path, summary(config)).runs


@pytest.mark.parametrize(
    ("config", "mode"),
    [
        (loadgen(user_centric_rate=4.0, num_users=3), "user_centric"),
        ({"input": {"fixed_schedule": True}, "loadgen": {"concurrency": 8}}, "fixed_schedule"),
        (phases("user_centric", rate=4.0, users=3), "user_centric"),
        (phases("fixed_schedule"), "fixed_schedule"),
        (phases("poisson"), "poisson"),  # without a rate
        ({"session_concurrency": 4, "concurrency": None}, "session_concurrency"),
    ],
)
def test_other_modes_are_left_to_the_user(tmp_path, config, mode):
    reading = read_summary(tmp_path, summary(config))
    (run,) = reading.runs
    assert "load_kind" not in run
    assert said(reading, mode, "Give load_kind")


@pytest.mark.parametrize("config", [None, {}, {"loadgen": {}}, {"model": ["m"]}])
def test_load_that_is_not_told_is_asked_for(tmp_path, config):
    reading = read_summary(tmp_path, summary(config))
    (run,) = reading.runs
    assert "load_kind" not in run
    assert said(reading, "does not tell how the run was loaded")
