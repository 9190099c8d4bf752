"""The prior alone, in seconds of latency: what a server can do, and what no server can."""

from dataclasses import replace

import numpy as np
import pytest

from bayes_sd.check import prior_predictive_latency
from bayes_sd.data import to_dataset
from bayes_sd.datasets import load_scaling_study
from bayes_sd.exceptions import ArgumentError
from bayes_sd.priors import default_priors


@pytest.fixture(scope="module")
def study():
    """Every twentieth run of the study: all verifiers, draft lengths and loads."""
    frame = load_scaling_study()
    return to_dataset(frame[~frame["is_throughput_test"]].iloc[::20])


def is_possible(latency) -> bool:
    """Tell whether the latencies are those of a server; see `prior_predictive_latency`."""
    likely = (latency > 0.05) & (latency < 300.0)
    thinkable = (latency > 1e-3) & (latency < 3600.0)
    return bool(likely.mean() >= 0.8 and thinkable.mean() >= 0.99)


def test_the_prior_expects_what_a_server_can_do(study):
    latency = prior_predictive_latency(study, draws=400)
    assert latency.dims == ("sample", "run")
    assert latency.sizes["run"] == study.sizes["run"]
    assert is_possible(latency)


@pytest.mark.parametrize("factor", [1000.0, 1e-3])
def test_a_cost_in_the_wrong_unit_fails_the_same_check(study, factor):
    priors = default_priors(study)
    names = ["verify_fixed_s"]
    if factor < 1:  # one cost too small hides behind the others; all of them do not
        names += [name for name in priors if priors[name].unit == "s"]
    wrong = {n: replace(priors[n], center=factor * priors[n].center) for n in names}
    assert not is_possible(prior_predictive_latency(study, priors | wrong))


def test_the_prior_is_about_the_data_and_not_fitted_to_it(study):
    """The measured latencies lie inside the prior, which is far wider than they are."""
    latency = prior_predictive_latency(study, draws=400)
    rank = (latency < study["mean_e2e_s"]).mean("sample").values
    assert ((rank > 0.005) & (rank < 0.995)).mean() > 0.95
    low, high = np.quantile(latency, [0.05, 0.95], axis=0)
    assert np.median(high / low) > 4


def test_runs_with_counted_acceptance_and_without_drafts(data):
    latency = prior_predictive_latency(data, draws=50)
    assert np.isfinite(latency).all()
    assert (latency > 0).all()
    same = prior_predictive_latency(data, draws=50)
    np.testing.assert_array_equal(latency, same)
    assert (latency != prior_predictive_latency(data, draws=50, random_seed=1)).any()


def test_more_in_flight_takes_longer_in_every_draw(data):
    latency = prior_predictive_latency(data, draws=50)
    sweep = data["sweep_of_run"].values
    order = np.argsort(data["effective_batch_observed"].values[sweep == 0])
    assert (np.diff(latency.values[:, sweep == 0][:, order], axis=1) > 0).all()


def test_no_draws_are_refused(data):
    with pytest.raises(ArgumentError, match=r"draws must be a whole number of at least 1\. Got 0"):
        prior_predictive_latency(data, draws=0)
