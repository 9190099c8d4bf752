"""Power scaling: what no run tells of hangs on its prior, what runs tell of does not."""

import json

import numpy as np
import pytest
import xarray as xr

from bayes_sd.exceptions import ArgumentError
from bayes_sd.priors import default_priors
from bayes_sd.sensitivity import prior_sensitivity

SHAPE = (4, 1000)


@pytest.fixture(scope="module")
def tree():
    """Return draws of a scale from its prior alone, and of one that runs pin down to 5 %."""
    rng = np.random.default_rng(2)
    priors = default_priors()
    alone = priors["extrapolation_sd"]
    pull = rng.standard_normal(SHAPE)
    dims, coords = ("chain", "draw"), {"chain": range(4), "draw": range(1000)}
    free = np.exp(alone.log_center + alone.spread * rng.standard_normal(SHAPE))
    posterior = xr.Dataset(
        {
            "extrapolation_sd": (dims, free),
            "discrepancy_sd": ((*dims, "base"), 0.03 * np.exp(0.05 * pull)[..., None]),
        },
        coords={**coords, "base": ["big"]},
    )
    density = xr.Dataset(
        {"log_latency": ((*dims, "run"), (-0.5 * pull**2)[..., None])},
        coords={**coords, "run": ["one"]},
    )
    found = xr.DataTree.from_dict({"posterior": posterior, "log_likelihood": density})
    table = {n: (p.family, p.center, p.spread, p.unit) for n, p in priors.items()}
    found.attrs["priors"] = json.dumps(table)
    return found


def test_each_hangs_on_what_tells_of_it(tree):
    found = prior_sensitivity(tree, ["extrapolation_sd", "discrepancy_sd"])
    free, pinned = found.loc["extrapolation_sd"], found.loc["discrepancy_sd[big]"]
    assert free["prior"] > 0.05 > free["likelihood"]
    assert pinned["likelihood"] > 0.05 > pinned["prior"]
    assert "strong prior" in free["diagnosis"]


def test_the_usual_variables_are_those_that_the_fit_has(tree):
    assert list(prior_sensitivity(tree).index) == ["discrepancy_sd[big]"]


def test_a_fit_without_its_priors_says_so(tree):
    other = tree.copy()
    del other.attrs["priors"]
    with pytest.raises(ArgumentError, match="does not hold its priors"):
        prior_sensitivity(other)
