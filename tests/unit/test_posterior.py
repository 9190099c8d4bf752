"""From a fit to the draws of one pair: names, coefficients, steps."""

import numpy as np
import pytest

from bayes_sd.exceptions import ArgumentError, DataError, UnknownPairError
from bayes_sd.physics.acceptance import expected_steps
from bayes_sd.posterior import (
    BASE_FIELDS,
    PAIR_FIELDS,
    cell,
    find_cell,
    fitted_bases,
    fitted_pairs,
    steps_and_rates,
)
from bayes_sd.scenario import Scenario
from tests.fake_fit import KNOWN, fake_fit, simulated_frame

QUICK, SHARP, SMALL = (
    "big + draft_model (quick)",
    "big + draft_model (sharp)",
    "small + draft_model",
)


@pytest.fixture(scope="module")
def tree():
    return fake_fit(draws=5)


def steps_of(tree, scenario, output_len=128.0):
    where = cell(tree, scenario.pair, drafts=scenario.num_speculative_tokens > 0)
    return steps_and_rates(tree, scenario, where, output_len)[0]


def test_labels_are_those_of_the_data(tree):
    assert fitted_pairs(tree) == [QUICK, SHARP, SMALL]
    assert fitted_bases(tree) == ["big", "small"]


@pytest.mark.parametrize(
    ("name", "drafts", "expected"),
    [
        (SHARP, True, (0, 1)),
        ("Sharp", True, (0, 1)),  # a part that fits one, whatever the case
        (SHARP, False, (0, 1)),
        ("big", False, (0, None)),
        ("small", True, (1, 2)),
    ],
)
def test_a_name_or_a_part_that_fits_one_is_found(tree, name, drafts, expected):
    assert find_cell(tree, name, drafts=drafts) == expected


def test_a_part_that_fits_several_names_them(tree):
    with pytest.raises(UnknownPairError, match=r"pair 'big' fits several.*quick.*sharp") as caught:
        find_cell(tree, "big", drafts=True)
    assert SMALL not in str(caught.value)
    assert isinstance(caught.value, KeyError)


def test_an_unknown_pair_names_the_nearest(tree):
    with pytest.raises(UnknownPairError) as found:
        find_cell(tree, "smal + draft_modle", drafts=True)
    asked, listed = str(found.value).split("? ")
    assert asked.startswith(f"pair 'smal + draft_modle' is unknown. Did you mean '{SMALL}'")
    assert listed.startswith(f"It must be one of the fitted pairs: '{SMALL}'; ")
    assert all(listed.count(f"'{pair}'") == 1 for pair in fitted_pairs(tree))
    with pytest.raises(UnknownPairError, match="or, without speculation, bases: 'big'") as found:
        find_cell(tree, "bgi", drafts=False)
    listed = str(found.value).split("? ")[1]
    assert all(listed.count(f"'{base}'") == 1 for base in fitted_bases(tree))
    with pytest.raises(UnknownPairError, match=r"'nothing' is unknown\. It must be one of the"):
        find_cell(tree, "nothing", drafts=True)


def test_a_cell_holds_the_draws_of_its_base_and_pair(tree):
    found = cell(tree, "sharp", drafts=True)
    for name in BASE_FIELDS:
        expected = np.full(10, KNOWN.of_base["big"][name])
        np.testing.assert_array_equal(getattr(found.costs, name), expected)
    for name in PAIR_FIELDS:
        expected = np.full(10, KNOWN.of_pair["big", "sharp"][name])
        np.testing.assert_allclose(getattr(found.costs, name), expected)
    assert found.label == SHARP
    assert found.boot_sd.shape == (10,)


def test_draws_of_different_variables_stay_together():
    tree = fake_fit(draws=7, chains=3, spread=0.1)
    found = cell(tree, "sharp", drafts=True)
    posterior = tree["posterior"].dataset
    for chain, draw in ((0, 0), (1, 3), (2, 6)):
        at = chain * 7 + draw
        here = posterior.isel(chain=chain, draw=draw)
        assert found.costs.verify_fixed_s[at] == here["verify_fixed_s"].sel(base="big").item()
        assert found.costs.draft_fixed_s[at] == here["draft_fixed_s"].sel(pair=SHARP).item()


def test_without_speculation_every_output_token_but_the_first_is_a_step(tree):
    off = Scenario("big", request_rate_rps=1.0)
    assert steps_of(tree, off).tolist() == [127.0]
    assert steps_of(tree, off, output_len=1.0).tolist() == [0.0]


def test_given_acceptance_counts_steps_exactly(tree):
    on = Scenario(
        "sharp", request_rate_rps=1.0, num_speculative_tokens=2, acceptance=(0.9, 0.5, 0.1)
    )
    low, high = expected_steps(np.array([100, 101]), [0.9, 0.5], 2)
    assert steps_of(tree, on, output_len=101.0).item() == pytest.approx(low)
    assert steps_of(tree, on, output_len=101.25).item() == pytest.approx(0.75 * low + 0.25 * high)


def test_one_rate_stands_for_every_position(tree):
    one = Scenario("sharp", request_rate_rps=1.0, num_speculative_tokens=3, acceptance=0.6)
    assert steps_of(tree, one) == steps_of(tree, one.with_(acceptance=(0.6, 0.6, 0.6)))


def test_counted_acceptance_is_the_pairs_own(tree):
    steps = steps_of(tree, Scenario("quick", request_rate_rps=1.0, num_speculative_tokens=3))
    exact = expected_steps(127, list(KNOWN.acceptance["big", "quick"])[:3], 3)
    np.testing.assert_allclose(steps, np.full(10, exact), rtol=1e-3)
    of_small = steps_of(tree, Scenario("small", request_rate_rps=1.0, num_speculative_tokens=3))
    assert (of_small < 0.99 * steps).all()


def test_missing_acceptance_is_said(tree):
    sharp = Scenario("sharp", request_rate_rps=1.0, num_speculative_tokens=3)
    with pytest.raises(DataError, match=r"acceptance of .*sharp.* was not counted.*acceptance=0.7"):
        steps_of(tree, sharp)
    assert steps_of(tree, sharp.with_(acceptance=0.8)).shape == (1,)


def test_a_draft_longer_than_counted_is_refused_unless_acceptance_is_given(tree):
    longer = Scenario("quick", request_rate_rps=1.0, num_speculative_tokens=6)
    with pytest.raises(DataError, match=r"must be at most 5, the longest draft measured.* Got 6"):
        steps_of(tree, longer)
    assert steps_of(tree, longer.with_(acceptance=0.7)).shape == (1,)


def test_two_workloads_need_a_word_on_which():
    frame = simulated_frame(draft_lengths=(1,), load_shares=(0.1, 0.3))
    frame.loc[frame["sweep_id"] == "big-quick-k1-512x128-boot0", "workload"] = ["chat", "code"]
    tree = fake_fit(draws=2, frame=frame)
    on = Scenario("quick", request_rate_rps=1.0, num_speculative_tokens=1)
    with pytest.raises(ArgumentError, match=r"2 acceptance groups .*chat.*code.*acceptance="):
        steps_of(tree, on)
