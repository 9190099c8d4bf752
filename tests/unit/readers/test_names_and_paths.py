"""Which files are read, and how runs and sweeps are called where the files do not say."""

import gzip
from pathlib import Path

import pytest

from bayes_sd.exceptions import ArgumentError, FormatError
from bayes_sd.readers.names import labels_of, name_runs
from bayes_sd.readers.paths import find_files
from bayes_sd.readers.report import grouped


@pytest.fixture
def folder(tmp_path):
    for name in ("b/two.json", "a/one.JSON", "a/page.txt", "a/notes.md", "a/.hidden.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "b" / "three.jsonl.gz").write_bytes(gzip.compress(b"{}"))
    return tmp_path


def names(found):
    return [path.name for path in found.paths]


def test_folder_gives_its_files_and_says_what_it_leaves(folder):
    found = find_files(folder)
    assert names(found) == ["one.JSON", "page.txt", "three.jsonl.gz", "two.json"]
    assert len(found.skipped) == 1
    assert ".md" in found.skipped[0]


def test_a_named_file_may_have_any_ending_and_comes_once(folder):
    path = folder / "a" / "notes.md"
    assert names(find_files([path, str(path), folder / "a" / ".." / "a" / "notes.md"])) == [
        "notes.md"
    ]


def test_patterns_go_down_any_depth(folder):
    assert names(find_files(str(folder / "**" / "*.json"))) == ["two.json"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path):
    (tmp_path / "run[1].json").write_text("{}")
    assert names(find_files(tmp_path / "run[1].json")) == ["run[1].json"]


def test_a_link_that_goes_round_in_a_circle_does_not_hang(folder):
    (folder / "a" / "loop").symlink_to(folder, target_is_directory=True)
    assert len(find_files(folder).paths) == 4


@pytest.mark.parametrize(
    ("paths", "error", "words"),
    [
        ([], ArgumentError, "at least one"),
        ([None], ArgumentError, "NoneType"),
        (["a\0b"], ArgumentError, "NUL"),
        (["no_*.json"], FormatError, "fits no file"),
    ],
)
def test_nothing_to_read_is_said(paths, error, words):
    with pytest.raises(error, match=words):
        find_files(paths)


def test_empty_folder_says_which_endings_are_read(tmp_path):
    with pytest.raises(FormatError, match=r"\.jsonl"):
        find_files(tmp_path)


def test_runs_are_named_by_file_and_entry():
    runs = [
        (Path("/d/k3/sweep.json"), {"_entry": "entry 1", "method": "none"}),
        (Path("/d/k3/sweep.json"), {"_entry": "entry 2", "method": "none"}),
        (Path("/d/k5/rate2.json.gz"), {"_entry": "line 1", "_server": "k5/rep0"}),
    ]
    assert not name_runs(runs)
    assert [run["run_id"] for _, run in runs] == [
        "k3/sweep entry 1",
        "k3/sweep entry 2",
        "k5/rate2",
    ]
    assert [run["sweep_id"] for _, run in runs] == [
        "k3/sweep|none",
        "k3/sweep|none",
        "k5/rep0",
    ]


def test_sweeps_of_a_folder_are_parted_by_server():
    runs = [
        (Path(f"/d/rate{n}.json"), {"verifier": "v", "num_speculative_tokens": k})
        for n, k in ((1, 0), (2, 0), (3, 3))
    ]
    assert name_runs(runs)
    sweeps = [run["sweep_id"] for _, run in runs]
    assert sweeps[0] == sweeps[1] != sweeps[2]


def test_names_given_here_get_numbers_where_they_are_taken():
    runs = [
        (Path("/d/x.csv"), {"run_id": "x", "sweep_id": "s"}),
        (Path("/d/x.json"), {}),
        (Path("/d/x.json.gz"), {}),
    ]
    name_runs(runs)
    assert [run["run_id"] for _, run in runs] == ["x", "x (2)", "x (3)"]


def test_names_that_a_table_gives_twice_stay_and_are_refused_by_the_check():
    runs = [(Path("/d/a.csv"), {"run_id": "x", "sweep_id": "s"}) for _ in range(2)]
    name_runs(runs)
    assert [run["run_id"] for _, run in runs] == ["x", "x"]


def test_labels_carry_the_source_where_names_repeat():
    runs = [{"run_id": "x", "source_id": "a"}, {"run_id": "x", "source_id": "b"}, {"run_id": "y"}]
    assert labels_of(runs) == ["a|x", "b|x", "y"]


def test_equal_messages_name_a_few_files_and_count_the_rest():
    (line,) = grouped([(Path(f"{n}.json"), "odd.") for n in range(5)])
    assert line == "5 files (0.json, 1.json, 2.json, ...): odd."
