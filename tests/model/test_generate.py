"""Generated data: where the noise acts, what it is worth, and that the model scores just that.

Designs are simulated studies whose latencies are thrown away. Draws of the parameters come from
the model's prior, so that the generator is held to the graph and not to itself.
"""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

from bayes_sd.acceptance_levels import rates_of_steps
from bayes_sd.data import to_dataset
from bayes_sd.exceptions import ArgumentError
from bayes_sd.generate import generate_latency, with_responses
from bayes_sd.likelihoods import latency_scale
from bayes_sd.model import build_model
from bayes_sd.physics.acceptance import expected_steps
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.physics.latency import latency_elasticity, met_by_arrivals, request_latency
from bayes_sd.priors import default_priors
from bayes_sd.run_law import COSTS, latency_log_density, run_law, steps_of_draws
from bayes_sd.sbc import data_of_model
from tests.simulated_runs import BIG, FORCED, KNOWN, simulated_frame

SAMPLES = 4000
SCALES = {"discrepancy_sd": 0.02, "load_discrepancy_sd": 0.03, "request_cv": 0.3}
BOOT, TAIL_DOF = 0.01, 6.0


@pytest.fixture(scope="module")
def design():
    """One pair of forced acceptance, up to 0.8 of capacity, and a closed loop."""
    frame = simulated_frame(
        load_shares=(0.05, 0.5, 0.8), draft_lengths=(3,), concurrency=12, num_requests=100
    )
    return to_dataset(frame[frame["drafter"] == "sharp"].reset_index(drop=True))


@pytest.fixture(scope="module")
def draws(design):
    """The known law in every draw."""
    costs = BIG | KNOWN.of_pair["big", "sharp"]
    variables = {
        name: (("sample", "pair" if name in KNOWN.of_pair["big", "sharp"] else "base"), [[x]])
        for name, x in costs.items()
    }
    variables |= {name: (("sample", "base"), [[x]]) for name, x in SCALES.items()}
    variables["log_boot"] = (("sample", "sweep"), [[BOOT]])
    variables["tail_dof"] = ("sample", [TAIL_DOF])
    return xr.Dataset(variables).isel(sample=np.zeros(SAMPLES, dtype=int))


@pytest.fixture(scope="module")
def generated(design, draws):
    return generate_latency(design, draws, np.random.default_rng(1))


def law_of(design, run, batch):
    """Return latency and elasticity at a batch from the formulas alone, by run."""
    costs = CostCoefficients(**BIG, **KNOWN.of_pair["big", "sharp"])
    arrivals = "closed" if design["control"].values[run] == "closed" else "poisson"
    lengths = {
        "num_speculative_tokens": 3,
        "input_len_tokens": 512.0,
        "output_len_tokens": 128.0,
        "num_steps": float(expected_steps(127, [FORCED] * 3, 3)),
    }
    requests, others = met_by_arrivals(batch, arrivals)
    latency = request_latency(costs, requests_per_step=requests, others=others, **lengths)
    return latency, latency_elasticity(costs, effective_batch=batch, arrivals=arrivals, **lengths)


def standardised(design, generated, run):
    """Return the residuals of one run at the batch that came out, over the graph's scale."""
    batch = generated["effective_batch_observed"].values[:, run]
    latency, elasticity = law_of(design, run, batch)
    is_open = design["control"].values[run] == "open"
    scale = latency_scale(
        **SCALES,
        num_requests=100,
        elasticity=elasticity,
        one_minus_elasticity=1 - is_open * elasticity,
        arrival_noise=float(is_open),
    ).eval()
    return (np.log(generated["mean_e2e_s"].values[:, run] / latency) - BOOT) / scale


@pytest.mark.parametrize("run", range(4))
def test_residuals_have_the_stated_scale_and_tails(design, generated, run):
    residual = standardised(design, generated, run)
    assert stats.kstest(residual, stats.t(TAIL_DOF).cdf).pvalue > 1e-3
    assert stats.kstest(residual, stats.norm.cdf).pvalue < 1e-3  # the tails can be told


def test_noise_outside_the_feedback_of_load_is_told(design, generated):
    """Put the noise on the latency at a fixed rate instead: near capacity it is far too small."""
    run = 2
    typical = np.median(generated["mean_e2e_s"].values[:, run])
    _, elasticity = law_of(design, run, design["request_rate_rps"].values[run] * typical)
    assert elasticity > 0.4
    closed = np.log(generated["mean_e2e_s"].values[:, 3])
    outside = generated.copy(deep=True)
    outside["mean_e2e_s"][:, run] = typical * np.exp(closed - np.median(closed))
    outside["effective_batch_observed"][:, run] = (
        design["request_rate_rps"].values[run] * outside["mean_e2e_s"].values[:, run]
    )
    residual = standardised(design, outside, run)
    assert stats.kstest(residual, stats.t(TAIL_DOF).cdf).pvalue < 1e-6


def test_batch_is_rate_times_latency_or_the_number_of_clients(design, generated):
    is_open = design["control"].values == "open"
    rate = design["request_rate_rps"].values[is_open]
    batch = generated["effective_batch_observed"].values
    np.testing.assert_allclose(
        batch[:, is_open], rate * generated["mean_e2e_s"].values[:, is_open], rtol=1e-12
    )
    assert (batch[:, ~is_open] == 12).all()


def test_a_rate_past_capacity_gives_no_latency(design, draws):
    rates = xr.where(design["control"] == "open", 100.0, np.nan)
    generated = generate_latency(
        design.assign(request_rate_rps=rates), draws.isel(sample=[0]), np.random.default_rng(0)
    )
    is_open = design["control"].values == "open"
    assert np.isinf(generated["mean_e2e_s"].values[0, is_open]).all()
    assert np.isfinite(generated["mean_e2e_s"].values[0, ~is_open]).all()


def prior_draws(model, number, seed):
    names = [v.name for v in (*model.free_RVs, *model.deterministics)]
    prior = pm.sample_prior_predictive(
        number,
        model=model,
        var_names=names,
        random_seed=seed,
        compile_kwargs={"mode": "FAST_COMPILE"},
    )["prior"].to_dataset()
    return prior.isel(chain=0, drop=True).rename(draw="sample")


@pytest.fixture(scope="module")
def prior(model):
    return prior_draws(model, 20, 3)


def test_density_is_the_graphs(data, prior):
    """Two ways to the same number, over prior draws and runs with counted and forced drafts."""
    np.testing.assert_allclose(
        latency_log_density(data, prior), prior["latency_log_density"].values, rtol=1e-9
    )


def test_density_of_other_parameters_is_another(data, prior):
    moved = prior.assign(discrepancy_sd=1.1 * prior["discrepancy_sd"])
    difference = latency_log_density(data, moved) - prior["latency_log_density"].values
    assert (abs(difference) > 1e-4).mean() > 0.9


def test_a_model_set_to_generated_data_is_the_model_built_on_them(data):
    """So one compilation serves every simulation: nothing of the old responses stays behind."""
    priors = default_priors(data)
    model = build_model(data, priors, replaceable=True)
    generated = generate_latency(data, prior_draws(model, 30, 4), np.random.default_rng(5))
    usable = np.flatnonzero(np.isfinite(generated["mean_e2e_s"].values).all(axis=1))
    other = with_responses(data, generated.isel(sample=usable[0]))
    assert (other["accepted_at_position"] != data["accepted_at_position"]).any()
    assert other.attrs["data_hash"] == "generated"
    rebuilt = build_model(other, priors, replaceable=True)
    point = model.initial_point()

    def likelihood(of):
        parts = of.compile_logp(vars=of.observed_RVs, sum=False, mode="FAST_COMPILE")(point)
        return np.concatenate([np.ravel(part) for part in parts])

    old = likelihood(model)
    values = data_of_model(other, priors)
    with model:
        pm.set_data(values)
    np.testing.assert_allclose(likelihood(model), likelihood(rebuilt), rtol=1e-10)
    assert (abs(likelihood(model) - old) > 1e-3).all()


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
    assert accepted[:, 0].mean() == pytest.approx(known.mean(), abs=4 * known.std() / 63)
    assert accepted[:, 0].std() == pytest.approx(known.std(), rel=0.05)
    # Runs that did not differ would all count much the same.
    assert known.std() > 1.5 * stats.binom(trials[0, 0], rate).std()


def test_a_missing_parameter_is_named(design, draws):
    without = draws.drop_vars("verify_fixed_s")
    with pytest.raises(ArgumentError, match=r"draws must hold 'verify_fixed_s'\. Got"):
        run_law(design, without)
    assert "verify_fixed_s" in COSTS


def test_given_steps_replace_those_of_the_draws(design, draws):
    few = draws.isel(sample=[0, 1])
    steps = steps_of_draws(design, few)
    assert steps[0, 0] == pytest.approx(float(expected_steps(127, [FORCED] * 3, 3)))
    half = generate_latency(design, few, np.random.default_rng(0), num_steps=steps / 2)
    whole = generate_latency(design, few, np.random.default_rng(0))
    assert (half["mean_e2e_s"] < 0.75 * whole["mean_e2e_s"]).all()
