"""The model's density against the same density written out with NumPy and SciPy."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import integrate, stats

from bayes_sd.acceptance_levels import rates_of_steps
from bayes_sd.data import to_dataset
from bayes_sd.exceptions import ArgumentError
from bayes_sd.likelihoods import UNSTABLE_WIDTH, latency_logp
from bayes_sd.model import build_model
from bayes_sd.physics.acceptance import expected_steps, expected_steps_renewal
from bayes_sd.physics.arrivals import met_by_arrivals
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.physics.latency import request_latency
from bayes_sd.posterior import BASE_FIELDS, PAIR_FIELDS
from bayes_sd.priors import Prior, default_priors
from bayes_sd.shares_of_sums import LoadShares, SumAndShare
from bayes_sd.start import starting_point
from tests.simulated_runs import simulated_frame

NAMES = (
    *BASE_FIELDS,
    *PAIR_FIELDS,
    "conditional_acceptance_rate",
    "acceptance_request_sd",
    "idle_drafter_s",
    "discrepancy_sd",
    "load_discrepancy_sd",
    "request_cv",
    "boot_sd",
    "boot_mean",
    "boot_scale",
    "latency_log_density",
)


@pytest.fixture(scope="module")
def at_a_point(model):
    """Values of the named variables, and the model's own densities, at a random point."""
    rng = np.random.default_rng(11)
    point = model.initial_point()
    point = {k: v + 0.05 * rng.standard_normal(np.shape(v)) for k, v in point.items()}
    # The slope of a jump is smoothed on purpose, so no derivative gives it: none here.
    point["jump_share_logit"] = np.full(np.shape(point["jump_share_logit"]), -20.0)
    wanted = [model[n] for n in NAMES]
    logp = model.logp(vars=[model["log_latency"]], sum=False)
    graph = model.replace_rvs_by_values([*wanted])
    inputs = model.value_vars
    evaluate = model.compile_fn(
        graph + logp, inputs=inputs, point_fn=False, on_unused_input="ignore"
    )
    values = evaluate(*(point[v.name] for v in inputs))
    return dict(zip([*NAMES, "logp"], values, strict=True)), point


def _by_hand(values, data, *, jacobian=True, bonus=0, boot=True):
    """Log density of each sweep, mean and sd of its boot; elasticity by finite differences."""
    parts = []
    for r in range(data.sizes["run"]):
        run = data.isel(run=r)
        base, pair = int(run["base_of_run"]), int(run["pair_of_run"])
        k = int(run["num_speculative_tokens"])
        fields = {f: float(values[f][base]) for f in BASE_FIELDS}
        fields |= {f: float(values[f][pair]) if pair >= 0 else 0.0 for f in PAIR_FIELDS}
        emitted = float(run["output_len_tokens"]) - 1
        forced = float(run["forced_acceptance_rate"])
        fields["idle_drafter_s"] = 0.0
        if bool(run["is_speculation_loaded"]) and k == 0:
            fields["idle_drafter_s"] = float(values["idle_drafter_s"][base])
        costs = CostCoefficients(**fields)
        by_request = values["conditional_acceptance_rate"][int(run["group_of_run"])]
        counted = rates_of_steps(list(by_request[:k]), values["acceptance_request_sd"], k)
        if k == 0:
            steps = emitted
        elif np.isnan(forced):
            steps = expected_steps_renewal(emitted - bonus, list(counted[:k]), k)
        else:
            steps = float(expected_steps(int(emitted) - bonus, [forced] * k, k))

        def law(batch, costs=costs, run=run, k=k, steps=steps):
            n, others = met_by_arrivals(batch, str(run["arrivals"].values))
            return request_latency(
                costs,
                requests_per_step=n,
                others=others,
                num_speculative_tokens=k,
                input_len_tokens=float(run["input_len_tokens"]),
                output_len_tokens=float(run["output_len_tokens"]),
                num_steps=steps,
            )

        batch = float(run["effective_batch_observed"])
        h = 1e-5
        elasticity = (np.log(law(batch * (1 + h))) - np.log(law(batch * (1 - h)))) / (2 * h)
        one = 1 - elasticity
        noise = (one * values["request_cv"][base]) ** 2 + elasticity**2
        misfit = values["discrepancy_sd"][base] ** 2
        misfit += (elasticity * values["load_discrepancy_sd"][base]) ** 2
        scale = np.sqrt(misfit + noise / int(run["num_requests"]))
        residual = np.log(float(run["mean_e2e_s"])) - np.log(law(batch))
        factor = np.log(UNSTABLE_WIDTH * np.logaddexp(0, one / UNSTABLE_WIDTH)) if jacobian else 0.0
        parts.append((residual, scale, factor))
    return _sweeps_by_hand(np.array(parts), data["sweep_of_run"].values, values["boot_sd"][0], boot)


def _sweeps_by_hand(parts, sweep_of_run, boot_sd, boot):
    """Density of each sweep as one multivariate normal; its boot by the rules of regression."""
    found = []
    for sweep in range(sweep_of_run.max() + 1):
        if not (sweep_of_run == sweep).any():
            found.append((0.0, 0.0, boot_sd))
            continue
        residual, scale, factor = parts[sweep_of_run == sweep].T
        covariance = np.diag(scale**2) + (boot_sd**2 if boot else 0.0)
        density = stats.multivariate_normal(cov=covariance).logpdf(residual) + factor.sum()
        with_boot = np.full(len(residual), boot_sd**2)
        mean = with_boot @ np.linalg.solve(covariance, residual)
        variance = boot_sd**2 - with_boot @ np.linalg.solve(covariance, with_boot)
        found.append((density, mean, np.sqrt(max(variance, 0.0))))
    return np.array(found).T


def test_density_is_the_written_one(at_a_point, data):
    values, _ = at_a_point
    by_hand, mean, scale = _by_hand(values, data)
    assert len(by_hand) < data.sizes["run"]  # sweeps of several runs: boots are shared
    np.testing.assert_allclose(values["logp"], by_hand.sum(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(values["latency_log_density"], by_hand, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(values["boot_mean"], mean, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(values["boot_scale"], scale, rtol=1e-4)


@pytest.mark.parametrize("fault", [{"jacobian": False}, {"bonus": 1}, {"boot": False}])
def test_a_wrong_density_is_told_apart(at_a_point, data, fault):
    values, _ = at_a_point
    wrong = _by_hand(values, data, **fault)[0]
    assert np.abs(values["latency_log_density"] - wrong).max() > 0.01


@pytest.fixture(scope="module")
def with_weights(model, at_a_point):
    """A function of weights: density of all latencies, mean and scale of each boot."""
    _, point = at_a_point
    wanted = [model["boot_mean"], model["boot_scale"]]
    density = model.logp(vars=[model["log_latency"]], sum=True)
    evaluate = model.compile_fn(
        [density, *model.replace_rvs_by_values(wanted)],
        inputs=model.value_vars,
        point_fn=False,
        on_unused_input="ignore",
    )
    size = len(model["score_weight"].eval())

    def evaluated(held=()):
        weights = np.ones(size)
        weights[list(held)] = 0.0
        with model:
            pm.set_data({"score_weight": weights})
            found = evaluate(*(point[v.name] for v in model.value_vars))
            pm.set_data({"score_weight": np.ones(size)})
        return found

    return evaluated


def test_weight_zero_takes_a_run_out_and_nothing_else(with_weights, at_a_point, data):
    values, _ = at_a_point
    sweeps = data["sweep_of_run"].values
    held = 2
    whole, without = with_weights()[0], with_weights([held])[0]
    parts = _by_hand(values, data.isel(run=sweeps == sweeps[held]))
    rest = np.flatnonzero((sweeps == sweeps[held]) & (np.arange(len(sweeps)) != held))
    assert len(rest)
    # What is lost is the density of the held run given the others of its sweep.
    difference = parts[0][sweeps[held]] - _by_hand(values, data.isel(run=rest))[0][sweeps[held]]
    assert whole - without == pytest.approx(difference, abs=1e-3)


def test_a_sweep_that_is_held_out_has_a_boot_of_the_prior(with_weights, at_a_point, data):
    values, _ = at_a_point
    held = np.flatnonzero(data["sweep_of_run"].values == 1)
    _, mean, scale = with_weights(held)
    assert mean[1] == 0
    assert scale[1] == pytest.approx(values["boot_sd"][0])
    others = np.arange(len(mean)) != 1
    np.testing.assert_allclose(mean[others], values["boot_mean"][others], rtol=1e-12)


@pytest.mark.parametrize("with_factor", [True, False])
def test_density_of_latency_given_the_rate_integrates_to_one(with_factor):
    """At rate 0.9 of capacity: only the factor 1 - elasticity makes it a density of latency."""
    c1, c2, rate, scale = 1.0, 0.1, 9.0, 0.02

    def density(log_latency):
        latency = np.exp(log_latency)
        batch = rate * latency
        law = c1 + c2 * batch
        one = 1 - batch * c2 / law
        residual, factor = log_latency - np.log(law), one if with_factor else 1.0
        run = (np.array([x]) for x in (residual, scale, 0.005, factor, 1.0))
        logp = latency_logp(*map(pt.as_tensor, run), np.array([0]))
        return float(np.exp(logp.eval()[0]))

    grid = np.log(np.geomspace(4.0, 60.0, 161))
    total = integrate.trapezoid([density(x) for x in grid], grid)
    if with_factor:
        assert total == pytest.approx(1.0, abs=0.01)
    else:
        assert total > 3


@pytest.mark.parametrize(("transform", "size"), [(SumAndShare(), 2), (LoadShares(), 4)])
def test_coordinates_leave_the_prior_alone(transform, size, rng):
    values = rng.normal(-5, 2, size)
    there = transform.forward(values).eval()
    np.testing.assert_allclose(transform.backward(there).eval(), values, rtol=1e-12)
    h = 1e-6
    jacobian = np.stack(
        [
            (transform.backward(there + h * e).eval() - transform.backward(there - h * e).eval())
            / (2 * h)
            for e in np.eye(size)
        ]
    )
    assert abs(np.linalg.det(jacobian)) == pytest.approx(1.0, abs=1e-6)
    assert transform.log_jac_det(there).eval() == 0


def test_start_is_near_the_truth():
    # Evenly good at all loads and without noise, the least squares must find the law's latency.
    data = to_dataset(simulated_frame(num_requests=100_000))
    start = starting_point(data, default_priors(data))
    model = build_model(data)
    names = {v.name for v in model.free_RVs}
    assert set(start) <= names
    assert all(np.isfinite(v).all() for v in start.values())


def test_a_prior_is_overridden_in_one_line(data):
    wide = Prior("lognormal", 0.05, 0.5, "1", "noisy neighbours")
    model = build_model(data, default_priors(data) | {"boot_sd": wide})
    low, high = np.quantile(pm.draw(model["boot_sd"], 2000, random_seed=1), [0.05, 0.95])
    assert (low, high) == pytest.approx(wide.interval(), rel=0.15)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"boot_sdd": Prior("normal", 0.0, 1.0, "1", "")}, "Unknown: \\['boot_sdd'\\]"),
        ({"boot_sd": Prior("normal", 0.0, 1.0, "1", "")}, "must be 'lognormal'. Got 'normal'"),
    ],
)
def test_wrong_priors_are_named(data, change, words):
    with pytest.raises(ArgumentError, match=words):
        build_model(data, default_priors(data) | change)


def test_model_without_pairs_and_without_sizes():
    frame = simulated_frame()
    off = frame[frame["method"] == "none"].copy()
    off["verifier_params_b"] = np.nan
    model = build_model(to_dataset(off))
    assert np.isfinite(model.compile_logp()(model.initial_point()))
    assert "log_missing_verifier_size" in {v.name for v in model.free_RVs}
