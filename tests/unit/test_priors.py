"""The table of priors: each figure follows from its stated reason, and wrong tables are refused."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from bayes_sd.exceptions import ArgumentError
from bayes_sd.prior import FAMILIES
from bayes_sd.priors import (
    CPU_SLOWDOWN,
    RESOURCE,
    Prior,
    check_priors,
    default_priors,
    deployment_center,
)


def on(*deployments: str) -> xr.Dataset:
    return xr.Dataset(coords={"deployment": np.array(deployments, dtype=str)})


@pytest.mark.parametrize("name", sorted(default_priors()))
def test_each_prior_says_its_unit_and_its_reason(name):
    prior = default_priors()[name]
    assert prior.family in FAMILIES
    assert prior.unit
    assert len(prior.reason) > 5


def test_places_follow_from_the_hardware_figures_of_their_reasons():
    priors = default_priors()
    # 16 GB of 16-bit weights at 2 TB/s; 2 operations per weight and token at 300 TFLOP/s.
    assert priors["verify_fixed_s"].center == pytest.approx(8e9 * 2 / 2e12)
    assert priors["prefill_stall_s"].center == pytest.approx(2 * 8e9 * 512 / 300e12, rel=0.05)
    # 5 % of a pair's two ratios lie beyond "within a factor of 4".
    low, high = priors["verify_fixed_s"].interval()
    assert low == pytest.approx(0.008 / 4, rel=0.15)
    assert high == pytest.approx(0.008 * 4, rel=0.15)


def test_intervals_are_the_quantiles_of_the_family():
    lognormal = Prior("lognormal", 0.02, 0.7, "1", "x")
    expected = stats.lognorm(s=0.7, scale=0.02).ppf([0.05, 0.95])
    np.testing.assert_allclose(lognormal.interval(), expected, rtol=0.05)
    normal = Prior("normal", -1.5, 1.0, "logit", "x")
    np.testing.assert_allclose(
        normal.interval(), stats.norm(-1.5, 1.0).ppf([0.05, 0.95]), rtol=0.05
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"family": "lognorml"}, "family must be one of 'lognormal'.*Did you mean 'lognormal'"),
        ({"spread": 0.0}, "spread must be a finite number above 0. Got 0.0"),
        ({"center": -1.0}, r"center must be a finite number above 0 s\. Got -1\.0"),
        ({"center": np.nan}, "center must be a finite number above 0 s. Got nan"),
    ],
)
def test_a_wrong_prior_is_refused(change, words):
    with pytest.raises(ArgumentError, match=words):
        replace(Prior("lognormal", 0.01, 0.5, "s", "x"), **change)


def test_a_normal_prior_may_have_a_negative_centre():
    assert Prior("normal", -2.0, 1.0, "logit", "x").center == -2.0


@pytest.mark.parametrize("name", sorted(RESOURCE))
def test_a_cpu_is_slower_and_bends_earlier(name):
    prior = default_priors()[name]
    shift = deployment_center(prior, name, "vllm, CPU, 1 core") - prior.log_center
    assert deployment_center(prior, name, "vllm, NVIDIA H200") == prior.log_center
    if name == "knee_tokens":
        # Compute slows down more than memory: fewer tokens reach the ridge.
        assert shift == pytest.approx(np.log(CPU_SLOWDOWN["memory"] / CPU_SLOWDOWN["compute"]))
        assert shift < 0
    else:
        assert shift == pytest.approx(np.log(CPU_SLOWDOWN[RESOURCE[name]]))
        assert shift > 0


def test_costs_are_wider_where_every_deployment_is_a_cpu():
    plain = default_priors()
    only_cpu, mixed = default_priors(on("vllm, CPU")), default_priors(on("vllm, CPU", "vllm, H200"))
    for name, prior in plain.items():
        factor = 1.3 if name in RESOURCE else 1.0
        assert only_cpu[name].spread == pytest.approx(factor * prior.spread), name
        assert mixed[name] == prior


def test_an_overridden_table_is_accepted():
    wide = Prior("lognormal", 0.05, 0.5, "1", "noisy neighbours")
    priors = check_priors(default_priors() | {"boot_sd": wide})
    assert priors["boot_sd"] == wide


def test_unknown_and_missing_priors_are_named():
    priors = default_priors()
    priors["boot_std"] = priors.pop("boot_sd")
    with pytest.raises(
        ArgumentError, match=r"Unknown: \['boot_std'\]; missing: \['boot_sd'\].*default_priors"
    ):
        check_priors(priors)


def test_another_family_is_refused():
    wrong = default_priors() | {"boot_sd": Prior("normal", 0.01, 0.5, "1", "x")}
    with pytest.raises(ArgumentError, match=r"prior 'boot_sd' must be 'lognormal'\. Got 'normal'"):
        check_priors(wrong)
