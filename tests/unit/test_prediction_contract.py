"""The contract at the top of `bayes_sd.predict`: what `mean` and `run` are, draw by draw.

Expectations come from SciPy's root finder on the known law, by another route than the library's.
"""

import numpy as np
import pytest
from scipy.optimize import brentq

from bayes_sd.exceptions import ArgumentError
from bayes_sd.predict import KINDS, predict_latency
from bayes_sd.scenario import Scenario
from tests.fake_fit import FORCED, KNOWN, fake_fit, true_latency

SILENT = {"boot_sd": 0.0, "discrepancy_sd": 0.0, "request_cv": 0.0, "extrapolation_sd": 0.0}
BUSY = Scenario("sharp", request_rate_rps=12.0, num_speculative_tokens=3, acceptance=FORCED)


@pytest.fixture(scope="module")
def certain():
    """Every draw is the truth, and nothing is noisy."""
    return fake_fit(draws=20, **SILENT)


@pytest.fixture(scope="module")
def noisy():
    return fake_fit(draws=2000, spread=0.01)


def law(batch, drafter="sharp", k=3, rates=(FORCED,) * 5, **kwargs):
    return float(true_latency(KNOWN.costs("big", drafter), rates, k, batch, **kwargs))


def solved(rate, **kwargs):
    batch = brentq(lambda b: rate * law(b, **kwargs) - b, 1e-9, 60.0, xtol=1e-12)
    return batch / rate


def latency(tree, scenario, kind="mean", seed=0):
    return predict_latency(tree, scenario, kind, random_seed=seed)["e2e_s"].values[:, 0]


@pytest.mark.parametrize("kind", ["mean", "run"])
@pytest.mark.parametrize("rate", [0.01, 2.0, 8.0, 12.0])
def test_without_uncertainty_every_draw_is_the_solved_law(certain, kind, rate):
    expected = solved(rate)
    found = latency(certain, BUSY.with_(request_rate_rps=rate), kind)
    if kind == "run":  # the arrivals of a run still differ from their rate, by 1 / sqrt(n)
        found = latency(certain, BUSY.with_(request_rate_rps=rate, arrivals="constant"), kind)
        expected = solved(rate, arrivals="constant")
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_without_uncertainty_a_closed_loop_is_the_law_itself(certain):
    found = latency(certain, BUSY.with_(concurrency=16), "run")
    np.testing.assert_allclose(found, law(16.0, arrivals="closed"), rtol=1e-12)


def test_counted_acceptance_gives_the_law_within_the_renewal_approximation(certain):
    on = Scenario("quick", request_rate_rps=8.0, num_speculative_tokens=3)
    expected = solved(8.0, drafter="quick", rates=KNOWN.acceptance["big", "quick"])
    np.testing.assert_allclose(latency(certain, on), expected, rtol=1e-3)


def test_a_run_is_wider_than_the_mean_and_narrows_with_its_requests(noisy):
    medium = BUSY.with_(request_rate_rps=6.0)
    runs = {n: latency(noisy, medium.with_(num_requests=n), "run") for n in (20, 200, 20_000)}
    spread = {n: np.log(x).std() for n, x in runs.items()}
    mean = np.log(latency(noisy, medium)).std()
    assert spread[20] > 1.5 * spread[200]
    assert spread[200] > 1.1 * spread[20_000]
    # Even an endless run has its own boot.
    assert spread[20_000] > 1.1 * mean


def test_the_mean_does_not_know_of_requests_or_boots(noisy):
    expected = latency(noisy, BUSY)
    np.testing.assert_array_equal(latency(noisy, BUSY.with_(num_requests=3)), expected)
    louder = fake_fit(draws=2000, spread=0.01, boot_sd=0.3, request_cv=2.0)
    np.testing.assert_array_equal(latency(louder, BUSY), expected)


def test_boot_and_requests_add_what_their_scales_say():
    idle = Scenario("big", concurrency=1, num_requests=100)
    boots = fake_fit(draws=4000, **SILENT | {"boot_sd": 0.04})
    assert np.log(latency(boots, idle, "run")).std() == pytest.approx(0.04, rel=0.05)
    requests = fake_fit(draws=4000, **SILENT | {"request_cv": 0.3})
    assert np.log(latency(requests, idle, "run")).std() == pytest.approx(0.03, rel=0.05)


def elasticity(rate):
    batch = rate * solved(rate)
    step = 1e-4
    up, down = law(batch * np.exp(step)), law(batch * np.exp(-step))
    return (np.log(up) - np.log(down)) / (2 * step)


def test_load_amplifies_misfit_by_one_over_one_minus_elasticity():
    small = 2e-4
    tree = fake_fit(draws=4000, **SILENT | {"discrepancy_sd": small})
    closed = np.log(latency(tree, BUSY.with_(concurrency=16))).std()
    for rate in (2.0, 12.0):
        found = np.log(latency(tree, BUSY.with_(request_rate_rps=rate))).std() / closed
        assert found == pytest.approx(1 / (1 - elasticity(rate)), rel=0.02)
    assert 1 / (1 - elasticity(12.0)) > 2.5  # or the test would say little


def test_counted_arrivals_move_a_run_by_elasticity_over_one_minus_elasticity():
    tree = fake_fit(draws=4000, **SILENT)
    run = latency(tree, BUSY.with_(num_requests=10**6), "run")
    expected = elasticity(12.0) / (1 - elasticity(12.0)) / 1e3
    assert np.log(run).std() == pytest.approx(expected, rel=0.05)


def test_a_speedup_is_taken_draw_by_draw():
    tree = fake_fit(draws=1000, spread=0.8, **SILENT)
    off, on = BUSY.with_(num_speculative_tokens=0, concurrency=8), BUSY.with_(concurrency=8)
    draws = predict_latency(tree, [off, on])["e2e_s"].values
    by_draw = draws[:, 0] / draws[:, 1]
    assert abs(by_draw.mean() / (draws[:, 0].mean() / draws[:, 1].mean()) - 1) > 0.02
    # Both arms hold the same draw of the verifier: what they share cancels.
    unpaired = draws[:, 0] / np.random.default_rng(0).permutation(draws[:, 1])
    assert np.log(by_draw).std() < 0.8 * np.log(unpaired).std()


def test_one_configuration_is_one_curve_over_load(noisy):
    rates = np.linspace(2.0, 12.0, 6)
    curve = predict_latency(noisy, [BUSY.with_(request_rate_rps=r) for r in rates])
    assert (curve["status"] != "extrapolated").all()
    assert (np.diff(curve["e2e_s"].values, axis=1) > 0).all()
    together = np.corrcoef(np.log(curve["e2e_s"].values[:, [0, 1]]).T)[0, 1]
    assert together > 0.95


def test_two_configurations_have_their_own_misfit():
    tree = fake_fit(draws=2000, **SILENT | {"discrepancy_sd": 0.02})
    arms = [BUSY.with_(concurrency=4), BUSY.with_(concurrency=4, num_speculative_tokens=1)]
    logs = np.log(predict_latency(tree, arms)["e2e_s"].values)
    assert abs(np.corrcoef(logs.T)[0, 1]) < 0.1


def test_the_same_seed_gives_the_same_draws_and_another_does_not(noisy):
    first = latency(noisy, BUSY, "run", seed=3)
    np.testing.assert_array_equal(first, latency(noisy, BUSY, "run", seed=3))
    assert (first != latency(noisy, BUSY, "run", seed=4)).any()


def test_an_unknown_kind_says_which_there_are(certain):
    words = r"kind must be one of 'mean', 'run', 'request'\. Got 'average' instead"
    with pytest.raises(ArgumentError, match=words):
        predict_latency(certain, BUSY, "average")
    with pytest.raises(ArgumentError, match=r"Got 'means' instead\. Did you mean 'mean'"):
        predict_latency(certain, BUSY, "means")


def test_every_result_names_its_kind(noisy):
    for kind in KINDS:
        assert predict_latency(noisy, BUSY, kind).attrs["kind"] == kind
