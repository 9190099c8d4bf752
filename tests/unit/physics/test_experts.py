"""Expert coverage against its limits, the gamma mixture and simulated routing."""

import numpy as np
import pytest

from bayes_sd.physics.experts import expert_coverage, expert_coverage_slope, routed_load_cv
from bayes_sd.physics.step_time import knee_time, step_time

TOKENS = np.array([1.0, 2.0, 3.5, 8.0, 17.0, 64.0, 500.0, 1e4])


def as_written(tokens, fraction, cv):
    """The formula of the docstring, as it stands."""
    s = ((1 - fraction) ** (-(cv**2)) - 1) / cv**2
    return 1 - (1 + cv**2 * s * tokens) ** (-1 / cv**2)


@pytest.mark.parametrize("fraction", [1 / 128, 8 / 128, 2 / 8, 0.9])
@pytest.mark.parametrize("cv", [0.05, 0.5, 1.0, 2.0, 4.0])
def test_coverage_is_the_formula(fraction, cv):
    expected = as_written(TOKENS, fraction, cv)
    np.testing.assert_allclose(expert_coverage(TOKENS, fraction, cv), expected, atol=1e-7)


@pytest.mark.parametrize("fraction", [1 / 128, 8 / 128, 2 / 8, 0.9])
def test_balanced_limit(fraction):
    balanced = 1 - (1 - fraction) ** TOKENS
    np.testing.assert_allclose(expert_coverage(TOKENS, fraction, 0.0), balanced, atol=1e-7)
    for cv in (1e-8, 1e-5, 1e-4):
        np.testing.assert_allclose(expert_coverage(TOKENS, fraction, cv), balanced, atol=1e-6)


def test_small_imbalance_against_its_series():
    # log(1 - phi) = -aT + v^2 (a T)(a (T - 1)) / 2 + O(v^4), a = -log(1 - m/M)
    a, cv, tokens = -np.log(0.75), 0.01, TOKENS[:5]
    series = -a * tokens + cv**2 * a * a * tokens * (tokens - 1) / 2
    coverage = expert_coverage(tokens, 0.25, cv)
    np.testing.assert_allclose(coverage, -np.expm1(series), atol=3e-6)


@pytest.mark.parametrize("cv", [0.0, 1e-3, 0.7, 3.0, 10.0])
def test_one_token_touches_its_own_experts_only(cv):
    assert expert_coverage(1, 8 / 128, cv) == pytest.approx(8 / 128, abs=1e-7)
    assert expert_coverage(0.0, 8 / 128, cv) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("cv", [0.0, 0.5, 1, 2.0, 5.0])
@pytest.mark.parametrize("tokens", [0.5, 1, 3, 1e4])
def test_all_experts_per_token_give_full_coverage(cv, tokens):
    assert expert_coverage(tokens, 1, cv) == pytest.approx(1.0, abs=1e-9)
    assert expert_coverage_slope(tokens, 1, cv) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("cv", [0.0, 0.5, 1.0, 2.0, 4.0, 6.0])
def test_nothing_overflows_where_no_token_and_all_experts_meet(cv):
    assert np.isfinite(expert_coverage(0.0, 1.0, cv))
    assert np.isfinite(expert_coverage_slope(0.0, 1.0, cv))


def test_imbalance_lowers_coverage():
    coverage = expert_coverage(8.0, 2 / 8, np.array([0.0, 0.5, 1.0, 2.0, 4.0]))
    assert (np.diff(coverage) < 0).all()


@pytest.mark.parametrize("cv", [0.5, 2.0])
def test_coverage_is_a_gamma_mixture(rng, cv):
    s = ((1 - 0.125) ** (-(cv**2)) - 1) / cv**2
    hit_rate = rng.gamma(1 / cv**2, cv**2 * s, size=400_000)
    for tokens in (2, 8, 32):
        touched = -np.expm1(-hit_rate * tokens).mean()
        assert expert_coverage(tokens, 0.125, cv) == pytest.approx(touched, abs=0.003)


def routed_coverage(rng, num_experts, per_token, cv, tokens, trials):
    """Share touched when each token takes per_token experts, without replacement, by weight."""
    weight = rng.gamma(1 / cv**2, cv**2, size=(trials, 1, num_experts))
    gumbel = rng.gumbel(size=(trials, tokens, num_experts))
    score = np.log(np.maximum(weight, 1e-300)) + gumbel
    chosen = np.argpartition(-score, per_token - 1, axis=2)[:, :, :per_token]
    touched = np.zeros((trials, num_experts), dtype=bool)
    np.put_along_axis(touched, chosen.reshape(trials, -1), True, axis=1)
    return touched.mean()


@pytest.mark.parametrize(("tokens", "published"), [(2, 0.34), (4, 0.43), (8, 0.52)])
def test_coverage_of_weighted_routing(rng, tokens, published):
    drawn = routed_coverage(rng, 8, 2, 2.0, tokens, 20_000)
    assert drawn == pytest.approx(published, abs=0.03)
    assert expert_coverage(tokens, 2 / 8, 2.0) == pytest.approx(drawn, abs=0.03)
    assert abs(expert_coverage(tokens, 2 / 8, 0.0) - drawn) > 0.06  # balance does not fit


@pytest.mark.parametrize(
    ("fraction", "share", "tokens"),
    [(4 / 32, 0.9, 18), (8 / 128, 0.9, 36), (4 / 32, 0.99, 35), (8 / 128, 0.99, 72)],
)
def test_tokens_to_reach_a_share_of_known_models(fraction, share, tokens):
    coverage = expert_coverage(np.array([tokens - 1.0, tokens]), fraction, 0.0)
    assert coverage[0] < share < coverage[1]


@pytest.mark.parametrize("cv", [0.0, 1e-3, 0.05, 0.5, 2.0])
def test_slope_is_the_derivative(cv):
    tokens, h = TOKENS[:6], 1e-3
    rise = expert_coverage(tokens + h, 0.125, cv) - expert_coverage(tokens - h, 0.125, cv)
    # Differences of a value that is right to 1e-9.
    slope = expert_coverage_slope(tokens, 0.125, cv)
    np.testing.assert_allclose(slope, rise / (2 * h), rtol=1e-5, atol=2e-5)


def test_balanced_slope_is_analytic():
    expected = -np.log(0.875) * 0.875**TOKENS
    np.testing.assert_allclose(expert_coverage_slope(TOKENS, 0.125, 0.0), expected, atol=1e-7)


@pytest.mark.parametrize("cv", [0.3, 1.0, 2.0])
def test_counts_per_expert_vary_as_their_chances(rng, cv):
    """Gamma rates, chances 1 - exp(-rate) of mean m/M: the spread of the chances, drawn."""
    fraction, u = 4 / 32, cv**2
    scale = ((1 - fraction) ** -u - 1) / u
    rates = rng.gamma(1 / u, scale * u, size=400_000)
    chance = 1 - np.exp(-rates)
    assert chance.mean() == pytest.approx(fraction, rel=0.02)
    found = routed_load_cv(fraction, cv)
    assert found == pytest.approx(chance.std() / chance.mean(), rel=0.02)
    assert found < min(cv, (1 / fraction - 1) ** 0.5)


def test_busiest_expert_multiplies_the_expert_part_of_work_per_token(make_costs):
    moe = {"expert_share": 0.8, "expert_load_cv": 0.5, "experts_fraction": 0.125}
    even, uneven = make_costs(**moe), make_costs(**moe, hot_expert_growth=0.5)
    bend = knee_time(80.0, even.knee_s_per_token, even.knee_tokens, even.knee_width_tokens)
    work = 20 * even.verify_per_request_s * (1 + 3 * even.verify_growth_per_draft) + bend
    more = step_time(uneven, 20, 3, 500.0) - step_time(even, 20, 3, 500.0)
    assert more == pytest.approx(0.8 * 0.5 * 0.5 * work)
    dense = {"expert_share": 0.0, "experts_fraction": 1.0}
    hot = step_time(make_costs(**dense, hot_expert_growth=0.5), 20, 3, 500.0)
    assert hot == step_time(make_costs(**dense), 20, 3, 500.0)
