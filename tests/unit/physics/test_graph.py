"""The same formulas in a compiled PyTensor graph, plain and with named dims, and its gradient."""

import numpy as np
import pytest

pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")
xtensor = pytest.importorskip("pytensor.xtensor")

# Gradients are taken in these; k is data.
FLOATS = ["logit", "rate", "batch", "cv", "width", "arrival_rate"]


def plain_variables(inputs):
    return {
        key: pt.vector(key, dtype="int64" if key == "k" else "float64", shape=(len(values),))
        for key, values in inputs.items()
    }


@pytest.fixture(scope="module")
def graph(formulas, inputs):
    variables = plain_variables(inputs)
    return variables, {name: formula(variables) for name, formula in formulas.items()}


@pytest.fixture(scope="module")
def gradients(graph):
    """Compile the gradient of each formula's sum in each float input, into one function."""
    variables, results = graph
    wanted = [variables[key] for key in FLOATS]
    outputs = [
        pt.stack(pt.grad(pt.sum(result), wanted, disconnected_inputs="ignore"))
        for result in results.values()
    ]
    return pytensor.function(
        list(variables.values()), outputs, mode="FAST_COMPILE", on_unused_input="ignore"
    )


def test_compiled_graph_gives_what_arrays_give(graph, formulas, inputs):
    variables, results = graph
    compiled = pytensor.function(
        list(variables.values()), list(results.values()), on_unused_input="ignore"
    )
    for name, value in zip(results, compiled(*inputs.values()), strict=True):
        np.testing.assert_allclose(
            value, formulas[name](inputs), rtol=1e-8, atol=1e-12, err_msg=name
        )


def test_named_dims_give_what_arrays_give(formulas, inputs):
    variables = {
        key: xtensor.xtensor(
            key, dims=("run",), shape=(len(values),), dtype="int64" if key == "k" else "float64"
        )
        for key, values in inputs.items()
    }
    results = {name: formula(variables) for name, formula in formulas.items()}
    compiled = pytensor.function(
        list(variables.values()),
        list(results.values()),
        mode="FAST_COMPILE",
        on_unused_input="ignore",
    )
    for name, value in zip(results, compiled(*inputs.values()), strict=True):
        assert results[name].dims == ("run",), name
        np.testing.assert_allclose(
            value, formulas[name](inputs), rtol=1e-8, atol=1e-12, err_msg=name
        )


def test_gradients_are_finite_at_the_edges(graph, gradients, inputs):
    names = list(graph[1])
    for name, values in zip(names, gradients(*inputs.values()), strict=True):
        assert np.isfinite(values).all(), (name, values)


def test_gradients_are_the_derivatives(graph, gradients, formulas, inputs):
    inside = dict(inputs)
    inside["rate"] = np.array([0.9, 0.7, 0.2, 0.8, 0.5, 0.6])
    inside["batch"] = np.array([0.3, 0.7, 1.5, 8.0, 35.0, 200.0])
    inside["cv"] = np.array([0.2, 0.5, 1.0, 0.3, 2.0, 0.8])
    names = list(graph[1])
    h = 1e-4
    for name, values in zip(names, gradients(*inside.values()), strict=True):
        for key, gradient in zip(FLOATS, values, strict=True):
            up = formulas[name](inside | {key: inside[key] + h})
            down = formulas[name](inside | {key: inside[key] - h})
            expected = np.broadcast_to((up - down) / (2 * h), 6)
            np.testing.assert_allclose(
                gradient, expected, rtol=1e-4, atol=1e-9, err_msg=f"{name} in {key}"
            )
