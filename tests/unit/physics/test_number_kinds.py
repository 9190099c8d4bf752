"""One formula, several kinds of number: floats, NumPy arrays and labelled arrays agree."""

import numpy as np
import pytest


def test_arrays_give_what_floats_give(formulas, inputs):
    for name, formula in formulas.items():
        one_by_one = [
            formula({key: values[i].item() for key, values in inputs.items()})
            for i in range(len(inputs["k"]))
        ]
        together = np.broadcast_to(formula(inputs), 6)
        np.testing.assert_allclose(together, one_by_one, rtol=1e-9, err_msg=name)
        assert np.isfinite(together).all(), name


def test_labelled_arrays_give_what_arrays_give(formulas, inputs):
    xarray = pytest.importorskip("xarray")
    labelled = {key: xarray.DataArray(values, dims="run") for key, values in inputs.items()}
    for name, formula in formulas.items():
        result = formula(labelled)
        assert result.dims == ("run",), name
        np.testing.assert_allclose(result, formula(inputs), rtol=1e-12, err_msg=name)


def test_labelled_arrays_broadcast_by_name(formulas, inputs):
    xarray = pytest.importorskip("xarray")
    labelled = {key: xarray.DataArray(values, dims="run") for key, values in inputs.items()}
    labelled["cv"] = xarray.DataArray(np.array([0.0, 1.0]), dims="draw")
    result = formulas["latency_poisson"](labelled)
    assert dict(result.sizes) == {"draw": 2, "run": 6}


def test_labelled_k_is_checked(formulas, inputs):
    xarray = pytest.importorskip("xarray")
    labelled = dict(inputs) | {"k": xarray.DataArray([5], dims="run")}
    with pytest.raises(ValueError, match="from 0 to 4, the number of rates"):
        formulas["acceptance_length"](labelled)
