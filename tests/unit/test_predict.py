"""Predictions of latency and batch: shape, Little's law, capacity, closed loops."""

import numpy as np
import pytest

from bayes_sd.configuration import resolve
from bayes_sd.exceptions import ArgumentError, DataError, UnknownPairError
from bayes_sd.physics.effective_batch import capacity_rps
from bayes_sd.predict import effective_batch, predict_latency
from bayes_sd.scenario import Scenario
from tests.fake_fit import KNOWN, fake_fit, true_latency

OFF = Scenario("big", request_rate_rps=8.0)


@pytest.fixture(scope="module")
def tree():
    return fake_fit(draws=50, spread=0.02)


def test_result_has_named_dims_units_and_a_row_per_scenario(tree):
    scenarios = [OFF, OFF.with_(concurrency=4)]
    draws = predict_latency(tree, scenarios)
    assert draws["e2e_s"].dims == ("sample", "scenario")
    assert dict(draws.sizes) == {"sample": 100, "scenario": 2}
    assert draws["scenario"].values.tolist() == [s.label for s in scenarios]
    assert draws["e2e_s"].attrs["units"] == "s"
    assert draws["effective_batch"].attrs["units"] == "requests"


def test_one_scenario_is_a_list_of_one_and_the_list_does_not_matter(tree):
    alone = predict_latency(tree, OFF)
    among = predict_latency(tree, [OFF.with_(request_rate_rps=2.0), OFF])
    np.testing.assert_array_equal(alone["e2e_s"].values[:, 0], among["e2e_s"].values[:, 1])


def test_littles_law_holds_in_every_draw(tree):
    rates = [0.1, 3.0, 10.0, 14.0]
    draws = predict_latency(tree, [OFF.with_(request_rate_rps=r) for r in rates])
    latency = draws["e2e_s"].values
    assert np.isfinite(latency).all()
    np.testing.assert_allclose(draws["effective_batch"].values, rates * latency, rtol=1e-5)


def test_effective_batch_is_that_of_the_prediction(tree):
    draws = predict_latency(tree, OFF, random_seed=2)["effective_batch"]
    np.testing.assert_array_equal(effective_batch(tree, OFF, random_seed=2), draws)


def capacity():
    law = lambda b: true_latency(KNOWN.costs("big"), (), 0, b)  # noqa: E731
    return float(capacity_rps(law, 256)[0])


def test_past_capacity_is_infinite_and_says_so():
    certain = fake_fit(draws=10, discrepancy_sd=1e-6, extrapolation_sd=0.0)
    below, above = (OFF.with_(request_rate_rps=x * capacity()) for x in (0.99, 1.01))
    draws = predict_latency(certain, [below, above])
    assert np.isfinite(draws["e2e_s"].values[:, 0]).all()
    assert np.isinf(draws["e2e_s"].values[:, 1]).all()
    assert np.isinf(draws["effective_batch"].values[:, 1]).all()
    assert draws["status"].values.tolist() == ["extrapolated", "past capacity"]


def test_capacity_falls_with_the_engines_limit():
    certain = fake_fit(draws=10, discrepancy_sd=1e-6, extrapolation_sd=0.0)
    half = OFF.with_(request_rate_rps=0.9 * capacity())
    assert np.isfinite(predict_latency(certain, half)["e2e_s"]).all()
    assert np.isinf(predict_latency(certain, half.with_(max_num_seqs=16))["e2e_s"]).all()


def test_near_capacity_some_draws_are_past_it():
    tree = fake_fit(draws=300, spread=0.05)
    draws = predict_latency(tree, OFF.with_(request_rate_rps=capacity()))
    assert 0.1 < np.isinf(draws["e2e_s"].values).mean() < 0.9


def test_a_closed_loop_holds_what_it_was_asked_for(tree):
    draws = predict_latency(tree, [OFF.with_(concurrency=n) for n in (1, 7, 64)])
    assert (draws["effective_batch"].values == [1, 7, 64]).all()


def test_a_closed_loop_beyond_the_engines_limit_waits_outside_it():
    certain = fake_fit(draws=5, discrepancy_sd=0.0, extrapolation_sd=0.0)
    full, double = (OFF.with_(concurrency=n, max_num_seqs=32) for n in (32, 64))
    draws = predict_latency(certain, [full, double])
    assert (draws["effective_batch"].values == 32).all()
    # The completed rate N / L is that of the full engine: twice the clients wait twice as long.
    at_full, at_double = draws["e2e_s"].values.T
    np.testing.assert_allclose(64 / at_double, 32 / at_full)


def test_even_arrivals_wait_less_than_poisson_ones(tree):
    poisson, constant, bursty = (
        predict_latency(tree, OFF.with_(arrivals=a))["e2e_s"].values
        for a in ("poisson", "constant", "bursty")
    )
    assert (constant < poisson).all()
    np.testing.assert_array_equal(bursty, poisson)  # documented: bursts are taken for Poisson


def test_lengths_left_open_are_the_measured_ones(tree):
    found = resolve(tree, OFF)
    assert (found.input_len, found.output_len) == (512.0, 128.0)
    longer = predict_latency(tree, [OFF, OFF.with_(output_len_tokens=256)])
    assert (np.diff(longer["e2e_s"].values, axis=1) > 0).all()


@pytest.mark.parametrize(
    ("scenarios", "error", "words"),
    [
        ([], ArgumentError, r"at least one Scenario\. Got none"),
        (["big"], ArgumentError, r"scenario must be a Scenario\. Got 'big'"),
        (OFF.with_(pair="biig"), UnknownPairError, r"pair 'biig' is unknown"),
        (OFF.with_(pair="sharp", num_speculative_tokens=1), DataError, r"was not counted"),
    ],
)
def test_what_cannot_be_predicted_is_said(tree, scenarios, error, words):
    with pytest.raises(error, match=words):
        predict_latency(tree, scenarios)


def test_a_negative_seed_is_refused(tree):
    with pytest.raises(ArgumentError, match=r"random_seed must be a whole number of at least 0"):
        predict_latency(tree, OFF, random_seed=-1)


def test_tails_without_bound_give_an_answer_and_no_error():
    """A fit that knows next to nothing: errors of e^1000 either way, which are no numbers."""
    ignorant = fake_fit(draws=50, discrepancy_sd=400.0)
    for scenario in (OFF, OFF.with_(concurrency=4)):
        draws = predict_latency(ignorant, scenario, kind="run")["e2e_s"].values
        assert not np.isnan(draws).any()
        assert (draws > 0).all()
