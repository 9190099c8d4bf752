"""Which files belong to which results, by their names."""

import json
import shutil
import time
from pathlib import Path

import pytest

from bayes_sd.readers import companions

FILES = Path(__file__).parents[2] / "files"
JOINED = FILES / "joined"
PAGE = "vllm:request_success_total 1\n"
LOG = (FILES / "vllm_log" / "current.log").read_text()
COMMAND = json.dumps({"command": ["vllm", "serve", "big", "-tp", "2"]})
RESULTS = (
    "dense_a60_k3/rep5_rate0.4.json",
    "dense_a60_k3/rep5_rate2.json",
    "dense_a85_dyn/rep0_rate0.4.json",
    "moe_k0/rep5_rate0.4.json",
)


def make(folder, *names):
    """Write files with the content that their names promise."""
    for name in names:
        text = "{}"
        if "server" in name and name.endswith(".json"):
            text = COMMAND
        elif name.endswith(".log"):
            text = LOG
        elif name.endswith((".txt", ".prom")):
            text = PAGE
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return sorted(p for p in folder.rglob("*") if p.is_file())


def owners(folder, *names):
    """Return the results, and for each companion its kind and what it adds to."""
    results, beside = companions.group(make(folder, *names))
    found: dict[str, list[str]] = {}
    for result in results:
        for companion in beside.of(result):
            found.setdefault(f"{companion.kind} {companion.path.name}", []).append(result.name)
    return [result.name for result in results], found


def test_our_files_are_all_used():
    paths = sorted(p for p in JOINED.rglob("*") if p.is_file() and p.suffix != ".md")
    results, beside = companions.group(paths)
    used = {path.relative_to(JOINED).as_posix(): target for path, target in beside.used()}
    alone = {"burst.gauges.jsonl", "guidellm/rep0_sweep.metrics.txt"}
    alone |= {"guidellm/rep0_sweep.server.json"}  # its result is not here
    names = {path.relative_to(JOINED).as_posix() for path in results}
    assert names == set(RESULTS) | alone
    assert used["dense_a60_k3/rep5_server.json"] == "rep5_rate0.4.json, rep5_rate2.json"
    assert used["dense_a60_k3/rep5_rate2.metrics.txt"] == "rep5_rate2.json"
    assert len(names) + len(used) == len(paths)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("rate2.metrics.txt", "pages"),
        ("rate2_metrics.prom", "pages"),
        ("rate2.before.txt", "before"),
        ("rate2_metrics_after.txt", "after"),
        ("rate2-metrics-end.txt", "after"),
        ("rate2.gauges.jsonl", "gauges"),
        ("rate2.server.json", "server"),
        ("rate2_server.json", "server"),
        ("rate2.log", "log"),
        ("rate2_server.log", "log"),
        ("rate2.vllm.stderr.log", "log"),
    ],
)
def test_names_of_companions(tmp_path, name, kind):
    results, found = owners(tmp_path, "rate2.json", "rate20.json", "rate2.5.json", name)
    assert results == ["rate2.5.json", "rate2.json", "rate20.json"]
    own = ["rate2.json"]
    if kind == "server":  # it is of every load whose name begins as its own
        own = ["rate2.5.json", "rate2.json"]
    assert found == {f"{kind} {name}": own}


@pytest.mark.parametrize(
    "name",
    ["rate2.5.metrics.txt", "rate2_warm.metrics.txt", "other.metrics.txt", "rate.gauges.jsonl"],
)
def test_names_that_belong_to_no_result(tmp_path, name):
    results, found = owners(tmp_path, "rate2.json", "sub/rate2.5.json", name)
    assert sorted(results) == sorted(["rate2.json", "rate2.5.json", name])
    assert found == {}


def test_the_longest_name_wins(tmp_path):
    names = ("a.json", "a_metrics.json", "a_metrics_before.txt", "a_server.metrics.txt")
    _, found = owners(tmp_path, *names)
    assert found == {
        "before a_metrics_before.txt": ["a_metrics.json"],
        "pages a_server.metrics.txt": ["a.json"],
    }
    folder = tmp_path / "servers"
    folder.mkdir()
    names = ("rep0_k3_server.json", "rep0_server.json", "server.json")
    results = ("rep0_k3_r2.json", "rep0_k30.json", "rep1.json", "rep0.json")
    _, found = owners(folder, *names, *results)
    assert found == {
        "server rep0_k3_server.json": ["rep0_k3_r2.json"],
        "server rep0_server.json": ["rep0.json", "rep0_k30.json"],
        "server server.json": ["rep1.json"],
    }


def test_json_is_the_result_of_two_files_of_one_name(tmp_path):
    _, found = owners(tmp_path, "a.csv", "a.json", "a.metrics.txt")
    assert found == {"pages a.metrics.txt": ["a.json"]}


def test_packed_files_are_called_as_unpacked_ones(tmp_path):
    make(tmp_path, "a.json", "b.json")
    shutil.move(tmp_path / "a.json", tmp_path / "a.json.gz")
    path = tmp_path / "a.gauges.jsonl.zst"
    path.write_bytes(b"")
    results, beside = companions.group(sorted(tmp_path.iterdir()))
    assert [result.name for result in results] == ["a.json.gz", "b.json"]
    assert beside.used() == [(path, "a.json.gz")]


def test_result_that_is_called_as_a_server_is_one(tmp_path):
    (tmp_path / "fast_server.json").write_text('{"completed": 3}')
    (tmp_path / "broken_server.json").write_text('{"comm')
    results, found = owners(tmp_path, "fast.json")
    assert results == ["broken_server.json", "fast.json", "fast_server.json"]
    assert found == {}


def test_pages_without_a_result_are_read_once(tmp_path):
    results, _ = owners(tmp_path, "x_before.txt", "x_after.txt", "y.after.txt", "z.metrics.txt")
    assert results == ["x_before.txt", "y.after.txt", "z.metrics.txt"]
    _, beside = companions.group([tmp_path / "x_after.txt", tmp_path / "x_before.txt"])
    assert beside.used() == [(tmp_path / "x_after.txt", "x_before.txt")]


def test_many_files_are_grouped_in_their_time(tmp_path):
    for i in range(400):
        (tmp_path / f"rep{i}_rate2.json").write_text("{}")
        (tmp_path / f"rep{i}_rate2.metrics.txt").write_text(PAGE)
        (tmp_path / f"rep{i}_server.json").write_text(COMMAND)
    paths = sorted(tmp_path.iterdir())
    start = time.perf_counter()
    results, beside = companions.group(paths)
    assert time.perf_counter() - start < 3
    assert len(results) == 400
    assert len(beside.used()) == 800
