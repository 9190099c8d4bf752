"""Falling paths with hysteresis: against all sequences that there are."""

from itertools import product

import numpy as np
import pytest

from bayes_sd.policy_path import falling_path


def allowed(path, cost, switch_regret):
    """Tell whether a sequence never rises and leaves only what has become too costly."""
    for i in range(1, len(path)):
        before, now = path[i - 1], path[i]
        if now > before:
            return False
        if now < before and cost[i, before] - cost[i].min() <= switch_regret:
            return False
    return True


def total(path, cost):
    return sum(cost[i, k] for i, k in enumerate(path))


@pytest.mark.parametrize("switch_regret", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("seed", range(10))
def test_no_allowed_sequence_is_cheaper(seed, switch_regret):
    cost = np.random.default_rng(seed).uniform(size=(5, 4))
    cost -= cost.min(axis=1, keepdims=True)
    path = falling_path(cost, switch_regret)
    assert allowed(path, cost, switch_regret)
    every = [p for p in product(range(4), repeat=5) if allowed(p, cost, switch_regret)]
    assert total(path, cost) == pytest.approx(min(total(p, cost) for p in every))


def test_without_hysteresis_and_with_falling_optima_each_load_gets_its_best():
    cost = np.ones((6, 3))
    best = [2, 2, 1, 1, 0, 0]
    cost[np.arange(6), best] = 0.0
    assert falling_path(cost, 0.0) == best


def test_what_is_hardly_better_is_not_switched_to():
    cost = np.array([[0.5, 0.0], [0.0, 0.004], [0.0, 0.004], [0.0, 0.02]])
    assert falling_path(cost, 0.005) == [1, 1, 1, 0]
    assert falling_path(cost, 0.0) == [1, 0, 0, 0]


def test_an_optimum_that_rises_is_met_by_one_that_does_not():
    cost = np.array([[0.0, 0.1], [0.3, 0.0], [0.3, 0.0]])
    assert falling_path(cost, 0.0) == [1, 1, 1]


def test_one_load_is_its_best():
    assert falling_path(np.array([[0.2, 0.0, 0.1]]), 0.5) == [1]
