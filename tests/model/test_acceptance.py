"""Acceptance alone: recovery from simulated requests that differ, and the bundled counts."""

import nutpie
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import integrate, optimize, stats

from bayes_sd.acceptance_counts import (
    acceptance_totals,
    counts_by_position,
    figures_in_group,
    needs_acceptance,
)
from bayes_sd.acceptance_graph import add_acceptance, add_steps
from bayes_sd.acceptance_levels import rates_of_steps
from bayes_sd.acceptance_likelihoods import SHARED, conditional_logits, observe_accepted
from bayes_sd.acceptance_predict import predict_acceptance_length
from bayes_sd.acceptance_priors import acceptance_priors
from bayes_sd.datasets import load_vllm_cpu
from bayes_sd.exceptions import ArgumentError, DataError, UnknownPairError
from bayes_sd.frames import check_runs
from bayes_sd.labels import acceptance_labels, number_groups
from bayes_sd.physics.acceptance import mean_acceptance_length
from bayes_sd.priors import Prior

KEY = ("verifier", "method", "drafter", "workload", "sampling")
REQUEST_SD, ANSWER, LENGTHS, REQUESTS = 0.7, 128, (2, 4), (15, 60)
UNSEEN = ("d0", "code")
NONE = Prior("lognormal", 1e-3, 0.1, "logit", "as if all requests and runs were alike")


def acceptance_data(frame: pd.DataFrame) -> xr.Dataset:
    """Return what the acceptance part of the model reads of a table of runs."""
    runs = check_runs(frame)
    accepted, trials, is_counted = counts_by_position(runs)
    per_step, steps, is_total = acceptance_totals(runs, is_counted)
    keys, group = number_groups(runs, KEY, needs_acceptance(runs))
    assert figures_in_group(group, is_counted | is_total).all()
    columns = ("num_requests", "num_speculative_tokens", "output_len_tokens")
    return xr.Dataset(
        {
            "group_of_run": ("run", group),
            "accepted_at_position": (("run", "position"), accepted),
            "trials_at_position": (("run", "position"), trials),
            "accepted_per_step": ("run", per_step),
            "steps_of_mean": ("run", steps),
            "forced_acceptance_rate": ("run", np.full(len(runs), np.nan)),
            **{name: ("run", runs[name].to_numpy()) for name in columns},
            **{
                f"{name}_of_group": ("acceptance_group", np.array([k[i] for k in keys]))
                for i, name in enumerate(KEY)
            },
        },
        coords={
            "run": runs["run_id"].to_numpy(str),
            "acceptance_group": acceptance_labels(keys),
            "position": np.arange(1, trials.shape[1] + 1),
        },
    )


def build(data: xr.Dataset, **changes: Prior) -> pm.Model:
    coords = {dim: data[dim].values for dim in ("acceptance_group", "position")}
    with pm.Model(coords=coords) as model:
        add_acceptance(data, acceptance_priors() | changes)
    return model


def sampled(model: pm.Model) -> xr.DataTree:
    return nutpie.sample(
        nutpie.compile_pymc_model(model),
        draws=400, tune=400, chains=2, cores=2, seed=1, progress_bar=False, target_accept=0.9,
    )  # fmt: skip


def request_rates(logit: float, decay: float, k: int, deviations: np.ndarray) -> np.ndarray:
    """Rates of requests that differ, (request, position)."""
    return 1 / (1 + np.exp(-(logit + deviations[:, None] - decay * np.arange(k))))


def true_length(logit: float, decay: float, k: int) -> float:
    """Tokens over steps of infinitely many requests: the harmonic mean of theirs."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    survival = np.cumprod(request_rates(logit, decay, k, REQUEST_SD * nodes), axis=1)
    return weights.sum() / (weights / (1 + survival.sum(axis=1))).sum()


def run_of(rng, name, workload, k, requests, logit, decay) -> dict[str, object]:
    """Decode token by token: each request until it has its answer."""
    rates = request_rates(logit, decay, k, REQUEST_SD * rng.standard_normal(requests))
    left, lengths = np.full(requests, ANSWER - 1), np.zeros(k + 1, dtype=int)
    while (at := np.flatnonzero(left > 0)).size:
        accepted = np.cumprod(rng.random((at.size, k)) < rates[at], axis=1).sum(axis=1)
        lengths += np.bincount(accepted, minlength=k + 1)
        left[at] -= accepted + 1
    counts = np.cumsum(lengths[::-1])[::-1]
    return {
        "run_id": f"{name}-{workload}-k{k}", "sweep_id": f"{name}-{workload}-k{k}",
        "verifier": "V", "method": "eagle", "drafter": name, "workload": workload,
        "sampling": "temperature 0", "num_speculative_tokens": k, "load_kind": "closed",
        "concurrency": 4, "input_len_tokens": 100.0, "output_len_tokens": float(ANSWER),
        "num_requests": requests, "mean_e2e_s": 1.0, "num_drafts": counts[0],
        "num_accepted_tokens": counts[1:].sum(),
        "accepted_per_position": ";".join(map(str, counts[1:])),
    }  # fmt: skip


@pytest.fixture(scope="module")
def study():
    """Eight drafters on two workloads, one combination unseen, and each again as totals only."""
    rng = np.random.default_rng(7)
    truth, rows = {}, []
    easier = {"chat": 0.0, "code": 0.6}
    for i, effect in enumerate(rng.normal(0.8, 0.6, 8)):
        for workload, shift in easier.items():
            setting = (effect + shift + 0.05 * rng.standard_normal(), rng.normal(0.05, 0.08))
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


def mode_of_length(frame: pd.DataFrame, k: int) -> float:
    """Tokens per step of the only group at the mode of the posterior."""
    model = build(acceptance_data(frame))
    start = model.initial_point()
    density = model.compile_fn(
        [model.logp(), model.dlogp()], inputs=model.value_vars, point_fn=False, mode="FAST_COMPILE"
    )
    shapes = [np.shape(start[v.name]) for v in model.value_vars]
    ends = np.cumsum([int(np.prod(s)) for s in shapes])[:-1]

    def loss(x):
        parts = [p.reshape(s) for p, s in zip(np.split(x, ends), shapes, strict=True)]
        value, slope = density(*parts)
        return -float(value), -slope

    ravelled = np.concatenate([np.ravel(start[v.name]) for v in model.value_vars])
    best = optimize.minimize(loss, ravelled, jac=True, method="L-BFGS-B").x
    parts = [p.reshape(s) for p, s in zip(np.split(best, ends), shapes, strict=True)]
    wanted = [model["conditional_acceptance_rate"], model["acceptance_request_sd"]]
    rates, spread = model.compile_fn(
        model.replace_rvs_by_values(wanted), inputs=model.value_vars, point_fn=False,
        mode="FAST_COMPILE", on_unused_input="ignore",
    )(*parts)  # fmt: skip
    return float(mean_acceptance_length(rates_of_steps(list(rates[0]), spread, k), k))


@pytest.mark.parametrize(("bonus", "passes"), [(0, True), (1, False)])
def test_a_bonus_token_counted_as_accepted_is_noticed(bonus, passes):
    rng = np.random.default_rng(2)
    row = run_of(rng, "d", "chat", 4, 300, 0.5, 0.1)
    row |= {"accepted_per_position": ""}
    row["num_accepted_tokens"] += bonus * row["num_drafts"]
    error = mode_of_length(pd.DataFrame([row]), 4) / true_length(0.5, 0.1, 4) - 1
    assert (abs(error) < 0.05) == passes
    assert passes or error > 0.2


def test_counts_of_a_run_have_a_proper_joint_density():
    """Positions one given the other: over all outcomes of a small run the chances add up to 1."""
    total = 0.0
    steps, logits = 6, np.array([[0.4, 0.2]])
    for first in range(steps + 1):
        for second in range(first + 1):
            accepted, trials = np.array([[first, second]]), np.array([[steps, first]])
            mean, variance = conditional_logits(logits, accepted, trials, np.array([0.3]))
            cell = np.flatnonzero(trials)
            with pm.Model(coords={"count": cell}) as model:
                observe_accepted(
                    "y", accepted.ravel()[cell], trials.ravel()[cell],
                    logit=mean.ravel()[cell], variance=variance.ravel()[cell], dims="count",
                )  # fmt: skip
            total += np.exp(float(model.logp().eval()))
    assert total == pytest.approx(1.0, abs=1e-9)


def test_counts_of_a_run_have_the_density_of_a_shared_deviation():
    """Against the integral over the run's own deviation: all of it shared, many steps."""
    logits, variance = np.array([[0.8, 0.7, 0.6]]), 0.02
    accepted, trials = np.array([[590, 370, 222]]), np.array([[900, 590, 370]])

    def joint(e):
        chance = stats.binom(trials[0], 1 / (1 + np.exp(-logits[0] - e))).logpmf(accepted[0])
        return np.exp(chance.sum() + stats.norm(0, np.sqrt(variance)).logpdf(e))

    exact = np.log(integrate.quad(joint, -0.8, 0.8, epsrel=1e-8)[0])
    independent = 0.0
    for j in range(3):
        p = 1 / (1 + np.exp(-logits[0, j]))
        s2 = variance
        independent += stats.betabinom(trials[0, j], 1 / ((1 - p) * s2), 1 / (p * s2)).logpmf(
            accepted[0, j]
        )
    mean, left = (x.eval()[0] for x in conditional_logits(
        logits, accepted, trials, np.array([variance])))  # fmt: skip
    p = 1 / (1 + np.exp(-mean))
    written = stats.betabinom(trials[0], 1 / ((1 - p) * left), 1 / (p * left)).logpmf(accepted[0])
    assert 0 < SHARED < 1
    assert abs(written.sum() - exact) < 0.6
    assert abs(independent - exact) > 0.9


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


def test_steps_of_a_run_are_those_of_its_setting(data):
    coords = {dim: data[dim].values for dim in ("acceptance_group", "position")}
    with pm.Model(coords=coords) as model:
        steps = add_steps(data, acceptance_priors())
    wanted = [steps, model["conditional_acceptance_rate"], model["acceptance_request_sd"]]
    drawn, rates, spread = pm.draw(wanted, random_seed=3)
    for run in (0, 1, 17):
        k, group = (int(data[n].values[run]) for n in ("num_speculative_tokens", "group_of_run"))
        length = mean_acceptance_length(rates_of_steps(list(rates[group]), spread, k), k)
        # tokens / E falls short of it by the part of the last step that is not needed
        assert (ANSWER - 1) / length < drawn[run] < (ANSWER - 1 + k) / length
