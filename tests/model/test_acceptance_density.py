"""The density of accepted drafts against other ways to compute it, and a fault it must notice."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import integrate, optimize, stats

from bayes_sd.acceptance_graph import add_steps
from bayes_sd.acceptance_levels import rates_of_steps
from bayes_sd.acceptance_likelihoods import SHARED, conditional_logits, observe_accepted
from bayes_sd.acceptance_priors import acceptance_priors
from bayes_sd.physics.acceptance import mean_acceptance_length
from tests.simulated_acceptance import ANSWER, acceptance_data, build, run_of, true_length


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
    steps = 6
    outcomes = [(i, j) for i in range(steps + 1) for j in range(i + 1)]
    accepted = np.array(outcomes)
    trials = np.column_stack([np.full(len(outcomes), steps), accepted[:, 0]])
    logits = np.broadcast_to([0.4, 0.2], accepted.shape)
    mean, variance = conditional_logits(logits, accepted, trials, np.full(len(outcomes), 0.3))
    with pm.Model(coords={"count": range(accepted.size)}) as model:
        observe_accepted(
            "y",
            accepted.ravel(),
            trials.ravel(),
            logit=mean.ravel(),
            variance=variance.ravel(),
            dims="count",
        )
    (logp,) = model.logp(sum=False)
    chances = np.exp(logp.eval().reshape(accepted.shape).sum(axis=1))
    assert chances.sum() == pytest.approx(1.0, abs=1e-9)
    assert (chances < 1).all()


def test_counts_of_a_run_have_the_density_of_a_shared_deviation():
    """Against the integral over the part of a run's deviation that its positions share."""
    logits, variance = np.array([0.8, 0.7, 0.6]), 0.02
    accepted, trials = np.array([590, 370, 222]), np.array([900, 590, 370])
    shared, alone = SHARED * variance, (1 - SHARED) * variance

    def density(mean, spread):
        beta = (1 + np.exp(mean)) / spread, (1 + np.exp(-mean)) / spread
        return stats.betabinom(trials, *beta).logpmf(accepted).sum()

    def joint(e):
        return np.exp(density(logits + e, alone)) * stats.norm(0, np.sqrt(shared)).pdf(e)

    exact = np.log(integrate.quad(joint, -0.8, 0.8, epsrel=1e-8)[0])
    rows = (x[None] for x in (logits, accepted, trials))
    mean, left = (x.eval()[0] for x in conditional_logits(*rows, np.array([variance])))
    assert density(mean, left) == pytest.approx(exact, abs=0.02)
    # Positions on their own, as a beta-binomial for each would have it, are told apart.
    assert abs(density(logits, variance) - exact) > 0.5


def test_steps_of_a_run_are_those_of_its_setting():
    rng = np.random.default_rng(4)
    rows = [run_of(rng, d, "chat", k, 5, 0.5, 0.1) for d in ("a", "b") for k in (2, 4)]
    data = acceptance_data(pd.DataFrame(rows))
    coords = {dim: data[dim].values for dim in ("acceptance_group", "position")}
    with pm.Model(coords=coords) as model:
        steps = add_steps(data, acceptance_priors())
    wanted = [steps, model["conditional_acceptance_rate"], model["acceptance_request_sd"]]
    drawn, rates, spread = pm.draw(wanted, random_seed=3, mode="FAST_COMPILE")
    for run in range(4):
        k, group = (int(data[n].values[run]) for n in ("num_speculative_tokens", "group_of_run"))
        length = mean_acceptance_length(rates_of_steps(list(rates[group]), spread, k), k)
        # tokens / E falls short of it by the part of the last step that is not needed
        assert (ANSWER - 1) / length < drawn[run] < (ANSWER - 1 + k) / length
