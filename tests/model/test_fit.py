"""One short fit: its groups, its stamp, its silence, and that a seed decides the draws."""

import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayes_sd.convergence import diagnose
from bayes_sd.exceptions import ArgumentError
from bayes_sd.fitting import STAMPED, fit
from bayes_sd.model import build_model
from bayes_sd.predict import predict_latency
from bayes_sd.priors import default_priors
from bayes_sd.sampling import sample
from bayes_sd.scenario import Scenario
from bayes_sd.storage import FORMAT, load, save
from tests.fake_fit import fake_fit

DRAWS, CHAINS = 60, 2


def test_a_fit_holds_the_five_groups_and_the_whole_data_set(tree, data):
    assert set(tree.children) == {
        "posterior",
        "sample_stats",
        "log_likelihood",
        "observed_data",
        "constant_data",
    }
    assert dict(tree["posterior"].sizes)["chain"] == CHAINS
    assert dict(tree["posterior"].sizes)["draw"] == DRAWS
    kept = tree["constant_data"].to_dataset()
    extra = set(kept.data_vars) - set(data.data_vars)
    xr.testing.assert_identical(kept.drop_vars(extra), data)
    np.testing.assert_array_equal(
        tree["observed_data"]["log_latency"], np.log(data["mean_e2e_s"].values)
    )


def test_a_fit_is_stamped(tree, data):
    attrs = tree.attrs
    assert attrs["format"] == FORMAT
    assert attrs["random_seed"] == 5
    assert attrs["data_hash"] == data.attrs["data_hash"]
    assert attrs["verdict"] == diagnose(tree, warn=False).sentence()
    assert attrs["passed"] == 0
    for name in STAMPED:
        assert re.fullmatch(r"\d+(\.\w+)+", attrs[f"version_{name}"]), name


def test_log_likelihood_has_one_finite_value_per_draw_and_sweep(tree, data):
    density = tree["log_likelihood"]["log_latency"]
    assert density.dims == ("chain", "draw", "sweep")
    assert dict(density.sizes) == {"chain": CHAINS, "draw": DRAWS, "sweep": data.sizes["sweep"]}
    assert np.isfinite(density).all()
    assert density.dtype == np.float32
    assert "latency_log_density" not in tree["posterior"].data_vars


def test_a_fit_is_saved_and_predicts(tree, tmp_path):
    back = load(save(tree, tmp_path / "fit.nc"))
    scenario = Scenario("quick", request_rate_rps=3.0, num_speculative_tokens=3)
    draws = predict_latency(back, scenario)
    xr.testing.assert_identical(draws, predict_latency(tree, scenario))
    assert draws.sizes["sample"] == CHAINS * DRAWS


def test_the_fake_fit_has_the_shape_of_a_real_one(tree, frame):
    """Tests of what comes after a fit rest on the fake: it must not drift from the real one."""
    fake = fake_fit(draws=DRAWS, chains=CHAINS, frame=frame, percentiles=False)
    assert set(fake.children) == set(tree.children)
    for group in fake.children:
        real = tree[group].to_dataset()
        for name, values in fake[group].data_vars.items():
            if group == "sample_stats" and name not in real:
                continue
            assert values.dims == real[name].dims, name
            assert values.shape == real[name].shape, name
            assert values.dtype.kind == real[name].dtype.kind, name
    assert set(fake["constant_data"].data_vars) == set(tree["constant_data"].data_vars)
    for name in ("diverging", "energy"):
        assert name in tree["sample_stats"].data_vars
    for name, values in fake["constant_data"].data_vars.items():
        real = tree["constant_data"][name]
        if values.dtype.kind == "f":
            np.testing.assert_allclose(values, real, rtol=1e-9, err_msg=name)
        else:
            np.testing.assert_array_equal(values, real, err_msg=name)


def test_without_a_progress_bar_sampling_is_silent(compiled, capfd):
    sample(compiled, draws=3, tune=5, chains=2, progressbar=False)
    assert capfd.readouterr() == ("", "")


def test_the_same_seed_gives_the_same_draws_and_another_does_not(compiled):
    options = {"draws": 5, "tune": 20, "chains": 2, "progressbar": False}
    first, again, other = (
        sample(compiled, random_seed=seed, **options)["posterior"].to_dataset()
        for seed in (1, 1, 2)
    )
    for name in first.data_vars:
        np.testing.assert_array_equal(first[name], again[name], err_msg=name)
    assert (first["verify_fixed_s"] != other["verify_fixed_s"]).all()


def held_out_spread(compiled, weight):
    options = {"draws": 200, "tune": 200, "chains": 2, "progressbar": False}
    posterior = sample(compiled, score_weight=weight, **options)["posterior"]
    return np.log(posterior["verify_fixed_s"]).std(("chain", "draw")).values


def test_folds_share_one_compilation(compiled, data):
    """Runs that are held out tell nothing: with one run per base left, costs stay uncertain."""
    base = data["base_of_run"].values
    one_each = np.zeros(len(base))
    one_each[[int(np.argmax(base == b)) for b in range(data.sizes["base"])]] = 1
    everything = held_out_spread(compiled, None)
    assert (everything < 0.2).all()
    assert (held_out_spread(compiled, one_each) > 2 * everything).all()


def test_a_verifier_can_be_held_out_whole(compiled, data):
    only_big = (data["base_of_run"].values == 0).astype(float)
    big, small = held_out_spread(compiled, only_big)
    assert big < 0.1
    assert small > 0.2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"draws": 1}, r"draws must be a whole number of at least 2\. Got 1"),
        ({"tune": 0}, r"tune must be a whole number of at least 1\. Got 0"),
        ({"chains": 1}, r"chains must be a whole number of at least 2\. Got 1"),
        ({"random_seed": -1}, r"random_seed must be a whole number of at least 0\. Got -1"),
        ({"target_accept": 1.0}, r"target_accept must be a probability above 0 and below 1\."),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_built(options, words):
    with pytest.raises(ArgumentError, match=words):
        fit(pd.DataFrame(), **options)


def test_priors_belong_where_the_model_is_built(model, data):
    with pytest.raises(ArgumentError, match=r"call fit\(build_model\(data, priors=priors\)\)"):
        fit(model, priors=default_priors(data))
    with pytest.raises(ArgumentError, match=r"Got a model and responses instead"):
        fit(model, responses=())


def test_a_response_that_is_unknown_is_refused(frame):
    with pytest.raises(ArgumentError, match=r"responses must be one of 'ttft', 'percentiles'"):
        fit(frame, responses=("itl",))


def test_a_model_made_elsewhere_is_refused():
    pm = pytest.importorskip("pymc")
    with pytest.raises(ArgumentError, match=r"takes models made by build_model"):
        fit(pm.Model())


def test_build_model_takes_a_table_of_runs(frame):
    assert build_model(frame).coords["pair"] == (
        "big + draft_model (quick)",
        "big + draft_model (sharp)",
        "small + draft_model",
    )
