"""Latency of single requests: its mean is the run's, its quantiles those that are predicted."""

import numpy as np
import pytest

from bayes_sd.exceptions import ArgumentError, DataError
from bayes_sd.predict import predict_latency, predict_quantiles
from bayes_sd.scenario import Scenario
from tests.fake_fit import fake_fit

SILENT = {"boot_sd": 0.0, "discrepancy_sd": 0.0, "request_cv": 0.0, "extrapolation_sd": 0.0}
LEVELS = (0.5, 0.9, 0.95, 0.99)


@pytest.fixture(scope="module")
def certain():
    return fake_fit(draws=10_000, **SILENT)


@pytest.fixture(scope="module")
def busy(certain):
    pair = str(certain["constant_data"]["pair"].values[0])
    return Scenario(pair, request_rate_rps=1.0, num_speculative_tokens=2)


def test_requests_average_to_the_mean(certain, busy):
    mean = predict_latency(certain, busy)["e2e_s"].values[:, 0]
    requests = predict_latency(certain, busy, "request")["e2e_s"].values[:, 0]
    assert requests.std() > 0.03 * mean.mean()
    error = requests.std() / np.sqrt(len(requests))
    assert abs(requests.mean() - mean.mean()) < 4 * error


def test_quantiles_are_those_of_the_requests(certain, busy):
    quantiles = predict_quantiles(certain, busy, LEVELS)
    assert quantiles.dims == ("sample", "scenario", "quantile")
    requests = predict_latency(certain, busy, "request")["e2e_s"].values[:, 0]
    told = quantiles.values[:, 0].mean(axis=0)
    share_below = [(requests < value).mean() for value in told]
    np.testing.assert_allclose(share_below, LEVELS, atol=0.015)
    # The quantiles of a narrower law are not: the check can fail.
    narrow = told.mean() * (told / told.mean()) ** 0.5
    assert max(abs((requests < v).mean() - p) for v, p in zip(narrow, LEVELS, strict=True)) > 0.03


def test_a_short_run_reports_its_percentiles_less_surely(certain, busy):
    short, long = (
        predict_quantiles(certain, busy.with_(num_requests=n), LEVELS, "run").values[:, 0]
        for n in (50, 5000)
    )
    spread_short, spread_long = (np.log(x).std(axis=0) for x in (short, long))
    assert (spread_short[:3] > 2 * spread_long[:3]).all()


def test_quantiles_rise_with_their_level(certain, busy):
    values = predict_quantiles(certain, busy, LEVELS).values
    assert (np.diff(values, axis=-1) > 0).all()


def test_past_capacity_is_infinite(certain, busy):
    values = predict_quantiles(certain, busy.with_(request_rate_rps=1e4), [0.95]).values
    assert np.isinf(values).all()


def test_without_percentiles_it_says_what_to_fit(certain, busy):
    tree = certain.copy()
    tree["posterior"] = certain["posterior"].to_dataset().drop_vars("spread_heterogeneity")
    with pytest.raises(DataError, match="p95_e2e_s"):
        predict_quantiles(tree, busy)
    with pytest.raises(DataError, match="p95_e2e_s"):
        predict_latency(tree, busy, "request")


@pytest.mark.parametrize("levels", [[], [0.9, 0.5], [0.0, 0.5], [0.5, 1.0]])
def test_levels_that_do_not_rise_are_refused(certain, busy, levels):
    with pytest.raises(ArgumentError, match="levels must rise"):
        predict_quantiles(certain, busy, levels)
