"""Pairs that were not fitted come from the population: by size, and wider than those that were."""

import numpy as np
import pytest

from bayes_sd.exceptions import ArgumentError, UnknownPairError
from bayes_sd.posterior import fitted_bases, flat_draws
from bayes_sd.predict import predict_latency
from bayes_sd.scenario import Scenario

NEW = {"request_rate_rps": 0.2, "input_len_tokens": 512.0, "output_len_tokens": 128.0}


def latency(tree, **fields):
    scenario = Scenario(fields.pop("pair", "unheard of"), **NEW | fields)
    found = predict_latency(tree, scenario, allow_new=True)
    assert found["status"].values[0] in ("extrapolated", "past capacity")
    assert "pair" in str(found["outside"].values[0])
    return found["e2e_s"].values[:, 0]


def test_an_unknown_pair_is_an_error_unless_it_may_be_new(tree):
    with pytest.raises(UnknownPairError, match="unheard of"):
        predict_latency(tree, Scenario("unheard of", **NEW))


def test_what_is_not_known_must_be_given(tree):
    with pytest.raises(ArgumentError, match="verifier_params_b"):
        latency(tree)
    with pytest.raises(ArgumentError, match="drafter_params_b"):
        latency(tree, verifier_params_b=8.0, num_speculative_tokens=2, acceptance=0.7)
    with pytest.raises(UnknownPairError, match=r"verifier .nobody. is unknown.*the fitted bases: "):
        latency(tree, verifier="nobody")
    with pytest.raises(UnknownPairError, match=r"deployment .* is unknown.*the fitted ones: "):
        latency(tree, verifier_params_b=8.0, deployment="nowhere")


def test_a_new_verifier_is_wider_on_a_new_deployment_and_slower_if_larger(tree):
    place = str(tree["constant_data"]["deployment"].values[0])
    known = Scenario(fitted_bases(tree)[0], **NEW)
    of_fitted = np.log(predict_latency(tree, known)["e2e_s"].values[:, 0])
    here = np.log(latency(tree, verifier_params_b=8.0, deployment=place))
    anywhere = np.log(latency(tree, verifier_params_b=8.0))

    def width(draws):
        low, high = np.quantile(draws[np.isfinite(draws)], [0.05, 0.95])
        return high - low

    assert width(of_fitted) < 0.5 * width(here)
    assert width(here) < width(anywhere)
    larger = np.log(latency(tree, verifier_params_b=32.0, deployment=place))
    assert np.median(larger) > np.median(here) + 0.3


def test_a_new_drafter_keeps_the_costs_of_its_verifier(tree):
    from bayes_sd.configuration import resolve

    base = fitted_bases(tree)[0]
    scenario = Scenario(
        "a new drafter",
        verifier=base,
        drafter_params_b=0.3,
        num_speculative_tokens=2,
        acceptance=0.7,
        **NEW,
    )
    found = resolve(tree, scenario, allow_new=True).costs
    posterior = tree["posterior"].dataset
    fixed = flat_draws(posterior["verify_fixed_s"].isel(base=0))
    np.testing.assert_array_equal(found.verify_fixed_s, fixed)
    assert (np.asarray(found.draft_fixed_s) > 0).all()
    assert np.log(found.draft_fixed_s).std() > np.log(fixed).std()


def test_loads_and_draft_lengths_of_one_new_pair_share_its_draws(tree):
    one = latency(tree, verifier_params_b=8.0)
    np.testing.assert_array_equal(one, latency(tree, verifier_params_b=8.0))
    busier = latency(tree, verifier_params_b=8.0, request_rate_rps=0.4)
    assert (busier >= one).all()
