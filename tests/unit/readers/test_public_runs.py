"""Tables with the columns of the collected public measurements.

Expected figures are typed in from the file, or are those of the bundled tables, which were made
from the same collection by another route.
"""

import csv
import io
import warnings
from pathlib import Path

import pytest

from bayes_sd.datasets import load_atom_moe, load_h200_70b, load_scaling_study
from bayes_sd.exceptions import FormatError
from bayes_sd.frames import check_runs
from bayes_sd.readers import tidy
from bayes_sd.readers.content import Content
from bayes_sd.readers.public_runs import FATE
from bayes_sd.readers.rows import missing_cells, table
from bayes_sd.schema import column_names

FILE = Path(__file__).parents[2] / "files" / "tidy" / "public_runs.csv"
HEADER = FILE.read_text(encoding="utf-8").splitlines()[0]
SOURCES = (
    "speculators-scaling",
    "do-gtc-2026-h200",
    "rocm-atom-dashboard",
    "spec-fp8-study",
    "inferencex-token-position",
    "inferencex-eagle3-runs",
)


@pytest.fixture(scope="module")
def reading():
    return tidy.read(Content(FILE))


@pytest.fixture(scope="module")
def runs(reading):
    return {run["run_id"]: run for run in reading.runs}


@pytest.fixture
def read_rows(tmp_path):
    """Read a table with rows of given cells, the others blank."""

    def read(*rows, header=HEADER):
        text = io.StringIO()
        writer = csv.DictWriter(text, header.split(","), restval="")
        writer.writeheader()
        writer.writerows(rows)
        path = tmp_path / "runs.csv"
        path.write_text(text.getvalue(), encoding="utf-8")
        return tidy.read(Content(path))

    return read


def test_every_column_has_a_fate_in_the_schema():
    assert set(HEADER.split(",")) == set(FATE)
    assert set(FATE.values()) <= set(column_names())
    assert len(set(FATE.values())) == len(FATE)


def test_every_row_is_read_and_no_column_is_left_out(reading, runs):
    assert tidy.recognises_text(FILE.read_text(encoding="utf-8"))
    assert len(reading.runs) == len(runs) == 17
    assert reading.skipped == []
    assert {run["source_id"] for run in reading.runs} == set(SOURCES)
    assert not any("not in the schema" in note for note in reading.notes)


def test_open_run_with_a_measured_rate(runs):
    run = runs["Qwen3-8B_a0.80_k3_i2"]
    assert run["request_rate_rps"] == 2.81111  # arrival_rate_rps
    assert run["completed_rate_rps"] == 2.79198  # achieved_rps
    assert "target_rate_rps" not in run
    assert (run["load_kind"], run["arrivals"], run["client_cap"]) == ("open", "constant", 128)
    assert (run["input_len_tokens"], run["output_len_tokens"]) == (520.07, 128.0)
    assert (run["method"], run["num_speculative_tokens"], run["num_requests"]) == ("eagle", 3, 251)
    assert run["forced_acceptance_rate"] == 0.8
    assert run["p99_tpot_s"] == 0.00853909
    assert run["output_tokens_per_s"] == 357.362
    assert "is_throughput_test" not in run


def test_closed_run_has_no_arrival_rate_and_a_throughput_test_is_marked(runs):
    synchronous, burst = (runs[f"Qwen3-8B_a0.80_k3_i{i}"] for i in (0, 1))
    assert (synchronous["concurrency"], synchronous["arrivals"]) == (1, "closed")
    assert "request_rate_rps" not in synchronous
    assert "is_throughput_test" not in synchronous
    assert (burst["concurrency"], burst["is_throughput_test"]) == (128, True)


def test_asked_rate_stands_for_arrivals_where_the_tool_keeps_to_it(reading, runs):
    run = runs["phase0/20260224-214806|r0.5"]
    assert (run["request_rate_rps"], run["target_rate_rps"]) == (0.5, 0.5)
    assert run["completed_rate_rps"] == 0.487342
    assert (run["arrivals"], run["max_num_seqs"]) == ("poisson", 1024)
    assert any("the rate asked for" in note for note in reading.notes)
    drafting = runs["phase3-eagle3-chat/20260225-232913|r0.5"]
    assert drafting["acceptance_per_position"] == "0.00021327;0.0;0.0"
    assert drafting["draft_acceptance_rate"] == 7.10901e-05


def test_atom_runs_get_their_commit_and_number_of_requests(reading, runs):
    run = runs["514ed7c8|20260810T0025|ATOM::DeepSeek-V4-Pro MTP3|1024/1024|c4"]
    assert run["engine_version"] == "commit 514ed7c8"
    assert run["note"].endswith("; image rocm/atom-dev:nightly_202608091507")
    assert (run["num_requests"], run["concurrency"]) == (40, 4)
    assert (run["mean_acceptance_length"], run["tensor_parallel_size"]) == (2.26, 8)
    sizes = ("verifier_params_b", "verifier_active_params_b", "num_experts", "experts_per_token")
    assert [run[name] for name in sizes] == [1600.0, 49.0, 384, 6]
    assert sum("of ATOM runs" in note for note in reading.notes) == 2


@pytest.mark.parametrize("load", [load_scaling_study, load_atom_moe, load_h200_70b])
def test_rows_are_those_of_the_bundled_tables(reading, load):
    theirs = check_runs(load()).set_index("run_id")
    complete = [run for run in reading.runs if not missing_cells(run)]
    ours = check_runs(table(complete)).set_index("run_id")
    common = ours.index.intersection(theirs.index)
    assert len(common) >= 2
    for name in theirs.columns:
        one, other = ours.loc[common, name], theirs.loc[common, name]
        assert ((one == other) | (one.isna() & other.isna())).all(), name


def test_rows_pass_the_check_when_the_rest_is_given(reading):
    given = {"input_len_tokens": 500.0, "output_len_tokens": 300.0, "num_requests": 200}
    full = [{**given, **run} for run in reading.runs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(check_runs(table(full))) == 17


# The shapes of sources that are not in the excerpt; the figures are made up.
LOAD_STUDY = {"source_id": "study", "engine": "vllm", "verifier": "Qwen/Qwen2.5-7B-Instruct"} | {
    "sweep_id": "s",
    "verifier_params_b": 7.6,
    "drafter": "ngram (prompt lookup)",
    "method": "ngram",
}


def test_asked_rate_of_an_unnamed_tool_is_not_taken_for_arrivals(read_rows):
    reading = read_rows(
        LOAD_STUDY
        | {"run_id": "r6", "k": 2, "load_kind": "open", "request_rate_rps": 6, "n_requests": 150}
        | {"achieved_rps": 2.1, "note": "Poisson arrivals; max-num-seqs 32"},
    )
    (run,) = reading.runs
    assert (run["target_rate_rps"], run["arrivals"], run["max_num_seqs"]) == (6.0, "poisson", 32)
    assert "request_rate_rps" not in run
    assert any("target_rate_rps" in note and "side information" in note for note in reading.notes)


def test_median_of_a_gauge_is_no_mean(read_rows):
    closed = LOAD_STUDY | {"k": 0, "load_kind": "closed", "concurrency": 32, "mean_running": 32}
    reading = read_rows(
        closed | {"run_id": "a", "note": "mean_running holds the p50 of the running gauge"},
        closed | {"run_id": "b"},
    )
    assert "mean_in_system_requests" not in reading.runs[0]
    assert reading.runs[1]["mean_in_system_requests"] == 32.0
    assert any("a median is no mean" in note for note in reading.notes)


def test_run_without_draft_length_or_latency_is_kept(read_rows):
    reading = read_rows(
        {"source_id": "dashboard", "run_id": "mtp", "method": "mtp", "load_kind": "closed"}
        | {"concurrency": 4, "isl": 1024, "osl": 1024, "mean_ttft_s": 0.1},
        {"source_id": "table", "run_id": "k3", "method": "eagle", "k": 3, "output_tok_s": 900}
        | {"load_kind": "closed", "concurrency": 8},
    )
    assert (len(reading.runs), reading.skipped) == (2, [])
    assert missing_cells(reading.runs[0])[2:] == ["num_speculative_tokens", "num_requests"]


def test_a_cell_that_cannot_be_is_named_by_both_names(read_rows):
    reading = read_rows({"run_id": "a", "k": "three", "load_kind": "closed"}, {"run_id": "b"})
    assert [run["run_id"] for run in reading.runs] == ["b"]
    (message,) = reading.skipped
    assert message.startswith("line 2: k (num_speculative_tokens): num_speculative_tokens must be")


def test_columns_of_the_schema_may_stand_beside_and_must_not_repeat(read_rows):
    (run,) = read_rows({"run_id": "a", "sampling": "greedy"}, header=f"{HEADER},sampling").runs
    assert run["sampling"] == "greedy"
    with pytest.raises(FormatError, match="one column only may stand for input_len_tokens"):
        read_rows({"run_id": "a"}, header=f"{HEADER},input_len_tokens")
