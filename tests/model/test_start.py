"""Where the chains start: near the law that made the runs."""

from dataclasses import replace

import numpy as np
import pytest

from bayes_sd.data import to_dataset
from bayes_sd.model import build_model
from bayes_sd.priors import default_priors
from bayes_sd.start import starting_point
from tests.simulated_runs import BIG, KNOWN, simulated_frame

ONE_PAIR = replace(
    KNOWN,
    of_base={"big": BIG},
    of_pair={("big", "quick"): KNOWN.of_pair["big", "quick"]},
    acceptance={("big", "quick"): KNOWN.acceptance["big", "quick"]},
    forced=(),
)
LENGTHS = ((512.0, 128), (1024.0, 128), (512.0, 256))


@pytest.fixture(scope="module")
def data():
    return to_dataset(simulated_frame(ONE_PAIR, lengths=LENGTHS, num_requests=100_000))


@pytest.fixture(scope="module")
def start(data):
    return starting_point(data, default_priors(data))


@pytest.fixture(scope="module")
def model(data):
    return build_model(data)


def test_the_costs_that_the_data_tell_start_near_the_truth(start):
    drafter = KNOWN.of_pair["big", "quick"]
    fixed, _ = np.exp(start["log_verifier_cost"][0])
    assert fixed == pytest.approx(BIG["verify_fixed_s"], rel=0.1)
    assert np.exp(start["log_draft_fixed"]) == pytest.approx(drafter["draft_fixed_s"], rel=0.3)
    assert np.exp(start["log_knee_tokens"]) == pytest.approx(BIG["knee_tokens"], rel=0.5)


def test_every_start_is_a_variable_of_the_model_in_its_shape(model, start):
    shapes = {v.name: tuple(v.shape.eval(mode="FAST_COMPILE")) for v in model.free_RVs}
    for name, value in start.items():
        assert np.shape(value) == shapes[name], name
        assert np.isfinite(value).all(), name


def started(model, start):
    """Return the model's starting point in its own coordinates."""
    point = model.initial_point()
    for name, value in start.items():
        variable = model[name]
        transform = model.rvs_to_transforms[variable]
        put = np.asarray(value, dtype=float)
        if transform is not None:
            put = transform.forward(put, *variable.owner.inputs).eval()
        point[model.rvs_to_values[variable].name] = put
    return point


def test_no_gradient_is_exactly_zero_at_the_start(model, start):
    """The sampler takes its first step sizes from the gradient, and cannot take them from 0."""
    point = started(model, start)
    slope = model.compile_dlogp(mode="FAST_COMPILE")
    sizes = [np.size(point[v.name]) for v in model.value_vars]
    by_variable = np.split(slope(point), np.cumsum(sizes)[:-1])
    given = {model.rvs_to_values[model[name]].name for name in start}
    flat = [
        value.name
        for value, gradient in zip(model.value_vars, by_variable, strict=True)
        if value.name in given and (gradient == 0).any()
    ]
    assert flat == []


def test_the_law_at_the_start_gives_the_measured_latencies(model, start):
    """Before the sampler moves, the model already misses the runs by a few per cent only."""
    density = model.compile_logp(vars=[model["log_latency"]], sum=False, mode="FAST_COMPILE")
    (at_start,) = density(started(model, start))
    (jittered,) = density(model.initial_point())
    # A latency known to a few per cent has a log density well above 0.
    assert np.median(at_start) > 1.0
    assert np.median(at_start) > np.median(jittered) + 2.0
