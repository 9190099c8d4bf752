"""What runs take from the files beside their results."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_sd.readers import companions, vllm_bench
from bayes_sd.readers.content import Content
from tests.damaged_results import checked

FILES = Path(__file__).parents[2] / "files"
JOINED = FILES / "joined"
COUNTERS = (
    "num_drafts",
    "num_draft_tokens",
    "num_accepted_tokens",
    "accepted_per_position",
    "acceptance_per_position",
    "mean_acceptance_length",
    "draft_acceptance_rate",
    "num_speculative_tokens",
    "method",
)


def read(path):
    reading = vllm_bench.read(Content(path))
    return reading.runs[0], reading.requests[0]


def joined(name, *, bare=False, root=JOINED):
    """Read one of our results with what stands beside it; ``bare`` without its own counters."""
    path = root / name
    _, beside = companions.group(sorted(p for p in root.rglob("*") if p.is_file()))
    run, requests = read(path)
    if bare:
        run = {n: v for n, v in run.items() if n not in (*COUNTERS, "num_draft_steps")}
    return beside.join(path, run, requests)


# Typed from the table of the data set, which another program made from the whole files.
EXPECTED = {
    "dense_a60_k3/rep5_rate0.4.json": (3, (396, 1188, 497), "243;158;96", 0.379),
    "dense_a60_k3/rep5_rate2.json": (3, (1753, 5259, 2065), "1036;626;403", 2.68),
    "dense_a85_dyn/rep0_rate0.4.json": (5, (221, 1105, 686), "179;152;135;120;100", 0.292),
    "moe_k0/rep5_rate0.4.json": (0, (None, None, None), None, 0.103),
}


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("name", EXPECTED)
def test_our_runs_have_the_figures_of_the_data_set(name, bare):
    length, counts, positions, running = EXPECTED[name]
    cells, notes = joined(name, bare=bare)
    assert cells["num_speculative_tokens"] == length
    assert tuple(cells.get(column) for column in COUNTERS[:3]) == counts
    assert cells.get("accepted_per_position") == positions
    assert cells["mean_running_requests"] == pytest.approx(running, abs=5.1e-4)
    assert cells["method"] == ("draft_model" if length else "none")
    model = name.partition("_")[0]
    assert cells["verifier"] == f"verifier-{model}"
    assert cells["drafter" if length else "engine"] == (
        {"dense_a60_k3": "drafter-a60", "dense_a85_dyn": "drafter-a85"}.get(name.split("/")[0])
        if length
        else "vllm"
    )
    assert cells["max_num_seqs"] == 64
    assert cells["_server"] == name[: name.index("_rate")]
    assert cells["mean_e2e_s"] == read(JOINED / name)[0]["mean_e2e_s"]  # the client's own
    assert not any("by the pages" in note or "not joined" in note for note in notes)
    assert any(f"served as 'm' is 'verifier-{model}'" in note for note in notes)
    assert len(checked([cells])) == 1


def test_schedule_of_the_command():
    cells, _ = joined("dense_a85_dyn/rep0_rate0.4.json")
    assert cells["num_speculative_tokens_schedule"] == "[[1, 8, 5], [9, 24, 3], [25, 64, 1]]"


def test_two_page_files_are_joined_as_one_file_is(tmp_path):
    name = "rep5_rate2"
    for ending in (".json", ".gauges.jsonl"):
        shutil.copy(JOINED / "dense_a60_k3" / f"{name}{ending}", tmp_path)
    text = (JOINED / "dense_a60_k3" / f"{name}.metrics.txt").read_text()
    before, after = text.split("# after\n")
    (tmp_path / f"{name}_metrics_before.txt").write_text(before.replace("# before\n", ""))
    (tmp_path / f"{name}_metrics_after.txt").write_text(after)
    cells, notes = joined(f"{name}.json", bare=True, root=tmp_path)
    assert cells["accepted_per_position"] == "1036;626;403"
    assert not any("not joined" in note for note in notes)
    (tmp_path / f"{name}_metrics_before.txt").unlink()
    cells, notes = joined(f"{name}.json", bare=True, root=tmp_path)
    assert "num_drafts" not in cells
    assert any("not joined" in note and "page before" in note for note in notes)


def copy_with(folder, change):
    """Copy a result with what stands beside it, and change its metrics pages."""
    source, name = JOINED / "dense_a60_k3", "rep5_rate2"
    for file in (f"{name}.json", f"{name}.gauges.jsonl", "rep5_server.json"):
        shutil.copy(source / file, folder)
    pages = change((source / f"{name}.metrics.txt").read_text())
    (folder / f"{name}.metrics.txt").write_text(pages)
    return f"{name}.json"


def test_pages_that_disagree_are_told_and_the_result_kept(tmp_path):
    total = 'vllm:spec_decode_num_drafts_total{engine="0",model_name="m"}'
    text = (JOINED / "dense_a60_k3" / "rep5_rate2.metrics.txt").read_text()
    before, after = (line for line in text.splitlines() if line.startswith(total))
    more = after.replace(after.split()[-1], str(float(after.split()[-1]) + 40))
    name = copy_with(tmp_path, lambda text: text.replace(after, more))
    assert before != after
    cells, notes = joined(name, root=tmp_path)
    assert cells["num_drafts"] == 1753
    assert any("num_drafts is 1793 by the pages and 1753 in the result" in n for n in notes)
    little = after.replace(after.split()[-1], str(float(after.split()[-1]) + 15))
    name = copy_with(tmp_path, lambda text: text.replace(after, little))
    _, notes = joined(name, root=tmp_path)
    assert not any("by the pages" in note for note in notes)


def test_latencies_of_the_server_fill_in_if_the_requests_are_the_same(tmp_path):
    name = copy_with(tmp_path, lambda text: text)
    run, requests = read(tmp_path / name)
    _, beside = companions.group(sorted(tmp_path.iterdir()))
    lacking = {n: v for n, v in run.items() if n != "mean_e2e_s"}
    cells, notes = beside.join(tmp_path / name, lacking, requests)
    assert cells["mean_e2e_s"] == pytest.approx(1.273582, abs=1e-6)  # of the data set
    assert any("mean_e2e_s are the server's own" in note for note in notes)
    cells, notes = beside.join(tmp_path / name, {**lacking, "num_requests": 50}, requests)
    assert "mean_e2e_s" not in cells
    assert any("60 requests finished between the pages and 50" in note for note in notes)


def test_run_taken_for_one_without_speculation_is_put_right(tmp_path):
    name = copy_with(tmp_path, lambda text: text)
    run, requests = read(tmp_path / name)
    wrong = {n: v for n, v in run.items() if n not in COUNTERS}
    wrong |= {"method": "none", "num_speculative_tokens": 0}
    for pages in (True, False):
        if not pages:
            (tmp_path / "rep5_rate2.metrics.txt").unlink()
        _, beside = companions.group(sorted(tmp_path.iterdir()))
        cells, notes = beside.join(tmp_path / name, wrong, requests)
        assert (cells["method"], cells["num_speculative_tokens"]) == ("draft_model", 3)
        assert any("the server drafted" in note for note in notes)


def test_command_of_another_server_is_told(tmp_path):
    name = copy_with(tmp_path, lambda text: text)
    shutil.copy(JOINED / "moe_k0" / "rep5_server.json", tmp_path)
    cells, notes = joined(name, root=tmp_path)
    assert cells["num_speculative_tokens"] == 3
    assert "method" not in cells
    assert any("num_speculative_tokens is 0 by the command and 3 in the result" in n for n in notes)
    run = {"verifier": "other", "num_requests": 3}
    _, beside = companions.group(sorted(tmp_path.iterdir()))
    cells, notes = beside.join(tmp_path / name, run)
    assert cells["verifier"] == "other"
    assert any("serves 'verifier-moe', the result is of 'other', which is kept" in n for n in notes)


def test_damaged_companions_are_told_and_the_run_kept(tmp_path):
    name = copy_with(tmp_path, lambda text: text.replace("# after\n", ""))
    (tmp_path / "rep5_rate2.gauges.jsonl").write_text('{"t": 1, "running": "x", "waiting": 0}')
    (tmp_path / "rep5_server.json").write_text('{"command": ["vllm", "serve", "-tp", "x"]}')
    cells, notes = joined(name, root=tmp_path)
    assert cells["num_drafts"] == 1753
    for word in ("metrics.txt is not joined: ", "gauges.jsonl is not joined: running must be"):
        assert any(word in note for note in notes)
    assert any("tensor-parallel-size must be a number. Got 'x'" in note for note in notes)


def test_counters_over_several_runs(tmp_path):
    """27,985 drafts by the counters of the sweep, 23,632, 19,807 and 16,951 accepted."""
    for path in (JOINED / "guidellm").iterdir():
        shutil.copy(path, tmp_path)
    result = tmp_path / "rep0_sweep.json"
    shutil.copy(FILES / "guidellm" / "sweep_0.8.1.json", result)
    _, beside = companions.group(sorted(tmp_path.iterdir()))
    run = {"num_requests": 28, "_entry": "entry 1", "verifier": "m"}
    cells, notes = beside.join(result, run)
    rates = [float(rate) for rate in cells["acceptance_per_position"].split(";")]
    assert rates == pytest.approx([23632 / 27985, 19807 / 27985, 16951 / 27985], abs=1e-6)
    assert cells["mean_acceptance_length"] == pytest.approx(1 + (23632 + 19807 + 16951) / 27985)
    assert "num_drafts" not in cells
    assert "mean_running_requests" not in cells
    assert (cells["drafter"], cells["num_speculative_tokens"]) == ("drafter-a85", 3)
    assert any("taken not to change with load" in note for note in notes)
    one, _ = beside.join(result, {**run, "num_requests": 27985}, num_runs=1)
    assert one["num_drafts"] == 27985


def test_counters_over_several_runs_with_drafts_of_several_lengths(tmp_path):
    text = (JOINED / "guidellm" / "rep0_sweep.metrics.txt").read_text()
    (tmp_path / "a.metrics.txt").write_text(text.replace(" 85422.0", " 70000.0"))
    (tmp_path / "a.json").write_text("{}")
    _, beside = companions.group(sorted(tmp_path.iterdir()))
    cells, notes = beside.join(tmp_path / "a.json", {"_entry": "entry 1", "num_requests": 3})
    assert "mean_acceptance_length" not in cells
    assert any("of different lengths" in note for note in notes)


@pytest.fixture
def with_log(tmp_path):
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("{}")
    shutil.copy(FILES / "vllm_log" / "current.log", tmp_path / "vllm.log")
    _, beside = companions.group(sorted(tmp_path.iterdir()))
    run = {
        "num_requests": 120.0,
        "_duration_s": 65.2,
        "_end_local": "20261231-235945",
        "output_tokens_per_s": 240.0,
    }
    return tmp_path / "a.json", beside, run


def test_log_is_joined_by_time(with_log):
    """Six intervals lie within: 3,496 drafts, and 50 running requests at their six ends."""
    path, beside, run = with_log
    cells, notes = beside.join(path, run)
    assert cells["num_drafts"] == 3496
    assert cells["num_speculative_tokens"] == 3
    assert cells["mean_running_requests"] == pytest.approx(50 / 6)
    assert notes == []
    own, _ = beside.join(path, {**run, "num_drafts": 3600.0, "mean_running_requests": 8.0})
    assert (own["num_drafts"], own["mean_running_requests"]) == (3600, 8)
    assert "num_accepted_tokens" not in own
    assert beside.used() == [(path.parent / "vllm.log", "a.json, b.json")]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"_end_local": "20261231-225945"}, "no interval of it lies within the run"),
        ({"output_tokens_per_s": 20.0}, "may be of two time zones"),
        ({"_end_local": ""}, "does not tell when it ran"),
        ({"_end_local": "yesterday"}, "does not tell when it ran"),
        ({"_duration_s": float("nan")}, "does not tell when it ran"),
        ({"_duration_s": -5.0}, "does not tell when it ran"),
        ({"_duration_s": 1e300}, "does not tell when it ran"),
    ],
)
def test_log_of_another_time_is_not_joined(with_log, change, reason):
    path, beside, run = with_log
    cells, notes = beside.join(path, {**run, **change})
    assert "num_drafts" not in cells
    assert any(reason in note for note in notes)


def test_gauges_without_times_of_requests(tmp_path):
    """By the rate of arrivals; by the duration less one latency; not at all."""
    rows = [{"t": t, "running": t if t < 60 else 0, "waiting": 0} for t in range(1, 80)]
    (tmp_path / "a.gauges.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "a.json").write_text("{}")
    _, beside = companions.group(sorted(tmp_path.iterdir()))

    def mean(**cells):
        found, notes = beside.join(tmp_path / "a.json", cells)
        return found.get("mean_running_requests"), notes

    rate = {"load_kind": "open", "request_rate_rps": 2.0, "num_requests": 101.0}
    assert mean(**rate)[0] == pytest.approx(sum(range(9, 52)) / len(range(9, 52)))
    closed = {"load_kind": "closed", "_duration_s": 52.0, "mean_e2e_s": 2.0, "num_requests": 9.0}
    assert mean(**closed)[0] == mean(**rate)[0]
    assert mean(is_throughput_test=True)[0] == pytest.approx(sum(range(1, 60)) / 59)
    value, notes = mean(load_kind="open")
    assert value is None
    assert any("when requests arrived is not known" in note for note in notes)
    few = pd.DataFrame({"start_s": [0.0, 70.0], "e2e_s": [1.0, 1.0]})
    found, _ = beside.join(tmp_path / "a.json", {}, few)
    assert found["mean_running_requests"] > 0


NUMBERS = {"num_requests", "_duration_s", "request_rate_rps", *COUNTERS[:3], "mean_e2e_s"}


@given(
    cells=st.fixed_dictionaries(
        {},
        optional={name: st.floats(allow_nan=True) for name in sorted(NUMBERS)}
        | {name: st.text(max_size=16) for name in ("_end_local", "method", "verifier")}
        | {"load_kind": st.sampled_from(["open", "closed"]), "is_throughput_test": st.booleans()},
    )
)
@settings(max_examples=100, deadline=None)
def test_whatever_a_reader_hands_over_can_be_joined(cells):
    path = JOINED / "dense_a60_k3" / "rep5_rate2.json"
    _, beside = companions.group(sorted(path.parent.iterdir()))
    found, notes = beside.join(path, cells)
    assert found["_server"] == "rep5"
    assert all(isinstance(note, str) for note in notes)
