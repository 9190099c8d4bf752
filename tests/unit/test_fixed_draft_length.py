"""What one draft length for all loads costs: by hand, and against the policy itself."""

import numpy as np
import pandas as pd
import pytest

from bayes_sd.exceptions import ArgumentError
from bayes_sd.fixed_draft_length import best_fixed_draft_length
from bayes_sd.policy import draft_length_policy
from bayes_sd.scenario import Scenario
from tests.fake_fit import FORCED, fake_fit

NAN = float("nan")


def table(name="request_rate_rps"):
    """Three loads by hand; at the third every draft length is past capacity."""
    return pd.DataFrame(
        {
            "num_speculative_tokens": pd.array([3, 0, None], dtype="Int64"),
            "expected_regret": [0.01, 0.03, NAN],
            "regret_k0": [0.30, 0.03, 0.0],
            "regret_k1": [0.10, 0.09, 0.0],
            "regret_k3": [0.01, 0.25, 0.0],
        },
        index=pd.Index([1.0, 8.0, 99.0], name=name),
    )


def test_the_least_mean_regret_over_loads_that_are_served():
    found = best_fixed_draft_length(table())
    assert found.candidates == (0, 1, 3)
    assert found.mean_regret == pytest.approx((0.165, 0.095, 0.13))
    assert found.choice == 1
    assert found.policy_regret == pytest.approx(0.02)
    assert found.cost == pytest.approx(0.075)
    assert found.worst_regret == pytest.approx((0.30, 0.10, 0.25))
    assert found.worst_load == (1.0, 1.0, 8.0)
    assert found.num_loads == 2


def test_weights_say_how_often_a_load_occurs():
    found = best_fixed_draft_length(table(), [1, 9, 5])
    assert found.choice == 0
    assert found.mean_regret[0] == pytest.approx(0.1 * 0.30 + 0.9 * 0.03)
    seldom = best_fixed_draft_length(table(), [1, 0, 0])
    assert (seldom.choice, seldom.cost, seldom.num_loads) == (3, 0.0, 1)
    assert seldom.worst_load == (1.0, 1.0, 1.0)


def test_words_and_plain_values():
    found = best_fixed_draft_length(table("concurrency"))
    assert found.statement() == (
        "The best fixed draft length over 2 loads is k = 1: it costs 9.5% of latency on average, "
        "the policy 2.0%; at worst 10.0%, at 1 requests in flight."
    )
    plain = found.to_dict()
    assert plain["candidates"][1]["num_speculative_tokens"] == 1
    assert plain["cost"] == found.cost
    assert found.to_frame().index.tolist() == [0, 1, 3]


def test_a_fixed_draft_length_costs_no_less_than_the_policy_of_a_certain_fit():
    certain = fake_fit(draws=20, discrepancy_sd=1e-4, extrapolation_sd=0.0)
    scenario = Scenario("sharp", request_rate_rps=1.0, acceptance=FORCED)
    policy = draft_length_policy(certain, scenario, np.linspace(1.0, 17.5, 12), switch_regret=0.0)
    found = best_fixed_draft_length(policy)
    assert found.cost > 0.02  # the draft length does fall with load
    off = found.candidates.index(0)
    assert found.mean_regret[off] == pytest.approx(policy["regret_k0"].mean())


def test_what_was_wrong_with_the_fit_comes_first():
    policy = table()
    policy.attrs["convergence"] = "NOT CONVERGED."
    assert best_fixed_draft_length(policy).statement().startswith("NOT CONVERGED. The best")


@pytest.mark.parametrize(
    ("policy", "weights", "words"),
    [
        (table()[["expected_regret"]], None, r"result of draft_length_policy over one prompt"),
        (pd.concat({512: table()}), None, r"over one prompt length\. Take one"),
        (table().iloc[2:], None, r"a load that is served.*Got none"),
        (table(), [0, 0, 1], r"weight above 0"),
        (table(), [1, 1], r"weights must be one per load of the policy, 3\. Got 2"),
        (table(), [1, -1, 1], r"weights must be"),
    ],
)
def test_what_does_not_fit_is_said(policy, weights, words):
    with pytest.raises(ArgumentError, match=words):
        best_fixed_draft_length(policy, weights)
