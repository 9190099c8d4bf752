"""Acceptance alone: recovery from simulated requests that differ, and the bundled counts."""

import numpy as np
import nutpie
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

from bayes_sd.acceptance_levels import rates_of_steps
from bayes_sd.acceptance_predict import predict_acceptance_length
from bayes_sd.datasets import load_vllm_cpu
from bayes_sd.exceptions import ArgumentError, DataError, UnknownPairError
from bayes_sd.physics.acceptance import mean_acceptance_length
from bayes_sd.priors import Prior
from tests.simulated_acceptance import REQUEST_SD, acceptance_data, build, run_of, true_length

LENGTHS, REQUESTS = (2, 4), (15, 60)
UNSEEN = ("d0", "code")
NONE = Prior("lognormal", 1e-3, 0.1, "logit", "as if all requests and runs were alike")


def sampled(model: pm.Model) -> xr.DataTree:
    return nutpie.sample(
        nutpie.compile_pymc_model(model),
        draws=400, tune=400, chains=2, cores=2, seed=1, progress_bar=False, target_accept=0.9,
    )  # fmt: skip


@pytest.fixture(scope="module")
def study():
    """Eight drafters on two workloads, one combination unseen, and each again as totals only."""
    rng = np.random.default_rng(7)
    truth, rows = {}, []
    easier = {"chat": 0.0, "code": 0.6}
    for i, effect in enumerate(rng.normal(0.8, 0.6, 8)):
        for workload, shift in easier.items():
            setting = (effect + shift + 0.3 * rng.standard_normal(), rng.normal(0.05, 0.08))
            truth[f"d{i}", workload] = setting
            if (f"d{i}", workload) == UNSEEN:
                continue
            runs = [run_of(rng, f"d{i}", workload, k, int(n), *setting)
                    for k, n in zip(LENGTHS, REQUESTS, strict=True)]  # fmt: skip
            rows += runs
            for run in runs:
                names = {n: f"t{run[n]}" for n in ("run_id", "sweep_id", "drafter")}
                rows.append(run | names | {"accepted_per_position": ""})
            truth[f"td{i}", workload] = setting
    return pd.DataFrame(rows), truth


@pytest.fixture(scope="module")
def data(study):
    return acceptance_data(study[0])


@pytest.fixture(scope="module")
def recovered(data):
    return sampled(build(data))


def lengths_of(tree, k: int) -> np.ndarray:
    """Draws of tokens per step of each group, (draw, group)."""
    rates = tree["posterior"]["conditional_acceptance_rate"].stack(sample=("chain", "draw"))
    spread = tree["posterior"]["acceptance_request_sd"].values.ravel()
    of_steps = rates_of_steps(list(rates.transpose("position", ..., "sample").values), spread, k)
    return np.asarray(mean_acceptance_length(of_steps, k)).T


def coverage(tree, data, truth, kind: str) -> float:
    """Share of the 90 % intervals of tokens per step that hold the truth."""
    names = list(
        zip(data["drafter_of_group"].values, data["workload_of_group"].values, strict=True)
    )
    at = [i for i, (name, _) in enumerate(names) if name.startswith(kind)]
    held = []
    for k in LENGTHS:
        low, high = np.quantile(lengths_of(tree, k)[:, at], [0.05, 0.95], axis=0)
        true = np.array([true_length(*truth[names[i]], k) for i in at])
        held += list((low <= true) & (true <= high))
    return float(np.mean(held))


def test_intervals_hold_though_requests_differ(recovered, data, study):
    assert int(recovered["sample_stats"]["diverging"].sum()) == 0
    # 15 groups, two correlated lengths: at 90 %, fewer than 10 of 15 has probability 0.002.
    assert coverage(recovered, data, study[1], "d") >= 0.7
    assert coverage(recovered, data, study[1], "td") >= 0.7
    low, high = np.quantile(recovered["posterior"]["acceptance_request_sd"], [0.01, 0.99])
    assert low < REQUEST_SD < high


def test_without_differences_between_requests_the_same_check_fails(data, study):
    tree = sampled(build(data, acceptance_request_sd=NONE, acceptance_run_sd=NONE))
    assert coverage(tree, data, study[1], "d") < 0.6


def test_totals_tell_the_same_length_as_counts(recovered, data):
    """Counts and totals of the very same runs: the totals know a little less."""
    names = data["drafter_of_group"].values
    total = np.array([n.startswith("t") for n in names])
    for k in LENGTHS:
        draws = lengths_of(recovered, k)
        counts, means = draws[:, ~total], draws[:, total]
        # sorted labels: the groups of d0..d7 and td0..td7 are in the same order
        difference = means.mean(axis=0) - counts.mean(axis=0)
        assert (abs(difference) < 1.5 * np.maximum(counts.std(0), means.std(0))).all()
        assert (abs(difference / counts.mean(axis=0)) < 0.05).all()
        assert (means.std(axis=0) > 0.8 * counts.std(axis=0)).all()


def with_constants(tree, data):
    pairs = sorted(set(data["drafter_of_group"].values))
    of_run = [pairs.index(data["drafter_of_group"].values[g]) for g in data["group_of_run"].values]
    constant = data.assign(pair_of_run=("run", of_run)).assign_coords(
        pair=[f"V + eagle ({p})" for p in pairs]
    )
    return xr.DataTree.from_dict(
        {"posterior": tree["posterior"].to_dataset(), "constant_data": constant}
    )


@pytest.fixture(scope="module")
def tree(recovered, data):
    return with_constants(recovered, data)


def test_an_unseen_combination_is_predicted_from_both_margins(tree, study):
    draws = predict_acceptance_length(tree, "V + eagle (d0)", 4, workload="code")
    true = true_length(*study[1][UNSEEN], 4)
    assert draws.attrs["status"] == "new combination"
    low, high = np.quantile(draws, [0.01, 0.99])
    assert low < true < high
    new = predict_acceptance_length(tree, "V + eagle (d0)", 4, workload="poetry", allow_new=True)
    assert new.attrs["status"] == "new level"
    measured = predict_acceptance_length(tree, "V + eagle (d0)", 4, workload="chat")
    assert measured.attrs["status"] == "measured"
    assert 1.5 * measured.std() < draws.std() < new.std()


def test_lengths_of_measured_groups_and_of_no_drafts(tree, data):
    group = str(data["acceptance_group"].values[3])
    draws = predict_acceptance_length(tree, group, 2)
    np.testing.assert_allclose(draws, lengths_of(tree, 2)[:, 3])
    assert (draws.dims, draws.attrs["units"]) == (("sample",), "tokens/step")
    assert (predict_acceptance_length(tree, group, 0) == 1).all()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("V + eagle (d1)", 2), ArgumentError, r"at 2 levels of workload .* workload='chat'"),
        (("V + eagle (d1)", 2, "coding"), UnknownPairError, r"'coding' is unknown.*'code'"),
        (("d9", 2, "chat"), UnknownPairError, r"'d9' is unknown"),
        (("eagle", 2, "chat"), UnknownPairError, r"'eagle' fits several"),
        (("V + eagle (d1)", 5, "chat"), DataError, r"must be at most 4.*Got 5"),
        (("V + eagle (d1)", -1, "chat"), ArgumentError, r"num_speculative_tokens must be"),
    ],
)
def test_a_wrong_question_is_answered_with_the_right_ones(tree, arguments, error, words):
    with pytest.raises(error, match=words):
        predict_acceptance_length(tree, *arguments)


def test_bundled_counts_sample_in_seconds_without_divergences():
    frame = load_vllm_cpu("all")
    frame = frame[frame["num_speculative_tokens_schedule"].isna()]
    frame = frame[frame["num_speculative_tokens"] > 0]
    data = acceptance_data(frame)
    tree = sampled(build(data))
    assert int(tree["sample_stats"]["diverging"].sum()) == 0
    drawn = lengths_of(tree, 3)
    for group in range(data.sizes["acceptance_group"]):
        at = (data["group_of_run"] == group) & (data["num_speculative_tokens"] == 3)
        counts = data["accepted_at_position"].values[at].sum()
        steps = data["trials_at_position"].values[at, 0].sum()
        assert drawn[:, group].mean() == pytest.approx(1 + counts / steps, rel=0.01)
