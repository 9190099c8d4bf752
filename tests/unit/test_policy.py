"""A policy is one decision per load, in a table."""

import numpy as np
import pandas as pd
import pytest

from bayes_sd.decide import choose_draft_length
from bayes_sd.exceptions import ArgumentError, AssumptionWarning, ConvergenceWarning
from bayes_sd.policy import draft_length_policy
from bayes_sd.scenario import Scenario
from tests.fake_fit import FORCED, KNOWN, Coefficients, fake_fit, simulated_frame

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


@pytest.fixture(scope="module")
def unsure():
    """A fit that knows so little that neighbouring loads, alone, go to and fro."""
    return fake_fit(draws=150, spread=0.05, discrepancy_sd=0.03)


def test_it_never_rises_and_leaves_only_what_costs_more_than_the_hysteresis(unsure):
    rates = np.linspace(1.0, 16.0, 16)
    table = draft_length_policy(unsure, SHARP, rates, switch_regret=0.01)
    chosen = table["num_speculative_tokens"].to_numpy(dtype=int)
    assert (np.diff(chosen) <= 0).all()
    assert len(set(chosen)) > 1
    regrets = table[[f"regret_k{k}" for k in (0, 1, 3, 5)]].to_numpy()
    for i in np.flatnonzero(np.diff(chosen)):
        before = table[f"regret_k{chosen[i]}"].iloc[i + 1]
        assert before - regrets[i + 1].min() > 0.01
    assert table["best_alone"].to_numpy(dtype=int).tolist() == [
        (0, 1, 3, 5)[at] for at in regrets.argmin(axis=1)
    ]


def test_what_a_row_says_is_about_the_k_that_is_kept(unsure):
    rates = np.linspace(1.0, 16.0, 16)
    table = draft_length_policy(unsure, SHARP, rates, switch_regret=0.2)
    held = table[table["num_speculative_tokens"] != table["best_alone"]]
    assert len(held)
    for rate, row in held.iterrows():
        k = row["num_speculative_tokens"]
        decision = choose_draft_length(unsure, SHARP.with_(request_rate_rps=rate))
        at = decision.candidates.index(k)
        assert row["expected_regret"] == row[f"regret_k{k}"] == decision.expected_regret[at]
        assert row["probability_best"] == row[f"p_best_k{k}"] == decision.probability_best[at]
        assert row["median_e2e_s"] == decision.median_e2e_s[at]
        assert row["best_alone"] == decision.choice


def test_each_load_alone_is_the_decision_there(unsure):
    rates = [1.0, 9.0, 13.0]
    table = draft_length_policy(unsure, SHARP, rates, monotone=False)
    for rate in rates:
        decision = choose_draft_length(unsure, SHARP.with_(request_rate_rps=rate))
        assert table.loc[rate, "num_speculative_tokens"] == decision.choice


def test_not_rising_is_warned_about_where_it_costs():
    """Drafts that pay under load only: the verifier's cost per request falls with them."""
    costly = {"draft_fixed_s": 0.02, "draft_per_request_s": 0.0, "verify_growth_per_draft": -0.2}
    backwards = Coefficients(
        of_base=KNOWN.of_base,
        of_pair=KNOWN.of_pair | {("big", "sharp"): costly},
        acceptance=KNOWN.acceptance,
    )
    tree = fake_fit(draws=10, coefficients=backwards, frame=simulated_frame())
    asked = SHARP.with_(concurrency=1)
    with pytest.warns(AssumptionWarning, match=r"costs .* at load .*monotone=False decides"):
        draft_length_policy(tree, asked, [1, 200], candidates=[0, 1])
    alone = draft_length_policy(tree, asked, [1, 200], candidates=[0, 1], monotone=False)
    assert alone["num_speculative_tokens"].tolist() == [0, 1]


def test_requests_in_flight_may_be_given_by_name(tree):
    table = draft_length_policy(tree, SHARP, concurrencies=[1, 8], candidates=[0, 3])
    same = draft_length_policy(tree, SHARP.with_(concurrency=1), [1, 8], candidates=[0, 3])
    pd.testing.assert_frame_equal(table, same)
    assert table["low_effective_batch"].tolist() == [1.0, 8.0]


def test_several_prompt_lengths_are_one_policy_each_below_each_other(tree):
    rates = [1.0, 6.0]
    table = draft_length_policy(tree, SHARP, rates, input_lens=[512, 2048])
    assert table.index.names == ["input_len_tokens", "request_rate_rps"]
    for length in (512, 2048):
        alone = draft_length_policy(tree, SHARP.with_(input_len_tokens=length), rates)
        pd.testing.assert_frame_equal(table.loc[length], alone)


def test_it_says_what_was_asked(tree):
    table = draft_length_policy(tree, SHARP.with_(max_num_seqs=64), [1.0], candidates=[3, 0])
    assert table.attrs | {"pair": "", "convergence": ""} == {
        "pair": "",
        "load": "request_rate_rps",
        "arrivals": "poisson",
        "max_num_seqs": 64,
        "candidates": [0, 3],
        "switch_regret": 0.005,
        "monotone": True,
        "convergence": "",
    }
    assert "sharp" in table.attrs["pair"]
    row = table.iloc[0]
    assert row["low_effective_batch"] <= row["effective_batch"] <= row["high_effective_batch"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, r"rates \(open loop\) or concurrencies \(closed loop\), one of them"),
        ({"rates": [1.0], "concurrencies": [1]}, r"one of them\. Got rates=\[1\.0\]"),
        ({"concurrencies": [8, 1]}, r"concurrencies must be positive and increasing"),
        ({"rates": [1.0], "input_lens": [9, 9]}, r"input_lens must be positive and increasing"),
        ({"rates": [1.0], "switch_regret": -0.1}, r"switch_regret must be"),
    ],
)
def test_bad_loads_and_lengths_are_said(tree, asked, words):
    with pytest.raises(ArgumentError, match=words):
        draft_length_policy(tree, SHARP, **asked)
