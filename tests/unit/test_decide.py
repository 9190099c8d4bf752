"""Decisions from draws: against a loop written out, and at each verdict."""

import json

import numpy as np
import pytest
import xarray as xr

from bayes_sd.decide import (
    UNCHECKED,
    choose_draft_length,
    compare,
    decide_from_draws,
    measured_draft_lengths,
)
from bayes_sd.exceptions import (
    ArgumentError,
    ConvergenceWarning,
    DataError,
    ExtrapolationWarning,
    UnknownPairError,
)
from bayes_sd.predict import predict_latency
from bayes_sd.scenario import Scenario
from tests.fake_fit import FORCED, fake_fit

QUICK = Scenario("quick", request_rate_rps=5.0)


@pytest.fixture(scope="module")
def tree():
    return fake_fit(draws=100)


def draws_of(latency, status="interpolated"):
    latency = np.asarray(latency, dtype=float)
    n = latency.shape[1]
    dims = ("sample", "scenario")
    return xr.Dataset(
        {
            "e2e_s": (dims, latency),
            "effective_batch": (dims, latency),
            "status": ("scenario", [status] * n),
            "outside": ("scenario", [""] * n),
        },
        attrs={"kind": "mean"},
    )


def by_hand(latency):
    """Count winners and average regret one draw and one candidate at a time."""
    num_draws, num_arms = latency.shape
    best, regret = [0.0] * num_arms, [0.0] * num_arms
    for row in latency.tolist():
        lowest = min(row)
        if lowest == float("inf"):
            continue
        winners = [j for j in range(num_arms) if row[j] == lowest]
        for j in range(num_arms):
            best[j] += (j in winners) / len(winners) / num_draws
            regret[j] += (1.0 if row[j] == float("inf") else 1 - lowest / row[j]) / num_draws
    return best, regret


def test_compare_is_the_loop_written_out(rng):
    latency = np.exp(rng.normal(size=(300, 4)))
    latency[rng.random((300, 4)) < 0.3] = np.inf
    latency[:40] = np.round(latency[:40], 0) + 1  # ties
    latency[40:50] = np.inf  # nothing serves
    best, regret = compare(latency)
    expected_best, expected_regret = by_hand(latency)
    np.testing.assert_allclose(best, expected_best)
    np.testing.assert_allclose(regret, expected_regret)
    assert best.sum() == pytest.approx(np.isfinite(latency).any(axis=1).mean())
    assert ((regret >= 0) & (regret <= 1)).all()


def test_the_least_expected_regret_is_chosen_even_where_it_is_seldom_best():
    # The first wins 3 draws in 4 by little and loses one by much.
    latency = np.array([[1.0, 1.02]] * 3 + [[9.0, 1.02]])
    decision = decide_from_draws(draws_of(latency), [1, 3])
    assert decision.choice == 3
    assert decision.probability_best == (0.75, 0.25)
    expected = (1 - 1.02 / 9) / 4, 3 * (1 - 1 / 1.02) / 4
    assert decision.expected_regret == pytest.approx(expected)


def test_a_clear_winner_is_chosen():
    decision = decide_from_draws(draws_of([[2.0, 1.0]] * 5), [0, 3])
    assert (decision.choice, decision.verdict, decision.near_ties) == (3, "choose", ())
    assert decision.reason == "k = 3 has P(best) 1.00, expected regret 0.0%"
    assert decision.expected_regret == (0.5, 0.0)


@pytest.mark.parametrize(("rival", "verdict"), [(1.009, "near tie"), (1.011, "choose")])
def test_a_near_tie_is_within_a_hundredth(rival, verdict):
    decision = decide_from_draws(draws_of([[5.0, 1.0, rival]] * 5), [0, 2, 3])
    assert decision.choice == 2
    assert decision.verdict == verdict
    assert decision.near_ties == ((3,) if verdict == "near tie" else ())
    assert ("k = 2 is ahead of k = 3 by at most 1 %" in decision.reason) == (verdict == "near tie")


def test_draws_that_disagree_are_not_enough_data():
    latency = [[1.0, 1.5], [1.5, 1.0]] * 10
    decision = decide_from_draws(draws_of(latency), [0, 3])
    assert decision.verdict == "not enough data"
    assert min(decision.expected_regret) == pytest.approx(1 / 6)
    assert "expected regret of 16.7%, above 5.0%: measure it and its nearest" in decision.reason
    easy = decide_from_draws(draws_of(latency), [0, 3], max_regret=0.2)
    assert easy.verdict == "near tie"  # the same regret for both


def test_past_capacity_names_no_candidate():
    latency = np.array([[np.inf, np.inf]] * 6 + [[1.0, 2.0]] * 4)
    decision = decide_from_draws(draws_of(latency), [0, 3])
    assert (decision.choice, decision.verdict) == (None, "past capacity")
    assert decision.near_ties == ()
    assert "every candidate is past capacity in at least 60% of the draws" in decision.reason


def test_a_candidate_past_capacity_is_not_chosen_while_another_serves():
    latency = np.array([[np.inf, 9.0]] * 6 + [[1.0, 9.0]] * 4)
    decision = decide_from_draws(draws_of(latency), [0, 3], max_regret=1.0)
    assert decision.choice == 3
    assert decision.expected_regret[0] == pytest.approx(0.6)


def test_choose_compares_off_and_the_measured_lengths(tree):
    decision = choose_draft_length(tree, QUICK)
    assert decision.candidates == (0, 1, 3, 5)
    arms = [QUICK.with_(num_speculative_tokens=k) for k in decision.candidates]
    latency = predict_latency(tree, arms)["e2e_s"].values
    best, regret = by_hand(latency)
    assert decision.probability_best == pytest.approx(best)
    assert decision.expected_regret == pytest.approx(regret)
    assert decision.choice == decision.candidates[int(np.argmin(regret))]
    assert decision.kind == "mean"
    assert decision.convergence == ""


def test_candidates_are_sorted_and_taken_once(tree):
    assert choose_draft_length(tree, QUICK, candidates=[3, 0, 3]).candidates == (0, 3)
    assert choose_draft_length(tree, QUICK, candidates=np.array([1, 3])).candidates == (1, 3)


def test_speculation_is_off_under_load_and_on_when_idle():
    certain = fake_fit(draws=20, discrepancy_sd=0.001, extrapolation_sd=0.0)
    idle = Scenario("sharp", request_rate_rps=1.0, acceptance=FORCED)
    assert choose_draft_length(certain, idle).choice == 3
    with pytest.warns(ExtrapolationWarning, match=r"k = 0 is extrapolated in load"):
        assert choose_draft_length(certain, idle.with_(request_rate_rps=17.6)).choice == 0


def test_an_extrapolated_choice_warns(tree):
    longer = QUICK.with_(input_len_tokens=4096, request_rate_rps=0.5)
    with pytest.warns(ExtrapolationWarning, match=r"is extrapolated in input length: no run was"):
        choose_draft_length(tree, longer)


def test_a_fit_that_did_not_converge_is_said_first():
    tree = fake_fit(draws=20, passed=False)
    with pytest.warns(ConvergenceWarning, match=r"NOT CONVERGED, do not decide") as caught:
        decision = choose_draft_length(tree, QUICK)
    assert decision.convergence == tree.attrs["verdict"]
    assert caught[0].filename == __file__
    del tree.attrs["verdict"], tree.attrs["passed"]
    with pytest.warns(ConvergenceWarning, match=r"no convergence verdict: run diagnose"):
        assert choose_draft_length(tree, QUICK).convergence == UNCHECKED


@pytest.mark.parametrize(
    ("scenario", "options", "error", "words"),
    [
        (QUICK, {"candidates": []}, ArgumentError, r"candidates must hold at least one"),
        (
            QUICK,
            {"candidates": [-1]},
            ArgumentError,
            r"candidates must be a whole number .* Got -1",
        ),
        (QUICK, {"max_regret": 0}, ArgumentError, r"max_regret must be .* above 0\. Got 0"),
        (QUICK.with_(pair="big"), {}, UnknownPairError, r"pair 'big' fits several.*quick.*sharp"),
        (QUICK.with_(pair="sharp"), {}, DataError, r"was not counted"),
    ],
)
def test_what_cannot_be_decided_is_said(tree, scenario, options, error, words):
    with pytest.raises(error, match=words):
        choose_draft_length(tree, scenario, **options)


def test_measured_lengths_are_the_pairs_own(tree):
    assert measured_draft_lengths(tree, QUICK) == [0, 1, 3, 5]


def test_tables_and_json_hold_every_candidate(tree):
    decision = choose_draft_length(tree, QUICK, candidates=[0, 3])
    frame = decision.to_frame()
    assert frame.index.tolist() == [0, 3]
    assert frame["expected_regret"].tolist() == list(decision.expected_regret)
    plain = json.loads(json.dumps(decision.to_dict()))
    assert plain["choice"] == decision.choice
    assert [c["num_speculative_tokens"] for c in plain["candidates"]] == [0, 3]
    assert plain["candidates"][1]["median_e2e_s"] == decision.median_e2e_s[1]
