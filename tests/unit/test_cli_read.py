"""``bayes-sd read``: exit status, what it says file by file, JSON, and the files it writes."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from bayes_sd import cli, cli_read
from bayes_sd.frames import check_runs

FILES = Path(__file__).parents[1] / "files"


@pytest.fixture
def read(tmp_path, monkeypatch, capsys):
    """Return a function that runs ``bayes-sd read`` in a folder with ``k3``: status, out, err."""
    shutil.copytree(FILES / "joined" / "dense_a60_k3", tmp_path / "k3")
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        status = cli.run(["read", *arguments])
        return status, *capsys.readouterr()

    return call


def test_writes_a_table_that_fit_takes_and_says_what_it_read(read):
    status, out, err = read("k3", "-o", "runs.csv", "--no-progressbar")
    assert status == 0
    assert "vllm bench serve result (vllm-bench)" in out
    assert "joined to rep5_rate2.json" in out
    assert "2 runs, written to runs.csv" in err
    assert len(pd.read_csv("runs.csv")) == 2
    assert not list(Path().glob("*.part"))


def test_many_files_are_shown_by_folder_and_kind_and_those_not_read_one_by_one(read, monkeypatch):
    monkeypatch.setattr(cli_read, "MANY", 5)
    Path("k3/notes.json").write_text('{"nothing": "known"}')
    status, out, err = read("k3", "-o", "runs.csv", "--no-progressbar")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert status == 0
    assert "│ k3 │ 2 x vllm bench serve result (vllm-bench) │ 2 │" in lines
    assert "│ k3 │ 5 x companion │ │" in lines
    assert "│ k3/notes.json │ not read │ 0 │" in lines
    assert "--json lists each file" in err


def test_a_table_that_cannot_be_finished_leaves_the_older_one(read, monkeypatch):
    Path("runs.csv").write_text("older")

    def full(self, path, **options):
        Path(path).write_text("half")
        raise OSError("no space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    status, _, err = read("k3", "-o", "runs.csv", "--no-progressbar")
    assert status == 2
    assert "runs.csv cannot be written: no space left on device" in err
    assert Path("runs.csv").read_text() == "older"
    assert not list(Path().glob(".runs.csv*"))


def test_json_is_one_document(read):
    status, out, err = read("k3", "--json")
    document = json.loads(out)
    assert (status, err) == (0, "")
    assert document["num_runs"] == len(document["runs"]) == 2
    assert {f["format"] for f in document["files"]} == {"vllm-bench", "companion"}


def test_side_information_reaches_the_table(read):
    Path("side.toml").write_text("[runs]\nhardware = 'two cores'\n")
    status, *_ = read("k3", "--side", "side.toml", "--set", "workload=random", "-o", "r.parquet")
    frame = pd.read_parquet("r.parquet")
    assert status == 0
    assert frame["hardware"].unique().tolist() == ["two cores"]
    assert frame["workload"].unique().tolist() == ["random"]


def test_requests_go_to_parquet(read):
    status, _, err = read("k3", "--requests", "requests.parquet")
    requests, runs = pd.read_parquet("requests.parquet"), json.loads(read("k3", "--json")[1])
    assert status == 0
    counts = requests.groupby("run_id").size().to_dict()
    assert counts == {r["run_id"]: r["num_requests"] for r in runs["runs"]}
    assert f"{len(requests)} requests of 2 runs" in err
    assert requests["e2e_s"].gt(0).all()


def test_bad_files_are_named_and_the_others_are_read(read):
    Path("k3/broken.json").write_text('{"a": ')
    status, out, err = read("k3", "--no-progressbar")
    assert status == 0
    assert "not read" in out
    assert "broken.json is no JSON" in err
    assert "Left out" in err


def test_nothing_readable_is_status_2_without_a_traceback(read):
    Path("x.json").write_text("[]")
    status, out, err = read("x.json", "--no-progressbar")
    assert status == 2
    assert "no run could be read" in err
    assert "Traceback" not in out + err
    status, out, err = read("x.json", "--json")
    assert status == 2
    assert json.loads(out)["files"][0]["error"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.json",), "is not a file"),
        (("k3", "--format", "vlm"), "format must be"),
        (("k3", "--set", "hardware"), "NAME=VALUE"),
        (("k3", "--set", "num_speculative_tokens=x"), "num_speculative_tokens"),
        (("k3", "-o", "runs.xlsx"), "must end in"),
        (("k3", "-o", "no/runs.csv"), "cannot be written"),
        (("k3", "--requests", "requests.csv"), ".parquet"),
        (("k3", "--side", "none.toml"), "none.toml"),
        (("*.jsonl",), "fits no file"),
    ],
)
def test_mistakes_are_one_message_and_status_2(read, arguments, words):
    status, out, err = read(*arguments)
    assert status == 2
    assert words in err
    assert "Traceback" not in out + err


def test_table_passes_the_check(read):
    read("k3", "-o", "runs.csv.gz", "--no-progressbar")
    check_runs(pd.read_csv("runs.csv.gz"))
