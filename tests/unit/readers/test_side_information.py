"""What users give beside the files: checked when it is given, and applied file by file."""

import datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_sd.exceptions import ArgumentError, BayesSdError
from bayes_sd.readers.side_information import SideInformation
from bayes_sd.schema import METHODS, column_names

EXAMPLE = r"""
[runs]
verifier = "Qwen/Qwen3-8B"
hardware = "NVIDIA H200"
date = 2026-12-01
method = "none"
num_speculative_tokens = 0
sweep_id = "off"

[[files]]  # folders such as dense_a60_k3, files such as rep2_rate0.4.json
pattern = '(?P<config>dense_(?P<drafter>a\d+)_k(?P<k>\d+))/rep(?P<rep>\d+)_'
method = "draft_model"
drafter = "drafter-{drafter}"
num_speculative_tokens = "{k}"
sweep_id = "{config}_rep{rep}"

[[files]]
match = "dense_a60_*/rep0*.json"
other_load_cores = 0.95
note = "shared {{machine}}"
"""


@pytest.fixture
def side(tmp_path):
    """Read side information from a text and from keyword arguments."""

    def read(text="", **columns):
        path = tmp_path / "side.toml"
        path.write_text(text, encoding="utf-8")
        return SideInformation.from_arguments(path if text else None, columns)

    return read


def test_sections_are_applied_in_order_and_later_ones_win(side):
    found = side(EXAMPLE)
    cells, notes = found.cells(Path("raw/dense_a60_k3/rep0_rate0.4.json"), "", {})
    assert cells == {
        "verifier": "Qwen/Qwen3-8B",
        "hardware": "NVIDIA H200",
        "date": "2026-12-01",
        "method": "draft_model",
        "num_speculative_tokens": 3,
        "sweep_id": "dense_a60_k3_rep0",
        "drafter": "drafter-a60",
        "other_load_cores": 0.95,
        "note": "shared {machine}",
    }
    assert notes == []
    cells, _ = found.cells(Path("dense_k0/rep1.json"), "", {})
    assert (cells["method"], cells["num_speculative_tokens"], cells["sweep_id"]) == (
        "none",
        0,
        "off",
    )
    assert found.unused() == []


def test_arguments_win_over_the_file_and_are_read_as_their_column(side):
    found = side(EXAMPLE, num_speculative_tokens="5", is_throughput_test="true", duration_s="30")
    cells, _ = found.cells(Path("dense_a60_k3/rep0_.json"), "", {})
    assert cells["num_speculative_tokens"] == 5
    assert cells["is_throughput_test"] is True
    assert cells["_duration_s"] == 30.0


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("num_speculative_tokens", np.int64(3), 3),
        ("request_rate_rps", np.float32(0.5), 0.5),
        ("engine_version", "0.10", "0.10"),
        ("sweep_id", 7, "7"),
        ("accepted_per_position", [8, 5, 2], "8;5;2"),
        ("acceptance_per_position", "0.5;0.25", "0.5;0.25"),
        ("is_throughput_test", 0, False),
        ("date", datetime.date(2026, 12, 1), "2026-12-01"),
        ("method", " eagle3 ", "eagle3"),
    ],
)
def test_values_of_arguments(side, name, value, expected):
    cells, _ = side(**{name: value}).cells(Path("a.json"), "", {})
    assert cells == {name: expected}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("k", 3, "Got 'k' instead. Did you mean num_speculative_tokens?"),
        ("verfier", "a", "Did you mean verifier? Allowed are: verifier, "),
        ("completely_different_thing", 1, "instead. Allowed are: run_id, "),
        ("method", "eagel3", "must be one of none, draft_model, "),
        ("method", "eagel3", "Did you mean 'eagle3'?"),
        ("num_speculative_tokens", -1, "a whole number at least 0 tokens. Got -1 instead"),
        ("num_speculative_tokens", 2.5, "a whole number"),
        ("num_speculative_tokens", "three", "Got 'three' instead"),
        ("num_speculative_tokens", True, "a whole number"),
        ("num_requests", 0, "at least 1"),
        ("mean_e2e_s", 0, "above 0 s"),
        ("mean_e2e_s", float("inf"), "above 0 s. Got inf"),
        ("forced_acceptance_rate", 80, "from 0 to 1"),
        ("acceptance_per_position", [0.5, 2], "from 0 to 1"),
        ("verifier", "", "must be text. Got '' instead. Leave it out"),
        ("verifier", None, "Got nothing instead. Leave it out"),
        ("hardware", ["a"], "must be text. Got a list of 1"),
        ("engine_version", 0.10, "Put it in quotes"),
        ("is_throughput_test", "perhaps", "true or false"),
        ("duration_s", -1, "duration_s must be above 0 s"),
    ],
)
def test_arguments_that_cannot_be(side, name, value, words):
    with pytest.raises(ArgumentError) as caught:
        side(**{name: value})
    assert words in str(caught.value)


def test_what_the_file_says_otherwise_is_noted(side):
    found = side('[runs]\nverifier = "Qwen/Qwen3-8B"\nnum_speculative_tokens = 3\nduration_s = 9')
    run = {"verifier": "model", "num_speculative_tokens": 3.0, "_duration_s": 8.5}
    cells, notes = found.cells(Path("a.json"), "", run)
    assert cells["verifier"] == "Qwen/Qwen3-8B"
    assert notes == [
        "verifier is 'Qwen/Qwen3-8B' by side information and 'model' by the file; the former is "
        "used.",
        "duration_s is 9.0 by side information and 8.5 by the file; the former is used.",
    ]


def test_names_in_braces_may_be_cells_of_the_run(side):
    found = side(
        '[runs]\nsweep_id = "{verifier}|{concurrency}"\nrequest_rate_rps="{target_rate_rps}"'
    )
    run = {"verifier": "m", "concurrency": 4.0, "target_rate_rps": 0.5}
    cells, notes = found.cells(Path("a.json"), "", run)
    assert cells == {"sweep_id": "m|4", "request_rate_rps": 0.5}
    cells, notes = found.cells(Path("a.json"), "", {"verifier": "m", "target_rate_rps": 2})
    assert cells == {"request_rate_rps": 2.0}
    (note,) = notes
    assert "side.toml line 1: sweep_id is not set, for concurrency is not known of the run" in note


def test_group_that_took_no_part_leaves_the_cell_out(side):
    found = side("[[files]]\npattern = 'run(_k(?P<k>\\d+))?'\nnum_speculative_tokens = '{k}'")
    assert found.cells(Path("run_k4.json"), "", {})[0] == {"num_speculative_tokens": 4}
    cells, notes = found.cells(Path("run.json"), "", {})
    assert cells == {}
    assert "for k is not known of the run ({k})" in notes[0]


def test_value_made_of_a_group_is_checked_and_the_file_named(side):
    found = side("[[files]]\npattern = '_(?P<method>[a-z]+)'\nmethod = '{method}'")
    assert found.cells(Path("run_mtp.json"), "", {})[0] == {"method": "mtp"}
    with pytest.raises(ArgumentError, match=r"line 1, for run_medusa\.json: method must be one of"):
        found.cells(Path("run_medusa.json"), "", {})


@pytest.mark.parametrize(
    ("match", "path", "expected"),
    [
        ("rep*.json", "raw/dense_k3/rep0.json", True),
        ("dense_*/rep?.json", "raw/dense_k3/rep0.json", True),
        ("dense_*/*", "raw/dense_k3/rep0.json.gz", True),
        ("rep0.json", "raw/dense_k3/rep0.json.gz", True),
        ("rep0.json.gz", "raw/dense_k3/rep0.json.gz", True),
        ("dense_*", "raw/dense_k3/rep0.json", False),
        ("REP0.json", "raw/dense_k3/rep0.json", False),
        ("raw/rep0.json", "raw/dense_k3/rep0.json", False),
    ],
)
def test_match_is_compared_with_the_end_of_the_path(side, match, path, expected):
    found = side(f'[[files]]\nmatch = "{match}"\nworkload = "x"')
    assert bool(found.cells(Path(path), "", {})[0]) is expected
    assert bool(found.unused()) is not expected


def test_match_sees_the_folder_of_a_file_that_was_named_without_it(side, tmp_path, monkeypatch):
    folder = tmp_path / "dense_k3"
    folder.mkdir()
    monkeypatch.chdir(folder)
    found = side('[[files]]\nmatch = "dense_k3/*.json"\nnum_speculative_tokens = 3')
    assert found.cells(Path("rep0.json"), "", {})[0] == {"num_speculative_tokens": 3}


def test_both_terms_of_a_section_must_fit(side):
    found = side("[[files]]\nmatch = '*.json'\npattern = 'k(?P<k>\\d)'\nmax_num_seqs = '{k}'")
    assert found.cells(Path("k3/a.json"), "", {})[0] == {"max_num_seqs": 3}
    assert found.cells(Path("k3/a.csv"), "", {})[0] == {}
    assert found.cells(Path("a.json"), "", {})[0] == {}


def test_pattern_may_look_at_the_place_in_the_file(side):
    found = side("[[files]]\npattern = 'runs.jsonl line (?P<n>\\d+)$'\nsweep_id = 'start{n}'")
    assert found.cells(Path("runs.jsonl"), "line 4", {})[0] == {"sweep_id": "start4"}
    assert found.cells(Path("runs.jsonl"), "", {})[0] == {}


def test_sections_that_fit_no_file_are_named(side):
    text = (
        '\n[runs]\nengine = "vllm"\n\n[[files]]\nmatch = "k9/*"\npattern = "x"\nhardware = "H200"\n'
    )
    found = side(text)
    found.cells(Path("k3/a.json"), "", {})
    (note,) = found.unused()
    assert "side.toml line 5: the section fits none of the files" in note
    assert "match 'k9/*', pattern 'x'" in note


def test_nothing_given_gives_nothing(side):
    found = side()
    assert found.cells(Path("a.json"), "line 1", {"verifier": "m"}) == ({}, [])
    assert found.unused() == []


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(METHODS),
    st.lists(st.floats(), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)


@given(st.dictionaries(st.sampled_from([*column_names(), "k", "", "duration_s"]), values))
def test_any_argument_is_taken_or_refused(columns):
    try:
        found = SideInformation.from_arguments(None, columns)
    except BayesSdError:
        return
    cells, _ = found.cells(Path("a.json"), "", {})
    assert len(cells) == len(columns)
