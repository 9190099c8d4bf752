"""Acceptance, tokens per step and number of steps, each computed a second way."""

import math

import numpy as np
import pytest

from bayes_sd.physics import acceptance

RATES = [0.9, 0.6, 0.75, 0.5]


def accepted_per_step(rng, rates, k, num_steps):
    """Draw drafts accepted per step: count until the first rejection."""
    hits = rng.random((num_steps, k)) < np.asarray(rates[:k])
    return np.cumprod(hits, axis=1).sum(axis=1)


def steps_by_linear_system(m, rates, k):
    """Expected steps as absorption times of the chain of tokens left."""
    pmf = acceptance.tokens_per_step_distribution(rates, k)
    moves = np.zeros((m, m))  # row: left - 1
    for left in range(1, m + 1):
        for emitted, chance in enumerate(pmf, start=1):
            if left - emitted >= 1:
                moves[left - 1, left - emitted - 1] = chance
    return np.linalg.solve(np.eye(m) - moves, np.ones(m))[-1]


def test_positional_logits_are_a_line():
    rates = acceptance.positional_acceptance(1.2, -0.3, 5)
    logits = [math.log(a / (1 - a)) for a in rates]
    np.testing.assert_allclose(logits, 1.2 + 0.3 * np.arange(5), rtol=1e-12)


def test_positional_needs_a_count():
    with pytest.raises(ValueError, match=r"num_positions must be at least 0\. Got -1"):
        acceptance.positional_acceptance(1.0, 0.0, -1)


def test_unconditional_is_cumprod():
    np.testing.assert_allclose(acceptance.unconditional_acceptance(RATES), np.cumprod(RATES))


@pytest.mark.parametrize("k", range(8))
@pytest.mark.parametrize("a", [0.0, 0.3, 0.8, 0.999])
def test_equal_rates_give_the_geometric_sum(a, k):
    length = acceptance.mean_acceptance_length([a] * 8, k)
    assert length == pytest.approx((1 - a ** (k + 1)) / (1 - a))


def test_length_at_acceptance_one_counts_the_verifiers_token():
    lengths = acceptance.mean_acceptance_length([1.0] * 5, np.arange(6))
    np.testing.assert_array_equal(lengths, np.arange(6) + 1)


@pytest.mark.parametrize("k", [1, 3, 4])
def test_length_rate_and_distribution_against_draws(rng, k):
    accepted = accepted_per_step(rng, RATES, k, 200_000)
    length = acceptance.mean_acceptance_length(RATES, k)
    assert length == pytest.approx(1 + accepted.mean(), abs=0.01)
    assert acceptance.draft_acceptance_rate(RATES, k) == pytest.approx(
        accepted.mean() / k, abs=0.005
    )
    share = np.bincount(accepted, minlength=5) / accepted.size
    pmf = acceptance.tokens_per_step_distribution(RATES, k)
    np.testing.assert_allclose(pmf, share, atol=0.005)


def test_distribution_has_mass_one_and_the_mean_acceptance_length():
    k = np.arange(5)
    pmf = np.array(acceptance.tokens_per_step_distribution(RATES, k))
    np.testing.assert_allclose(pmf.sum(axis=0), 1.0)
    mean = (np.arange(1, 6)[:, None] * pmf).sum(axis=0)
    np.testing.assert_allclose(mean, acceptance.mean_acceptance_length(RATES, k))
    assert (pmf >= 0).all()


def test_draft_rate_without_drafts_is_zero():
    assert acceptance.draft_acceptance_rate(RATES, 0) == 0.0
    np.testing.assert_allclose(acceptance.draft_acceptance_rate(RATES, np.array([0, 1])), [0, 0.9])


def test_draft_rate_falls_with_k_at_equal_rates():
    rates = acceptance.draft_acceptance_rate([0.8] * 4, np.arange(1, 5))
    assert rates[0] == pytest.approx(0.8)
    assert (np.diff(rates) < 0).all()


@pytest.mark.parametrize("k", [5, -1, np.array([1, 5]), 4.5, np.int64(5)])
def test_k_outside_the_rates_is_an_error(k):
    for function in (
        acceptance.mean_acceptance_length,
        acceptance.draft_acceptance_rate,
        acceptance.tokens_per_step_distribution,
    ):
        with pytest.raises(ValueError, match="from 0 to 4, the number of rates"):
            function(RATES, k)


@pytest.mark.parametrize("k", [0, 1, 4])
@pytest.mark.parametrize("m", [1, 2, 7, 40])
def test_exact_steps_solve_the_linear_system(m, k):
    exact = acceptance.expected_steps(m, RATES, k)
    assert exact.shape == ()
    assert float(exact) == pytest.approx(steps_by_linear_system(m, RATES, k))


def test_exact_steps_against_draws(rng):
    emitted = 1 + accepted_per_step(rng, RATES, 4, 20_000 * 31).reshape(20_000, 31)
    needed = (np.cumsum(emitted, axis=1) < 31).sum(axis=1) + 1
    error = needed.std() / math.sqrt(needed.size)
    assert float(acceptance.expected_steps(31, RATES, 4)) == pytest.approx(
        needed.mean(), abs=4 * error
    )


def test_exact_steps_at_acceptance_one_are_a_staircase():
    m = np.arange(30)
    np.testing.assert_allclose(acceptance.expected_steps(m, [1.0] * 4, 4), np.ceil(m / 5))


def test_exact_steps_broadcast_over_tokens_rates_and_k():
    m, k = np.array([[0], [5], [12]]), np.array([0, 2, 4, 4])
    draws = [np.array([0.9, 0.5, 0.2, 1.0]), 0.6, np.array([0.1, 0.2, 0.3, 0.4]), 0.5]
    together = acceptance.expected_steps(m, draws, k)
    assert together.shape == (3, 4)
    for (i, j), value in np.ndenumerate(together):
        rates = [float(np.broadcast_to(rate, 4)[j]) for rate in draws]
        assert value == pytest.approx(float(acceptance.expected_steps(int(m[i, 0]), rates, k[j])))


@pytest.mark.parametrize("m", [-1, 2.0, np.array([3, -2]), np.array([np.nan])])
def test_exact_steps_need_whole_tokens(m):
    with pytest.raises(ValueError, match="num_tokens must be whole numbers of at least 0"):
        acceptance.expected_steps(m, RATES, 2)


def test_no_tokens_need_no_steps():
    assert acceptance.expected_steps(np.array([], dtype=int), RATES, 2).shape == (0,)
    assert float(acceptance.expected_steps(0, RATES, 2)) == 0.0


def relative_errors(rate, first):
    """Largest relative error of the closed form and of m / E, for k = 0 to 10."""
    m = np.arange(first, 200)
    k = np.arange(11)[:, None]
    exact = acceptance.expected_steps(m, [rate] * 10, k)
    renewal = acceptance.expected_steps_renewal(m, [rate] * 10, k)
    plain = m / acceptance.mean_acceptance_length([rate] * 10, k)
    return abs(renewal / exact - 1).max(), abs(plain / exact - 1).max()


@pytest.mark.parametrize(
    ("rate", "bound"), [(0.5, 1e-5), (0.8, 1e-5), (0.9, 6e-5), (0.95, 2.2e-3), (0.99, 0.04)]
)
def test_renewal_form_is_as_accurate_as_its_docstring_says(rate, bound):
    renewal, plain = relative_errors(rate, 64)
    assert renewal < bound
    assert plain > 0.01  # the term is needed


def test_renewal_form_at_acceptance_one_is_within_half_a_step():
    m, k = np.arange(1, 200), np.arange(11)[:, None]
    exact = acceptance.expected_steps(m, [1.0] * 10, k)
    off = abs(acceptance.expected_steps_renewal(m, [1.0] * 10, k) - exact)
    assert 0.4 < off.max() < 0.5


def test_renewal_form_is_exact_without_drafts():
    assert acceptance.expected_steps_renewal(255, RATES, 0) == 255.0


def test_best_draft_length_of_the_paper():
    k = np.arange(11)
    for rate, best in [(0.6, 4), (0.7, 6), (0.8, 8), (0.9, 10)]:
        relative_cost = (1 + 0.05 * k) / acceptance.mean_acceptance_length([rate] * 10, k)
        assert relative_cost.argmin() == best
