"""The verdict on made-up chains: which parameter is worst, and what fails."""

import warnings
from dataclasses import fields

import numpy as np
import pytest
import xarray as xr

from bayes_sd.convergence import Verdict, diagnose
from bayes_sd.exceptions import ArgumentError, ConvergenceWarning

CHAINS, DRAWS = 4, 500


@pytest.fixture
def chains(rng):
    """Independent draws of two parameters: a good fit."""
    posterior = {
        "verify_fixed_s": (("chain", "draw", "base"), rng.normal(size=(CHAINS, DRAWS, 2))),
        "first_wait_steps": (("chain", "draw"), rng.normal(size=(CHAINS, DRAWS))),
    }
    stats = {
        "diverging": (("chain", "draw"), np.zeros((CHAINS, DRAWS), dtype=bool)),
        "energy": (("chain", "draw"), rng.normal(size=(CHAINS, DRAWS))),
    }
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(posterior, coords={"base": ["big", "small"]}),
            "sample_stats": xr.Dataset(stats),
        }
    )


def values(tree, name="verify_fixed_s", group="posterior"):
    return tree[group][name].values


def verdict(tree):
    with pytest.warns(ConvergenceWarning, match=r"^NOT CONVERGED, do not decide on this fit"):
        found = diagnose(tree)
    assert not found.passed
    return found


def test_good_chains_pass_in_silence(chains):
    found = diagnose(chains)
    assert found.passed
    assert found.sentence().startswith("Converged. The worst of all parameters: R-hat 1.0")
    assert found.divergences == 0
    assert found.r_hat <= 1.01
    assert found.ess_bulk > 400
    assert found.advice() == ""


def test_a_stuck_chain_names_its_parameter(chains):
    values(chains)[2, :, 1] += 4.0
    found = verdict(chains)
    assert found.r_hat > 1.2
    assert found.worst_r_hat == "verify_fixed_s[small]"
    assert found.worst_ess_bulk == "verify_fixed_s[small]"
    assert "verify_fixed_s[small]" in found.sentence()
    assert "Fit again with more draws, e.g. fit(data, draws=2000, tune=1000)." in found.sentence()


def test_slow_chains_name_their_parameter(chains, rng):
    values(chains, "first_wait_steps")[:] = np.cumsum(rng.normal(size=(CHAINS, DRAWS)), axis=1)
    found = verdict(chains)
    assert found.worst_ess_bulk == "first_wait_steps"
    assert found.ess_bulk < 400


def test_one_divergence_fails(chains):
    values(chains, "diverging", "sample_stats")[1, 7] = True
    found = verdict(chains)
    assert found.divergences == 1
    assert "1 divergences" in found.sentence()
    assert found.r_hat <= 1.01
    assert "Fit again with smaller steps, e.g. fit(data, target_accept=0.99)." in found.sentence()


def test_energy_that_creeps_fails(chains, rng):
    energy = values(chains, "energy", "sample_stats")
    energy[1] = np.cumsum(rng.normal(size=DRAWS))
    assert verdict(chains).e_bfmi < 0.3


def test_energy_of_another_block_that_creeps_fails(chains, rng):
    stats = chains["sample_stats"].to_dataset()
    own = np.cumsum(rng.normal(size=stats["energy"].shape), axis=1)
    chains["sample_stats"] = stats.assign(energy_of_ttft=(("chain", "draw"), own))
    assert verdict(chains).e_bfmi < 0.3


def test_e_bfmi_is_that_of_the_worst_chain(chains):
    energy = values(chains, "energy", "sample_stats")
    by_chain = [float(np.sum(np.diff(e) ** 2) / np.sum((e - e.mean()) ** 2)) for e in energy]
    assert diagnose(chains).e_bfmi == pytest.approx(min(by_chain), rel=0.01)
    # It has no unit: a chain in a wider part of the posterior is not a worse one.
    energy[0] *= 100.0
    assert diagnose(chains).e_bfmi == pytest.approx(min(by_chain), rel=0.01)


def test_draws_that_are_not_numbers_fail(chains):
    values(chains, "first_wait_steps")[0, 3] = np.nan
    found = verdict(chains)
    assert found.worst_r_hat == "first_wait_steps"
    assert found.r_hat == np.inf


def test_chains_that_each_stand_still_at_another_place_fail(chains):
    values(chains, "first_wait_steps")[:] = np.arange(CHAINS)[:, None]
    found = verdict(chains)
    assert found.worst_r_hat == "first_wait_steps"
    assert found.r_hat > 1e6


def test_a_parameter_that_is_constant_by_design_is_not_judged(chains):
    fixed = (("chain", "draw"), np.full((CHAINS, DRAWS), 2.0))
    chains["posterior"] = chains["posterior"].to_dataset().assign(fixed=fixed)
    assert diagnose(chains).passed


def test_a_posterior_in_which_nothing_moves_fails(chains):
    chains["posterior"] = xr.Dataset({"x": (("chain", "draw"), np.ones((CHAINS, DRAWS)))})
    assert verdict(chains).worst_r_hat == "no parameter moves"


def test_the_warning_can_be_left_to_the_caller(chains):
    values(chains)[0] += 9.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not diagnose(chains, warn=False).passed


def test_a_verdict_holds_plain_values(chains):
    plain = diagnose(chains).to_dict()
    assert set(plain) == {field.name for field in fields(Verdict)}
    assert {type(value) for value in plain.values()} <= {bool, int, float, str}


def test_one_chain_cannot_be_judged(chains):
    one = chains.isel(chain=[0])
    with pytest.raises(ArgumentError, match=r"needs at least 2 chains\. Got 1 .*chains=4"):
        diagnose(one)


def test_a_tree_without_statistics_is_refused(chains):
    with pytest.raises(ArgumentError, match=r"result of fit, with posterior and sample_stats"):
        diagnose(chains.filter(lambda node: node.name != "sample_stats"))
