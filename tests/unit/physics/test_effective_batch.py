"""The effective batch of an open loop, against closed forms and against capacity."""

import numpy as np
import pytest

from bayes_sd.physics.arrivals import met_by_arrivals
from bayes_sd.physics.effective_batch import capacity_rps, solve_effective_batch
from bayes_sd.physics.latency import request_latency


class Counted:
    """A latency as a function of the batch that counts its calls."""

    def __init__(self, latency):
        self.latency, self.calls = latency, 0

    def __call__(self, batch):
        self.calls += 1
        return self.latency(batch)


def linear(batch):
    return 2.0 + 0.1 * batch


def quadratic(batch):
    return 1.0 + batch**2


@pytest.fixture
def experts_and_bend(make_costs):
    """A latency that is concave while experts come into use and convex at the bend."""
    costs = make_costs(experts_fraction=8 / 128, knee_s_per_token=2e-4)

    def latency(batch, arrivals="poisson"):
        requests, others = met_by_arrivals(batch, arrivals)
        return request_latency(
            costs,
            requests_per_step=requests,
            others=others,
            num_speculative_tokens=3,
            input_len_tokens=512,
            output_len_tokens=256,
            num_steps=90.0,
        )

    return latency


def test_linear_law_has_the_closed_form():
    rate = np.array([[1e-9, 1e-6, 1e-3], [0.5, 5.0, 9.0]])
    expected = rate * 2.0 / (1 - rate * 0.1)
    batch = solve_effective_batch(rate, linear, 256)
    np.testing.assert_allclose(batch, expected, rtol=1e-9)


def test_smaller_root_of_a_quadratic():
    rate = 0.5 * (1 - np.array([0.999, 0.5, 1e-2, 1e-4, 1e-6, 1e-8]))
    stable = (1 - np.sqrt(1 - 4 * rate**2)) / (2 * rate)
    batch = solve_effective_batch(rate, quadratic, 500.0)
    np.testing.assert_allclose(batch, stable, rtol=1e-6)
    np.testing.assert_allclose(rate * quadratic(batch), batch, rtol=1e-12)
    assert (batch < 1).all()  # the unstable roots are above 1


@pytest.mark.parametrize("arrivals", ["poisson", "constant"])
def test_root_with_experts_and_bend_is_the_first_crossing(experts_and_bend, arrivals):
    def latency(batch):
        return experts_and_bend(batch, arrivals)

    capacity, at = capacity_rps(latency, 400.0)
    assert at < 400.0 or capacity == pytest.approx(400.0 / latency(400.0))
    rate = float(capacity) * np.array([1e-6, 0.01, 0.3, 0.6, 0.9, 0.99, 1 - 1e-6])
    batch = solve_effective_batch(rate, latency, 400.0)
    np.testing.assert_allclose(rate * latency(batch), batch, rtol=1e-8)
    fine = np.geomspace(1e-9, 400.0, 100_001)
    first = [fine[np.argmax(fine >= r * latency(fine))] for r in rate]
    np.testing.assert_allclose(batch, first, rtol=1e-3)


def test_beyond_capacity_is_infinite_and_at_capacity_is_not():
    rate = np.array([0.0, 8.0, 8.0 * (1 + 1e-9), 12.0, np.inf])
    batch = solve_effective_batch(rate, linear, 80.0)
    np.testing.assert_allclose(batch, [0.0, 80.0, np.inf, np.inf, np.inf], rtol=1e-9)
    peak = solve_effective_batch(np.array([0.5, 0.5 * (1 + 1e-9)]), quadratic, 80.0)
    np.testing.assert_allclose(peak, [1.0, np.inf], rtol=1e-5)


def test_a_smaller_cap_lowers_capacity():
    batch = solve_effective_batch(9.0, linear, np.array([100.0, 200.0]))
    np.testing.assert_allclose(batch, [np.inf, 180.0])


def test_draws_broadcast_against_rates():
    c1 = np.array([1.0, 2.0, 3.0])
    rate = np.array([[1.0], [5.0]])
    batch = solve_effective_batch(rate, lambda b: c1 + 0.1 * b, 256)
    np.testing.assert_allclose(batch, rate * c1 / (1 - rate * 0.1))


def test_number_gives_zero_dimensions():
    assert solve_effective_batch(5.0, linear, 256).shape == ()


@pytest.mark.parametrize("share", [1e-6, 0.5, 0.99, 1 - 1e-6, 1 - 1e-10, 1.0, 1.5])
def test_few_calls(experts_and_bend, share):
    for latency in (linear, quadratic, experts_and_bend):
        capacity, _ = capacity_rps(latency, 300.0)
        counted = Counted(latency)
        solve_effective_batch(share * capacity, counted, 300.0)
        assert counted.calls <= 91


def test_few_calls_for_many_rates_together(experts_and_bend, rng):
    counted = Counted(experts_and_bend)
    rate = rng.uniform(0.0, 30.0, size=2000)
    batch = solve_effective_batch(rate, counted, 300.0)
    assert counted.calls <= 91
    solved = np.isfinite(batch)
    assert 0 < solved.sum() < 2000
    little = rate[solved] * experts_and_bend(batch[solved])
    np.testing.assert_allclose(little, batch[solved], rtol=1e-9)
    sustained = np.linspace(0.1, 300.0, 20_001)
    most = (sustained / experts_and_bend(sustained)).max()
    np.testing.assert_array_equal(solved, rate <= most)


def test_capacity_of_the_linear_law_is_at_the_cap():
    capacity, batch = capacity_rps(linear, np.array([10.0, 100.0]))
    np.testing.assert_allclose(capacity, [10 / 3, 100 / 12])
    np.testing.assert_array_equal(batch, [10.0, 100.0])


def test_capacity_inside_the_range():
    counted = Counted(quadratic)
    capacity, batch = capacity_rps(counted, 256.0)
    assert capacity == pytest.approx(0.5, rel=1e-10)
    assert batch == pytest.approx(1.0, rel=1e-5)
    assert counted.calls <= 70


def test_capacity_of_several_draws():
    scale = np.array([1.0, 4.0])
    capacity, batch = capacity_rps(lambda b: 1.0 + scale * b**2, 256.0)
    np.testing.assert_allclose(batch, 1 / np.sqrt(scale), rtol=1e-5)
    np.testing.assert_allclose(capacity, 1 / (2 * np.sqrt(scale)), rtol=1e-10)


@pytest.mark.parametrize("rate", [np.nan, -1.0, [1.0, np.nan]])
def test_rates_are_checked(rate):
    with pytest.raises(ValueError, match="rate_rps must be at least 0 and not NaN"):
        solve_effective_batch(rate, linear, 256)


@pytest.mark.parametrize("cap", [0.0, -3.0, np.inf, np.nan])
def test_caps_are_checked(cap):
    with pytest.raises(ValueError, match="max_batch must be above 0 and finite"):
        solve_effective_batch(1.0, linear, cap)
    with pytest.raises(ValueError, match="max_batch must be above 0 and finite"):
        capacity_rps(linear, cap)


@pytest.mark.parametrize("bad", [np.nan, 0.0, -1.0])
def test_latencies_are_checked(bad):
    with pytest.raises(ValueError, match=f"seconds above 0. Got {bad} instead"):
        solve_effective_batch(1.0, lambda b: bad + 0 * b, 256)
