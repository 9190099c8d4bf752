"""From draws to a table."""

import numpy as np
import pytest
import xarray as xr

from bayes_sd.exceptions import ArgumentError
from bayes_sd.predict import predict_latency
from bayes_sd.scenario import Scenario
from bayes_sd.summary import summarise
from tests.fake_fit import fake_fit


def test_quantiles_and_capacity_are_those_of_the_draws():
    values = np.arange(1.0, 101.0)[:, None] * [1.0, 1.0]
    values[60:, 1] = np.inf
    draws = xr.Dataset(
        {
            "e2e_s": (("sample", "scenario"), values),
            "effective_batch": (("sample", "scenario"), 2 * values),
            "status": ("scenario", ["interpolated", "measured"]),
            "outside": ("scenario", ["", ""]),
        },
        coords={"scenario": ["a", "b"]},
        attrs={"kind": "run"},
    )
    table = summarise(draws, level=0.8)
    assert table.index.tolist() == ["a", "b"]
    assert table.loc["a", ["low_e2e_s", "median_e2e_s", "high_e2e_s"]].tolist() == [10, 50, 90]
    # Infinite draws are draws: they move the upper end, not the median.
    assert table.loc["b", ["low_e2e_s", "median_e2e_s", "high_e2e_s"]].tolist() == [10, 50, np.inf]
    assert table["effective_batch"].tolist() == [100, 100]
    assert table["p_past_capacity"].tolist() == [0.0, 0.4]
    assert table["kind"].tolist() == ["run", "run"]
    assert table["status"].tolist() == ["interpolated", "measured"]


def test_a_wider_level_is_a_wider_interval():
    draws = predict_latency(fake_fit(draws=100, spread=0.1), Scenario("big", request_rate_rps=5.0))
    narrow, wide = summarise(draws, 0.5).iloc[0], summarise(draws, 0.95).iloc[0]
    assert wide["low_e2e_s"] < narrow["low_e2e_s"] < narrow["median_e2e_s"]
    assert narrow["median_e2e_s"] < narrow["high_e2e_s"] < wide["high_e2e_s"]


@pytest.mark.parametrize("level", [0, 1, 90, "0.9"])
def test_a_level_that_is_no_probability_is_refused(level):
    draws = xr.Dataset()
    with pytest.raises(ArgumentError, match=r"level must be a probability above 0 and below 1"):
        summarise(draws, level)
