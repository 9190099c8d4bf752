"""The graph scores generated data as NumPy does: the same density, and none of the old data.

Draws of the parameters come from the model's prior, so that the generator is held to the graph
and not to itself.
"""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

from bayes_sd.acceptance_levels import rates_of_steps
from bayes_sd.data import to_dataset
from bayes_sd.generate import generate_latency, typical_first_token, with_responses
from bayes_sd.generate_counts import counts_log_density
from bayes_sd.model import build_model
from bayes_sd.prior_simulation import with_prior_boots
from bayes_sd.priors import default_priors
from bayes_sd.run_law import (
    COSTS,
    COUNTS,
    ERRORS,
    FIRST_TOKEN,
    latency_log_density,
    run_law,
    steps_of_draws,
)
from bayes_sd.run_load import TTFT_TAIL_DOF
from bayes_sd.sbc import data_of_model

SAMPLES = 20_000


def prior_draws(model, number, seed):
    names = [v.name for v in (*model.free_RVs, *model.deterministics)]
    prior = pm.sample_prior_predictive(
        number,
        model=model,
        var_names=names,
        random_seed=seed,
        compile_kwargs={"mode": "FAST_COMPILE"},
    )["prior"].to_dataset()
    whole = with_prior_boots(prior, model.bayes_sd_data, np.random.default_rng(seed))
    return whole.isel(chain=0, drop=True).rename(draw="sample")


@pytest.fixture(scope="module")
def prior(model):
    return prior_draws(model, 20, 3)


def sweep_log_density(data, draws):
    """Return the log density of each sweep, (sample, sweep), its boot integrated out.

    By Bayes: density of runs given any boot, times the boot's prior, over its posterior.
    """
    without = draws.assign(log_boot=xr.zeros_like(draws["log_boot"]))
    given = latency_log_density(data, without)
    law, observed = run_law(data, without), data["effective_batch_observed"].values
    batch = np.broadcast_to(observed, given.shape)
    residual = np.log(data["mean_e2e_s"].values / law.latency(batch))
    precision = law.scale(law.elasticity(batch)) ** -2.0
    found = np.empty((len(given), data.sizes["sweep"]))
    deployment = data["deployment_of_base"].values[data["base_of_sweep"].values]
    for sweep in range(data.sizes["sweep"]):
        at = data["sweep_of_run"].values == sweep
        sd = draws["boot_sd"].values[:, deployment[sweep]]
        total = precision[:, at].sum(axis=1) + sd**-2.0
        mean = (precision * residual)[:, at].sum(axis=1) / total
        at_zero = stats.norm.logpdf(0, 0, sd) - stats.norm.logpdf(0, mean, total**-0.5)
        found[:, sweep] = given[:, at].sum(axis=1) + at_zero
    return found


def test_density_is_the_graphs(data, prior):
    """Two ways to the same number, over prior draws and runs with counted and forced drafts."""
    np.testing.assert_allclose(
        sweep_log_density(data, prior), prior["latency_log_density"].values, rtol=1e-7
    )


def test_density_of_other_parameters_is_another(data, prior):
    moved = prior.assign(discrepancy_sd=1.1 * prior["discrepancy_sd"])
    difference = sweep_log_density(data, moved) - prior["latency_log_density"].values
    assert (abs(difference) > 1e-4).mean() > 0.9


@pytest.fixture(scope="module")
def observed_again(frame):
    """A model made to be set anew, set to generated data; those data, and the old ones."""
    known = frame["load_kind"].eq("open") & frame["num_speculative_tokens"].ne(1)
    data = to_dataset(frame.assign(mean_ttft_s=np.where(known, 0.1, np.nan)))
    priors = default_priors(data)
    model = build_model(data, priors, replaceable=True)
    generated = generate_latency(data, prior_draws(model, 30, 4), np.random.default_rng(5))
    usable = np.flatnonzero(np.isfinite(generated["mean_e2e_s"].values).all(axis=1))
    other = with_responses(data, generated.isel(sample=usable[0]))
    pm.set_data(data_of_model(other, priors), model=model)
    return model, other, data


def test_one_compilation_serves_every_simulation(observed_again):
    """Nothing of the old responses stays behind: the graph scores the new ones, as NumPy does."""
    model, other, old = observed_again
    at_prior = prior_draws(model, 20, 7)
    found = at_prior["latency_log_density"].values
    np.testing.assert_allclose(found, sweep_log_density(other, at_prior), rtol=1e-7)
    assert (abs(found - sweep_log_density(old, at_prior)) > 1e-6).all()
    assert other.attrs["data_hash"] == "generated"


def at_point(model, names, point):
    """Return values of the model's variables at a point of its coordinates, as one draw."""
    values = model.compile_fn(
        model.replace_rvs_by_values([model[name] for name in names]),
        inputs=model.value_vars,
        on_unused_input="ignore",
        mode="FAST_COMPILE",
    )(point)
    dims = [("sample", *model.named_vars_to_dims.get(name, ())) for name in names]
    return xr.Dataset({n: (d, v[None]) for n, d, v in zip(names, dims, values, strict=True)})


def scored(model, name, point):
    (found,) = model.compile_logp(vars=[model[name]], sum=False, mode="FAST_COMPILE")(point)
    return found


def test_counts_are_scored_as_they_are_generated(observed_again):
    model, other, old = observed_again
    point = model.initial_point()
    draws = at_point(model, COUNTS, point)
    found = scored(model, "accepted", point)
    total = counts_log_density(other, draws).sum()
    assert found.sum() == pytest.approx(total, rel=1e-9)
    assert found.sum() != pytest.approx(counts_log_density(old, draws).sum(), rel=1e-3)


def test_first_tokens_are_scored_as_they_are_generated(observed_again):
    model, other, old = observed_again
    point = model.initial_point()
    names = [v.name for v in (*model.free_RVs, *model.deterministics)]
    names = [n for n in names if n in (*COSTS, *ERRORS, *FIRST_TOKEN, *COUNTS)]
    draws = at_point(model, names, point)
    at = np.isfinite(old["mean_ttft_s"].values)
    assert 0 < at.sum() < len(at)
    part = other.isel(run=at)
    latency = part["mean_e2e_s"].values[None]
    typical = typical_first_token(part, draws, steps_of_draws(part, draws), latency)
    residual = np.log(part["mean_ttft_s"].values / typical)
    scale = draws["ttft_discrepancy_sd"].values[:, part["base_of_run"]]
    np.testing.assert_allclose(
        scored(model, "log_ttft", point), stats.t(TTFT_TAIL_DOF, scale=scale).logpdf(residual)[0]
    )


def test_first_tokens_scatter_as_stated(observed_again):
    """Over many draws of one truth: the t scale of the logs, against the law at the batch."""
    model, data, _ = observed_again
    names = [v.name for v in (*model.free_RVs, *model.deterministics)]
    names = [n for n in names if n in (*COSTS, *ERRORS, *FIRST_TOKEN, *COUNTS)]
    one = at_point(model, names, model.initial_point())
    one["log_boot"] = (("sample", "sweep"), np.zeros((1, data.sizes["sweep"])))
    draws = one.isel(sample=np.zeros(SAMPLES, dtype=int))
    closed = data.isel(run=[0]).assign(
        control=("run", ["closed"]), effective_batch_observed=("run", [8.0])
    )
    generated = generate_latency(closed, draws, np.random.default_rng(8))
    latency = generated["mean_e2e_s"].values
    steps = steps_of_draws(closed, draws)
    typical = typical_first_token(closed, draws, steps, latency)
    residual = np.log(generated["mean_ttft_s"].values / typical)[:, 0]
    scale = float(one["ttft_discrepancy_sd"][0, 0])
    assert stats.kstest(residual / scale, stats.t(TTFT_TAIL_DOF).cdf).pvalue > 1e-3
    assert stats.kstest(residual / scale / 1.1, stats.t(TTFT_TAIL_DOF).cdf).pvalue < 1e-3


def test_counts_are_beta_binomial_and_on_trial_after_acceptance(data, prior):
    at = np.flatnonzero(data["trials_at_position"].values.any(axis=1))
    run = at[data["num_speculative_tokens"].values[at].argmax()]
    same = prior.isel(sample=np.zeros(SAMPLES, dtype=int))
    generated = generate_latency(data.isel(run=[run]), same, np.random.default_rng(6))
    accepted = generated["accepted_at_position"].values[:, 0]
    trials = generated["trials_at_position"].values[:, 0]
    np.testing.assert_array_equal(trials[:, 1:], accepted[:, :-1])
    assert (trials[:, 0] == data["trials_at_position"].values[run, 0]).all()
    # The first position against SciPy: logits whose mean is the steps' and whose variance the
    # run's, so a beta-binomial of these two.
    one = prior.isel(sample=0)
    drafts = int(data["num_speculative_tokens"].values[run])
    by_position = one["conditional_acceptance_rate"].values[data["group_of_run"].values[run]]
    rate = rates_of_steps(list(by_position), one["acceptance_request_sd"].values, drafts)[0]
    variance = one["acceptance_run_sd"].values ** 2
    variance += one["acceptance_request_sd"].values ** 2 / data["num_requests"].values[run]
    known = stats.betabinom(trials[0, 0], 1 / ((1 - rate) * variance), 1 / (rate * variance))
    assert accepted[:, 0].mean() == pytest.approx(
        known.mean(), abs=4 * known.std() / np.sqrt(SAMPLES)
    )
    assert accepted[:, 0].std() == pytest.approx(known.std(), rel=0.05)
    # Runs that did not differ would all count much the same.
    assert known.std() > 1.5 * stats.binom(trials[0, 0], rate).std()
