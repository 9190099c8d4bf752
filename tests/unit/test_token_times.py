"""Quantiles of ttft and tpot, and objectives on them: closed forms on draws that are certain."""

import numpy as np
import pytest
from scipy import stats

from bayes_sd.attainment import slo_attainment
from bayes_sd.exceptions import ArgumentError, DataError
from bayes_sd.physics.acceptance import expected_steps_renewal
from bayes_sd.physics.request_spread import steps_variance_renewal, wait_variance
from bayes_sd.predict import predict_latency, predict_quantiles
from bayes_sd.scenario import Scenario
from tests.edited_fit import FIRST_TOKEN, edited_fit
from tests.fake_fit import fake_fit

SILENT = {"boot_sd": 0.0, "discrepancy_sd": 0.0, "request_cv": 0.0, "extrapolation_sd": 0.0}
LEVELS = (0.5, 0.9, 0.99)
ALONE = Scenario(
    "quick",
    concurrency=1,
    num_speculative_tokens=3,
    acceptance=0.7,
    input_len_tokens=512,
    output_len_tokens=128,
)


@pytest.fixture(scope="module")
def certain():
    tree = edited_fit(fake_fit(draws=3, **SILENT), **FIRST_TOKEN | {"ttft_discrepancy_sd": 0.0})
    return tree


def log_normal(mean, scale):
    return stats.lognorm(scale, scale=mean * np.exp(-(scale**2) / 2)).ppf(LEVELS)


def test_a_wait_that_is_uniform_on_the_step_has_the_variance_of_a_uniform(rng):
    step, fixed = 0.04, 0.2
    ttft = fixed + step * rng.random(200_000)
    assert wait_variance(step, ttft.mean()) == pytest.approx(np.log(ttft).var(), rel=0.02)
    assert wait_variance(9.0, 1.0) == pytest.approx(1 / 3)


def test_first_token_spreads_by_the_wait_and_by_heterogeneity(certain):
    mean = predict_latency(certain, ALONE)
    e2e, ttft = float(mean["e2e_s"][0, 0]), float(mean["ttft_s"][0, 0])
    steps = expected_steps_renewal(127, [0.7] * 3, 3)
    scale = np.sqrt((e2e / steps / ttft) ** 2 / 12 + 0.05**2)
    found = predict_quantiles(certain, ALONE, LEVELS, latency="ttft")
    assert found.name == "ttft_s"
    np.testing.assert_allclose(found.values[0, 0], log_normal(ttft, scale), rtol=1e-3)
    assert abs(np.log(found.values[0, 0, 1] / log_normal(ttft, 0.05)[1])) > 0.01


def test_time_per_token_spreads_by_all_of_its_steps(certain):
    tpot = float(predict_latency(certain, ALONE)["tpot_s"][0, 0])
    steps = expected_steps_renewal(127, [0.7] * 3, 3)
    scale = np.sqrt(steps_variance_renewal(127, [0.7] * 3, 3) / steps**2 + 0.05**2)
    found = predict_quantiles(certain, ALONE, LEVELS, latency="tpot").values[0, 0]
    np.testing.assert_allclose(found, log_normal(tpot, scale), rtol=1e-3)
    # Of the whole latency the prefill does not spread with the steps.
    e2e = predict_quantiles(certain, ALONE, LEVELS).values[0, 0]
    mean = float(predict_latency(certain, ALONE)["e2e_s"][0, 0])
    assert e2e[-1] / mean < found[-1] / tpot


@pytest.mark.parametrize("latency", ["ttft", "tpot"])
def test_a_run_of_few_requests_reports_them_less_surely(latency):
    told = FIRST_TOKEN | {"ttft_discrepancy_sd": 0.0}
    tree = edited_fit(fake_fit(draws=2000, **SILENT), **told)
    wide, narrow = (
        predict_quantiles(
            tree, ALONE.with_(num_requests=n), [0.9], "run", latency=latency
        ).values.std()
        for n in (20, 2000)
    )
    assert wide > 1.2 * narrow


@pytest.mark.parametrize("latency", ["e2e", "ttft", "tpot"])
def test_an_objective_is_met_above_the_quantile_and_not_below(certain, latency):
    value = float(predict_quantiles(certain, ALONE, [0.95], latency=latency)[0, 0, 0])
    for limit, met in ((1.001 * value, 1.0), (0.999 * value, 0.0)):
        found = slo_attainment(certain, ALONE, f"{latency}_p95 <= {limit}")
        assert found.p_slo_met == (met,)
        np.testing.assert_allclose(found.share, 0.95, atol=0.002)


def test_of_two_latencies_the_least_share_is_told(certain):
    limits = {
        name: float(predict_quantiles(certain, ALONE, [level], latency=name)[0, 0, 0])
        for name, level in (("e2e", 0.9), ("ttft", 0.8))
    }
    both = slo_attainment(
        certain, ALONE, f"e2e_p50 <= {limits['e2e']}, ttft_p50 <= {limits['ttft']}"
    )
    np.testing.assert_allclose(both.share, 0.7, atol=1e-6)
    assert both.p_slo_met == (1.0,)


def test_past_capacity_no_first_token_comes_in_time(certain):
    busy = ALONE.with_(concurrency=None, request_rate_rps=1e4)
    assert np.isinf(predict_quantiles(certain, busy, [0.5], latency="tpot")).all()
    found = slo_attainment(certain, busy, "ttft_p99 <= 100")
    assert found.p_slo_met == (0.0,)
    np.testing.assert_array_equal(found.share, 0.0)


def test_what_no_run_had_is_said():
    bare = edited_fit(fake_fit(draws=3, percentiles=False), **FIRST_TOKEN)
    with pytest.raises(DataError, match=r"percentiles of ttft are not known.*p50_ttft_s"):
        predict_quantiles(bare, ALONE, latency="ttft")
    with pytest.raises(DataError, match=r"percentiles of tpot are not known"):
        slo_attainment(bare, ALONE, "tpot_p95 <= 30 ms")
    with pytest.raises(ArgumentError, match=r"latency must be one of 'e2e', 'ttft', 'tpot'"):
        predict_quantiles(bare, ALONE, latency="itl")
