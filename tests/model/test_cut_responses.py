"""First tokens and percentiles say nothing of the costs: they would bend the law of the mean."""

import numpy as np
import pytest

from bayes_sd.data import to_dataset
from bayes_sd.datasets import load_vllm_cpu
from bayes_sd.least_squares import load_covariates, reference_lengths
from bayes_sd.model import build_model
from bayes_sd.priors import default_priors
from bayes_sd.spread_priors import PREFIX
from tests.simulated_runs import KNOWN, simulated_frame, true_latency

COSTS = (
    "log_verifier_cost",
    "log_load_cost",
    "log_prefill",
    "log_knee_tokens",
    "log_draft_fixed",
    "boot_sd",
)
OWN = {"log_ttft": "first_wait_steps_log__"} | {
    f"{prefix}percentile_ratios": f"{prefix}spread_heterogeneity_log__"
    for prefix in PREFIX.values()
}


@pytest.fixture(scope="module")
def densities():
    frame = load_vllm_cpu("dense", quiet_only=True)
    model = build_model(to_dataset(frame[~frame["is_throughput_test"]]))
    names = (*OWN, "log_latency")
    function = model.compile_logp(
        vars=[model[name] for name in names], sum=False, mode="FAST_COMPILE"
    )
    return model.initial_point(), lambda point: dict(zip(names, function(point), strict=True))


def moved(point, name):
    (key,) = (k for k in point if k == name or k.startswith(f"{name}_"))
    return point | {key: point[key] + 0.3}


@pytest.mark.parametrize("cost", COSTS)
def test_costs_move_the_score_of_the_mean_only(densities, cost):
    point, score = densities
    before, after = score(point), score(moved(point, cost))
    for name in OWN:
        np.testing.assert_array_equal(before[name], after[name])
    assert np.abs(before["log_latency"] - after["log_latency"]).max() > 0.01


@pytest.mark.parametrize(("response", "parameter"), OWN.items())
def test_each_has_parameters_of_its_own(densities, response, parameter):
    point, score = densities
    before, after = score(point), score(moved(point, parameter))
    assert np.abs(before[response] - after[response]).max() > 0.01
    np.testing.assert_array_equal(before["log_latency"], after["log_latency"])


def test_elasticity_is_that_of_the_law_that_made_the_runs():
    frame = simulated_frame(load_shares=(0.1, 0.3, 0.5, 0.7, 0.85))
    data = to_dataset(frame)
    found, first = load_covariates(data, default_priors(data), reference_lengths(data))
    known = np.array([_elasticity(*row) for row in zip(*_columns(data), strict=True)])
    assert known.std() > 0.15
    # A jump that the data do not rule out may take its share of the slope near its place.
    np.testing.assert_allclose(found, known, atol=0.1)
    assert np.median(np.abs(found - known)) < 0.03
    assert ((first > 0) & (first <= 0.5)).all()
    told = to_dataset(frame.assign(mean_ttft_s=0.1 * frame["mean_e2e_s"]))
    _, first = load_covariates(told, default_priors(told), reference_lengths(told))
    np.testing.assert_allclose(first, 0.1)


def _columns(data):
    base, pair = data["base_of_run"].values, data["pair_of_run"].values
    verifiers = [str(b).split(" on ")[0] for b in data["base"].values]
    drafters = [*map(str, data["drafter"].values), None]
    return (
        [verifiers[i] for i in base],
        [drafters[i] for i in pair],
        data["num_speculative_tokens"].values.tolist(),
        data["effective_batch_observed"].values.tolist(),
    )


def _elasticity(verifier, drafter, k, batch, step=1e-4):
    """Return d log L / d log B of the known law by central differences."""
    costs = KNOWN.costs(verifier, drafter)
    rates = [] if drafter is None else KNOWN.acceptance[verifier, drafter]
    low, high = (
        float(true_latency(costs, rates, k, batch * factor)) for factor in (1 - step, 1 + step)
    )
    return (np.log(high) - np.log(low)) / (2 * step)
