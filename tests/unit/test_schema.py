"""The table of columns says what the glossary says."""

import dataclasses

import pytest

from bayes_sd import exceptions
from bayes_sd.schema import ARRIVALS, COLUMNS, LOAD_KINDS, METHODS, column, column_names


def test_required_columns_are_those_of_the_interface():
    assert column_names(required_only=True) == (
        "run_id",
        "sweep_id",
        "verifier",
        "method",
        "num_speculative_tokens",
        "load_kind",
        "input_len_tokens",
        "output_len_tokens",
        "num_requests",
    )


def test_names_are_unique_and_end_in_their_unit():
    names = column_names()
    assert len(set(names)) == len(names) == len(COLUMNS)
    for entry in COLUMNS:
        assert entry.name.endswith("_s") == (entry.unit in ("s", "tokens/s")), entry.name
        assert entry.name.endswith("_rps") == (entry.unit == "1/s"), entry.name
        assert entry.name.endswith("_b") == (entry.unit == "1e9"), entry.name
    assert "acceptance_rate" not in names  # conditional or per draft? the name must say


def test_every_latency_has_five_statistics():
    for latency in ("e2e", "ttft", "tpot", "itl"):
        for statistic in ("mean", "p50", "p90", "p95", "p99"):
            entry = column(f"{statistic}_{latency}_s")
            assert (entry.unit, entry.low, entry.above) == ("s", 0.0, True)


def test_entries_are_frozen_and_described():
    with pytest.raises(dataclasses.FrozenInstanceError):
        column("method").name = "way"
    assert all(entry.meaning.endswith(".") for entry in COLUMNS)
    assert "never a stand-in" in column("completed_rate_rps").meaning


def test_words_of_text_columns():
    assert column("method").choices == METHODS
    assert METHODS[0] == "none"
    assert column("load_kind").choices == LOAD_KINDS == ("open", "closed")
    assert column("arrivals").choices == ARRIVALS == ("poisson", "constant", "closed", "bursty")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mean_e2e_s", "above 0 s"),
        ("num_requests", "a whole number at least 1 requests"),
        ("forced_acceptance_rate", "from 0 to 1"),
        ("mean_acceptance_length", "at least 1 tokens/step"),
        ("acceptance_per_position", "numbers joined by ';', each from 0 to 1"),
        ("load_kind", "one of open, closed"),
        ("is_throughput_test", "true or false"),
        ("note", "text"),
    ],
)
def test_allowed_says_the_range_in_words(name, words):
    assert column(name).allowed() == words


def test_an_unknown_column_is_named():
    words = (
        r"no column 'tpot_ms' in the schema\. Did you mean 'p50_tpot_s'\?.*: p50_tpot_s, .*run_id"
    )
    with pytest.raises(KeyError, match=words):
        column("tpot_ms")


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("ArgumentError", ValueError),
        ("SchemaError", ValueError),
        ("UnitError", ValueError),
        ("DataError", ValueError),
        ("FormatError", ValueError),
        ("FitFileError", ValueError),
        ("UnknownPairError", KeyError),
        ("ConvergenceError", RuntimeError),
    ],
)
def test_errors_refine_a_builtin_and_carry_rows(name, builtin):
    kind = getattr(exceptions, name)
    error = kind("what, where, what to do", rows=[3, 5])
    assert isinstance(error, builtin)
    assert isinstance(error, exceptions.BayesSdError)
    assert error.rows == [3, 5]
    assert str(error) == "what, where, what to do"  # a plain KeyError would add quotes
    assert len(kind.__doc__.splitlines()) == 1


def test_warnings_share_a_base():
    found = [c for n, c in vars(exceptions).items() if n.endswith("Warning")]
    assert len(found) >= 8
    assert all(issubclass(c, UserWarning) for c in found)
    assert all(
        c is exceptions.BayesSdWarning or c.__base__ is exceptions.BayesSdWarning for c in found
    )
