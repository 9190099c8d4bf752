"""Share of requests and P(SLO met): against the inverse, the normal law, and counting draws."""

import json
from statistics import NormalDist

import numpy as np
import pytest

from bayes_sd.attainment import slo_attainment
from bayes_sd.exceptions import ArgumentError, ConvergenceWarning, DataError
from bayes_sd.goodput_rate import goodput
from bayes_sd.physics.request_quantiles import request_draws, request_quantile
from bayes_sd.predict import predict_latency, predict_quantiles
from bayes_sd.request_latency import Spread
from bayes_sd.scenario import Scenario
from bayes_sd.slo import Slo
from bayes_sd.slo_draws import share_within
from tests.edited_fit import FIRST_TOKEN, edited_fit
from tests.fake_fit import fake_fit

SILENT = {"boot_sd": 0.0, "discrepancy_sd": 0.0, "request_cv": 0.0, "extrapolation_sd": 0.0}
AT = Scenario("quick", request_rate_rps=10.0, num_speculative_tokens=3)


@pytest.fixture(scope="module")
def wide():
    return edited_fit(fake_fit(draws=400, spread=0.1, discrepancy_sd=0.05), **FIRST_TOKEN)


def spread(scale, skew=0.0, excess=0.0):
    return Spread(*(np.array([value]) for value in (scale, skew, excess)))


@pytest.mark.parametrize("skew", [-0.3, 0.0, 0.2])
@pytest.mark.parametrize("excess", [0.0, 0.3])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99, 0.999])
def test_share_is_the_inverse_of_the_quantile(level, skew, excess):
    about = spread(0.25, skew, excess)
    (limit,) = request_quantile([level], [2.0], **vars(about))[0]
    turned = skew < 0 and NormalDist().inv_cdf(level) > -0.5 / skew  # flat: the largest latency
    expected = 1.0 if turned and not excess else level
    assert share_within(limit * (1 + 1e-9), np.array([2.0]), about)[0] == pytest.approx(
        expected, abs=1e-6
    )


@pytest.mark.parametrize("limit", [0.7, 1.0, 1.6, 4.0])
def test_share_of_a_log_normal_is_that_of_the_normal_law(limit):
    s, mean = 0.3, 1.2
    expected = NormalDist().cdf((np.log(limit / mean) + s**2 / 2) / s)
    assert share_within(limit, np.array([mean]), spread(s))[0] == pytest.approx(expected, abs=1e-9)


def test_share_is_that_of_drawn_requests():
    about, n = spread(0.3, 0.15, 0.2), 200_000
    drawn = request_draws(np.full(n, 2.0), np.random.default_rng(3), **vars(about))
    for limit in (1.5, 2.0, 3.0):
        share = share_within(limit, np.array([2.0]), about)[0]
        assert abs(np.mean(drawn <= limit) - share) < 4 * np.sqrt(share * (1 - share) / n)


def test_share_is_all_above_the_largest_latency_and_none_below_the_smallest():
    mean = np.array([2.0])
    assert share_within(100.0, mean, spread(0.3, -0.3))[0] == 1
    assert share_within(1e-3, mean, spread(0.3, 0.3))[0] == 0
    assert share_within(1e9, np.array([np.inf]), spread(0.3))[0] == 0


def test_share_at_the_predicted_quantile_is_its_level():
    tree = fake_fit(draws=2, **SILENT)
    for level, limit in zip(
        (0.5, 0.95), predict_quantiles(tree, AT, [0.5, 0.95])[0, 0], strict=True
    ):
        found = slo_attainment(tree, AT, f"e2e_p90 <= {float(limit)}")
        np.testing.assert_allclose(found.share, level, atol=1e-7)
        assert found.p_slo_met == (float(level > 0.9),)
        np.testing.assert_allclose(found.goodput_rps, 10.0 * level, atol=1e-6)


@pytest.mark.parametrize("kind", ["mean", "run"])
def test_probability_counts_the_draws_that_meet_every_term(wide, kind):
    scenarios = [AT.with_(request_rate_rps=rate) for rate in (4.0, 8.0, 12.0)]
    slo = Slo("e2e_p95 <= 1.1", "e2e_p50 < 0.85", "ttft_mean <= 0.064", "tpot_mean <= 6.1 ms")
    found = slo_attainment(wide, scenarios, slo, kind)
    drawn = predict_latency(wide, scenarios, kind)
    quantiles = predict_quantiles(wide, scenarios, [0.5, 0.95], kind).values
    terms = {
        "e2e_p50 < 0.85": quantiles[..., 0] < 0.85,
        "e2e_p95 <= 1.1": quantiles[..., 1] <= 1.1,
        "tpot_mean <= 0.0061": drawn["tpot_s"].values <= 0.0061,
        "ttft_mean <= 0.064": drawn["ttft_s"].values <= 0.064,
    }
    assert set(found.p_term_met) == set(terms)
    for name, met in terms.items():
        assert found.p_term_met[name] == tuple(met.mean(axis=0))
    every = np.logical_and.reduce(list(terms.values())).mean(axis=0)
    assert found.p_slo_met == tuple(every)
    assert 0.0 < every.min() < every.max() < 1.0  # or nothing was tested


def test_more_load_never_raises_share_or_probability():
    tree = fake_fit(draws=400, spread=0.1, discrepancy_sd=0.05, extrapolation_sd=0.0)
    rates = np.geomspace(0.01, 40.0, 25)
    found = slo_attainment(tree, [AT.with_(request_rate_rps=r) for r in rates], "e2e_p95 <= 1.1")
    assert (np.diff(found.p_slo_met) <= 0).all()
    assert (np.diff(found.share, axis=1) <= 1e-9).all()
    assert found.p_slo_met[0] > 0.9
    assert found.p_slo_met[-1] == 0


def test_a_broken_mean_leaves_no_request(wide):
    mean = predict_latency(wide, AT)["e2e_s"].values[:, 0]
    limit = float(np.median(mean))
    alone = slo_attainment(wide, AT, f"e2e_mean <= {limit}")
    assert (alone.share[:, 0] == (mean <= limit)).all()
    both = slo_attainment(wide, AT, f"e2e_mean <= {limit}, e2e_p95 <= 1.1")
    requests = slo_attainment(wide, AT, "e2e_p95 <= 1.1").share
    assert (both.share == requests * alone.share).all()


def test_several_percentiles_ask_each_request_for_the_lowest_limit(wide):
    both = slo_attainment(wide, AT, "e2e_p50 <= 0.9, e2e_p99 <= 1.4")
    assert (both.share == slo_attainment(wide, AT, "e2e_p50 <= 0.9").share).all()


def test_a_run_counts_its_own_requests():
    tree, at = fake_fit(draws=400, **SILENT), AT.with_(num_requests=20, arrivals="constant")
    found = slo_attainment(tree, at, "e2e_p95 <= 0.9", kind="run").share
    np.testing.assert_allclose(20 * found, (20 * found).round(), atol=1e-9)
    (share,) = np.unique(slo_attainment(tree, at, "e2e_p95 <= 0.9").share.round(9))
    assert 0.2 < share < 0.95
    binomial = np.sqrt(share * (1 - share) / 20)
    assert abs(found.mean() - share) < 4 * binomial / np.sqrt(found.size)
    assert found.std() == pytest.approx(binomial, rel=0.15)


def test_past_capacity_nothing_is_met():
    found = slo_attainment(fake_fit(draws=3), AT.with_(request_rate_rps=1e3), "e2e_p50 <= 1e6")
    assert found.p_slo_met == (0.0,)
    assert not found.share.any()
    assert not found.goodput_rps.any()
    assert found.status == ("past capacity",)


def test_goodput_of_a_closed_loop_follows_littles_law():
    tree = fake_fit(draws=3, **SILENT)
    at = Scenario("quick", concurrency=8, num_speculative_tokens=3)
    found = goodput(tree, at, "e2e_p95 <= 0.9")
    latency = predict_latency(tree, at)["e2e_s"].values[:, 0]
    share = slo_attainment(tree, at, "e2e_p95 <= 0.9").share[:, 0]
    assert 0.05 < share[0] < 0.95
    np.testing.assert_allclose(found.rps, 8 / latency * share)


def test_goodput_is_rate_times_share(wide):
    found = goodput(wide, AT, "e2e_p95 <= 1.1")
    table = slo_attainment(wide, AT, "e2e_p95 <= 1.1")
    np.testing.assert_allclose(found.rps, 10.0 * table.share[:, 0])
    low, middle, high = found.interval()
    assert low < middle < high <= 10.0
    assert f"{middle:.3g} requests/s are answered within e2e_p95 <= 1.1" in found.statement()
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["median_goodput_rps"] == middle
    assert found.to_frame()["p_slo_met"].tolist() == list(table.p_slo_met)


def test_answer_is_plain(wide):
    found = slo_attainment(wide, [AT, AT.with_(request_rate_rps=1e3)], "e2e_p95<=1.1, e2e_p50<=2")
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["slo"] == "e2e_p50 <= 2.0, e2e_p95 <= 1.1"
    assert [row["p_slo_met"] for row in plain["scenarios"]] == list(found.p_slo_met)
    assert "P(e2e_p95 <= 1.1)" in found.to_frame().columns
    assert f"is {found.p_slo_met[0]:.2f}; " in found.statement()
    assert found.statement().endswith("[past capacity: load, tokens per step]")


def test_a_fit_that_did_not_converge_is_said_first():
    tree = fake_fit(draws=5, passed=False)
    for ask in (slo_attainment, goodput):
        with pytest.warns(ConvergenceWarning, match=r"NOT CONVERGED"):
            found = ask(tree, AT, "e2e_p95 <= 2")
        assert found.statement().startswith("NOT CONVERGED")


@pytest.mark.parametrize(
    ("slo", "options", "error", "words"),
    [
        ("ttft_p99 <= 0.5", {}, DataError, r"ttft_p99 is not known: no fitted run had a time"),
        ("ttft_mean <= 0.5", {}, DataError, r"no fitted run had a time to first token"),
        ("e2e_p95 <= 1", {}, DataError, r"no fitted run had them, .* Fit runs with p50_e2e_s"),
        ("e2e_mean <= 1", {"kind": "request"}, ArgumentError, r"one of 'mean', 'run'"),
        ("e2e_mean <= 1", {"scenarios": []}, ArgumentError, r"at least one Scenario"),
        ("e2e_mean <= 1", {"scenarios": ["quick"]}, ArgumentError, r"must be a Scenario"),
        ("e2e <= 1", {}, ArgumentError, r"which statistic of e2e"),
    ],
)
def test_what_cannot_be_answered_is_said(slo, options, error, words):
    tree = fake_fit(draws=3, percentiles=False)
    arguments = {"scenarios": AT, "slo": slo} | options
    with pytest.raises(error, match=words):
        slo_attainment(tree, **arguments)


def test_means_need_no_percentiles():
    tree = fake_fit(draws=3, percentiles=False)
    assert slo_attainment(tree, AT, "e2e_mean <= 1e3").p_slo_met == (1.0,)
