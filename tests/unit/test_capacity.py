"""Highest rate within an objective: against SciPy's root, a closed form, and counting draws."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq

from bayes_sd.capacity import max_rate
from bayes_sd.exceptions import (
    ArgumentError,
    ConvergenceWarning,
    DataError,
    ExtrapolationWarning,
    UnknownPairError,
)
from bayes_sd.physics.effective_batch import capacity_rps
from bayes_sd.predict import predict_latency, predict_quantiles
from bayes_sd.rate_search import find_broken_loads
from bayes_sd.scenario import Scenario
from bayes_sd.slo import Slo
from tests.edited_fit import FIRST_TOKEN, edited_fit
from tests.fake_fit import FORCED, KNOWN, MAX_NUM_SEQS, fake_fit, true_latency

pytestmark = pytest.mark.filterwarnings(
    "ignore::bayes_sd.exceptions.ExtrapolationWarning"  # one test asks for it
)
SILENT = {"boot_sd": 0.0, "discrepancy_sd": 0.0, "request_cv": 0.0, "extrapolation_sd": 0.0}
AT = Scenario("quick", request_rate_rps=1.0, num_speculative_tokens=3)
FORCED_AT = Scenario("sharp", request_rate_rps=1.0, num_speculative_tokens=3, acceptance=FORCED)


@pytest.fixture(scope="module")
def wide():
    return edited_fit(fake_fit(draws=200, spread=0.1, discrepancy_sd=0.05), **FIRST_TOKEN)


def law(batch):
    return true_latency(KNOWN.costs("big", "sharp"), (FORCED,) * 3, 3, batch)


@pytest.mark.parametrize("limit", [0.7, 1.0, 2.0])
def test_a_known_law_breaks_a_mean_where_its_root_says(limit):
    batch = brentq(lambda b: float(law(b)) - limit, 1e-3, MAX_NUM_SEQS)
    expected = batch / limit  # Little's law: B = rate x L
    found = max_rate(fake_fit(draws=3, **SILENT), FORCED_AT, Slo(f"e2e_mean <= {limit}"))
    assert found.rate == pytest.approx(expected, rel=3e-4)
    np.testing.assert_allclose(found.broken, expected, rtol=3e-4)
    assert found.verdict == "found"


def test_a_known_law_breaks_a_percentile_where_its_root_says():
    tree = fake_fit(draws=1, chains=1, **SILENT)

    def excess(rate):
        at = FORCED_AT.with_(request_rate_rps=rate)
        return float(predict_quantiles(tree, at, [0.95])[0, 0, 0]) - 1.0

    found = max_rate(tree, FORCED_AT, "e2e_p95 <= 1.0")
    assert found.rate == pytest.approx(brentq(excess, 1.0, 12.0), rel=3e-4)


@pytest.mark.parametrize("kind", ["mean", "run"])
@pytest.mark.parametrize("certainty", [0.5, 0.9, 0.95])
def test_just_below_it_is_met_with_the_certainty_and_just_above_it_is_not(wide, kind, certainty):
    found = max_rate(wide, AT, "e2e_p95 <= 1.1", certainty, kind=kind)
    met = [
        np.mean(
            predict_quantiles(wide, AT.with_(request_rate_rps=rate), [0.95], kind).values <= 1.1
        )
        for rate in (found.rate * (1 - 1e-6), found.rate, found.rate * 1.0002)
    ]
    assert met[0] >= met[1] >= certainty > met[2]
    assert found.p_slo_met == met[1]
    assert found.scenario.request_rate_rps == found.rate
    assert ("in one fresh run is met up to" in found.statement()) == (kind == "run")


def test_the_tightest_term_of_several_decides(wide):
    terms = ("e2e_p99 <= 1.4", "ttft_mean <= 0.075", "tpot_mean <= 8 ms")
    alone = [max_rate(wide, AT, term) for term in terms]
    found = max_rate(wide, AT, Slo(*terms))
    assert found.rate <= min(one.rate for one in alone) * 1.0002
    np.testing.assert_allclose(
        found.broken, np.minimum.reduce([one.broken for one in alone]), rtol=0.03
    )
    assert sum(found.p_binding.values()) == pytest.approx(1.0)
    at = AT.with_(request_rate_rps=found.rate * 1.0002)
    drawn = predict_latency(wide, at)
    met = predict_quantiles(wide, at, [0.99]).values[:, 0, 0] <= 1.4
    met &= drawn["ttft_s"].values[:, 0] <= 0.075
    met &= drawn["tpot_s"].values[:, 0] <= 0.008
    assert met.mean() < 0.95


def test_more_certainty_is_never_a_higher_rate(wide):
    rates = [max_rate(wide, AT, "e2e_p95 <= 1.1", c).rate for c in (0.05, 0.5, 0.8, 0.95, 0.99)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 1.1 * rates[-1]


def test_a_higher_limit_is_never_a_lower_rate(wide):
    rates = [max_rate(wide, AT, f"e2e_p95 <= {limit}").rate for limit in (0.9, 1.1, 2.0, 9.0)]
    assert rates == sorted(rates)
    assert rates[0] > 0


def test_more_rate_never_raises_the_probability(wide):
    found = max_rate(wide, AT, "e2e_p95 <= 1.1")
    loads = np.linspace(0, 30, 301)
    met = found.probability_met(loads)
    assert (np.diff(met) <= 0).all()
    assert (met[0], met[-1]) == (1.0, 0.0)
    assert found.probability_met(found.rate) == found.p_slo_met
    low, middle, high = found.interval()
    assert found.rate == pytest.approx(low, rel=0.01)  # both are the 5 % quantile
    assert found.next_rate == middle
    assert found.probability_met(middle) == pytest.approx(0.5, abs=0.01)
    assert middle < high


def test_interpolated_rates_agree_with_counting_draws(wide):
    found = max_rate(wide, AT, "e2e_p95 <= 1.1")
    for rate in np.quantile(found.broken, [0.1, 0.3, 0.5, 0.7, 0.9]):
        here = AT.with_(request_rate_rps=float(rate))
        counted = np.mean(predict_quantiles(wide, here, [0.95]).values <= 1.1)
        assert found.probability_met(rate) == pytest.approx(counted, abs=0.01)


def queue(idle_s, growth):
    """Return a function like `slo_draws` for L = idle + growth x B, B = rate x L."""

    def draws_at(loads):
        rate = np.asarray(loads)[None, :]
        with np.errstate(divide="ignore"):
            latency = np.where(
                growth[:, None] * rate < 1, idle_s[:, None] / (1 - growth[:, None] * rate), np.inf
            )
        return made_up(latency, limit=2.0)

    return draws_at


def made_up(latency, limit):
    names = tuple("" for _ in range(latency.shape[1]))
    return SimpleNamespace(
        slo=Slo(f"e2e_mean <= {limit}"),
        values_s=latency[None],
        e2e_s=latency,
        met=latency <= limit,
        status=names,
        outside=names,
    )


def test_the_search_finds_the_closed_form_of_a_linear_queue():
    rng = np.random.default_rng(1)
    idle, growth = 0.5 * np.exp(0.2 * rng.standard_normal(500)), rng.uniform(0.05, 0.2, 500)
    expected = np.where(idle <= 2.0, (1 - idle / 2.0) / growth, 0.0)
    for highest in (5.0, 30.0, 1000.0):
        about = 1.05 / growth
        found = find_broken_loads(queue(idle, growth), highest, 0.9, capacity=about)
        np.testing.assert_allclose(found.broken, expected, rtol=1e-6, atol=1e-3)
        # 450 of 500 draws meet it up to where the 51st breaks.
        assert found.at_certainty == pytest.approx(np.sort(expected)[50], rel=2e-4)
        for q in (0.05, 0.5, 0.95):  # though the guess was 5 % too high
            capacity = np.quantile(1 / growth, q)
            assert np.quantile(found.capacity, q) == pytest.approx(capacity, rel=0.02)


def test_a_draw_that_recovers_under_load_stays_broken():
    def draws_at(loads):  # slow between 4 and 20 requests/s, fast again, then past capacity
        rate = np.asarray(loads)[None, :].repeat(4, axis=0)
        latency = np.where((rate > 4) & (rate < 20), 3.0, 1.0)
        return made_up(np.where(rate > 50, np.inf, latency), limit=2.0)

    found = find_broken_loads(draws_at, 60.0, 0.5)
    assert found.at_certainty == pytest.approx(4.0, rel=2e-4)
    assert (found.broken < 6.0).all()


def test_what_an_idle_server_breaks_is_met_at_no_load():
    tree = fake_fit(draws=3, **SILENT)
    found = max_rate(tree, AT, "e2e_p95 <= 0.1")
    assert (found.rate, found.verdict, found.p_slo_met) == (0, "not met at any load", 0)
    assert not found.broken.any()
    assert np.isnan(found.room()).all()
    assert np.isnan(found.next_rate)
    assert "not met at any load. P(SLO met) is 0.00 on a server with" in found.statement()
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["next_rate"] is None


def test_where_even_idle_is_open_the_answer_is_to_measure_there():
    tree = fake_fit(draws=200, spread=0.2)
    idle = predict_latency(tree, AT.with_(request_rate_rps=1e-3))["e2e_s"].values
    found = max_rate(tree, AT, f"e2e_mean <= {np.quantile(idle, 0.4):.6f}")
    assert (found.rate, found.verdict) == (0, "not enough data")
    assert found.p_slo_met_idle == pytest.approx(0.4, abs=0.02)
    assert found.next_rate == pytest.approx(0.1 * np.median(found.capacity))
    assert "not enough data. P(SLO met) is 0.40 on a server" in found.statement()
    assert "Measure next at" in found.statement()


def test_capacity_is_where_the_known_law_has_no_batch():
    tree = fake_fit(draws=2, **SILENT)
    found = max_rate(tree, FORCED_AT, "e2e_mean <= 1.0")
    expected = float(capacity_rps(law, MAX_NUM_SEQS)[0])
    np.testing.assert_allclose(found.capacity, expected, rtol=1e-4)
    np.testing.assert_allclose(found.room(), expected / found.rate, rtol=1e-4)
    boundless = max_rate(tree, FORCED_AT, "e2e_mean <= 1e6")
    assert boundless.rate == pytest.approx(expected, rel=3e-4)


def test_capacity_draws_are_those_of_predictions():
    tree = fake_fit(draws=300, spread=0.05, discrepancy_sd=0.1)
    found = max_rate(tree, AT, "e2e_p95 <= 1.1")
    for level in (0.1, 0.3, 0.5, 0.9):
        rate = float(np.quantile(found.capacity, level))
        past = np.isinf(predict_latency(tree, AT.with_(request_rate_rps=rate))["e2e_s"].values)
        assert past.mean() == pytest.approx(level, abs=0.05)


def test_in_a_closed_loop_it_is_a_whole_number_of_requests(wide):
    found = max_rate(
        wide, Scenario("quick", concurrency=2, num_speculative_tokens=3), "e2e_p95<=1.1"
    )
    assert found.unit == "requests in flight"
    assert found.rate == int(found.rate) > 1
    met = [
        np.mean(predict_quantiles(wide, AT.with_(concurrency=n), [0.95]).values <= 1.1)
        for n in (found.rate, found.rate + 1)
    ]
    assert met[0] >= 0.95 > met[1]
    assert np.isinf(found.capacity).all()
    assert "Capacity" not in found.statement()


def test_answer_is_plain(wide):
    found = max_rate(wide, AT, "e2e_p95 <= 1.1")
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["rate"] == found.rate
    assert plain["low_broken"] <= plain["median_broken"] <= plain["high_broken"]
    assert (
        f"is met up to {found.rate:.4g} requests/s with P = 0.95 (0.95 asked)" in found.statement()
    )
    assert f"costs {1 - found.rate / found.interval()[1]:.1%} of that" in found.statement()
    assert found.statement().endswith("]")
    assert found.to_frame()["next_rate"].tolist() == [found.next_rate]


def test_few_draws_for_a_high_certainty_are_said():
    found = max_rate(fake_fit(draws=20, spread=0.02), AT, "e2e_p95 <= 1.1", 0.99)
    assert (
        "rests on the last few of 40 draws: fit more for a certainty of 0.99" in found.statement()
    )


def test_extrapolation_is_warned_about():
    with pytest.warns(ExtrapolationWarning, match=r"extrapolated in .*tokens per step: no run was"):
        found = max_rate(fake_fit(draws=5), AT, "e2e_mean <= 1e3")
    assert found.status == "extrapolated"


def test_a_fit_that_did_not_converge_is_said_first():
    with pytest.warns(ConvergenceWarning, match=r"NOT CONVERGED"):
        found = max_rate(fake_fit(draws=5, passed=False), AT, "e2e_p95 <= 1.1")
    assert found.statement().startswith("NOT CONVERGED")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (
            {"certainty": 95},
            ArgumentError,
            r"certainty must be a probability .* For 95 % write 0\.95",
        ),
        ({"certainty": 1.0}, ArgumentError, r"above 0 and below 1"),
        ({"kind": "request"}, ArgumentError, r"one of 'mean', 'run'"),
        ({"slo": "e2e_p95 >= 1"}, ArgumentError, r"upper limit"),
        ({"slo": "ttft_p99 <= 1"}, DataError, r"no fitted run had a time to first token"),
        ({"slo": "ttft_mean <= 1"}, DataError, r"no fitted run had a time to first token"),
        ({"scenario": "quick"}, ArgumentError, r"must be a Scenario"),
        ({"scenario": AT.with_(pair="quik")}, UnknownPairError, r"'quik' is unknown"),
    ],
)
def test_what_cannot_be_answered_is_said(options, error, words):
    arguments = {"scenario": AT, "slo": "e2e_p95 <= 1.1", "certainty": 0.95} | options
    with pytest.raises(error, match=words):
        max_rate(fake_fit(draws=3), **arguments)
