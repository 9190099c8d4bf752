"""Replicas for a traffic: least numbers by counting draws, hours, costs, and refusals."""

import json

import numpy as np
import pandas as pd
import pytest

from bayes_sd.capacity import max_rate
from bayes_sd.exceptions import ArgumentError, ConvergenceWarning
from bayes_sd.predict import predict_quantiles
from bayes_sd.replicas import replicas_needed
from bayes_sd.scenario import Scenario
from bayes_sd.traffic import read_traffic
from tests.fake_fit import fake_fit

AT = Scenario("quick", request_rate_rps=1.0, num_speculative_tokens=3)
SLO = "e2e_p95 <= 1.1"
DAY = [2.0, 0.0, 9.0, 40.0, 95.5, 31.0]


@pytest.fixture(scope="module")
def tree():
    return fake_fit(draws=200, spread=0.1, discrepancy_sd=0.05)


def p_met(tree, rate, slo_s=1.1):
    at = AT.with_(request_rate_rps=float(rate))
    return np.mean(predict_quantiles(tree, at, [0.95]).values <= slo_s)


def test_numbers_are_the_least_that_keep_the_certainty(tree):
    found = replicas_needed(tree, AT, SLO, DAY, certainty=0.9)
    assert found.replicas.min() == 1 < found.replicas.max()
    for rate, n in zip(DAY, found.replicas, strict=True):
        if rate:
            assert p_met(tree, rate / n) >= 0.9
        if n > 1:
            assert p_met(tree, rate / (n - 1)) < 0.9
    assert (found.p_slo_met >= 0.9).all()
    assert found.p_one_fewer[4] < 0.9
    assert found.p_one_fewer[1] == 1  # no traffic needs none
    assert found.p_one_fewer[0] == 0
    assert found.p_all_met == found.p_slo_met.min()


def test_more_certainty_or_traffic_is_never_fewer_replicas(tree):
    numbers = [
        replicas_needed(tree, AT, SLO, np.linspace(0, 200, 41), c).replicas
        for c in (0.5, 0.8, 0.95)
    ]
    assert all((np.diff(n) >= 0).all() for n in numbers)
    assert (numbers[0] <= numbers[1]).all()
    assert (numbers[1] <= numbers[2]).all()
    assert numbers[2].sum() > numbers[0].sum()


def test_half_the_draws_need_no_more_than_the_median_number(tree):
    found = replicas_needed(tree, AT, SLO, 95.5)
    broken = max_rate(tree, AT, SLO).broken
    n = found.median_replicas[0]
    assert np.mean(broken >= 95.5 / (n - 1)) < 0.5 <= np.mean(broken >= 95.5 / n)
    assert n < found.replicas[0]


def test_a_rate_that_fills_replicas_to_the_brim_needs_no_more(tree):
    each = max_rate(tree, AT, SLO).rate
    for n in (1, 3, 7, 49):
        assert replicas_needed(tree, AT, SLO, n * each).replicas.tolist() == [n]


def test_costs_follow_the_times_of_a_series(tree):
    times = pd.to_datetime(["2026-03-01 00:00", "2026-03-01 06:00", "2026-03-01 07:30"], utc=True)
    traffic = pd.Series([5.0, 95.5, 20.0], index=times)
    found = replicas_needed(tree, AT, SLO, traffic, cost_per_replica_hour=2.0)
    assert found.hours.tolist() == [6.0, 1.5, 1.5]
    n = found.replicas
    assert found.replica_hours == 6 * n[0] + 1.5 * n[1] + 1.5 * n[2]
    assert found.cost == 2 * found.replica_hours
    assert found.cost_at_peak == 2 * 9 * n.max() > found.cost
    table = found.to_frame()
    assert (table.index == times).all()
    assert table["cost"].sum() == found.cost
    np.testing.assert_allclose(table["rate_per_replica_rps"], traffic / n)


def test_one_rate_costs_one_hour(tree):
    found = replicas_needed(tree, AT, SLO, 20, cost_per_replica_hour=3)
    assert found.cost == found.cost_at_peak == 3 * found.peak
    longer = replicas_needed(tree, AT, SLO, 20, cost_per_replica_hour=3, hours=24)
    assert longer.cost == 24 * found.cost
    assert np.isnan(replicas_needed(tree, AT, SLO, 20).cost)


def test_no_traffic_may_need_no_replica(tree):
    assert replicas_needed(tree, AT, SLO, [0.0, 5.0], min_replicas=0).replicas.tolist() == [0, 1]
    assert replicas_needed(tree, AT, SLO, [0.0, 5.0], min_replicas=2).replicas.tolist() == [2, 2]


def test_an_objective_that_an_idle_server_breaks_has_no_number(tree):
    found = replicas_needed(tree, AT, "e2e_p95 <= 0.1", DAY, cost_per_replica_hour=1.0)
    assert found.replicas is None
    assert found.peak is None
    assert found.to_frame()["replicas"].isna().all()
    assert "not met at any load, with any number of replicas" in found.statement()
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (plain["cost"], plain["rates"][0]["replicas"]) == (None, None)
    assert np.isinf(found.median_replicas[0])


def test_answer_is_plain(tree):
    found = replicas_needed(tree, AT, SLO, DAY, cost_per_replica_hour=2.5)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [row["replicas"] for row in plain["rates"]] == found.replicas.tolist()
    assert plain["cost"] == found.cost
    assert plain["per_replica"]["rate"] == found.per_replica.rate
    words = found.statement()
    assert f"needs 1 to {found.peak} replicas for 0 to 95.5 requests/s" in words
    assert f"at the peak P(SLO met) is {found.p_one_fewer[4]:.2f}" in words
    assert f"replica-hours cost {found.cost:.4g}" in words


def test_a_fit_that_did_not_converge_is_said_first():
    with pytest.warns(ConvergenceWarning, match=r"NOT CONVERGED"):
        found = replicas_needed(fake_fit(draws=5, passed=False), AT, SLO, 20)
    assert found.statement().startswith("NOT CONVERGED")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rates_rps": [2.0, -1.0, np.nan]}, r"at least 0\. Got -1 instead in rows 1, 2"),
        ({"rates_rps": []}, r"one or more\. Got \[\]"),
        ({"rates_rps": "20"}, r"numbers of requests per second"),
        ({"rates_rps": [True]}, r"numbers of requests per second"),
        ({"rates_rps": 5, "hours": 0}, r"hours must be a finite number above 0"),
        ({"rates_rps": 5, "cost_per_replica_hour": -1}, r"cost_per_replica_hour must be"),
        ({"rates_rps": 5, "min_replicas": 1.5}, r"min_replicas must be a whole number"),
        ({"rates_rps": 5, "certainty": 0}, r"certainty must be a probability above 0"),
        ({"rates_rps": 5, "scenario": AT.with_(concurrency=4)}, r"Got concurrency = 4 instead"),
    ],
)
def test_what_cannot_be_answered_is_said(tree, options, words):
    with pytest.raises(ArgumentError, match=words):
        replicas_needed(tree, **{"scenario": AT, "slo": SLO} | options)


def test_times_must_rise_and_stand_alone():
    times = pd.to_datetime(["2026-03-02", "2026-03-01"])
    with pytest.raises(ArgumentError, match=r"times of rates_rps must rise"):
        read_traffic(pd.Series([1.0, 2.0], index=times))
    with pytest.raises(ArgumentError, match=r"hours must be left out where rates_rps has times"):
        read_traffic(pd.Series([1.0, 2.0], index=times[::-1]), hours=2)
    steps = pd.to_timedelta(["0h", "90min", "2h"])
    assert read_traffic(pd.Series([1.0, 2.0, 3.0], index=steps))[2].tolist() == [1.5, 0.5, 0.5]
    labels = pd.Series([1.0, 2.0], index=["night", "day"])
    assert read_traffic(labels)[2].tolist() == [1.0, 1.0]
