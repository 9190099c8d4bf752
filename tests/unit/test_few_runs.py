"""The pure parts of the studies of few runs: what is hidden, in which order, how it is counted."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from benchmarks.few_runs import CHECKPOINTS, best_ranked, farthest, places_of
from benchmarks.few_runs_grid import (
    ASKED,
    DRAFT_LENGTHS,
    RATES,
    decisions_of,
    grid_design,
    regrets_in,
    run_scenarios,
    starting_runs,
    weighted_values,
    without_misfit,
)
from benchmarks.few_runs_report import MEASURES, few_runs_report, ratio_of, runs_needed, with_worst
from benchmarks.next_run_refits import least_regret, refits_report, with_result
from tests.fake_fit import fake_fit

NUMBERS = (*CHECKPOINTS, 64)


@pytest.fixture(scope="module")
def design():
    return grid_design()


def test_grid_is_every_drafter_and_draft_length_at_every_rate(design):
    columns = ("pair_of_run", "num_speculative_tokens", "request_rate_rps")
    runs = list(zip(*(design[name].values.tolist() for name in columns), strict=True))
    arms = [(-1, 0), *((pair, k) for pair in range(5) for k in DRAFT_LENGTHS if k)]
    assert set(runs) == {(*arm, rate) for arm in arms for rate in RATES}
    assert design.sizes["run"] == design.sizes["sweep"] == NUMBERS[-1]  # each run its own boot
    pairs = design["pair"].values.tolist()
    asked = [(s.pair, s.num_speculative_tokens, s.load) for s in run_scenarios(design)]
    assert asked == [(pairs[max(pair, 0)], k, rate) for pair, k, rate in runs]
    assert {(s.pair, s.load) for s in decisions_of(design)} == {
        (pair, rate) for pair in pairs for rate in ASKED
    }
    assert set(ASKED) <= set(RATES)


def test_runs_not_made_have_no_weight_and_no_trials(design):
    counted = np.flatnonzero(design["num_speculative_tokens"].values)
    full = np.full((len(counted), 5), 5)
    is_made = np.zeros(64, dtype=bool)
    is_made[[0, 63]] = True
    values = weighted_values(
        {"trials_counts": full, "accepted_counts": full, "other": 1}, design, is_made
    )
    assert values["score_weight"].tolist() == is_made.astype(float).tolist()
    assert values["other"] == 1
    for name in ("trials_counts", "accepted_counts"):
        assert values[name].sum(axis=1).tolist() == [0] * 59 + [25]
        assert values[name].dtype == full.dtype


def test_start_has_some_drafts(design):
    drafts = design["num_speculative_tokens"].values
    starts = [starting_runs(design, np.random.default_rng(i), 1) for i in range(60)]
    assert all(drafts[s].any() for s in starts)
    assert len({tuple(s) for s in starts}) > 20


def test_farthest_goes_to_drafters_without_a_run(design):
    made = [0]
    while len(made) < 6:
        made.append(farthest(made, places_of(design)))
    assert sorted(design["pair_of_run"].values[made].tolist()) == [-1, 0, 1, 2, 3, 4]


def test_a_batch_is_of_several_groups():
    group = np.array([7, 7, 7, 7, 5, 3])
    assert best_ranked([0, 1, 2, 3, 4, 5], group, 1) == [0]
    assert best_ranked([0, 1, 2, 3, 4, 5], group, 4) == [0, 1, 4, 5]
    assert best_ranked([3, 2], group, 2) == [3, 2]


def test_regret_is_against_the_best():
    regret = regrets_in(np.array([[2.0, 1.0, np.inf], [np.inf] * 3]))
    assert regret.tolist() == [[0.5, 0.0, 1.0], [0.0, 0.0, 0.0]]
    # Two draws, one decision: expected regrets 0.25 and 0.1.
    assert least_regret(np.array([[[2.0, 1.0]], [[1.0, 1.25]]])) == pytest.approx(0.1)


def test_runs_needed_counts_the_last_time_above():
    regret = np.array(
        [
            [0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [0.05, 0.01, 0.03, 0.02, 0.0, 0.0, 0.0, 0.0],
            [0.05, 0.01, 0.03, 0.02, 0.0, 0.0, 0.0, 0.03],
            [0.05] * 8,
        ]
    )
    assert runs_needed(regret, NUMBERS, stays=True).tolist() == [4, 10, 64, 64]
    assert runs_needed(regret, NUMBERS, stays=False).tolist() == [4, 6, 6, 64]


def row_of(number, by_arm):
    def at(regret):
        return dict.fromkeys(MEASURES, regret) | {
            "sampling_s": 1.0,
            "max_r_hat": 1.0,
            "min_ess": 200.0,
            "divergences": 0,
            "repeats": 0,
        }

    arms = {name: {"course": [at(r) for r in course]} for name, course in by_arm.items()}
    return {
        "world": number,
        "arms": arms,
        "fixed": [0.1, 0.2],
        "stops": [[4, False], [5, number > 0]],
        "seconds": 1.0,
    }


@pytest.mark.parametrize(("first", "met"), [(2, "yes"), (3, "NO")])
def test_report_judges_against_random(first, met):
    """Random order takes 12 runs; 8 are at most 0.7 of that, 10 are not."""

    def course(place):
        return [0.1] * place + [0.0] * (len(NUMBERS) - place)

    arms = {"next_run": course(first), "random": course(4), "spread": course(5)}
    text, figures = few_runs_report([row_of(i, arms) for i in range(4)], NUMBERS)
    assert [bar["at most 1/5"] for bar in figures["bars"]] == ["yes"] * 5
    assert [bar["at most 0.7"] for bar in figures["bars"]] == [met] * 5
    assert figures["stays"][0]["filling the space"] == 16
    assert figures["stopped"] == [64, 5, 5, 5]
    assert "4 worlds" in text


def test_worst_choice_is_that_of_the_largest_regret():
    row = {
        "arms": {"random": {"course": [{"choice": [0, 5]}, {"choice": [5, 0]}]}},
        "true_s": [[1.0, 2.0], [4.0, 1.0]],  # by decision and draft length
    }
    course = with_worst(row, (0, 5))["arms"]["random"]["course"]
    assert [at["worst"] for at in course] == [0.0, 0.75]
    assert "worst" not in row["arms"]["random"]["course"][0]


def test_further_runs_are_counted_from_the_start():
    assert ratio_of({"next_run": 6.0, "random": 8.0}, 4) == 0.5
    assert np.isnan(ratio_of({"next_run": 4.0, "random": 4.0}, 4))


def test_one_run_of_a_grid_is_replaced(design):
    latency = np.arange(1.0, 65.0)
    names = ("mean_e2e_s", "effective_batch_observed", "accepted_at_position", "trials_at_position")
    one = xr.Dataset({n: 0 * design[n] + 7 for n in names})
    data = design.assign(mean_e2e_s=("run", latency))
    changed = with_result(data, 3, one)
    expected = np.where(np.arange(64) == 3, 7.0, latency)
    np.testing.assert_array_equal(changed["mean_e2e_s"].values, expected)
    assert changed["accepted_at_position"].dims == data["accepted_at_position"].dims
    assert (changed["trials_at_position"].values[3] == 7).all()


def test_refits_are_compared_by_rank():
    saved = [0.03, 0.02, 0.01]
    table = pd.DataFrame(
        {
            "candidate": list("abc"),
            "saved_by_regression": saved,
            "regression_error": [0.001] * 3,
            "saved_by_refits": saved[::-1],
            "refits_error": [0.001] * 3,
            "refits": [9] * 3,
        }
    )
    text, figures = refits_report(table, 0.05, 9, "Here.")
    assert figures["rank_correlation"] == pytest.approx(-1)
    assert figures["within_two_errors"] == 1
    assert figures["mean_difference"] == pytest.approx(0)
    assert "5.00%" in text


def test_law_without_misfit_is_the_law():
    exact = without_misfit(fake_fit(draws=5))
    assert not exact["posterior"]["discrepancy_sd"].values.any()
    assert exact["posterior"]["boot_sd"].values.all()
