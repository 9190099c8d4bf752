"""A policy is one decision per load, in a table."""

import numpy as np
import pandas as pd
import pytest

from bayes_sd.decide import choose_draft_length
from bayes_sd.exceptions import ArgumentError, ConvergenceWarning
from bayes_sd.policy import draft_length_policy
from bayes_sd.scenario import Scenario
from tests.fake_fit import FORCED, fake_fit

SHARP = Scenario("sharp", request_rate_rps=1.0, acceptance=FORCED)


@pytest.fixture(scope="module")
def tree():
    return fake_fit(draws=100)


def test_each_row_is_the_decision_at_its_load(tree):
    rates = [1.0, 6.0, 12.0]
    table = draft_length_policy(tree, SHARP, rates, random_seed=4)
    assert table.index.tolist() == rates
    assert table.index.name == "request_rate_rps"
    for rate in rates:
        decision = choose_draft_length(tree, SHARP.with_(request_rate_rps=rate), random_seed=4)
        row = table.loc[rate]
        at = decision.candidates.index(decision.choice)
        assert row["num_speculative_tokens"] == decision.choice
        assert row["probability_best"] == decision.probability_best[at]
        assert row["expected_regret"] == decision.expected_regret[at]
        assert row["verdict"] == decision.verdict
        assert row["median_e2e_s"] == decision.median_e2e_s[at]
        assert row["status"] == decision.status[at]
        assert row["near_ties"] == " ".join(map(str, decision.near_ties))
        shown = [row[f"p_best_k{k}"] for k in decision.candidates]
        assert shown == list(decision.probability_best)


def test_the_draft_length_falls_with_the_load():
    certain = fake_fit(draws=20, discrepancy_sd=1e-4, extrapolation_sd=0.0)
    table = draft_length_policy(certain, SHARP, np.linspace(1.0, 17.5, 12))
    chosen = table["num_speculative_tokens"].to_numpy(dtype=int)
    assert chosen[0] == 3
    assert chosen[-1] == 0
    assert (np.diff(chosen) <= 0).all()
    assert (np.diff(table["effective_batch"]) > 0).sum() >= 10


def test_past_capacity_is_blank(tree):
    table = draft_length_policy(tree, SHARP, [1.0, 100.0])
    row = table.loc[100.0]
    assert row["num_speculative_tokens"] is pd.NA
    assert (row["verdict"], row["status"]) == ("past capacity", "past capacity")
    assert row[["probability_best", "expected_regret", "median_e2e_s"]].isna().all()
    assert row["near_ties"] == ""
    assert table["num_speculative_tokens"].dtype == "Int64"


def test_a_closed_loop_is_a_table_by_requests_in_flight(tree):
    table = draft_length_policy(tree, SHARP.with_(concurrency=1), [1, 8], candidates=[0, 3])
    assert table.index.name == "concurrency"
    assert table["effective_batch"].tolist() == [1.0, 8.0]
    assert [c for c in table.columns if c.startswith("p_best")] == ["p_best_k0", "p_best_k3"]


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ([], r"positive and increasing\. Got \[\] instead"),
        ([2.0, 1.0], r"increasing\. Got \[2\.0, 1\.0\] instead"),
        ([1.0, 1.0], r"increasing\. Got \[1\.0, 1\.0\] instead"),
        ([0.0, 1.0], r"rates must be a finite number above 0\. Got 0\.0"),
        ([np.nan], r"rates must be a finite number above 0\. Got nan"),
    ],
)
def test_rates_must_be_positive_and_increase(tree, rates, words):
    with pytest.raises(ArgumentError, match=words):
        draft_length_policy(tree, SHARP, rates)


def test_no_candidate_is_said(tree):
    with pytest.raises(ArgumentError, match=r"candidates must hold at least one"):
        draft_length_policy(tree, SHARP, [1.0], candidates=[])


def test_a_fit_that_did_not_converge_is_said_first():
    with pytest.warns(ConvergenceWarning, match=r"NOT CONVERGED"):
        draft_length_policy(fake_fit(draws=5, passed=False), SHARP, [1.0])
