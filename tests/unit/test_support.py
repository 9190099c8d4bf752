"""Measured, interpolated or extrapolated: each dimension of a scenario, alone."""

import numpy as np
import pytest

from bayes_sd.posterior import find_cell
from bayes_sd.predict import predict_latency
from bayes_sd.scenario import Scenario
from bayes_sd.support import Support, support
from tests.fake_fit import fake_fit, simulated_frame

LENGTHS = (512.0, 128.0)


@pytest.fixture(scope="module")
def tree():
    return fake_fit(draws=50)


def lies(tree, name="quick", *, batch=10.0, lengths=LENGTHS, **fields) -> Support:
    if "concurrency" not in fields:
        fields = {"request_rate_rps": 5.0, **fields}
    scenario = Scenario(name, **{"num_speculative_tokens": 3, **fields})
    base, pair = find_cell(tree, name, drafts=scenario.num_speculative_tokens > 0)
    return support(tree, scenario, base=base, pair=pair, batch=batch, lengths=lengths)


def most_in_flight(tree, base=0):
    runs = tree["constant_data"].dataset
    return float(runs["effective_batch_observed"].values[runs["base_of_run"].values == base].max())


def test_a_measured_run_is_measured_and_the_load_between_two_is_interpolated(tree):
    runs = tree["constant_data"].dataset
    here = (runs["pair_of_run"] == 0) & (runs["num_speculative_tokens"] == 3)
    rate, next_rate = runs["request_rate_rps"].values[here.values][1:3]
    assert lies(tree, request_rate_rps=rate) == Support("measured", (), 0.0)
    assert lies(tree, request_rate_rps=rate * 1.019).status == "measured"
    between = lies(tree, request_rate_rps=(rate + next_rate) / 2)
    assert between == Support("interpolated", (), 0.0)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"num_speculative_tokens": 7, "acceptance": 0.7}, "draft length"),
        ({"lengths": (4096.0, 128.0)}, "input length"),
        ({"lengths": (100.0, 128.0)}, "input length"),
        ({"lengths": (512.0, 512.0)}, "output length"),
        ({"lengths": (512.0, 16.0)}, "output length"),
    ],
)
def test_each_dimension_alone_is_extrapolated(tree, changes, part):
    found = lies(tree, **changes)
    assert found.status == "extrapolated"
    assert found.outside == (part,)
    assert found.doublings > 0


def test_more_in_flight_than_measured_is_extrapolated_in_doublings(tree):
    most = most_in_flight(tree)
    far = lies(tree, "big", batch=2 * most, num_speculative_tokens=0)
    # One doubling, less the tolerance of 2 % that still counts as inside.
    assert far.outside == ("load",)
    assert far.doublings == pytest.approx(1 - np.log2(1.02))
    assert lies(tree, "big", batch=1.01 * most, num_speculative_tokens=0).status == "interpolated"


def test_less_in_flight_than_measured_is_extrapolated_down_to_one_request():
    loaded = fake_fit(draws=2, frame=simulated_frame(load_shares=(0.4, 0.6)))
    below = lies(loaded, batch=2.0)
    assert below.outside == ("load", "tokens per step")
    # A step holds one request at least: an idle system is the same as one with one request.
    assert lies(loaded, batch=0.01) == lies(loaded, batch=1.0)
    assert lies(fake_fit(draws=2), batch=0.01).status == "interpolated"


def test_more_tokens_in_a_step_than_measured_is_extrapolated(tree):
    runs = tree["constant_data"].dataset
    of_big = runs["base_of_run"].values == 0
    in_flight = runs["effective_batch_observed"].values[of_big]
    tokens = (in_flight * (runs["num_speculative_tokens"].values[of_big] + 1)).max()
    found = lies(tree, batch=tokens / 6 * 1.5, num_speculative_tokens=5)
    assert tokens / 6 * 1.5 < most_in_flight(tree)
    assert found.outside == ("tokens per step",)
    assert found.doublings == pytest.approx(np.log2(1.5 / 1.02))


def test_distances_in_two_dimensions_add_as_squares(tree):
    one = lies(tree, lengths=(4096.0, 128.0)).doublings
    other = lies(tree, lengths=(512.0, 512.0)).doublings
    both = lies(tree, lengths=(4096.0, 512.0))
    assert both.outside == ("input length", "output length")
    assert both.doublings == pytest.approx(np.hypot(one, other))


def test_a_draft_length_between_measured_ones_is_interpolated(tree):
    assert lies(tree, num_speculative_tokens=2).status == "interpolated"
    assert lies(tree, num_speculative_tokens=4).status == "interpolated"


def test_off_is_an_extrapolation_where_it_was_never_measured(tree):
    small = lies(tree, "small", num_speculative_tokens=0)
    assert small.outside == ("draft length",)
    assert lies(tree, "big", num_speculative_tokens=0).status == "interpolated"
    # The pair's own verifier was measured without speculation.
    assert lies(tree, "sharp", num_speculative_tokens=0).status == "interpolated"


def test_forced_acceptance_is_compared_with_the_pairs_own(tree):
    assert lies(tree, "sharp", acceptance=0.8).status == "interpolated"
    assert lies(tree, "sharp", acceptance=0.6).outside == ("acceptance",)
    assert lies(tree, "sharp", acceptance=(0.8, 0.8, 0.95)).outside == ("acceptance",)
    # Another drafter's forced rate says nothing about a pair whose acceptance was counted.
    assert lies(tree, "quick", acceptance=0.7).outside == ()


def test_measured_needs_the_forced_rate_that_was_measured(tree):
    runs = tree["constant_data"].dataset
    here = (runs["pair_of_run"] == 1) & (runs["num_speculative_tokens"] == 3)
    rate = float(runs["request_rate_rps"].values[here.values][1])
    assert lies(tree, "sharp", request_rate_rps=rate, acceptance=0.8).status == "measured"
    assert lies(tree, "sharp", request_rate_rps=rate, acceptance=(0.8,) * 3).status == "measured"


def test_a_closed_loop_is_measured_only_by_closed_loops(tree):
    assert lies(tree, concurrency=5).status == "interpolated"


def spread(tree, scenario):
    return float(np.log(predict_latency(tree, scenario)["e2e_s"]).std())


def test_misfit_widens_outside_the_measured_range_and_not_inside():
    wide = fake_fit(draws=500, extrapolation_sd=0.2)
    none = fake_fit(draws=500, extrapolation_sd=0.0)
    inside = Scenario("big", concurrency=10)
    far = inside.with_(input_len_tokens=4096.0)
    farther = inside.with_(input_len_tokens=16384.0)
    assert spread(wide, inside) == pytest.approx(spread(none, inside))
    assert spread(wide, inside) < spread(wide, far) / 3 < spread(wide, farther) / 3
    # 0.2 per doubling, from 512 to 4096 and to 16384 tokens.
    assert spread(wide, far) == pytest.approx(0.2 * 3, rel=0.1)
    assert spread(wide, farther) == pytest.approx(0.2 * 5, rel=0.1)
