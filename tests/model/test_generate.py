"""Generated data: where the noise acts, what it is worth, and that the model scores just that.

Designs are simulated studies whose latencies are thrown away. `test_generated_scores` holds the
generator to the graph.
"""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from bayes_sd.data import to_dataset
from bayes_sd.exceptions import ArgumentError
from bayes_sd.generate import generate_latency, posterior_predictive
from bayes_sd.likelihoods import latency_scale
from bayes_sd.physics.acceptance import expected_steps
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.physics.latency import latency_elasticity, met_by_arrivals, request_latency
from bayes_sd.run_law import (
    COSTS,
    run_law,
    steps_of_draws,
)
from tests.fake_fit import fake_fit
from tests.simulated_runs import BIG, FORCED, KNOWN, simulated_frame

SAMPLES = 20_000
SCALES = {"discrepancy_sd": 0.02, "load_discrepancy_sd": 0.03, "request_cv": 0.3}
BOOT = 0.01


@pytest.fixture(scope="module")
def design():
    """One pair of forced acceptance, up to half its capacity, and a closed loop."""
    frame = simulated_frame(
        load_shares=(0.05, 0.3, 0.5), draft_lengths=(3,), concurrency=12, num_requests=100
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
    held = np.isfinite(generated["mean_e2e_s"].values[:, run])
    assert held.mean() > 0.999  # the tails reach past capacity
    generated = generated.isel(sample=held)
    batch = generated["effective_batch_observed"].values[:, run]
    latency, elasticity = law_of(design, run, batch)
    is_open = design["control"].values[run] == "open"
    scale = latency_scale(
        **SCALES,
        num_requests=100,
        elasticity=elasticity,
        one_minus_elasticity=1 - is_open * elasticity,
        arrival_noise=float(is_open),
    )
    return (np.log(generated["mean_e2e_s"].values[:, run] / latency) - BOOT) / scale


@pytest.mark.parametrize("run", range(4))
def test_residuals_have_the_stated_scale_and_tails(design, generated, run):
    residual = standardised(design, generated, run)
    assert stats.kstest(residual, stats.norm.cdf).pvalue > 1e-3
    assert stats.kstest(residual, stats.t(8).cdf).pvalue < 1e-3  # heavier tails can be told
    assert stats.kstest(residual / 1.1, stats.norm.cdf).pvalue < 1e-3  # and another scale


def test_noise_outside_the_feedback_of_load_is_told(design, generated):
    """Put the noise on the latency at a fixed rate instead: near capacity it is far too small."""
    run = 2
    typical = np.median(generated["mean_e2e_s"].values[:, run])
    _, elasticity = law_of(design, run, design["request_rate_rps"].values[run] * typical)
    assert elasticity > 0.3
    closed = np.log(generated["mean_e2e_s"].values[:, 3])
    outside = generated.copy(deep=True)
    outside["mean_e2e_s"][:, run] = typical * np.exp(closed - np.median(closed))
    outside["effective_batch_observed"][:, run] = (
        design["request_rate_rps"].values[run] * outside["mean_e2e_s"].values[:, run]
    )
    residual = standardised(design, outside, run)
    assert stats.kstest(residual, stats.norm.cdf).pvalue < 1e-6


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


def test_replicates_of_a_fit_lie_about_its_runs():
    """Of a fit whose every draw is the truth: noise-free runs lie in the middle of replicates."""
    tree = fake_fit(draws=100)
    posterior = tree["posterior"].to_dataset()
    run_sd = xr.full_like(posterior["acceptance_request_sd"], 1e-3)
    tree["posterior"] = xr.DataTree(posterior.assign(acceptance_run_sd=run_sd))
    replicates = posterior_predictive(tree, num_samples=150, random_seed=2)
    assert replicates.sizes["sample"] == 150
    runs = tree["constant_data"].to_dataset()
    below = (replicates["mean_e2e_s"] < runs["mean_e2e_s"]).mean("sample").values
    assert 0.4 < below.mean() < 0.6
    assert ((below > 0.2) & (below < 0.8)).all()
    share = replicates["accepted_at_position"].sum() / replicates["trials_at_position"].sum()
    known = runs["accepted_at_position"].sum() / runs["trials_at_position"].sum()
    assert float(share) == pytest.approx(float(known), rel=0.01)
    again = posterior_predictive(tree, num_samples=150, random_seed=2)
    xr.testing.assert_identical(again, replicates)
