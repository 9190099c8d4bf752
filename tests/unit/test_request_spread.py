"""Spread and quantiles of request latency, against recursion, simulation, quadrature and SciPy."""

from collections import deque

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from bayes_sd.exceptions import DataError, SchemaError
from bayes_sd.physics.request_quantiles import (
    TAIL_MEAN,
    log_mean_offset,
    log_quantile_ratio,
    request_draws,
    request_quantile,
    tail_shape,
)
from bayes_sd.physics.request_spread import (
    load_variance,
    request_spread,
    steps_variance_renewal,
    tail_excess,
)
from bayes_sd.request_statistics import effective_number, mean_in_system, summarise_requests


def exact_variance(num_tokens, rates):
    """Return Var N(m) by the recursion over the first step."""
    survival = np.concatenate([[1.0], np.cumprod(rates)])
    chance = survival - np.append(survival[1:], 0)
    first, second = np.zeros((2, num_tokens + 1))
    for m in range(1, num_tokens + 1):
        before = np.maximum(m - np.arange(1, len(chance) + 1), 0)
        first[m] = 1 + chance @ first[before]
        second[m] = chance @ (1 + 2 * first[before] + second[before])
    return second[-1] - first[-1] ** 2


@pytest.mark.parametrize("rates", [[0.5], [0.8] * 4, [0.9, 0.7, 0.5], [0.3] * 8])
def test_variance_of_steps_is_that_of_the_recursion(rates):
    exact = exact_variance(127, rates)
    assert steps_variance_renewal(127, rates, len(rates)) == pytest.approx(exact, abs=1e-6)
    leading = exact_variance(100_000 // 100, rates) / 1000  # the leading term alone is not enough
    assert abs(leading * 127 - exact) > 1e-3


def test_variance_of_steps_vanishes_without_drafts_and_is_bounded_when_all_are_accepted():
    assert steps_variance_renewal(127, [0.5], 0) == pytest.approx(0, abs=1e-12)
    assert 0 <= steps_variance_renewal(127, [1.0] * 5, 5) < 1 / 12


def simulate_latency(rate, fixed, slope, num_requests, rng):
    """Return latencies where all in the system progress at 1 / (fixed + slope B) per second."""
    arrivals = rng.exponential(1 / rate, num_requests).cumsum()
    waiting, latencies = deque(), []
    now, progress, i = 0.0, 0.0, 0
    while i < num_requests or waiting:
        pace = 1 / (fixed + slope * max(len(waiting), 1))
        finish = now + (waiting[0][1] + 1 - progress) / pace if waiting else np.inf
        if i < num_requests and arrivals[i] < finish:
            progress += (arrivals[i] - now) * pace
            now = arrivals[i]
            waiting.append((now, progress))
            i += 1
        else:
            start, _ = waiting.popleft()
            progress += (finish - now) * pace
            now = finish
            latencies.append(now - start)
    return np.array(latencies[len(latencies) // 10 :])


@pytest.mark.parametrize("elasticity", [0.3, 0.6, 0.8])
def test_load_variance_is_that_of_a_simulated_queue(elasticity, rng):
    batch = 40.0
    fixed, slope = 1.0, elasticity / (1 - elasticity) / batch  # L = 1 / (1 - e) at this batch
    rate = batch * (1 - elasticity)
    simulated = np.log(simulate_latency(rate, fixed, slope, 30_000, rng)).std()
    formula = np.sqrt(load_variance(1 - elasticity, batch, 1.0))
    assert formula == pytest.approx(simulated, rel=0.15)


def test_load_variance_needs_random_arrivals_and_stays_finite_past_capacity():
    assert load_variance(0.5, 10.0, 0.0) == 0
    assert np.isfinite(load_variance(-0.3, 10.0, 1.0))
    x = np.array([0.06, 0.3, 1.0])
    mean = 2 * (x - 1 + np.exp(-x)) / x**2
    np.testing.assert_allclose(load_variance(x, 1.0, 1.0), (1 - x) ** 2 * mean / x, rtol=1e-3)


def test_spread_adds_variances():
    s = request_spread(
        steps_cv2=0.04, decode_share=0.5, heterogeneity=0.2, load_factor=2.0, load_cv2=0.01
    )
    assert s**2 == pytest.approx(0.01 + 0.04 + 0.04)
    assert tail_excess(0.4, 1.0, 2.0) == 0


def test_without_skew_and_excess_the_quantiles_are_log_normal():
    p = np.array([0.05, 0.5, 0.9, 0.99])
    expected = stats.lognorm(0.3, scale=2 * np.exp(-0.045)).ppf(p)
    found = request_quantile(p, [2.0], spread=[0.3], skew=[0.0], excess=[0.0])
    np.testing.assert_allclose(found, expected[None])


@pytest.mark.parametrize(("s", "gamma"), [(0.1, 0.1), (0.6, -0.15), (0.4, 0.3)])
def test_offset_is_the_log_mean_by_quadrature(s, gamma):
    total, _ = integrate.quad(
        lambda z: np.exp(s * (z + gamma * (z * z - 1))) * stats.norm.pdf(z), -12, 12
    )
    assert log_mean_offset(s, gamma) == pytest.approx(np.log(total), abs=1e-8)


def test_mean_of_the_tail_shape_is_by_quadrature():
    total, _ = integrate.quad(lambda u: np.log1p(0.01 / u), 0, 1)
    assert pytest.approx(total, rel=1e-6) == TAIL_MEAN


def test_quantiles_rise_even_where_the_skewness_turns_the_curve():
    p = np.linspace(0.001, 0.999, 999)
    z = stats.norm.ppf(p)
    for gamma in (-0.4, 0.4):
        ratio = log_quantile_ratio(z, tail_shape(p), spread=0.5, skew=gamma, excess=0.0)
        assert (np.diff(ratio) >= 0).all()
        assert (np.diff(ratio) == 0).any()


def test_draws_have_the_mean_and_the_quantiles(rng):
    s, gamma, excess = 0.2, 0.1, 0.1
    mean = np.full(200_000, 3.0)
    x = request_draws(mean, rng, spread=s, skew=gamma, excess=excess)
    assert x.mean() == pytest.approx(3.0, rel=0.005)
    expected = request_quantile(
        [0.5, 0.95, 0.99], [3.0], spread=[s], skew=[gamma], excess=[excess]
    )[0]
    np.testing.assert_allclose(np.quantile(x, [0.5, 0.95, 0.99]), expected, rtol=0.01)


def test_a_level_outside_0_and_1_is_an_error():
    with pytest.raises(ValueError, match="level must be above 0 and below 1"):
        request_quantile([1.0], [2.0], spread=[0.1], skew=[0.0], excess=[0.0])


def requests(rng, n=4000):
    start = rng.exponential(0.25, n).cumsum()
    return pd.DataFrame(
        {
            "start_s": start,
            "e2e_s": 2 * np.exp(0.2 * rng.standard_normal(n) - 0.02),
            "ttft_s": 0.1,
            "input_len_tokens": 512,
            "output_len_tokens": 101,
        }
    )


def test_summary_is_that_of_pandas(rng):
    frame = requests(rng)
    found = summarise_requests(frame.sample(frac=1, random_state=0))
    row = found.row
    assert row["mean_e2e_s"] == pytest.approx(frame["e2e_s"].mean())
    assert row["p95_e2e_s"] == pytest.approx(frame["e2e_s"].quantile(0.95))
    assert row["mean_tpot_s"] == pytest.approx((frame["e2e_s"].mean() - 0.1) / 100)
    assert row["request_rate_rps"] == pytest.approx(4.0, rel=0.05)
    little = row["request_rate_rps"] * row["mean_e2e_s"]
    assert row["mean_in_system_requests"] == pytest.approx(little, rel=0.05)
    assert found.spread["e2e"] == pytest.approx(0.2, rel=0.05)
    assert found.effective_requests["e2e"] > 2000


def test_in_system_is_the_area_under_the_staircase(rng):
    start = np.sort(rng.uniform(0, 50, 200))
    end = start + rng.exponential(3, 200)
    grid = np.linspace(10, 45, 350_001)
    counted = np.searchsorted(start, grid, "right") - np.searchsorted(np.sort(end), grid, "right")
    assert mean_in_system(start, end, (10, 45)) == pytest.approx(counted.mean(), rel=1e-3)


def test_effective_number_of_an_autoregression(rng):
    x, phi = np.zeros(100_000), 0.8
    noise = rng.standard_normal(len(x))
    for i in range(1, len(x)):
        x[i] = phi * x[i - 1] + noise[i]
    assert effective_number(x) == pytest.approx(len(x) * (1 - phi) / (1 + phi), rel=0.25)


def test_a_wrong_record_is_named(rng):
    frame = requests(rng, 20)
    with pytest.raises(SchemaError, match=r"e2e_s must be above 0.*row 3"):
        summarise_requests(frame.assign(e2e_s=frame["e2e_s"].where(frame.index != 3, -1.0)))
    with pytest.raises(SchemaError, match="ttft_s must be from 0 to e2e_s"):
        summarise_requests(frame.assign(ttft_s=100.0))
    with pytest.raises(SchemaError, match="missing"):
        summarise_requests(frame.drop(columns="start_s"))
    with pytest.raises(DataError, match="at least 2"):
        summarise_requests(frame.iloc[:1])
