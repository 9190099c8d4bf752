"""Live metrics against a fit: the right part, the statistics behind it, and bad input."""

import numpy as np
import pandas as pd
import pytest

from bayes_sd.drift import DriftMonitor, check_drift
from bayes_sd.drift_streams import Detector, ResidualFilter, load_increments, log_threshold
from bayes_sd.exceptions import ArgumentError
from bayes_sd.live_recommend import recommend_live
from bayes_sd.live_reference import LiveReference
from bayes_sd.live_window import LiveWindow, windows_of
from bayes_sd.predict import predict_latency
from bayes_sd.scenario import Scenario
from tests.fake_fit import KNOWN, fake_fit

K, WINDOW_S = 3, 300.0
RATES = np.array(KNOWN.acceptance["big", "quick"][:K])
SCENARIO = Scenario("quick", request_rate_rps=4.0, num_speculative_tokens=K)


@pytest.fixture(scope="module")
def tree():
    return fake_fit(spread=0.02)


@pytest.fixture(scope="module")
def reference(tree):
    return LiveReference.of(tree, SCENARIO)


def days(reference, count=60, *, after=30, cost=1.0, acceptance=1.0, rate=1.0, boot=None, seed=0):
    """Windows of a server that obeys the known law, with a change after some of them."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(count):
        changed = i >= after
        arrivals = rng.poisson(4.0 * WINDOW_S * (rate if changed else 1.0))
        factor = acceptance if changed else 1.0
        drafts = left = int(arrivals * 80)
        accepted = []
        for each in RATES * factor:
            left = rng.binomial(left, each)
            accepted.append(float(left))
        length = 1 + sum(accepted) / drafts
        slow = cost if changed else 1.0
        slow *= (boot or 1.0) if changed else 1.0
        batch = 2.0
        for _ in range(100):
            mean = reference.at(np.array([batch]), np.array([length]))[0][0]
            batch = arrivals / WINDOW_S * np.exp(mean) * slow
        found.append(
            LiveWindow(
                WINDOW_S,
                num_requests=float(arrivals),
                num_arrivals=float(arrivals),
                mean_e2e_s=float(np.exp(mean) * slow * np.exp(0.15 / arrivals**0.5 * rng.normal())),
                mean_running_requests=rng.poisson(batch * 60) / 60,
                num_gauge_samples=60,
                num_drafts=drafts,
                accepted=tuple(accepted),
                process_start_s=5000.0 if changed and boot is not None else 1000.0,
                end_s=WINDOW_S * i,
            )
        )
    return found


def test_nothing_moves_on_a_clean_server(tree, reference):
    report = check_drift(tree, days(reference), SCENARIO)
    assert report.moved == ()
    assert report.statement() == "Nothing moved in 60 windows."
    assert report.to_frame()["cost_ratio"].sub(1).abs().max() < 0.1


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"cost": 1.1}, "cost"),
        ({"acceptance": 0.85}, "acceptance"),
        ({"rate": 2.0}, "load"),
        ({"rate": 0.4}, "load"),
        ({"boot": 1.02}, "boot"),
        ({"cost": 0.9}, "cost"),
    ],
)
def test_the_right_part_is_named_alone_and_soon(tree, reference, change, part):
    report = check_drift(tree, days(reference, **change), SCENARIO)
    assert report.moved == (part,)
    assert 30 <= report.told_at[part] < 45
    assert report.is_alarm == (part != "boot")


def test_a_shift_at_a_restart_far_beyond_any_boot_is_cost(tree, reference):
    report = check_drift(tree, days(reference, boot=1.3), SCENARIO)
    assert "cost" in report.moved


def test_the_time_to_detect_is_about_what_a_change_takes(tree, reference):
    report = check_drift(tree, days(reference, cost=1.1), SCENARIO)
    promised = {s.part: s.detects_10_percent_s for s in report.streams}["cost"] / WINDOW_S
    taken = report.told_at["cost"] - 30 + 1
    assert taken <= 3 * promised
    assert promised <= 3 * taken


def test_the_reference_is_what_predict_latency_says(tree, reference):
    predicted = predict_latency(tree, SCENARIO.with_(request_rate_rps=6.0), random_seed=0).isel(
        scenario=0
    )
    batch = float(predicted["effective_batch"].median())
    mean, *_ = reference.at(np.array([batch]), np.exp([reference.acceptance.log_length]))
    assert np.exp(mean[0]) == pytest.approx(float(predicted["e2e_s"].median()), rel=0.01)


def test_innovations_of_the_filter_have_the_density_of_the_joint_normal():
    rng = np.random.default_rng(1)
    loads = rng.normal(size=(6, 3))
    prior, noise = np.array([1.0, 0.5, 2.0]), rng.uniform(0.1, 0.5, 6)
    seen = rng.normal(size=6)
    filtered = ResidualFilter(prior)
    total = 0.0
    for r, a, v in zip(seen, loads, noise, strict=True):
        e, s = filtered.see(np.array([r]), a[None], np.array([v]))
        total += -0.5 * (np.log(2 * np.pi * s[0]) + e[0] ** 2 / s[0])
    from scipy import stats

    cov = loads @ np.diag(prior) @ loads.T + np.diag(noise)
    assert total == pytest.approx(stats.multivariate_normal(np.zeros(6), cov).logpdf(seen))


def test_false_alarms_stay_below_the_bound_and_a_low_threshold_would_not():
    rng = np.random.default_rng(2)
    count, windows, alpha = 4000, 100, 0.2
    detector = Detector(count)
    highest = np.full(count, -np.inf)
    for _ in range(windows):
        seen = detector.see(0.05 * rng.standard_normal(count), np.full(count, 0.05**2))
        highest = np.maximum(highest, seen)
    found = (highest >= log_threshold(windows, alpha)).mean()
    assert found <= alpha + 3 * np.sqrt(alpha * (1 - alpha) / count)
    assert (highest >= log_threshold(windows, alpha) - np.log(100)).mean() > alpha


@pytest.mark.parametrize("ratio", [1.5, 1.0, 1 / 1.5])
def test_load_increments_are_e_values_over_the_band_and_not_beyond(ratio):
    from scipy import stats

    counts = np.arange(0, 400.0)
    chance = stats.poisson(40 * ratio).pmf(counts)
    means = chance @ np.exp(load_increments(counts, np.full(400, 40.0), 1.5))
    assert (means <= 1 + 1e-9).all()
    chance = stats.poisson(80).pmf(counts)
    assert (chance @ np.exp(load_increments(counts, np.full(400, 40.0), 1.5))).max() > 2


def test_a_table_is_as_good_as_windows(tree, reference):
    windows = days(reference, 5)
    rows = pd.DataFrame([vars(w) for w in windows])
    one, other = (check_drift(tree, live, SCENARIO).to_dict() for live in (windows, rows))
    assert one == other


def test_windows_that_lack_a_figure_leave_that_part_alone(tree, reference):
    bare = [LiveWindow(WINDOW_S, num_requests=1200.0) for _ in range(4)]
    report = check_drift(tree, bare, SCENARIO)
    assert report.moved == ()
    assert np.isnan(report.to_frame()["cost_ratio"]).all()
    assert all(np.isnan(stream.detects_10_percent_s) for stream in report.streams)


def test_an_unknown_column_of_windows_names_the_nearest_first():
    with pytest.raises(ArgumentError, match=r"one of num_requests, .*Got 'num_request' instead"):
        windows_of(pd.DataFrame({"duration_s": [1.0], "num_request": [3]}))


@pytest.mark.parametrize("live", [[], [1.0], "windows", None, pd.DataFrame({"duration": [1.0]})])
def test_what_is_no_window_is_refused(live):
    with pytest.raises(ArgumentError, match="live"):
        windows_of(live)


@pytest.mark.parametrize(
    "wrong",
    [
        {"duration_s": 0.0},
        {"duration_s": 1.0, "num_requests": -1.0},
        {"duration_s": 1.0, "num_drafts": 10, "accepted": (5, 6)},
        {"duration_s": 1.0, "num_gauge_samples": 0},
    ],
)
def test_impossible_windows_are_refused(wrong):
    with pytest.raises(ArgumentError):
        LiveWindow(**wrong)


@pytest.mark.parametrize("wrong", [{"false_alarm": 0.0}, {"load_tolerance": 2.5}])
def test_impossible_settings_are_refused(tree, wrong):
    with pytest.raises(ArgumentError):
        DriftMonitor(tree, SCENARIO, **wrong)


def test_windows_of_another_length_are_refused(tree):
    monitor = DriftMonitor(tree, SCENARIO)
    monitor.see(LiveWindow(300.0, num_requests=1200.0))
    with pytest.raises(ArgumentError, match="about as long"):
        monitor.see(LiveWindow(60.0, num_requests=240.0))


def test_a_draft_length_is_kept_while_it_costs_hardly_more(tree, reference):
    window = days(reference, 1)
    free = recommend_live(tree, window, SCENARIO)
    regret = dict(zip(free.decision.candidates, free.decision.expected_regret, strict=True))
    other = max(regret, key=regret.get)
    moved = recommend_live(tree, window, SCENARIO, current=other)
    assert moved.choice == free.choice
    assert moved.is_switch
    assert "would cost" in moved.reason
    best = recommend_live(tree, window, SCENARIO, current=free.choice)
    assert not best.is_switch
    assert best.statement() == free.statement().replace("Run", "Keep")
    kept = recommend_live(tree, window, SCENARIO, current=other, switch_regret=regret[other] + 0.01)
    assert kept.choice == other
    assert not kept.is_switch
    assert "Keep" in kept.statement()


def test_counts_of_now_change_the_draft_length(tree, reference):
    poor = days(reference, 1, after=0, acceptance=0.1)
    as_counted = recommend_live(tree, poor, SCENARIO, use_counts=True).choice
    assert as_counted < recommend_live(tree, poor, SCENARIO).choice
    with pytest.raises(ArgumentError, match="use_counts"):
        recommend_live(tree, LiveWindow(60.0, num_requests=9.0), SCENARIO, use_counts=True)
