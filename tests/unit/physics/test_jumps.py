"""Jumps of the step time: stairs in tokens, smoothed by a load that fluctuates."""

import numpy as np
import pytest

from bayes_sd.physics.jumps import (
    JUMP_PLACE,
    JUMP_TOKENS,
    SLOPE_WIDTH,
    jump_rise,
    jump_slope,
    jump_time,
)
from bayes_sd.physics.step_time import step_time, step_time_slope

HEIGHTS = (1e-3, 2e-3, 4e-3)


def test_a_step_passes_each_jump_once():
    at = np.array([1.0, 95.0, 190.0, 1e4])
    np.testing.assert_allclose(jump_time(at, HEIGHTS), [0.0, 1e-3, 3e-3, 7e-3], atol=4e-5)


@pytest.mark.parametrize("number", range(3))
def test_half_a_jump_is_reached_just_above_its_tile(number):
    heights = tuple(float(i == number) for i in range(3))
    tile = JUMP_TOKENS[number]
    assert jump_time(JUMP_PLACE * tile, heights) == pytest.approx(0.5)
    assert jump_time(0.9 * tile, heights) < 0.1 < 0.25 < jump_time(float(tile), heights) < 0.3


def test_a_fluctuating_load_sees_the_mean_of_the_stairs():
    """The widened logistic against the mean of the sharp one over normal tokens."""
    mean, sd = 75.0, 18.0
    tokens = np.linspace(mean - 6 * sd, mean + 6 * sd, 20_001)
    weight = np.exp(-((tokens - mean) ** 2) / (2 * sd**2))
    sharp = np.average(jump_time(tokens, (1.0, 0.0, 0.0)), weights=weight)
    assert jump_time(mean, (1.0, 0.0, 0.0), sd**2) == pytest.approx(sharp, abs=0.02)
    assert abs(jump_time(mean, (1.0, 0.0, 0.0)) - sharp) > 0.1  # a still load would see another


def test_slope_holds_the_whole_jump_over_its_range():
    tokens = np.linspace(-200.0, 400.0, 6001)
    total = np.trapezoid(jump_slope(tokens, (1.0, 0.0, 0.0)), tokens)
    assert total == pytest.approx(1.0, abs=1e-3)
    assert jump_slope(JUMP_PLACE * 64, (1.0, 0.0, 0.0)) == pytest.approx(0.25 / (SLOPE_WIDTH * 64))


def test_they_are_part_of_the_step(make_costs):
    plain, stairs = make_costs(), make_costs(jump_64_s=1e-3)
    low, high = (step_time(stairs, n, 1, 500.0) - step_time(plain, n, 1, 500.0) for n in (10, 60))
    assert low < 1e-6
    assert high == pytest.approx(1e-3, rel=1e-3)
    here = step_time_slope(stairs, 34, 1, 500.0) - step_time_slope(plain, 34, 1, 500.0)
    assert here == pytest.approx(2 * jump_slope(68.0, (1e-3, 0.0, 0.0)))
    smooth = step_time(stairs, 30, 1, 500.0, 30.0) - step_time(plain, 30, 1, 500.0)
    assert smooth == pytest.approx(jump_time(60.0, (1e-3, 0.0, 0.0), 4 * 30.0))


def test_a_loaded_drafter_costs_only_where_it_is_off(make_costs):
    plain, loaded = make_costs(), make_costs(idle_drafter_s=2e-3)
    assert step_time(loaded, 4, 0, 500.0) - step_time(plain, 4, 0, 500.0) == pytest.approx(2e-3)
    assert step_time(loaded, 4, 3, 500.0) == step_time(plain, 4, 3, 500.0)


def test_rise_is_the_derivative_along_a_path():
    jumps, step = (1e-3, 2e-3, 4e-3), 1e-5

    def along(batch):
        return jump_time(4 * (1 + batch), jumps, 16 * batch)

    for batch in (3.0, 15.5, 16.0, 40.0, 70.0):
        slope = (along(batch + step) - along(batch - step)) / (2 * step)
        found = jump_rise(4 * (1 + batch), jumps, 16 * batch, 4.0, 16.0)
        assert found == pytest.approx(slope, rel=1e-5)
