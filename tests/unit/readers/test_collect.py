"""Whole calls: mixed folders, companions, side information, and everything that can be wrong."""

import json
import shutil
import warnings
from pathlib import Path

import pandas as pd
import pytest

import bayes_sd
from bayes_sd.exceptions import ArgumentError, AssumptionWarning, DataError, FormatError
from bayes_sd.exceptions import UnusedRunsWarning as LeftOut
from bayes_sd.frames import check_runs
from bayes_sd.readers.collect import read_report, read_runs

FILES = Path(__file__).parents[2] / "files"
JOINED = FILES / "joined"
DRAFTING = JOINED / "dense_a60_k3"


@pytest.fixture
def folder(tmp_path):
    """Return a folder with two results of one server, their companions, and nothing else."""
    return Path(shutil.copytree(DRAFTING, tmp_path / "k3"))


def report(*paths, **more):
    return read_report(list(paths), progressbar=False, **more)


def quiet(*paths, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_runs(list(paths), progressbar=False, **more)


def test_results_with_companions_become_complete_runs(folder):
    frame = quiet(folder)
    check_with_warnings(frame)
    assert frame["run_id"].tolist() == ["rep5_rate0.4", "rep5_rate2"]
    assert frame["sweep_id"].nunique() == 1
    assert frame["verifier"].unique().tolist() == ["verifier-dense"]  # served as 'm'
    assert frame["drafter"].unique().tolist() == ["drafter-a60"]
    assert frame["num_speculative_tokens"].unique().tolist() == [3]
    assert frame["mean_running_requests"].notna().all()
    assert frame["max_num_seqs"].unique().tolist() == [64]


def test_numbers_are_those_that_the_tool_printed(folder):
    row = quiet(folder).iloc[1]
    printed = json.loads((folder / "rep5_rate2.json").read_text())
    assert row["mean_e2e_s"] * 1e3 == pytest.approx(printed["mean_e2el_ms"])
    assert row["p99_ttft_s"] * 1e3 == pytest.approx(printed["p99_ttft_ms"])
    assert row["num_drafts"] == printed["spec_decode_num_drafts"]
    starts = sorted(printed["start_times"])
    rate = (len(starts) - 1) / (starts[-1] - starts[0])
    assert row["request_rate_rps"] == pytest.approx(rate)


def test_files_are_reported_one_by_one(folder):
    found = report(folder)
    by_name = {f.path.name: f for f in found.files}
    assert by_name["rep5_rate2.json"].format == "vllm-bench"
    assert by_name["rep5_rate2.json"].num_runs == 1
    assert by_name["rep5_rate2.gauges.jsonl"].joined_to == "rep5_rate2.json"
    assert "rep5_rate2.json" in by_name["rep5_server.json"].joined_to
    assert json.loads(json.dumps(found.document()))["num_runs"] == 2


def test_requests_are_kept_if_asked_for(folder):
    found = report(folder, keep_requests=True)
    assert set(found.requests) == set(found.runs["run_id"])
    assert len(found.requests["rep5_rate2"]) == found.runs["num_requests"].iloc[1]
    assert report(folder).requests == {}


def test_one_bad_file_does_not_spoil_the_others(folder):
    whole = (folder / "rep5_rate2.json").read_bytes()
    (folder / "rep5_rate4.json").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.json").write_bytes(b"")
    (folder / "other.json").write_text('{"a": 1}')
    (folder / "notes.md").write_text("x")
    found = report(folder)
    assert len(found.runs) == 2
    reasons = "\n".join(found.left_out())
    for words in ("rep5_rate4.json is no JSON", "empty.json is empty", "no format known", ".md"):
        assert words in reasons
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_runs(folder, progressbar=False)
    assert {w.category for w in caught} == {LeftOut, AssumptionWarning}
    assert any("empty.json is empty" in str(w.message) for w in caught)


def test_copies_are_read_once(folder):
    shutil.copy(folder / "rep5_rate2.json", folder / "again.json")
    found = report(folder)
    assert len(found.runs) == 2
    assert any("byte for byte" in text for text in found.left_out())


def test_summary_and_records_side_by_side_are_one_run(tmp_path):
    made = shutil.copytree(FILES / "aiperf" / "0.13.0_open", tmp_path / "run")
    shutil.rmtree(made / "phases")
    found = report(made, method="other", num_speculative_tokens=7, keep_requests=True)
    assert len(found.runs) == 1
    assert len(found.requests) == 1
    assert [f.joined_to for f in found.files if f.joined_to] == ["profile_export_aiperf.json"]
    told = {"method": "other", "num_speculative_tokens": 7}
    summary = report(made / "profile_export_aiperf.json", **told).runs.iloc[0]
    assert found.runs["mean_e2e_s"].iloc[0] == summary["mean_e2e_s"]


def test_the_same_path_twice_is_one_file(folder):
    path = folder / "rep5_rate2.json"
    assert len(report(path, str(path), folder / "rep5_rate*.json").runs) == 2


def test_side_information_by_keyword_wins_and_says_so(folder):
    found = report(folder, drafter="mine", hardware="2 cores")
    assert found.runs["drafter"].tolist() == ["mine", "mine"]
    assert found.runs["hardware"].tolist() == ["2 cores", "2 cores"]
    assert any("'mine' by side information" in text for text in found.assumed())


def test_side_information_by_file_names_sweeps(folder, tmp_path):
    side = tmp_path / "side.toml"
    side.write_text(
        "[[files]]\npattern = 'rep(?P<rep>\\d+)_'\nsweep_id = 'boot {rep}'\n"
        "[[files]]\nmatch = '*.csv'\nhardware = 'x'\n"
    )
    found = report(folder, side_information=side)
    assert found.runs["sweep_id"].unique().tolist() == ["boot 5"]
    assert any("fits none of the files" in text for text in found.assumed())


def test_runs_that_lack_something_are_kept_apart_with_the_remedy():
    path = FILES / "vllm_bench" / "old_fork_closed_loop_conc4.json"
    found = report(path)
    assert len(found.runs) == 0
    assert found.incomplete["missing"].tolist() == ["method, num_speculative_tokens"]
    assert found.was_anything_read
    with pytest.raises(DataError, match="method, num_speculative_tokens"):
        quiet(path)
    frame = quiet(path, method="eagle3", num_speculative_tokens=3)
    check_with_warnings(frame)
    assert frame["concurrency"].tolist() == [4]


def test_method_none_says_the_draft_length():
    path = FILES / "vllm_bench" / "old_fork_closed_loop_conc4.json"
    assert quiet(path, method="none")["num_speculative_tokens"].tolist() == [0]


def test_unknown_method_is_other_and_said():
    path = FILES / "vllm_bench" / "open_loop_eagle3_0.14.1.json"
    found = report(path)
    assert found.runs["method"].tolist() == ["other"]
    assert any("method is 'other'" in text for text in found.assumed())


def test_a_sweep_is_assumed_from_the_folder_and_said():
    path = FILES / "vllm_bench" / "open_loop_eagle3_0.14.1.json"
    assert any("one server start" in text for text in report(path).assumed())
    found = report(path, sweep_id="boot 1")
    assert found.runs["sweep_id"].tolist() == ["boot 1"]
    assert not any("one server start" in text for text in found.assumed())


def test_every_real_file_is_read_or_refused_in_words():
    found = report(FILES)
    assert len(found.runs) > 15
    assert all(f.format or f.error for f in found.files)
    for text in (*found.left_out(), *found.assumed()):
        assert "Traceback" not in text
        assert len(text) < 2000
    check_with_warnings(found.runs)


def test_table_written_is_the_table_read(folder, tmp_path):
    frame = quiet(folder)
    path = tmp_path / "runs.csv"
    frame.to_csv(path, index=False)
    again = quiet(path)
    common = [c for c in frame.columns if c in again.columns]
    assert set(frame.columns) - set(common) <= {c for c in frame if frame[c].isna().all()}
    pd.testing.assert_frame_equal(again[common], frame[common], check_dtype=False)


def test_rows_that_contradict_the_schema_are_named(tmp_path):
    frame = quiet(DRAFTING).assign(run_id=["good", "bad"])
    frame["mean_acceptance_length"] = [2.0, 9.0]
    frame.to_csv(tmp_path / "runs.csv", index=False)
    found = report(tmp_path / "runs.csv")
    assert found.runs["run_id"].tolist() == ["good"]
    assert any("row bad" in text for text in found.left_out())


def test_names_with_markup_newlines_and_dots_stay_on_one_line(folder):
    odd = folder / "<b>x \n..;rm [red].json"
    shutil.move(folder / "rep5_rate2.json", odd)
    found = report(folder)
    assert len(found.runs) == 2
    assert all("\n" not in name for name in found.runs["run_id"])


def test_public_names_are_these_functions():
    assert bayes_sd.read_runs is read_runs
    assert bayes_sd.read_report is read_report


@pytest.mark.parametrize(
    ("paths", "more", "error", "words"),
    [
        ([], {}, ArgumentError, "at least one file"),
        ([3], {}, ArgumentError, "int"),
        (["no/such/*.json"], {}, FormatError, "fits no file"),
        (["no_such.json"], {}, FormatError, "is not a file"),
        ([DRAFTING], {"format": "vlm-bench"}, ArgumentError, "Did you mean 'vllm-bench'"),
        ([DRAFTING], {"num_speculative_token": 3}, ArgumentError, "num_speculative_tokens"),
        ([DRAFTING], {"num_speculative_tokens": -1}, ArgumentError, "at least 0"),
        ([DRAFTING], {"side_information": "none.toml"}, FormatError, "none.toml"),
    ],
)
def test_mistakes_say_what_is_allowed(paths, more, error, words):
    with pytest.raises(error, match=words):
        quiet(*paths, **more)


def test_progress_is_silent_if_asked(folder, capsys):
    report(folder)
    assert capsys.readouterr() == ("", "")


def check_with_warnings(frame):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_runs(frame)
