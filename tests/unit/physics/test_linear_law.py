"""The published linear law, its speedup and its break-even."""

import math

import numpy as np
import pytest

from bayes_sd.physics.arrivals import met_by_arrivals
from bayes_sd.physics.latency import request_latency
from bayes_sd.physics.linear_law import (
    closed_form_latency,
    linear_break_even_rate,
    load_dependent_demand_s,
    load_independent_demand_s,
    speedup,
)

LENGTHS = {
    "num_speculative_tokens": 3,
    "input_len_tokens": 512,
    "output_len_tokens": 256,
    "num_steps": 90.0,
}


def demands(c1_ratio, c2_ratio, c1_off=10.0, c2_off=0.1):
    return c1_off, c2_off, c1_ratio * c1_off, c2_ratio * c2_off


@pytest.mark.parametrize("k", [0, 3])
def test_demands_are_intercept_and_slope_of_the_latency(linear_costs, k):
    lengths = LENGTHS | {"num_speculative_tokens": k}
    batch = np.array([0.0, 1.0, 7.0, 30.0])
    requests, others = met_by_arrivals(batch, "poisson")
    latency = request_latency(linear_costs, requests_per_step=requests, others=others, **lengths)
    c1 = load_independent_demand_s(linear_costs, **lengths)
    c2 = load_dependent_demand_s(linear_costs, **lengths)
    np.testing.assert_allclose(latency, c1 + c2 * batch)


def test_published_coefficients(linear_costs):
    # L = C1 + C2 B with C1_EFF = c1p + (g/E)(c1v + k c1d), C2_EFF = c2p + (g/E)(c2v + k c2d), at
    # one length pair and with the request itself counted in B.
    c = linear_costs
    per_step = c.verify_per_request_s * 1.6 + 3 * c.draft_per_request_s
    per_step += c.context_per_token_s * 640
    c2 = 512 * c.prefill_stall_per_token_s + 90 * per_step
    fixed = c.prefill_fixed_s + 512 * c.prefill_per_token_s
    fixed += 90 * (c.verify_fixed_s + 3 * c.draft_fixed_s)
    assert load_dependent_demand_s(c, **LENGTHS) == pytest.approx(c2)
    assert load_independent_demand_s(c, **LENGTHS) == pytest.approx(fixed + 90 * per_step)


def test_closed_form_solves_littles_law():
    rate = np.linspace(0.0, 9.9, 30)
    latency = closed_form_latency(2.0, 0.1, rate)
    np.testing.assert_allclose(latency, 2.0 + 0.1 * rate * latency)


@pytest.mark.parametrize("rate", [10.0, 10.5, 1e9])
def test_closed_form_is_infinite_from_saturation_on(rate):
    assert closed_form_latency(2.0, 0.1, rate) == math.inf


def test_speedup_is_equation_two_of_the_paper():
    c1_ratio, c2_ratio = 0.45, 1.10
    rate = np.linspace(0.0, 9.0, 19)
    r = rate * 0.1
    published = (1 / c1_ratio) * (1 + (1 - c2_ratio) * r / (1 - r))
    np.testing.assert_allclose(speedup(*demands(c1_ratio, c2_ratio), rate), published)


def test_speedup_is_the_ratio_of_latencies():
    off1, off2, on1, on2 = demands(0.6, 0.9)
    ratio = closed_form_latency(off1, off2, 7.0) / closed_form_latency(on1, on2, 7.0)
    assert speedup(off1, off2, on1, on2, 7.0) == pytest.approx(ratio)


def test_speedup_past_capacity():
    off_first, on_first = demands(0.5, 0.8), demands(0.5, 1.25)
    assert speedup(*off_first, 11.0) == math.inf
    assert speedup(*on_first, 9.0) == 0.0
    assert math.isnan(speedup(*on_first, 11.0))
    np.testing.assert_array_equal(speedup(*on_first, np.array([9.0, 11.0])), [0.0, np.nan])


@pytest.mark.parametrize(
    ("c1_ratio", "c2_ratio", "load"),
    [(0.5, 1.3, 0.625), (0.45, 1.10, 0.846), (1.3, 0.5, 0.375)],
)
def test_break_even_load(c1_ratio, c2_ratio, load):
    rate = linear_break_even_rate(*demands(c1_ratio, c2_ratio))
    assert rate * 0.1 == pytest.approx((1 - c1_ratio) / (c2_ratio - c1_ratio))
    assert rate * 0.1 == pytest.approx(load, abs=1e-3)
    assert speedup(*demands(c1_ratio, c2_ratio), rate) == pytest.approx(1.0)


def test_break_even_rate_of_the_papers_design():
    # C1R 0.45, C2R 1.10 and a break-even of 8.46 requests/s: so C2_off is 0.1 s.
    assert linear_break_even_rate(*demands(0.45, 1.10)) == pytest.approx(8.46, abs=0.005)


def test_curves_that_do_not_cross_at_a_stable_rate():
    faster_everywhere = linear_break_even_rate(*demands(0.5, 0.9))
    assert not 0 < faster_everywhere < 10.0
