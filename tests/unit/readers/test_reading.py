"""What a reader hands over, and the checked access to what it reads."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from bayes_sd.exceptions import BayesSdError, FormatError
from bayes_sd.readers.reading import Fields, Reading, as_numbers, is_blank, short
from tests.damaged_results import VALUES

NAN, INF = math.nan, math.inf


def test_cells_that_say_nothing_are_left_out():
    reading = Reading()
    reading.add({"a": 1.0, "b": NAN, "c": "", "d": None, "e": INF, "f": 0, "g": False})
    reading.add({}, pd.DataFrame({"start_s": [0.0]}))
    assert reading.runs == [{"a": 1.0, "f": 0, "g": False}, {}]
    assert reading.requests[0] is None
    assert list(reading.requests[1]["start_s"]) == [0.0]


def test_a_note_is_said_once():
    reading = Reading()
    for text in ("a", "b", "a"):
        reading.note(text)
    assert reading.notes == ["a", "b"]


def test_entries_that_cannot_be_read_are_skipped_and_the_others_kept():
    def read(fields: Fields):
        return None if "quiet" in fields else ({"num_requests": fields.count("n")}, None)

    reading = Reading()
    entries = [
        ("line 1", {"n": 2}),
        ("line 2", FormatError("line 2 is no JSON: x.")),
        ("line 3", {"n": "many"}),
        ("line 4", [1, 2]),
        ("line 5", {"quiet": 1}),
        ("line 6", {"n": 6}),
    ]
    reading.each(entries, read)
    assert reading.runs == [
        {"_entry": "line 1", "num_requests": 2.0},
        {"_entry": "line 6", "num_requests": 6.0},
    ]
    assert reading.skipped == [
        "line 2 is no JSON: x.",
        "line 3: n must be a number. Got 'many' instead.",
        "line 4: must be a JSON object. Got a list of 2 instead.",
    ]


def test_the_run_of_a_whole_file_has_no_entry():
    reading = Reading()
    reading.each([("", {})], lambda fields: ({"num_requests": 1}, None))
    assert reading.runs == [{"num_requests": 1}]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (2, 2.0),
        (2.5, 2.5),
        ("2.5", 2.5),
        (0, 0.0),
        (None, NAN),
        (NAN, NAN),
        (INF, NAN),
        (-INF, NAN),
        ("inf", NAN),
        ("nan", NAN),
    ],
)
def test_number(value, found):
    assert Fields({"x": value}).number("x") == pytest.approx(found, nan_ok=True)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("fast", "a number. Got 'fast'"),
        ("", "a number. Got ''"),
        (True, "a number. Got True"),
        ([1], "a number. Got a list of 1"),
        ({"a": 1}, "a number. Got an object of 1"),
        (-1, "at least 0. Got -1"),
        (10**400, "a number. Got 1000"),
    ],
)
def test_numbers_that_cannot_be(value, message):
    with pytest.raises(FormatError, match=rf"^line 3: x must be {message}"):
        Fields({"x": value}, "line 3").number("x")


def test_the_first_number_that_is_there_scaled():
    fields = Fields({"p50_ttft_ms": None, "median_ttft_ms": 12.5, "huge": 1e308})
    assert fields.number("p50_ttft_ms", "median_ttft_ms", scale=1e-3) == 0.0125
    assert math.isnan(fields.number("p99_ttft_ms"))
    with pytest.raises(FormatError, match="within range"):
        fields.number("huge", scale=1e3)


def test_any_number_keeps_what_number_takes_for_missing():
    fields = Fields({"rate": "inf", "low": -3, "none": None})
    assert fields.any_number("rate") == INF
    assert fields.any_number("low") == -3
    assert math.isnan(fields.any_number("none"))


def test_count():
    fields = Fields({"n": 3.0, "half": 2.5, "none": None, "huge": 1e300, "zero": 0})
    assert fields.count("none", "n") == 3
    assert math.isnan(fields.count("none"))
    for wrong in ("half", "huge"):
        with pytest.raises(FormatError, match=f"{wrong} must be a whole number up to 1e"):
            fields.count(wrong)
    assert fields.completed("n") == 3
    for wrong, got in (("zero", "0"), ("none", "nothing")):
        with pytest.raises(FormatError, match=f"{wrong} must be at least 1. Got {got} instead"):
            fields.completed(wrong)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (" a  b\n", "a b"),
        ("\x1b[31mred\x00", "[31mred"),
        ("\ud800x", "x"),
        ("é漢", "é漢"),
        ("", ""),
        ("\t", ""),
        (3, ""),
        (None, ""),
    ],
)
def test_text_is_one_line_that_can_be_printed(value, found):
    assert Fields({"x": value}).text("missing", "x") == found


def test_lists():
    fields = Fields({"errors": ["", "x"], "n": 3, "t": [1, 2.5, None], "empty": [], "s": ["1"]})
    assert fields.items("errors") == ["", "x"]
    assert fields.items("none") == []
    assert fields.numbers("none") is None
    assert fields.numbers("empty") is None
    np.testing.assert_array_equal(fields.numbers("t"), [1.0, 2.5, NAN])
    with pytest.raises(FormatError, match=r"n must be a list\. Got 3"):
        fields.items("n")
    for wrong in ("n", "s"):
        with pytest.raises(FormatError, match=f"{wrong} must be a list of numbers"):
            fields.numbers(wrong)


@pytest.mark.parametrize("values", [[True], [[1]], [10**400], "12", (1,), {"a": 1}])
def test_lists_that_are_not_of_numbers(values):
    with pytest.raises(FormatError, match=r"^line 2: x must be a list of numbers"):
        as_numbers(values, "line 2: x")


def test_parts_name_their_place():
    fields = Fields({"a": {"b": {"c": "x"}}, "n": 3}, "line 2")
    assert "a" in fields
    assert "z" not in fields
    assert fields.part("z", "y").values == {}
    with pytest.raises(FormatError, match=r"^line 2: a\.b: c must be a number"):
        fields.part("a", "b").number("c")
    with pytest.raises(FormatError, match=r"^line 2: n: must be a JSON object"):
        fields.part("n")


def test_values_in_messages_are_short():
    for value in ("a" * 10**6, ["x"] * 10**6, 7**1000, None, {"a": 1}, "\n\x1b\ud800"):
        assert len(short(value)) <= 60
        assert short(value).isprintable()


def test_blank():
    blank = [None, "", NAN, INF, np.float64(NAN)]
    assert all(is_blank(value) for value in blank)
    assert not any(is_blank(value) for value in [0, 0.0, False, "x", np.float64(1), [], "nan"])


@given(value=VALUES)
@settings(max_examples=150, deadline=None)
def test_any_value_is_taken_or_refused_with_an_error_of_ours(value):
    for take in ("number", "any_number", "count", "text", "items", "numbers", "part"):
        try:
            found = getattr(Fields({"x": value}, "line 1"), take)("x")
        except BayesSdError as error:
            text = str(error)
            assert text.startswith("line 1: x")
            assert len(text) < 200
        else:
            assert take not in ("number", "count") or found >= 0 or math.isnan(found)
