"""A scenario: what it accepts, what it refuses in which words, and its label."""

import numpy as np
import pytest

from bayes_sd.exceptions import ArgumentError
from bayes_sd.scenario import Scenario


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "request_rate_rps .open loop. or concurrency .closed loop., one of them. Got "),
        ({"request_rate_rps": 1.0, "concurrency": 2}, "one of them. Got request_rate_rps=1.0"),
        ({"request_rate_rps": 0.0}, r"request_rate_rps must be .* above 0 1/s\. Got 0\.0"),
        ({"request_rate_rps": np.inf}, "request_rate_rps must be a finite number.* Got inf"),
        ({"request_rate_rps": "4"}, "request_rate_rps must be a finite number.* Got '4'"),
        ({"concurrency": 0.5}, "concurrency must be at least 1 request. Got 0.5"),
        ({"arrivals": "possion"}, "arrivals must be one of .* Did you mean 'poisson'"),
        ({"arrivals": "closed"}, "arrivals must be one of 'poisson', 'constant', 'bursty'"),
        ({"input_len_tokens": 0}, "input_len_tokens must be a finite number above 0 tokens"),
        ({"output_len_tokens": -1}, "output_len_tokens must be .* above 0 tokens. Got -1.0"),
        ({"num_speculative_tokens": -1}, "num_speculative_tokens must be a whole number of at"),
        ({"num_speculative_tokens": 1.5}, "num_speculative_tokens must be .* Got 1.5"),
        ({"num_requests": 0}, "num_requests must be a whole number of at least 1. Got 0"),
        ({"max_num_seqs": 0}, "max_num_seqs must be a whole number of at least 1. Got 0"),
        ({"acceptance": 70}, r"acceptance must be .* Got 70\.0 instead\. For 70 % write 0\.7"),
        ({"acceptance": [0.7, -0.1]}, r"acceptance must be a probability.* Got -0\.1"),
        (
            {"acceptance": [0.7, 0.6], "num_speculative_tokens": 3},
            "a rate for each of the 3 positions. Got 2 instead: add the missing",
        ),
    ],
)
def test_a_wrong_field_is_refused_in_words(fields, words):
    if fields and not {"request_rate_rps", "concurrency"} & set(fields):
        fields = {"request_rate_rps": 1.0, **fields}
    with pytest.raises(ArgumentError, match=words):
        Scenario("a pair", **fields)


@pytest.mark.parametrize("pair", ["", None, 3])
def test_pair_must_be_a_label(pair):
    with pytest.raises(ArgumentError, match=r"pair must be a label. Got "):
        Scenario(pair, request_rate_rps=1.0)


def test_labels_say_pair_draft_length_load_and_acceptance():
    open_loop = Scenario("p", request_rate_rps=2.5, num_speculative_tokens=2, acceptance=(0.7, 0.6))
    assert open_loop.label == "p, k = 2, 2.5 rps, acceptance 0.7/0.6"
    assert Scenario("p", concurrency=8).label == "p, k = 0, 8 in flight"
    # Without drafts acceptance plays no part.
    assert Scenario("p", concurrency=8, acceptance=0.5).label == "p, k = 0, 8 in flight"


def test_with_replaces_one_load_by_the_other():
    open_loop = Scenario("p", request_rate_rps=2.0)
    closed = open_loop.with_(concurrency=4)
    assert (closed.request_rate_rps, closed.concurrency, closed.load) == (None, 4, 4.0)
    back = closed.with_(request_rate_rps=3.0)
    assert (back.request_rate_rps, back.concurrency, back.load) == (3.0, None, 3.0)
    assert open_loop.with_(num_speculative_tokens=3).load == 2.0
    assert open_loop.load == 2.0  # frozen: the first is as it was


def test_numbers_of_other_types_are_kept_as_plain_ones():
    scenario = Scenario(
        "p",
        request_rate_rps=1.0,
        num_speculative_tokens=np.int64(2),
        num_requests=100.0,
        acceptance=np.array([0.5, 0.25]),
    )
    assert type(scenario.num_speculative_tokens) is int
    assert type(scenario.num_requests) is int
    assert scenario.acceptance == (0.5, 0.25)
    assert Scenario("p", concurrency=1, num_speculative_tokens=2.0).label == "p, k = 2, 1 in flight"
    assert hash(scenario) == hash(scenario.with_(pair="p"))
