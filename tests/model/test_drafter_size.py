"""Sizes of drafters that were not fitted: what they cost, and what acceptance they need."""

import pytest

from bayes_sd.drafter_size import compare_drafter_sizes
from bayes_sd.exceptions import ArgumentError, UnknownPairError
from bayes_sd.posterior import fitted_bases

# The fit of the model tests is short, and says so.
pytestmark = pytest.mark.filterwarnings("ignore::bayes_sd.exceptions.ConvergenceWarning")


def test_larger_drafters_cost_more_and_need_more_acceptance(tree):
    verifier = fitted_bases(tree)[0]
    alike = compare_drafter_sizes(tree, verifier, {0.1: 0.7, 3.0: 0.7}, [0.05], draft_lengths=[3])
    assert alike.names == ("off", "0.1B, k = 3", "3B, k = 3")
    p_small = alike.probability_faster("0.1B, k = 3", "3B, k = 3").iloc[0]
    paid = compare_drafter_sizes(tree, verifier, {0.1: 0.3, 3.0: 0.95}, [0.05], draft_lengths=[3])
    assert p_small > 0.6
    assert paid.probability_faster("0.1B, k = 3", "3B, k = 3").iloc[0] < p_small - 0.2
    assert all(s == "extrapolated" for s in alike.status[0][1:])


@pytest.mark.parametrize(
    ("sizes", "more", "error", "words"),
    [
        ({}, {}, ArgumentError, "at least one size"),
        ({0.0: 0.5}, {}, ArgumentError, "above 0"),
        ({0.5: 1.5}, {}, ArgumentError, "acceptance"),
        ({0.5: 0.5}, {"loads": []}, ArgumentError, "at least one load"),
        ({0.5: 0.5}, {"draft_lengths": [0]}, ArgumentError, "at least 1"),
        ({0.5: 0.5}, {"verifier": "nobody"}, UnknownPairError, "nobody"),
    ],
)
def test_bad_arguments_say_what_is_allowed(tree, sizes, more, error, words):
    given = {"verifier": fitted_bases(tree)[0], "loads": [1.0]} | more
    verifier, loads = given.pop("verifier"), given.pop("loads")
    with pytest.raises(error, match=words):
        compare_drafter_sizes(tree, verifier, sizes, loads, **given)
