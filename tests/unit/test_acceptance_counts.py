"""Every form in which acceptance is reported comes down to counts, or to a mean per step."""

import numpy as np
import pandas as pd
import pytest

from bayes_sd.acceptance_counts import (
    acceptance_totals,
    counts_by_position,
    figures_in_group,
    has_estimated_steps,
)
from bayes_sd.frames import check_runs

# 100 steps of k = 3: 20 accepted none, 30 one, 10 two, 40 three. Seen from each position:
ACCEPTED, TRIALS = [80, 50, 40], [100, 80, 50]
TOTAL = 30 + 2 * 10 + 3 * 40


def runs(k=3, **given):
    """One checked run of 40 requests of 11 tokens; columns that the table may lack are added."""
    frame = pd.DataFrame(
        {
            "run_id": ["r"],
            "sweep_id": ["s"],
            "verifier": ["V"],
            "method": ["mtp"],
            "num_speculative_tokens": [k],
            "load_kind": ["closed"],
            "concurrency": [2],
            "input_len_tokens": [10.0],
            "output_len_tokens": [11.0],
            "num_requests": [40],
            "mean_e2e_s": [1.0],
        }
    )
    late = {n: given.pop(n) for n in ("accepted_length_counts",) if n in given}
    return check_runs(frame.assign(**given)).assign(**late)


@pytest.mark.parametrize(
    "given",
    [
        {"accepted_length_counts": "20;30;10;40"},
        {"accepted_per_position": "80;50;40", "num_drafts": 100},
        {"accepted_per_position": "80;50;40", "num_draft_tokens": 300},
        {"accepted_per_position": "80;50;40", "mean_acceptance_length": 1 + TOTAL / 100},
        {"acceptance_per_position": "0.801;0.5;0.399", "num_drafts": 100},
    ],
)
def test_counts_of_each_form_are_the_same(given):
    accepted, trials, is_counted = counts_by_position(runs(**given))
    assert accepted.tolist() == [ACCEPTED]
    assert trials.tolist() == [TRIALS]
    assert is_counted.tolist() == [True]
    assert acceptance_totals(runs(**given), is_counted)[2].tolist() == [False]


def test_rates_without_steps_weigh_as_the_tokens_that_were_emitted():
    frame = runs(acceptance_per_position="0.8;0.5;0.4")
    accepted, trials, _ = counts_by_position(frame)
    steps = round(40 * 10 / 2.7)
    assert trials[0, 0] == steps
    np.testing.assert_allclose(accepted[0] / steps, [0.8, 0.5, 0.4], atol=0.5 / steps)
    assert has_estimated_steps(frame).tolist() == [True]
    assert has_estimated_steps(frame.assign(num_drafts=148)).tolist() == [False]
    assert has_estimated_steps(runs(accepted_length_counts="20;30;10;40")).tolist() == [False]


@pytest.mark.parametrize(
    ("given", "per_step", "steps"),
    [
        ({"num_accepted_tokens": TOTAL, "num_drafts": 100}, 1.7, 100),
        ({"num_accepted_tokens": TOTAL, "num_draft_tokens": 300}, 1.7, 100),
        # some steps drafted less than k: no whole number of steps, the rate stands for k of them
        ({"num_accepted_tokens": 170, "num_draft_tokens": 299}, 170 / 299 * 3, 148),
        ({"draft_acceptance_rate": TOTAL / 300, "num_drafts": 100}, 1.7, 100),
        ({"mean_acceptance_length": 2.7, "num_drafts": 100}, 1.7, 100),
        ({"mean_acceptance_length": 2.7}, 1.7, 148),
        ({"draft_acceptance_rate": TOTAL / 300}, 1.7, 148),
        # 1 + accepted / steps is per step whatever was drafted; the rate is only if k always was
        ({"mean_acceptance_length": 2.7, "draft_acceptance_rate": 0.9}, 1.7, 148),
    ],
)
def test_a_total_becomes_a_mean_per_step(given, per_step, steps):
    frame = runs(**given)
    _, _, is_counted = counts_by_position(frame)
    found = acceptance_totals(frame, is_counted)
    assert not is_counted.any()
    assert found[0][0] == pytest.approx(per_step)
    assert found[1][0] == steps
    assert found[2].tolist() == [True]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"num_accepted_tokens": 65, "num_drafts": 100}, ([65], [100])),
        ({"draft_acceptance_rate": 0.65, "num_drafts": 100}, ([65], [100])),
        ({"mean_acceptance_length": 1.6}, ([150], [250])),
    ],
)
def test_for_one_draft_a_mean_is_a_count(given, expected):
    accepted, trials, _ = counts_by_position(runs(k=1, **given))
    assert (accepted[0].tolist(), trials[0].tolist()) == expected


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"num_accepted_tokens": TOTAL},  # of how many steps?
        {"accepted_per_position": "80;50;40"},
        {"mean_acceptance_length": 2.0, "forced_acceptance_rate": 0.5},
        {"mean_acceptance_length": 2.0, "output_len_tokens": 1.0},  # prefill emits it: no step
        {"num_drafts": 0, "num_accepted_tokens": 0},
    ],
)
def test_where_nothing_is_known_nothing_is_made_up(given):
    frame = runs(**given)
    accepted, trials, is_counted = counts_by_position(frame)
    per_step, steps, is_total = acceptance_totals(frame, is_counted)
    assert not accepted.any()
    assert not trials.any()
    assert not is_counted.any()
    assert not is_total.any()
    assert np.isnan(per_step).all()
    assert (steps == 0).all()


def test_a_run_without_figures_leans_on_its_group():
    group = np.array([0, 0, 1, 1, -1])
    is_known = np.array([False, True, False, False, False])
    assert figures_in_group(group, is_known).tolist() == [True, True, False, False, False]
