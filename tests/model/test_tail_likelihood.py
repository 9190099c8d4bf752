"""Percentiles as data: the covariance by Monte Carlo, the density by SciPy, the scale recovered."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats

from bayes_sd.exceptions import ArgumentError, DataError
from bayes_sd.percentile_ratios import (
    expected_levels,
    ratio_covariance,
    ratio_data,
    sampled_spread,
)
from bayes_sd.physics.request_quantiles import TAIL_MEAN, log_quantile_ratio, tail_shape
from bayes_sd.tail_likelihood import observe_ratios, ratio_logp

LEVELS = [0.5, 0.9, 0.95, 0.99]
SPREAD, REQUESTS = 0.1, 400


def sampled_runs(rng, num_runs=4000, n=REQUESTS, spread=SPREAD):
    """Return percentiles and means of runs of independent log-normal requests."""
    x = np.exp(spread * rng.standard_normal((num_runs, n)))
    return np.quantile(x, LEVELS, axis=1).T, x.mean(axis=1), np.full(num_runs, n)


def density_function(data, **changed):
    """Return ratio_logp as a function of the scale, (run,); all other errors are off."""
    given = {
        "spread": None,
        "skew": 0.0,
        "excess": 0.0,
        "misfit_sd": 1e-6,
        "excess_misfit": 0.0,
        "dof": 1e6,
        "top_dof": 1e6,
        "weight": 1.0,
    } | changed
    size = len(data.num_requests)
    scale = pt.dscalar("scale")
    given["spread"] = scale * np.ones(size)
    per_run = ("spread", "skew", "excess", "misfit_sd", "weight")
    parameters = [
        pt.as_tensor(v * np.ones(size) if k in per_run else np.asarray(v)) for k, v in given.items()
    ]
    logp = ratio_logp(pt.as_tensor(data.columns[0]), *parameters, data=data)
    return pytensor.function([scale], logp, mode="FAST_COMPILE")


def density(data, spread=SPREAD, **changed):
    """Return ratio_logp as numbers, (run,)."""
    return density_function(data, **changed)(spread)


def test_covariance_of_the_ratios_is_that_of_simulated_runs(rng):
    quantile, mean, n = sampled_runs(rng)
    ratio = np.log(quantile / mean[:, None])
    found = np.cov(ratio.T) * REQUESTS / SPREAD**2
    formula = ratio_covariance(expected_levels(LEVELS, n[:1])[0])
    np.testing.assert_allclose(found, formula, rtol=0.12, atol=0.15)
    # Had the mean come from other requests, nothing would be taken off: this is not the case.
    assert np.abs(found - (formula + 1)).max() > 0.8


def test_levels_are_the_normal_scores_of_the_order_statistics(rng):
    for n in (20, 100):
        scores = np.sort(rng.standard_normal((40_000, n)), axis=1)
        found = np.quantile(scores, LEVELS, axis=1).mean(axis=1)
        formula = stats.norm.ppf(expected_levels(LEVELS, [n])[0])
        np.testing.assert_allclose(found, formula, atol=0.04)
        assert abs(found[-1] - stats.norm.ppf(0.99)) > 0.1


def whitened_squares(data):
    z, one = data.columns[1], data.columns[3]
    residual = data.columns[0] - SPREAD * z + SPREAD**2 / 2 * one
    return (residual**2).sum(axis=1) * data.num_requests / SPREAD**2


def test_whitened_residuals_are_chi_square_and_independent_levels_are_not(rng):
    data = ratio_data(*sampled_runs(rng), LEVELS)
    assert stats.kstest(whitened_squares(data), stats.chi2(4).cdf).pvalue > 1e-3
    variance = np.diag(ratio_covariance(expected_levels(LEVELS, [REQUESTS])[0]) + 1)
    quantile, mean, n = sampled_runs(rng)
    z = stats.norm.ppf(expected_levels(LEVELS, n))
    residual = np.log(quantile / mean[:, None]) - SPREAD * z + SPREAD**2 / 2
    wrong = (residual**2 / variance).sum(axis=1) * REQUESTS / SPREAD**2
    assert stats.kstest(wrong, stats.chi2(4).cdf).pvalue < 1e-12


def test_density_is_that_of_scipy():
    rng = np.random.default_rng(5)
    n, s, tau = 300, 0.15, 0.02
    gamma, delta, share, dof, top_dof = 0.1, 0.2, 0.4, 5.0, 3.0
    at = expected_levels(LEVELS, [n])[0]
    ratio = 0.15 * stats.norm.ppf(at) + 0.03 * rng.standard_normal(4)
    data = ratio_data(np.exp(ratio)[None], [1.0], [n], LEVELS)
    (found,) = density(
        data,
        spread=s,
        skew=gamma,
        excess=delta,
        misfit_sd=tau,
        excess_misfit=share,
        dof=dof,
        top_dof=top_dof,
    )
    mean = log_quantile_ratio(
        stats.norm.ppf(at), tail_shape(at), spread=s, skew=gamma, excess=delta
    )
    shape = ratio_covariance(at)
    bulk = s**2 / n + tau**2
    expected = stats.multivariate_t(mean[:3], bulk * shape[:3, :3], df=dof).logpdf(ratio[:3])
    slope = np.linalg.solve(shape[:3, :3], shape[:3, 3])
    left = shape[3, 3] - slope @ shape[:3, 3]
    location = mean[3] + slope @ (ratio[:3] - mean[:3])
    scale = np.sqrt(left * (bulk + (share * delta) ** 2))
    expected += stats.t(top_dof, location, scale).logpdf(ratio[3])
    assert found == pytest.approx(expected, abs=1e-9)
    assert mean[3] - s * stats.norm.ppf(at[3]) > 0.5 * delta * (0.69 - TAIL_MEAN)


def intervals(data, grid):
    """Return the 5 and 95 % points of each run's scale under a flat prior on its logarithm."""
    at = density_function(data)
    logp = np.stack([at(s) for s in grid])
    mass = np.exp(logp - logp.max(axis=0)).cumsum(axis=0)
    mass /= mass[-1]
    return (grid[np.argmax(mass > q, axis=0)] for q in (0.05, 0.95))


def test_the_scale_is_in_its_interval_as_often_as_it_says(rng):
    num_runs = 600
    quantile, mean, n = sampled_runs(rng, num_runs)
    data = ratio_data(quantile, mean, n, LEVELS)
    grid = SPREAD * np.geomspace(0.7, 1.45, 61)
    low, high = intervals(data, grid)
    inside = ((low <= SPREAD) & (high >= SPREAD)).sum()
    lowest, highest = stats.binom(num_runs, 0.9).ppf([1e-4, 1 - 1e-4])
    assert lowest <= inside <= highest
    np.testing.assert_allclose(np.median(sampled_spread(data)), SPREAD, rtol=0.03)
    # Told that the runs hold four times the requests, the same intervals miss.
    low, high = intervals(ratio_data(quantile, mean, 4 * n, LEVELS), grid)
    assert ((low <= SPREAD) & (high >= SPREAD)).sum() < lowest


def test_missing_levels_and_small_runs_are_left_out(rng):
    quantile, mean, n = sampled_runs(rng, 4, 2000)
    quantile[0, 1] = np.nan
    quantile[1] = np.nan
    n[2] = 9
    n[3] = 20  # p95 rests on the same two requests as p90
    data = ratio_data(quantile, mean, n, LEVELS)
    np.testing.assert_array_equal(data.num_bulk, [2, 0, 0, 2])
    np.testing.assert_array_equal(data.has_top, [1, 0, 0, 1])
    found = density(data)
    np.testing.assert_array_equal(found[1:3], 0)
    assert np.isfinite(found).all()
    (alone,) = density(ratio_data(quantile[:1, [0, 2, 3]], mean[:1], n[:1], [0.5, 0.95, 0.99]))
    assert found[0] == pytest.approx(alone)


def test_a_model_samples_the_slope_everywhere_and_holds_runs_out(rng):
    quantile, mean, n = sampled_runs(rng, 5, 500)
    quantile[4] = np.nan
    data = ratio_data(quantile, mean, n, LEVELS)
    with pm.Model(coords={"run": range(5), "level": LEVELS}) as model:
        weight = pm.Data("weight", np.ones(5), dims="run")
        spread = pm.LogNormal("spread", np.log(0.1), 1, dims="run")
        observe_ratios(
            "e2e_ratios",
            data,
            spread=spread,
            skew=0.0,
            excess=pm.HalfNormal("excess", 0.1) * np.ones(5),
            misfit_sd=pm.LogNormal("misfit_sd", np.log(0.01), 1),
            excess_misfit=pm.LogNormal("excess_misfit", np.log(0.3), 1),
            dof=pm.Gamma("dof", mu=4, sigma=2),
            top_dof=pm.Gamma("top_dof", mu=4, sigma=2),
            weight=weight,
            level_dim="level",
        )
    point = model.initial_point()
    slope = model.compile_dlogp(vars=[model["spread"]], mode="FAST_COMPILE")
    full = slope(point)
    assert np.isfinite(full).all()
    with model:
        pm.set_data({"weight": np.array([1.0, 0, 1, 1, 1])})
    held = slope(point)
    assert held[1] == held[4] != full[1]  # only the prior is left
    np.testing.assert_array_equal(np.delete(held, 1), np.delete(full, 1))


def test_arguments_that_cannot_be_right_are_refused():
    one = np.ones((1, 2))
    with pytest.raises(ArgumentError, match="levels must rise"):
        ratio_data(one, [1.0], [100], [0.9, 0.5])
    with pytest.raises(ArgumentError, match=r"at most one from 0\.985"):
        ratio_data(one, [1.0], [100], [0.99, 0.999])
    with pytest.raises(ArgumentError, match="Got shapes"):
        ratio_data(one, [1.0, 1.0], [100, 100], [0.5, 0.9])
    with pytest.raises(DataError, match="no run has a percentile"):
        ratio_data(one, [1.0], [5], [0.5, 0.9])
