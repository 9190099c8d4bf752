"""Trees and draft lengths that change within a run: what a table says of them, and lacks."""

import pandas as pd
import pytest

import bayes_sd as bs
from bayes_sd.data import to_dataset
from bayes_sd.decide import measured_draft_lengths
from bayes_sd.equivalent_rate import equivalent_acceptance_rate
from bayes_sd.exceptions import (
    ArgumentError,
    AssumptionWarning,
    SchemaError,
    UnusedRunsWarning,
)
from bayes_sd.physics.acceptance import expected_steps
from tests.fake_fit import fake_fit
from tests.simulated_runs import simulated_frame

SCHEDULE = "[[1, 8, 3], [9, 64, 1]]"


@pytest.fixture
def frame():
    """One chain of 3 whose acceptance was counted, at three loads."""
    frame = simulated_frame(load_shares=(0.05, 0.3, 0.5), draft_lengths=(3,))
    frame = frame[(frame["drafter"] == "sharp") & (frame["num_speculative_tokens"] == 3)]
    return frame.reset_index(drop=True).drop(columns="forced_acceptance_rate")


def test_a_chain_needs_no_word(frame):
    data = to_dataset(frame.assign(mean_acceptance_length=2.5, num_drafts=4000))
    assert (data["num_draft_steps"] == 3).all()
    assert (data["num_verified_tokens"] == 4).all()
    assert data["known_acceptance_rate"].isnull().all()
    assert (data["group_of_run"] == 0).all()


def test_a_tree_enters_by_passes_verified_tokens_and_mean_length(frame):
    tree = frame.assign(num_speculative_tokens=15, num_draft_steps=4.0, mean_acceptance_length=3.2)
    data = to_dataset(tree)
    assert (data["num_draft_steps"] == 4).all()
    assert (data["num_verified_tokens"] == 5).all()  # as said: blank is passes + 1
    data = to_dataset(tree.assign(num_verified_tokens=16))
    assert (data["num_verified_tokens"] == 16).all()
    rate = float(data["known_acceptance_rate"][0])
    assert 1 + sum(rate**j for j in range(1, 16)) == pytest.approx(3.2)
    assert (data["group_of_run"] == -1).all()  # it says nothing of acceptance by position


def test_a_schedule_takes_its_passes_from_the_counters(frame):
    counted = frame.assign(
        num_speculative_tokens_schedule=SCHEDULE,
        num_drafts=1000,
        num_draft_tokens=2400,
        num_accepted_tokens=1500,
    )
    with pytest.warns(AssumptionWarning, match="num_draft_tokens / num_drafts"):
        data = to_dataset(counted)
    assert (data["num_draft_steps"] == 2.4).all()
    assert (data["num_verified_tokens"] == 3.4).all()
    rate = float(data["known_acceptance_rate"][0])
    assert rate + rate**2 + rate**3 == pytest.approx(1.5)


@pytest.mark.parametrize("schedule", ["[[1, 8, 3], [9, 64, 0]]", "{4: 3, 8: 1}"])
def test_counters_do_not_hold_where_steps_may_draft_nothing(frame, schedule):
    counted = frame.assign(num_drafts=1000, num_draft_tokens=2400, num_accepted_tokens=1500)
    counted.loc[0, "num_speculative_tokens_schedule"] = schedule
    with pytest.warns(UnusedRunsWarning, match="num_draft_steps"):
        data = to_dataset(counted)
    assert data.sizes["run"] == len(frame) - 1
    given = counted.assign(num_draft_steps=1.1, mean_acceptance_length=1.7)
    data = to_dataset(given)
    assert data.sizes["run"] == len(frame)
    rate = float(data["known_acceptance_rate"][0])
    assert rate + rate**2 + rate**3 == pytest.approx(0.7)


def test_more_passes_than_drafts_and_longer_answers_than_passes_are_refused(frame):
    with pytest.raises(SchemaError, match="num_draft_steps must not be above"):
        to_dataset(frame.assign(num_draft_steps=4.0, mean_acceptance_length=2.0))
    with pytest.raises(SchemaError, match=r"or num_draft_steps \+ 1 where given"):
        to_dataset(frame.assign(num_draft_steps=1.0, mean_acceptance_length=2.5))


@pytest.mark.parametrize(("length", "k"), [(1.0, 3), (2.2, 3), (3.999, 3), (1.5, 1), (4.2, 10)])
def test_equivalent_rate_gives_the_length_back(length, k):
    rate = equivalent_acceptance_rate(length, k)
    assert 1 + sum(rate**j for j in range(1, k + 1)) == pytest.approx(length)


def test_scenarios_check_what_is_said_of_their_drafts():
    tree = {"num_speculative_tokens": 15, "num_draft_steps": 4, "num_verified_tokens": 16}
    scenario = bs.Scenario("a", request_rate_rps=1.0, mean_acceptance_length=3.2, **tree)
    assert not scenario.is_chain
    assert "3.2 tokens per step" in scenario.label
    assert "16 verified tokens" in scenario.label
    for wrong, words in (
        ({"mean_acceptance_length": 5.5}, "from 1 to 5"),
        ({"mean_acceptance_length": 3.2, "acceptance": 0.8}, "not both"),
        ({"num_draft_steps": 16}, "from 0 to 15"),
    ):
        with pytest.raises(ArgumentError, match=words):
            bs.Scenario("a", request_rate_rps=1.0, **(tree | wrong))
    with pytest.raises(ArgumentError, match="num_verified_tokens must be from 1 to 1"):
        bs.Scenario("a", request_rate_rps=1.0, num_verified_tokens=3)


def test_steps_of_an_equal_chain_are_those_of_its_rates():
    """A mean length at a draft length of one rate is that rate: the same steps."""
    rate = equivalent_acceptance_rate(1 + 0.7 + 0.49, 2)
    assert expected_steps(100, [rate] * 2, 2) == pytest.approx(expected_steps(100, [0.7] * 2, 2))


def test_a_question_about_a_chain_does_not_see_adaptive_runs(frame):
    """Their equivalent rate is no forced one, and their points belong to no draft length."""
    adaptive = frame.assign(
        run_id=[f"adaptive-{i}" for i in range(len(frame))],
        sweep_id="adaptive",
        num_speculative_tokens=5,
        num_draft_steps=2.4,
        mean_acceptance_length=2.9,
    )
    chain = frame.assign(mean_acceptance_length=2.5, num_drafts=4000)
    both = pd.concat([chain, adaptive], ignore_index=True)
    tree = fake_fit(draws=20, frame=both, spread=0.02)
    pair = str(tree["constant_data"]["pair"].values[0])
    assert tree["constant_data"]["forced_acceptance_rate"].isnull().all()
    assert measured_draft_lengths(tree, bs.Scenario(pair, request_rate_rps=0.1)) == [0, 3]
    scenario = bs.Scenario(pair, request_rate_rps=0.1, num_speculative_tokens=3, acceptance=0.5)
    assert "acceptance" not in str(bs.predict_latency(tree, scenario)["outside"].values[0])
    curves = bs.latency_curves(tree, scenario.with_(acceptance=None), [0.1, 0.2], [0, 3, 5])
    assert 5 not in curves["measured_draft_length"].values


def test_a_schedule_in_another_form_is_no_traceback(frame):
    odd = frame.assign(num_drafts=10, num_draft_tokens=20, num_accepted_tokens=5)
    odd.loc[0, "num_speculative_tokens_schedule"] = "[[1, 8, 3]] . . x"
    with pytest.warns(AssumptionWarning):
        assert to_dataset(odd).sizes["run"] == len(frame)
