"""Comparison of pairs: probabilities against counting by hand, costs, and refusals."""

import numpy as np
import pytest

from bayes_sd.exceptions import ArgumentError, ConvergenceWarning
from bayes_sd.pair_comparison import compare_pairs
from bayes_sd.predict import predict_latency
from bayes_sd.scenario import Scenario
from tests.fake_fit import fake_fit

QUICK, SHARP = "big + draft_model (quick)", "big + draft_model (sharp)"


@pytest.fixture(scope="module")
def tree():
    return fake_fit(draws=300, spread=0.2, discrepancy_sd=0.05)


def scenario(pair=QUICK, k=3, **changes):
    fields = {"request_rate_rps": 1.0, "num_speculative_tokens": k, "acceptance": 0.7} | changes
    return Scenario(pair, **fields)


def test_probability_faster_counts_the_draws(tree):
    candidates = {"quick": scenario(), "sharp": scenario(SHARP)}
    found = compare_pairs(tree, candidates, loads=[0.5, 2.0])
    for load in (0.5, 2.0):
        one, other = (
            predict_latency(tree, s.with_(request_rate_rps=load))["e2e_s"].values[:, 0]
            for s in candidates.values()
        )
        assert found.probability_faster("quick", "sharp")[load] == np.mean(one < other)
        ratio = np.quantile(one / other, [0.05, 0.5, 0.95], method="inverted_cdf")
        assert found.difference("quick", "sharp").loc[load].tolist() == pytest.approx(ratio)
    assert (found.to_frame().groupby("rps")["probability_best"].sum() == 1).all()


def test_one_configuration_under_two_names_is_a_draw(tree):
    found = compare_pairs(tree, {"a": scenario(), "b": scenario()})
    assert found.probability_faster("a", "b").tolist() == [0.5]
    assert found.to_frame()["probability_best"].tolist() == [0.5, 0.5]
    assert found.to_frame()["expected_regret"].max() == 0


def test_two_servers_of_one_configuration_differ_only_by_their_boots(tree):
    found = compare_pairs(tree, {"a": scenario(), "b": scenario()}, kind="run")
    assert found.difference("a", "b")["median"].iloc[0] == pytest.approx(1.0, abs=0.02)


def test_cost_turns_the_answer(tree):
    candidates = {"quick": scenario(), "sharp": scenario(SHARP)}
    even = compare_pairs(tree, candidates).difference("quick", "sharp")["median"].iloc[0]
    dear = compare_pairs(tree, candidates, costs=[2 / even, 1])
    assert dear.difference("quick", "sharp")["median"].iloc[0] == pytest.approx(2)
    assert "latency x cost" in dear.statement()
    assert "sharp" in dear.statement()


def test_past_capacity_loses_and_two_past_capacity_say_nothing(tree):
    candidates = {"on": scenario(), "off": scenario(k=0)}
    found = compare_pairs(tree, candidates, loads=[1.0, 1e4])
    assert "every candidate is past capacity" in found.statement()
    assert np.isnan(found.probability_faster("on", "off")[1e4])
    assert found.difference("on", "off").loc[1e4].isna().all()


def test_answer_is_plain_and_warns_of_a_bad_fit():
    with pytest.warns(ConvergenceWarning):
        found = compare_pairs(fake_fit(draws=20, passed=False), [scenario(), scenario(k=1)])
    assert found.convergence
    assert found.statement().startswith(found.convergence)
    rows = found.to_dict()["rows"]
    assert [row["candidate"] for row in rows] == list(found.names)


def test_names_leave_the_load_out_where_several_are_compared(tree):
    found = compare_pairs(tree, [scenario(), scenario(k=1)], loads=[1, 2])
    assert not any("rps" in name for name in found.names)


@pytest.mark.parametrize(
    ("candidates", "more", "words"),
    [
        ([scenario()], {}, "at least two"),
        (["a", "b"], {}, "must be Scenarios"),
        ([scenario(), scenario(k=1, request_rate_rps=2.0)], {}, "the same load"),
        (
            [scenario(), scenario(k=1, request_rate_rps=None, concurrency=2)],
            {"loads": [1]},
            "same load",
        ),
        ([scenario(), scenario()], {}, "different names"),
        ([scenario(), scenario(k=1)], {"costs": [1]}, "one number for each"),
        ([scenario(), scenario(k=1)], {"costs": [1, -1]}, "above 0"),
        ([scenario(), scenario(k=1)], {"loads": []}, "at least one load"),
        ([scenario(), scenario(k=1)], {"kind": "request"}, "kind must be"),
    ],
)
def test_bad_arguments_say_what_is_allowed(tree, candidates, more, words):
    with pytest.raises(ArgumentError, match=words):
        compare_pairs(tree, candidates, **more)
