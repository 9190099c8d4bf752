"""Fits of the same runs are ranked by the density of sweeps that are left out."""

import numpy as np
import pytest
import xarray as xr

from bayes_sd.exceptions import ArgumentError, AssumptionWarning
from bayes_sd.model_comparison import compare_models
from tests.fake_fit import fake_fit


def with_density(tree, density):
    """Return a fit whose log likelihood, (chain, draw, sweep), is the given one."""
    density = np.broadcast_to(density, tree["log_likelihood"]["log_latency"].shape)
    groups = {name: child.to_dataset() for name, child in tree.children.items()}
    dims = ("chain", "draw", "sweep")
    groups["log_likelihood"] = groups["log_likelihood"].assign(log_latency=(dims, density.copy()))
    return xr.DataTree.from_dict({**groups, "/": xr.Dataset(attrs=tree.attrs)})


@pytest.fixture(scope="module")
def tree():
    return fake_fit(draws=400)


@pytest.fixture(scope="module")
def density(tree):
    """Densities that differ little between draws: leaving a sweep out changes next to nothing."""
    shape = tree["log_likelihood"]["log_latency"].shape
    rng = np.random.default_rng(2)
    return 5 + rng.standard_normal(shape[-1]) + 0.05 * rng.standard_normal(shape)


def test_the_better_model_is_first_and_the_difference_is_that_of_the_sweeps(tree, density):
    sweeps = density.shape[-1]
    loss = 0.5 + 0.2 * np.arange(sweeps) / sweeps
    trees = {"worse": with_density(tree, density - loss), "better": with_density(tree, density)}
    table = compare_models(trees)
    assert list(table.index) == ["better", "worse"]
    assert table.loc["better", "difference"] == 0
    assert table.loc["worse", "difference"] == pytest.approx(-loss.sum(), rel=1e-6)
    by_hand = np.sqrt(sweeps * loss.var())
    assert table.loc["worse", "difference_se"] == pytest.approx(by_hand, rel=1e-3)
    assert table.loc["worse", "probability_worse"] > 0.99
    assert (table["bad_sweeps"] == 0).all()


def test_a_sweep_that_only_some_draws_explain_is_named(tree, density):
    wild = density.copy()
    # Few draws explain it, and hardly any does it well: weights with a tail of index above 1.
    wild[..., 1] -= 1.5 * np.random.default_rng(3).exponential(size=wild.shape[:2])
    with pytest.warns(AssumptionWarning, match="Pareto k above 0.7") as caught:
        table = compare_models({"a": with_density(tree, wild), "b": with_density(tree, density)})
    assert str(tree["log_likelihood"]["sweep"].values[1]) in str(caught[0].message)
    assert table.loc["a", "bad_sweeps"] == 1


def test_one_fit_other_runs_and_packed_fits_are_refused(tree, density):
    whole = with_density(tree, density)
    with pytest.raises(ArgumentError, match="at least two fits"):
        compare_models({"a": whole})
    other = whole.copy()
    other.attrs["data_hash"] = "another"
    with pytest.raises(ArgumentError, match="same runs"):
        compare_models({"a": whole, "b": other})
    packed = whole.copy()
    del packed["log_likelihood"]
    with pytest.raises(ArgumentError, match="'b' has no log likelihood"):
        compare_models({"a": whole, "b": packed})
