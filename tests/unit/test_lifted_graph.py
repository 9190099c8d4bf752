"""Lifting a model's data: what two models share hangs on how their arrays come about alone."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.replace import graph_replace

from bayes_sd.lifted_graph import lift_data

SLOPE = np.array([0.5, -1.0, 2.0])


def model_of(one, other, observed=(0.1, 0.2, 0.4)):
    """Return a model with two arrays, the first of them twice, and with names out of order."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1.0)
        a, b = pm.Normal("a", 0.0, 1.0, shape=2), pm.Normal("b", 1.0, 2.0)
        mean = a[0] * one + a[1] * other + b * pt.exp(pt.as_tensor(one) * SLOPE)
        mean = pm.Deterministic("mean", mean + a[0] * pt.exp(pt.as_tensor(one) * SLOPE))
        pm.Normal("seen", mean, scale, observed=np.asarray(observed))
    return model


@pytest.fixture
def arrays():
    return np.array([1.0, 2.0, 5.0]), np.array([1.0, 2.0, 6.0])


def test_arrays_that_are_equal_by_chance_do_not_change_the_signature(arrays):
    one, other = arrays
    apart, alike = lift_data(model_of(one, other)), lift_data(model_of(one, one.copy()))
    assert apart.signature == alike.signature
    assert len(apart.data) == len(alike.data)


def test_products_that_are_equal_by_chance_do_not_change_the_signature(arrays):
    """One is folded to the very values of the other array of the model."""
    one, other = arrays
    assert (
        lift_data(model_of(one, other)).signature
        == lift_data(model_of(one, np.exp(one * SLOPE))).signature
    )


def test_the_same_array_is_one_input(arrays):
    """One, other, what is made of one in two places, and what was observed."""
    data = lift_data(model_of(*arrays)).data
    assert sum(array.shape == (3,) for array in data) == 4


def test_another_graph_has_another_signature(arrays):
    one, other = arrays
    signature = lift_data(model_of(one, other)).signature
    assert signature != lift_data(model_of(one, one)).signature  # one array in two places
    assert signature != lift_data(model_of(one, np.ones(3))).signature
    assert signature != lift_data(model_of(one, 2.0)).signature


def test_the_lifted_density_is_the_models_own(arrays):
    model = model_of(*arrays)
    graph = lift_data(model)
    assert [value.name for value in graph.values] == [
        model.rvs_to_values[variable].name for variable in model.free_RVs
    ]
    point = {"scale_log__": np.array(0.3), "a": np.array([0.2, -0.4]), "b": np.array(1.7)}
    shared = [pytensor.shared(array, shape=array.shape) for array in graph.data]
    known = dict(zip(graph.inputs, shared, strict=True))
    known |= {value: pytensor.shared(point[value.name]) for value in graph.values}
    outputs = [graph.log_density, graph.derived["mean"]]
    density, mean = (out.eval() for out in graph_replace(outputs, known, strict=False))
    assert density == pytest.approx(float(model.compile_logp()(point)), rel=1e-12)
    one, other = arrays
    expected = 0.2 * one - 0.4 * other + 1.9 * np.exp(one * SLOPE)
    np.testing.assert_allclose(mean, expected, rtol=1e-12)
