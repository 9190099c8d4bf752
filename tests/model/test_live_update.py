"""New accept counts folded in by weights say what sampling with them as one more run says."""

import numpy as np
import nutpie
import pandas as pd
import pytest
import xarray as xr

from bayes_sd.acceptance_update import update_acceptance
from bayes_sd.exceptions import DataError
from bayes_sd.live_counts import AcceptCounts
from tests.simulated_acceptance import acceptance_data, build, run_of

K = 3
SETTINGS = {"one": (0.9, 0.05), "two": (0.5, 0.1), "three": (1.2, 0.0)}


def sampled(runs):
    data = acceptance_data(pd.DataFrame(runs))
    tree = nutpie.sample(
        nutpie.compile_pymc_model(build(data)),
        draws=1500, tune=500, chains=2, cores=2, seed=3, progress_bar=False, target_accept=0.95,
    )  # fmt: skip
    constant = (
        data[["group_of_run"]]
        .assign(pair_of_run=("run", np.zeros(data.sizes["run"], dtype=int)))
        .assign_coords(pair=["V"], acceptance_group=data["acceptance_group"])
    )
    tree["constant_data"] = xr.DataTree(constant)
    return tree


def intervals(tree):
    """Ends of the central 90 % of the rates of the group ``one``, (end, position)."""
    rates = tree["posterior"]["conditional_acceptance_rate"].isel(acceptance_group=0)
    return rates.quantile([0.05, 0.95], dim=("chain", "draw")).values


def overlap(one, other):
    """Share of the wider of two intervals in which both lie, by position."""
    both = np.minimum(one[1], other[1]) - np.maximum(one[0], other[0])
    return both / np.maximum(one[1] - one[0], other[1] - other[0])


def counts_of(run):
    accepted = tuple(map(int, run["accepted_per_position"].split(";")))
    return AcceptCounts(
        accepted, num_drafts=int(run["num_drafts"]), num_requests=run["num_requests"]
    )


def named(run, name):
    return run | {"run_id": name, "sweep_id": name}


@pytest.fixture(scope="module")
def study():
    rng = np.random.default_rng(11)
    runs = [
        named(run_of(rng, name, "chat", K, 40, *setting), f"{name}-{repeat}")
        for name, setting in sorted(SETTINGS.items())
        for repeat in range(2)
    ]
    new = named(run_of(rng, "one", "chat", K, 60, *SETTINGS["one"]), "one-new")
    return sampled(runs), sampled([*runs, new]), new


def test_an_update_agrees_with_a_refit(study):
    fitted, refitted, new = study
    label = next(g for g in fitted["constant_data"]["acceptance_group"].values if "one" in g)
    assert str(label) == str(fitted["constant_data"]["acceptance_group"].values[0])
    updated = update_acceptance(fitted, counts_of(new), str(label))
    share = overlap(intervals(updated), intervals(refitted))
    assert share.min() >= 0.9
    assert overlap(intervals(fitted), intervals(refitted)).min() < 0.9  # the counts did tell
    twice = update_acceptance(fitted, [counts_of(new)] * 3, str(label))
    assert overlap(intervals(twice), intervals(refitted)).min() < 0.9


def test_a_drafter_that_changed_asks_for_a_refit(study):
    fitted, _, _ = study
    label = str(fitted["constant_data"]["acceptance_group"].values[0])
    moved = run_of(np.random.default_rng(1), "one", "chat", K, 400, -1.0, 0.05)
    with pytest.raises(DataError, match="Refit"):
        update_acceptance(fitted, [counts_of(moved)] * 5, label)
