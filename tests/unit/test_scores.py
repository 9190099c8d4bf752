import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.scores import (
    absolute_percentage_error,
    covered,
    crps,
    interval_width,
    log_score,
)


def test_crps_of_many_normal_draws_is_the_closed_form(rng):
    mean, sd = np.array([0.0, 3.0, -2.0]), np.array([1.0, 0.2, 5.0])
    observed = np.array([0.4, 2.5, 9.0])
    z = (observed - mean) / sd
    exact = sd * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    draws = rng.normal(mean, sd, size=(200_000, 3))
    np.testing.assert_allclose(crps(draws, observed), exact, rtol=0.01)


def test_crps_is_the_mean_over_all_pairs_of_different_draws(rng):
    draws, observed = rng.gamma(2.0, size=(7, 4)), rng.gamma(2.0, size=4)
    apart = np.abs(draws[:, None] - draws[None]).sum(axis=(0, 1)) / (7 * 6)
    expected = np.abs(draws - observed).mean(axis=0) - apart / 2
    np.testing.assert_allclose(crps(draws, observed), expected)


def test_crps_is_the_integral_of_the_squared_difference_of_distributions(rng):
    """Without the fair correction: half the mean distance over all pairs, own ones included."""
    draws, observed = rng.normal(size=(40, 1)), np.array([0.3])
    x = np.linspace(-6, 6, 240_001)
    below = (draws[:, 0, None] <= x).mean(axis=0)
    integral = np.trapezoid((below - (observed <= x)) ** 2, x)
    half_spread = np.abs(draws - observed).mean() - crps(draws, observed)[0]
    unfair = np.abs(draws - observed).mean() - half_spread * 39 / 40
    assert unfair == pytest.approx(integral, abs=1e-4)


def test_crps_does_not_depend_on_the_number_of_draws_in_expectation(rng):
    few = crps(rng.normal(size=(3, 40_000)), np.full(40_000, 0.7)).mean()
    many = crps(rng.normal(size=(300, 4_000)), np.full(4_000, 0.7)).mean()
    assert few == pytest.approx(many, abs=0.01)


def test_crps_of_certain_draws_is_the_absolute_error():
    np.testing.assert_allclose(crps(np.full((5, 2), 1.5), np.array([1.0, 2.5])), [0.5, 1.0])


def test_coverage_of_calibrated_draws_is_the_level(rng):
    draws, observed = rng.normal(size=(999, 4_000)), rng.normal(size=4_000)
    assert covered(draws, observed, 0.9).mean() == pytest.approx(0.9, abs=0.02)
    assert covered(draws, observed, 0.5).mean() == pytest.approx(0.5, abs=0.03)


def test_width_is_relative_to_the_median(rng):
    draws = rng.normal(10.0, 1.0, size=(100_000, 1))
    assert interval_width(draws, 0.9)[0] == pytest.approx(2 * 1.645 / 10, rel=0.02)


def test_error_is_relative_to_the_measured():
    error = absolute_percentage_error(np.array([1.1, 4.0]), np.array([1.0, 5.0]))
    np.testing.assert_allclose(error, [10.0, 20.0])


def test_log_score_of_many_draws_is_the_density(rng):
    draws = np.exp(rng.normal(1.0, 0.1, size=(50_000, 2)))
    observed = np.exp([1.0, 1.15])
    expected = norm.logpdf([1.0, 1.15], 1.0, 0.1)
    np.testing.assert_allclose(log_score(draws, observed), expected, atol=0.05)


def test_log_score_is_finite_for_a_miss_and_for_equal_draws():
    scores = log_score(np.full((50, 2), 2.0), np.array([2.0, 4.0]))
    assert scores[0] > 5
    assert np.isfinite(scores[1])
    assert scores[1] < -1e4
