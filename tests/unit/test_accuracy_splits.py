import warnings

import numpy as np
import pytest

from benchmarks.accuracy_data import TITLES, load_case, usable
from benchmarks.accuracy_splits import SPLITS, few_runs, is_highest
from benchmarks.accuracy_task import blind_task

MEASURED = [name for name in TITLES if not name.startswith("simulated")]


@pytest.fixture(scope="module")
def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: load_case(name).data for name in MEASURED}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", MEASURED)
def test_no_run_is_learnt_from_and_asked_for(cases, name, split):
    data = cases[name]
    for fold in SPLITS[split](data):
        assert fold.train.any()
        assert fold.tested.any()
        assert not (fold.train & fold.tested).any()
        assert not (fold.tested & ~usable(data)).any()
        if fold.scope is not None:
            assert fold.scope[fold.train].all()


@pytest.mark.parametrize("split", [name for name in SPLITS if name != "highest loads"])
@pytest.mark.parametrize("name", MEASURED)
def test_no_sweep_is_learnt_from_and_asked_for(cases, name, split):
    sweep = cases[name]["sweep_of_run"].values
    for fold in SPLITS[split](cases[name]):
        assert not set(sweep[fold.train]) & set(sweep[fold.tested]), fold.name


def held_out(data, split, values):
    """Return the values of tested and of training runs, fold by fold."""
    return [(values[f.tested], values[f.train], f) for f in SPLITS[split](data)]


@pytest.mark.parametrize(
    ("split", "variable"),
    [
        ("draft length", "num_speculative_tokens"),
        ("acceptance", "known_acceptance_rate"),
        ("verifier", "base_of_run"),
    ],
)
def test_what_is_held_out_is_in_no_training_run(cases, split, variable):
    data = cases["scaling-study"]
    found = held_out(data, split, data[variable].values)
    assert found
    for asked, learnt, fold in found:
        assert len(np.unique(asked)) == 1, fold.name
        assert not np.isin(asked, learnt).any(), fold.name


def test_unseen_loads_are_above_all_that_was_seen_of_their_sweep(cases):
    data = cases["scaling-study"]
    rate, sweep = np.nan_to_num(data["request_rate_rps"].values), data["sweep_of_run"].values
    (fold,) = SPLITS["highest loads"](data)
    for one in np.unique(sweep):
        mine = sweep == one
        assert rate[mine & fold.tested].min() > rate[mine & fold.train].max()


def test_new_sweep_at_high_load_has_seen_no_high_load_anywhere(cases):
    data = cases["vllm-cpu"]
    for fold in SPLITS["highest loads, new sweep"](data):
        assert not is_highest(data)[fold.train].any()
        assert is_highest(data)[fold.tested].all()


def test_highest_loads_of_closed_loops_are_the_largest_numbers_in_flight(cases):
    data = cases["atom"]
    held, sweep, high = data["concurrency"].values, data["sweep_of_run"].values, is_highest(data)
    for one in np.unique(sweep[high]):
        mine = sweep == one
        assert held[mine & high].min() >= held[mine & ~high].max()
        assert high[mine].sum() == 2


def test_boot_split_has_seen_every_configuration_that_it_asks_for(cases):
    data = cases["vllm-cpu"]
    key = np.column_stack([data[n].values for n in ("pair_of_run", "num_speculative_tokens")])
    folds = SPLITS["boot"](data)
    assert len(folds) > 1
    for fold in folds:
        seen = {tuple(row) for row in key[fold.train]}
        assert {tuple(row) for row in key[fold.tested]} <= seen


def test_scaling_study_was_started_once_per_configuration(cases):
    assert SPLITS["boot"](cases["scaling-study"]) == []


def test_few_runs_are_as_many_as_said_of_one_pair_and_nested(cases):
    data = cases["scaling-study"]
    by_number = {number: few_runs(data, number) for number in (4, 8, 16)}
    for number, folds in by_number.items():
        assert len(folds) == data.sizes["base"]
        for fold in folds:
            assert fold.train.sum() == number
            assert len(np.unique(data["base_of_run"].values[fold.train | fold.tested])) == 1
    for few, more in zip(by_number[4], by_number[16], strict=True):
        assert more.train[few.train].all()
        assert (few.tested == more.tested).all()


def test_a_competitor_cannot_see_what_it_is_asked_for(cases):
    data = cases["vllm-cpu"]
    fold = SPLITS["sweeps"](data)[0]
    task = blind_task(data, fold.train, np.flatnonzero(fold.tested))
    for name in ("mean_e2e_s", "effective_batch_observed", "mean_ttft_s", "e2e_quantile_s"):
        values = task.data[name].values
        assert np.isnan(values[fold.tested]).all(), name
        assert np.isfinite(values[fold.train]).all(), name
