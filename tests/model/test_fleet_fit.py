"""Two real groups of one shape, compiled once: the same density, and the same draws as alone."""

import ctypes

import numpy as np
import pandas as pd
import pytest

from bayes_sd import shared_compile
from bayes_sd.blocks import build_blocks
from bayes_sd.data import to_dataset
from bayes_sd.exceptions import ConvergenceWarning
from bayes_sd.fleet import fit_many
from bayes_sd.fleet_groups import FitSettings, split_runs
from bayes_sd.fleet_task import fit_runs
from bayes_sd.lifted_graph import lift_data
from bayes_sd.priors import default_priors
from bayes_sd.start import starting_point
from tests.simulated_runs import simulated_frame

distributed = pytest.importorskip("distributed")
LENGTHS = {"draws": 30, "tune": 60, "chains": 2, "responses": ()}


@pytest.fixture(scope="module")
def runs():
    """Return two servers measured by one protocol, in one table."""
    noise = {"boot_sd": 0.01, "misfit_sd": 0.01, "request_cv": 0.15}
    frames = [
        simulated_frame(load_shares=(0.05, 0.3, 0.6), random_seed=seed, **noise)
        .query("verifier == 'small'")
        .assign(verifier=name)
        for seed, name in enumerate(("one", "two"))
    ]
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="module")
def fits(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    shared_compile.forget_compiled()
    with (
        distributed.Client(
            processes=False,
            n_workers=1,
            threads_per_worker=1,
            dashboard_address=":0",
            set_as_default=False,
        ) as client,
        pytest.warns(ConvergenceWarning, match="2 of 2 fits did not converge"),
    ):
        return fit_many(runs, "verifier", folder, client=client, progressbar=False, **LENGTHS)


def block_of(runs, name):
    data = to_dataset(runs[runs["verifier"] == name])
    priors = default_priors(data)
    model = build_blocks(data, priors, responses=())["latency"]
    return model, starting_point(data, priors)


def density_of(compiled, point):
    """Return log density and gradient as the sampler gets them."""
    values, gradient, density = np.array(point), np.empty(len(point)), np.empty(1)
    pointers = [
        array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
        for array in (values, gradient, density)
    ]
    data = compiled.user_data.ctypes.data
    assert compiled.compiled_logp_func.ctypes(len(point), *pointers, data) == 0
    return density[0], gradient


def test_groups_of_one_shape_are_compiled_once(fits):
    assert list(fits.groups["status"]) == ["fitted", "fitted"]
    assert shared_compile.num_compiled() == 1


def test_the_shared_density_is_that_of_the_model(runs, fits):
    """At points about the start of each group, against the model's own, not rewritten."""
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        model, start = block_of(runs, name)
        compiled = shared_compile.compile_shared(model, start).compiled
        own = model.compile_fn([model.logp(), model.dlogp()])
        sizes = {n: v.shape for n, v in model.initial_point().items()}
        for seed in range(3):
            point = compiled.initial_point_func(seed)
            point = point + 0.1 * rng.standard_normal(len(point))
            ends = np.cumsum([int(np.prod(shape)) for shape in sizes.values()])[:-1]
            parts = zip(sizes.items(), np.split(point, ends), strict=True)
            density, gradient = own({n: part.reshape(shape) for (n, shape), part in parts})
            found = density_of(compiled, point)
            np.testing.assert_allclose(found[0], density, rtol=1e-10)
            np.testing.assert_allclose(found[1], gradient, rtol=1e-7, atol=1e-7)
    assert shared_compile.num_compiled() == 1


def test_a_trace_holds_what_the_models_own_does(runs, fits):
    model, _ = block_of(runs, "two")
    posterior = fits.load("two")["posterior"].to_dataset()
    names = {v.name for v in [*model.free_RVs, *model.deterministics]}
    expected = names - {"latency_log_density", "boot_mean", "boot_scale"} | {"log_boot"}
    assert set(posterior.data_vars) == expected
    for name in expected - {"log_boot"}:
        dims = model.named_vars_to_dims.get(name)
        if dims:
            assert posterior[name].dims == ("chain", "draw", *dims), name
    assert posterior["base"].values.tolist() == ["two"]
    assert fits.load("one")["posterior"]["base"].values.tolist() == ["one"]


def test_draws_are_those_of_a_group_fitted_alone(runs, fits):
    """Compiled for its own data first, and so without anything from the other group."""
    settings = FitSettings(**LENGTHS)
    group = split_runs(runs[runs["verifier"] == "two"], "verifier", settings)[0]
    shared_compile.forget_compiled()
    alone = fit_runs(group.frame, settings, group.seed, [])
    together = fits.load("two")
    for name, draws in alone["posterior"].data_vars.items():
        np.testing.assert_array_equal(draws, together["posterior"][name], err_msg=str(name))
    assert alone.attrs["random_seed"] == together.attrs["random_seed"] == group.seed
    assert set(alone.children) == set(together.children)


def test_another_shape_has_another_signature(runs):
    model, _ = block_of(runs, "one")
    shorter, _ = block_of(runs.drop(index=runs.index[0]), "one")
    other, _ = block_of(runs, "two")
    signature = lift_data(model).signature
    assert signature == lift_data(other).signature
    assert signature != lift_data(shorter).signature
    pairs = zip(lift_data(model).data, lift_data(other).data, strict=True)
    assert any(not np.array_equal(left, right) for left, right in pairs)
