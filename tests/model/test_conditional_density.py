"""The model scores latency given the rate: at a fixed rate its density over latency adds up to 1.

Runs of one rate and a grid of latencies are put into one data set, so that each run's density at
one point of the parameters is one ordinate of the curve. All of it goes through `build_model`.
"""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import integrate

from bayes_sd.data import to_dataset
from bayes_sd.likelihoods import UNSTABLE_WIDTH
from bayes_sd.model import build_model
from bayes_sd.physics.arrivals import met_by_arrivals
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.physics.latency import latency_elasticity, request_latency
from bayes_sd.posterior import BASE_FIELDS, PAIR_FIELDS
from tests.simulated_runs import simulated_frame

NOISE = 0.02  # standard deviation of the step time's misfit, inside B = rate x L(B)


def grid_frame(log_latency, rate, num_requests=10**9):
    """Return runs without speculation: the same rate, a grid of latencies, a boot for each."""
    row = simulated_frame(load_shares=(0.1,), draft_lengths=()).iloc[[0]]
    frame = pd.concat([row] * len(log_latency), ignore_index=True)
    return frame.assign(
        run_id=[f"run-{i}" for i in range(len(frame))],
        sweep_id=[f"sweep-{i}" for i in range(len(frame))],
        request_rate_rps=rate,
        mean_e2e_s=np.exp(log_latency),
        num_requests=num_requests,
        max_num_seqs=10**6,
    )


def point_of(model):
    """Return the starting point, with a known misfit, hardly a boot and no knee in sight."""
    point = model.initial_point()
    point["discrepancy_sd_log__"] = np.log([NOISE])
    point["boot_sd_log__"] = np.log([1e-9])
    point["log_knee_tokens"] = np.log([1e5])
    point["load_discrepancy_sd_log__"] = np.log([1e-6])  # noise of one kind, as simulated
    point["jump_share_logit"] = np.full((1, 3), -20.0)
    return point


@pytest.fixture(scope="module")
def law():
    """Costs of the known point, as numbers: they do not hang on the runs' rates."""
    model = build_model(to_dataset(grid_frame(np.log([1.0, 1.5]), 1.0)))
    costs = model.compile_fn(
        model.replace_rvs_by_values([model[name] for name in BASE_FIELDS]),
        inputs=model.value_vars,
        on_unused_input="ignore",
        mode="FAST_COMPILE",
    )(point_of(model))
    fields = {name: float(v[0]) for name, v in zip(BASE_FIELDS, costs, strict=True)}
    return CostCoefficients(**fields, **dict.fromkeys(PAIR_FIELDS, 0.0))


def latency(costs, batch):
    requests, others = met_by_arrivals(batch, "poisson")
    return request_latency(
        costs,
        requests_per_step=requests,
        others=others,
        num_speculative_tokens=0,
        input_len_tokens=512.0,
        output_len_tokens=128.0,
        num_steps=127.0,
    )


def ordinates(log_latency, rate):
    """Return the model's log density of each run."""
    model = build_model(to_dataset(grid_frame(log_latency, rate)))
    density = model.compile_fn(
        model.replace_rvs_by_values([model["latency_log_density"]])[0],
        inputs=model.value_vars,
        on_unused_input="ignore",
        mode="FAST_COMPILE",
    )(point_of(model))
    return density[model.bayes_sd_data["sweep_of_run"].values]


@pytest.fixture(scope="module")
def near_capacity(law):
    """Return a rate at which load feeds back five-fold, the grid, and the elasticity there."""
    batch = np.geomspace(0.1, 1e4, 4001)
    elasticity = latency_elasticity(
        law,
        effective_batch=batch,
        arrivals="poisson",
        num_speculative_tokens=0,
        input_len_tokens=512.0,
        output_len_tokens=128.0,
        num_steps=127.0,
    )
    typical = float(batch[np.argmax(elasticity > 0.8)])
    center = np.log(latency(law, typical))
    rate = typical / np.exp(center)
    grid = np.linspace(center - 1.5, center + 2.5, 1201)
    return rate, grid, np.interp(np.log(rate) + grid, np.log(batch), elasticity)


def test_the_density_of_latency_at_a_fixed_rate_adds_up_to_one(near_capacity):
    rate, grid, _ = near_capacity
    total = integrate.simpson(np.exp(ordinates(grid, rate)), x=grid)
    assert total == pytest.approx(1.0, abs=0.01)


def test_without_the_factor_it_adds_up_to_several(near_capacity):
    """Reject a model that scores the residual alone: high latency would be counted many times."""
    rate, grid, elasticity = near_capacity
    factor = np.log(UNSTABLE_WIDTH * np.logaddexp(0, (1 - elasticity) / UNSTABLE_WIDTH))
    total = integrate.simpson(np.exp(ordinates(grid, rate) - factor), x=grid)
    assert total > 4


def test_the_density_is_that_of_simulated_runs(near_capacity, law):
    """Simulate the noise where it acts, inside B = rate x L(B), and compare the distributions."""
    rate, grid, _ = near_capacity
    rng = np.random.default_rng(4)
    factor = np.exp(NOISE * rng.standard_normal(40_000))
    batch = np.geomspace(1e-2, 1e4, 200_001)
    sustained = batch / latency(law, batch)  # rises: no knee in sight
    solved = np.interp(rate * factor, sustained, batch)  # B / f(B) = rate x factor
    simulated = np.log(solved / rate)
    density = np.exp(ordinates(grid, rate))
    cumulative = integrate.cumulative_simpson(density, x=grid, initial=0)
    ranks = np.interp(simulated, grid, cumulative)
    at = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(np.quantile(ranks, at), at, atol=0.015)
    # The load makes the latency far wider than the noise, and skew: that is what is tested.
    assert np.std(simulated) > 4 * NOISE


def test_a_run_that_is_held_out_does_not_move_the_density(data):
    model = build_model(data, replaceable=True)
    slope = model.compile_dlogp(mode="FAST_COMPILE")
    point = model.initial_point()
    held = 4
    weight = np.ones(data.sizes["run"])
    weight[held] = 0
    moved = np.log(data["mean_e2e_s"].values)
    moved[held] += 1.0
    with model:
        pm.set_data({"score_weight": weight})
        before = slope(point)
        pm.set_data({"log_mean_e2e": moved})
        np.testing.assert_array_equal(slope(point), before)
        pm.set_data({"score_weight": np.ones(data.sizes["run"])})
        assert (slope(point) != before).any()
