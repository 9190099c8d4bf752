"""Step time: the hinge against its plain form, slopes against differences, sums by hand."""

import numpy as np
import pytest

from bayes_sd.physics.experts import expert_coverage
from bayes_sd.physics.step_time import (
    CostCoefficients,
    knee_slope,
    knee_time,
    ridge_tokens,
    step_time,
    step_time_slope,
)

TOKENS = np.linspace(0.0, 400.0, 81)


def test_knee_is_the_shifted_hinge():
    def hinge(x):
        return 1e-5 * (x + np.sqrt(x**2 + 20.0**2)) / 2

    expected = hinge(TOKENS - 80.0) - hinge(-80.0)
    np.testing.assert_allclose(knee_time(TOKENS, 1e-5, 80.0, 20.0), expected, atol=1e-15)


def test_knee_is_zero_at_no_tokens_rising_and_convex():
    time = knee_time(TOKENS, 1e-5, 80.0, 20.0)
    assert time[0] == 0.0
    assert (np.diff(time) > 0).all()
    assert (np.diff(time, 2) > 0).all()


def test_knee_is_not_negative_far_below_the_bend():
    assert (knee_time(np.geomspace(1e-12, 1e3, 200), 1e-5, 1e6, 1.0) >= 0).all()


def test_knee_without_width_is_the_roofline():
    longer = np.maximum(TOKENS - 80.0, 0.0)
    np.testing.assert_allclose(knee_time(TOKENS, 1e-5, 80.0, 0.0), 1e-5 * longer, atol=1e-11)


@pytest.mark.parametrize("width", [0.0, 20.0])
def test_knee_slope_at_and_far_from_the_bend(width):
    slope = knee_slope(np.array([0.0, 80.0, 1e6]), 1e-5, 80.0, width)
    np.testing.assert_allclose(slope[1:], [0.5e-5, 1e-5], rtol=1e-6)
    assert slope[0] < 0.2e-6


def test_knee_slope_is_the_derivative():
    h = 1e-3
    rise = knee_time(TOKENS + h, 1e-5, 80.0, 20.0) - knee_time(TOKENS - h, 1e-5, 80.0, 20.0)
    slope = knee_slope(TOKENS, 1e-5, 80.0, 20.0)
    np.testing.assert_allclose(slope, rise / (2 * h), rtol=1e-6)


def test_step_is_the_sum_of_its_parts(make_costs):
    c = make_costs()
    n, k, x = 6, 3, 700.0
    verifier = c.verify_fixed_s * (0.2 + 0.8 * expert_coverage(24, 4 / 32, 0.6))
    drafter = k * c.draft_fixed_s + n * k * c.draft_per_request_s
    requests = n * (c.verify_per_request_s * 1.6 + c.context_per_token_s * x)
    bend = knee_time(24, c.knee_s_per_token, c.knee_tokens, c.knee_width_tokens)
    assert step_time(c, n, k, x) == pytest.approx(verifier + drafter + requests + bend)


def test_published_law_is_a_special_case(make_costs):
    law = {"verify_growth_per_draft": 0.0, "knee_s_per_token": 0.0, "expert_share": 0.0}
    c = make_costs(**law, context_per_token_s=0.0)
    n, k = np.arange(1, 9)[:, None], np.arange(6)
    fixed = c.verify_fixed_s + k * c.draft_fixed_s
    per_request = c.verify_per_request_s + k * c.draft_per_request_s
    np.testing.assert_allclose(step_time(c, n, k, 500.0), fixed + n * per_request)


def test_plain_decoding_does_not_depend_on_the_drafter(make_costs):
    slow_drafter = make_costs(draft_fixed_s=1.0, draft_per_request_s=1.0)
    assert step_time(slow_drafter, 4, 0, 600) == step_time(make_costs(), 4, 0, 600)


def test_defaults_are_a_dense_model(make_costs):
    given = {f: v for f, v in vars(make_costs()).items() if not f.startswith(("expert", "mixed"))}
    dense = CostCoefficients(**given)
    assert step_time(dense, 4, 2, 600) == step_time(make_costs(expert_share=0.0), 4, 2, 600)


@pytest.mark.parametrize("k", [0, 1, 5])
def test_step_slope_is_the_derivative(make_costs, k):
    n, h = np.array([1e-2, 0.5, 1.0, 4.0, 14.0, 60.0, 300.0]), 1e-3
    rise = step_time(make_costs(), n + h, k, 600) - step_time(make_costs(), n - h, k, 600)
    slope = step_time_slope(make_costs(), n, k, 600)
    np.testing.assert_allclose(slope, rise / (2 * h), rtol=1e-5)


def test_at_the_ridge_reading_and_computing_take_the_same_time():
    weights, flops, bandwidth = 8e9, 312e12, 2.0e12
    ridge = ridge_tokens(flops, bandwidth, 2)
    assert 2 * weights * ridge / flops == pytest.approx(2 * weights / bandwidth)
    assert ridge_tokens(flops, bandwidth, 2, 8 / 128) == pytest.approx(16 * ridge)
