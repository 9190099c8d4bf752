"""Why a configuration is slow: the parts add up, and each is what it says."""

import numpy as np
import pytest

from bayes_sd.predict import effective_batch
from bayes_sd.scenario import Scenario
from bayes_sd.shares import SHARES, latency_shares
from tests.fake_fit import BIG, FORCED, KNOWN, fake_fit, true_latency
from tests.simulated_runs import true_steps

ON = Scenario("sharp", request_rate_rps=10.0, num_speculative_tokens=3, acceptance=FORCED)
OFF = Scenario("big", request_rate_rps=10.0)


@pytest.fixture(scope="module")
def tree():
    return fake_fit(draws=30, spread=0.05)


def test_shares_add_up_to_one_in_every_draw(tree):
    shares = latency_shares(tree, [ON, OFF, ON.with_(concurrency=3)])
    assert shares.dims == ("part", "sample", "scenario")
    assert shares["part"].values.tolist() == list(SHARES)
    np.testing.assert_allclose(shares.sum("part"), 1.0, rtol=1e-12)
    assert (shares.values >= 0).all()


def test_load_vanishes_with_the_load(tree):
    rates = [1e-4, 1e-2, 1.0, 10.0]
    shares = latency_shares(tree, [ON.with_(request_rate_rps=r) for r in rates])
    load = shares.sel(part="load").values
    assert (load[:, 0] < 1e-4).all()
    assert (np.diff(load, axis=1) > 0).all()
    alone = latency_shares(tree, ON.with_(concurrency=1))
    np.testing.assert_allclose(alone.sel(part="load"), 0.0, atol=1e-12)


def test_without_drafts_there_is_no_drafting(tree):
    assert (latency_shares(tree, OFF).sel(part="drafting") == 0).all()
    assert (latency_shares(tree, ON).sel(part="drafting") > 0).all()


def test_each_share_is_its_part_of_the_known_law():
    certain = fake_fit(draws=3, discrepancy_sd=0.0, extrapolation_sd=0.0)
    shares = latency_shares(certain, ON).isel(sample=0, scenario=0)
    batch = effective_batch(certain, ON).values[0, 0]
    costs = KNOWN.costs("big", "sharp")
    total = float(true_latency(costs, (FORCED,) * 3, 3, batch))
    steps = true_steps((FORCED,) * 3, 128)
    drafting = steps * 3 * (costs.draft_fixed_s + costs.draft_per_request_s)
    prefill = BIG["prefill_fixed_s"] + 512 * BIG["prefill_per_token_s"]
    idle = float(true_latency(costs, (FORCED,) * 3, 3, 0.0))
    assert float(shares.sel(part="prefill")) == pytest.approx(prefill / total)
    assert float(shares.sel(part="drafting")) == pytest.approx(drafting / total)
    assert float(shares.sel(part="load")) == pytest.approx(1 - idle / total)
    assert float(shares.sel(part="verification")) == pytest.approx(
        (idle - prefill - drafting) / total
    )


def test_past_capacity_has_no_shares(tree):
    assert np.isnan(latency_shares(tree, OFF.with_(request_rate_rps=500.0))).all()
