"""What a wrong name was meant for: the nearest first, parts of labels, all others after them."""

import pytest

from bayes_sd.exceptions import ArgumentError
from bayes_sd.nearest import did_you_mean, nearest_first, nearest_names, unknown_label
from bayes_sd.validate import one_of

LABELS = [
    "Qwen/Qwen3-8B + eagle3 (eagle-large) on vLLM, H200",
    "Qwen/Qwen3-32B + eagle3 (eagle-small) on vLLM, H200",
    "meta/Llama-70B + mtp on SGLang, B200",
]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("qwen3-8b + eagle3", 0),
        ("Qwen3-9B", 0),
        ("Qwen3-23B", 1),
        ("eagle-smal", 1),
        ("lama-70B", 2),
        ("SGLnag", 2),
        ("meta/Llama-70B + mpt on SGLang, B200", 2),
    ],
)
def test_the_label_of_which_a_part_was_misspelled_comes_first(name, first):
    listed = nearest_first(name, LABELS)
    assert listed[0] == LABELS[first]
    assert sorted(listed) == sorted(LABELS)


def test_a_whole_name_is_nearer_than_a_part_of_a_longer_one():
    assert nearest_names("bgi", ["big + mtp", "big"], parts=True) == ["big", "big + mtp"]
    assert nearest_names("bgi", ["big + mtp", "big"]) == ["big"]


@pytest.mark.parametrize("name", ["", "   ", "+", "zzzz", "x" * 10_000])
def test_what_is_like_nothing_leaves_the_order(name):
    assert nearest_first(name, LABELS) == LABELS
    assert did_you_mean(name, LABELS) == ""


def test_other_things_than_text_are_like_nothing():
    assert nearest_first(3, ["3a", "b"]) == ["3a", "b"]
    assert did_you_mean(None, ["None"]) == ""
    with pytest.raises(ArgumentError, match=r"k must be one of 1, 'all'\. Got 'al' instead\.$"):
        one_of("al", (1, "all"), "k")


def test_a_choice_names_the_nearest_first_then_all():
    with pytest.raises(ArgumentError) as caught:
        one_of("tensorrt", ("vllm", "sglang", "tensorrt-llm"), "engine")
    assert str(caught.value) == (
        "engine must be one of 'tensorrt-llm', 'vllm', 'sglang'. Got 'tensorrt' instead. "
        "Did you mean 'tensorrt-llm'?"
    )


def test_a_part_that_fits_several_is_not_called_unknown():
    words = unknown_label("pair", "eagle3", LABELS, "the fitted pairs")
    assert words.startswith("pair 'eagle3' fits several of the fitted pairs: 'Qwen/Qwen3-8B")
    assert LABELS[2] not in words


def test_a_fit_without_labels_says_so():
    assert unknown_label("pair", "a", [], "the fitted pairs").endswith("pairs: there are none.")
