"""Formulas of accepted drafts against brute force, and what the data can tell of a group."""

import itertools

import numpy as np
import pytest
import xarray as xr

from bayes_sd.acceptance_levels import (
    accepted_moments,
    group_margins,
    information,
    pooled_rates,
    rates_of_steps,
    step_shift,
)

LOGITS = np.array([1.0, 0.3, -0.4, 0.8])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_enumeration(rates):
    """Mean and second moment of the accepted drafts over all accept/reject patterns."""
    first = second = 0.0
    for pattern in itertools.product((True, False), repeat=len(rates)):
        chance = np.prod([a if hit else 1 - a for a, hit in zip(rates, pattern, strict=True)])
        accepted = next((i for i, hit in enumerate(pattern) if not hit), len(pattern))
        first += chance * accepted
        second += chance * accepted**2
    return first, second


@pytest.mark.parametrize("k", [1, 2, 4])
def test_moments_are_those_of_all_patterns(k):
    rates = list(sigmoid(LOGITS))
    mean, variance, slopes = accepted_moments(rates, k)
    first, second = by_enumeration(rates[:k])
    assert mean == pytest.approx(first)
    assert variance == pytest.approx(second - first**2)
    step = 1e-6
    for j, slope in enumerate(slopes):
        ends = [
            by_enumeration(list(sigmoid(LOGITS + sign * step * (np.arange(4) == j)))[:k])[0]
            for sign in (1, -1)
        ]
        assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-8)


def pooled_by_steps(theta, spread, k):
    """Rates of all steps together, of requests that differ: harder ones take more steps."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    rates = sigmoid(theta + spread * nodes[:, None] + np.zeros(k))
    survival = np.cumprod(rates, axis=1)
    steps = weights / (1 + survival.sum(axis=1))
    joint = (steps / steps.sum()) @ survival
    return joint / np.append(1.0, joint[:-1])


def test_first_position_falls_with_the_draft_length_as_requests_differ():
    theta, spread = 0.8, 0.2  # first order: exact as the spread goes to 0
    true = [np.log(1 / pooled_by_steps(theta, spread, k)[0] - 1) * -1 for k in (1, 3, 5)]
    rates = [sigmoid(theta)] * 5
    shifts = [step_shift(rates, spread, k) for k in (1, 3, 5)]
    falls = np.diff(true)
    np.testing.assert_allclose(-np.diff(shifts), falls, rtol=0.05)
    assert (falls < -0.004).all()
    shifted = [np.log(1 / rates_of_steps(rates, spread, k)[0] - 1) * -1 for k in (1, 3, 5)]
    np.testing.assert_allclose(shifted, theta - np.array(shifts))


def groups(names):
    """Acceptance groups given as 'drafter workload'."""
    parts = [n.split() for n in names]
    same = np.array(["x"] * len(names))
    return xr.Dataset(
        {
            "verifier_of_group": ("acceptance_group", same),
            "method_of_group": ("acceptance_group", same),
            "drafter_of_group": ("acceptance_group", np.array([p[0] for p in parts])),
            "workload_of_group": ("acceptance_group", np.array([p[1] for p in parts])),
            "sampling_of_group": ("acceptance_group", same),
        },
        coords={"acceptance_group": names},
    )


@pytest.mark.parametrize(
    ("names", "margins"),
    [
        (["a chat"], []),
        (["a chat", "b chat"], []),  # the groups themselves are the drafters
        (["a chat", "a code"], []),
        (["a chat", "a code", "b chat"], ["drafter", "workload"]),
        (["a chat", "a code", "b chat", "b code"], ["drafter", "workload"]),
    ],
)
def test_a_margin_is_there_only_where_it_is_shared(names, margins):
    assert list(group_margins(groups(names))) == margins


@pytest.fixture
def data():
    """A group with counts at k = 3, and one with a mean only at k = 2."""
    return xr.Dataset(
        {
            "group_of_run": ("run", [0, 1]),
            "num_speculative_tokens": ("run", [3, 2]),
            "trials_at_position": (("run", "position"), [[1000, 500, 250], [0, 0, 0]]),
            "accepted_at_position": (("run", "position"), [[500, 250, 125], [0, 0, 0]]),
            "accepted_per_step": ("run", [np.nan, 0.75]),
            "steps_of_mean": ("run", [0.0, 400.0]),
        },
        coords={"acceptance_group": ["counts", "mean"], "position": [1, 2, 3]},
    )


def test_pooled_rates_from_counts_and_from_a_mean(data):
    np.testing.assert_allclose(pooled_rates(data), 0.5, atol=2e-3)


def test_information_is_fishers(data):
    found = information(data, np.zeros(2))
    bits = np.array([250.0, 125.0, 62.5])  # trials x a (1 - a)
    place = bits @ [0, 1, 2] / bits.sum()
    spread = bits @ (np.arange(3) - place) ** 2
    assert found.of_level[0] == pytest.approx(bits.sum(), rel=1e-2)
    assert found.place[0] == pytest.approx(place, rel=1e-2)
    assert found.of_decay[0] == pytest.approx(spread, rel=1e-2)
    # E[A] = 0.75, Var = 0.6875, slopes 0.375 and 0.125 (see accepted_moments)
    assert found.of_level[1] == pytest.approx(400 * 0.25 / 0.6875, rel=1e-2)
    assert found.place[1] == pytest.approx(0.25, rel=1e-2)
    assert found.of_decay[1] == pytest.approx(0, abs=1e-9)
    # A run's own deviation bounds what it can tell.
    assert (information(data, np.full(2, 0.01)).of_level < 300).all()
