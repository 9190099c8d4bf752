"""Records of AIPerf, against the tool's own summary of the same run and against pandas."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

from bayes_sd.exceptions import FormatError
from bayes_sd.readers import aiperf, aiperf_records
from bayes_sd.readers.content import Content
from tests.unit.readers.aiperf_files import (
    FILES,
    RECORDS,
    SUMMARY,
    checked,
    load_records,
    read_records,
    record,
    said,
)

WHOLE = ("0.3.0_open", "0.13.0_open", "0.13.0_closed")  # files with all records of their run
STATISTICS = ("mean", "p50", "p90", "p95", "p99")


def read(folder):
    return aiperf_records.read(Content(FILES / folder / RECORDS[folder]))


@pytest.mark.parametrize("folder", RECORDS)
def test_files_are_recognised_and_their_runs_pass_the_schema(folder):
    content = Content(FILES / folder / RECORDS[folder])
    assert content.is_lines
    assert aiperf_records.recognises(content.sample)
    assert not aiperf.recognises(content.sample)
    reading = read(folder)
    assert not reading.skipped
    burst = {"load_kind": "closed", "concurrency": 100}  # all at once, as the summary tells
    assert len(checked(reading, **(burst if folder == "2025-10" else {}))) == 1


@pytest.mark.parametrize(
    "other",
    [
        None,
        [],
        {},
        {"metadata": {}, "metrics": {}},
        {"metadata": {"request_start_ns": 1}, "metrics": []},
        {"metadata": {"request_start_ns": 1}, "payload": {}, "responses": []},  # raw records
        {"request_latency": {"unit": "ms", "avg": 1.0}},
    ],
)
def test_other_files_are_not_recognised(other):
    assert not aiperf_records.recognises(other)


@pytest.mark.parametrize("folder", WHOLE)
def test_figures_are_those_of_the_tools_summary(folder):
    (run,) = read(folder).runs
    (theirs,) = aiperf.read(Content(FILES / folder / SUMMARY)).runs
    names = [f"{s}_{kind}_s" for s in STATISTICS for kind in ("e2e", "ttft", "tpot", "itl")]
    names += ["num_requests", "input_len_tokens", "output_len_tokens"]
    for name in names:
        assert run[name] == pytest.approx(theirs[name], rel=1e-9), name
    # Theirs ends with the last byte of the last answer, ours with its last token.
    assert run["_duration_s"] == pytest.approx(theirs["_duration_s"], rel=1e-3)
    assert run["completed_rate_rps"] == pytest.approx(theirs["completed_rate_rps"], rel=0.03)


@pytest.mark.parametrize("folder", ["0.13.0_open", "0.13.0_closed"])
def test_acceptance_is_that_of_the_tools_summary(folder):
    (run,) = read(folder).runs
    (theirs,) = aiperf.read(Content(FILES / folder / SUMMARY)).runs
    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens", "accepted_length_counts")
    for name in (*names, "num_speculative_tokens"):
        assert run[name] == theirs[name]
    for name in ("mean_acceptance_length", "draft_acceptance_rate"):
        assert run[name] == pytest.approx(theirs[name])
    assert run["engine"] == "vllm"


@pytest.mark.parametrize("folder", WHOLE)
def test_rate_and_requests_are_those_of_the_lines(folder):
    """The same by pandas, from the parsed lines."""
    lines = load_records(folder)
    kept = [
        line
        for line in lines
        if line.get("error") is None and line["metadata"]["benchmark_phase"] == "profiling"
    ]
    frame = pd.json_normalize(kept)
    start = frame["metadata.request_start_ns"].sort_values() / 1e9
    reading = read(folder)
    (run,), (requests,) = reading.runs, reading.requests
    assert run["request_rate_rps"] == pytest.approx((len(start) - 1) / (start.max() - start.min()))
    assert len(requests) == len(kept) == run["num_requests"]
    for ours, theirs in (("e2e_s", "request_latency"), ("ttft_s", "time_to_first_token")):
        np.testing.assert_allclose(requests[ours], frame[f"metrics.{theirs}.value"] / 1e3)
    tokens = frame["metrics.output_sequence_length.value"]
    tpot = (requests["e2e_s"] - requests["ttft_s"]) / (tokens - 1)
    np.testing.assert_allclose(tpot, frame["metrics.inter_token_latency.value"] / 1e3)
    end = (
        start.min() + (requests["start_s"] + requests["e2e_s"] - requests["start_s"].min())
    ).max()
    assert run["_end_s"] == pytest.approx(end, abs=1e-3)


def test_what_was_left_out_is_counted():
    assert said(read("0.13.0_open"), "of 63 records were left out: 3 of the phase 'warmup'")
    assert said(read("0.13.0_closed"), "of 40 records were left out: 4 cancelled")
    assert said(read("2025-10"), "of 4 records were left out: 1 failed")


def test_first_version_names_phase_and_start_otherwise():
    (run,) = read("2025-10").runs
    assert run["num_requests"] == 3
    values = [1680.543782, 3340.543979, 1413.032097]  # ttft, ms
    assert run["mean_ttft_s"] == pytest.approx(np.mean(values) / 1e3)
    starts = [1759522419159192408, 1759522419158355424, 1759522419158644127]
    rate = 2e9 / (max(starts) - min(starts))
    assert run["request_rate_rps"] == pytest.approx(rate)


def test_load_is_left_to_the_summary():
    reading = read("0.13.0_open")
    assert not {"load_kind", "arrivals", "concurrency"} & set(reading.runs[0])
    assert said(reading, "the summary beside them does", "1.07 of their mean")


def test_broken_lines_are_skipped_and_told_together(tmp_path):
    lines = [record(n) for n in range(40)]
    lines[3:3] = ["", "{broken", "[1, 2]", "null", '{"metadata": 3, "metrics": {}}', '"text"']
    lines.append(json.dumps(record(41))[:-40])  # the last one was cut
    reading = read_records(tmp_path, lines)
    (run,) = reading.runs
    assert run["num_requests"] == 40
    (message,) = reading.skipped
    assert message.startswith("6 lines are no records (5, 6, 7, 8, 9, ...)")
    assert "the last line is cut" in message


def test_packed_file_that_ends_early_keeps_what_came_before(tmp_path):
    raw = "\n".join(json.dumps(record(n, e2e=1000.0 + n)) for n in range(2000)).encode()
    packed = gzip.compress(raw)
    path = tmp_path / "profile_export.jsonl.gz"
    path.write_bytes(packed[: len(packed) * 9 // 10])
    reading = aiperf_records.read(Content(path))
    assert 1000 < reading.runs[0]["num_requests"] < 2000
    assert "cannot be read" in reading.skipped[0]


def test_phases_of_several_names_are_several_runs(tmp_path):
    lines = [record(n) for n in range(40)]
    for n, line in enumerate(lines):
        line["metadata"]["phase_name"] = "low" if n < 30 else "high"
    reading = read_records(tmp_path, lines)
    assert [run["num_requests"] for run in reading.runs] == [30, 10]
    assert [run["_entry"] for run in reading.runs] == ["phase low", "phase high"]


def test_progress_is_told_in_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(aiperf_records, "PROGRESS_BYTES", 1000)
    path = tmp_path / "profile_export.jsonl"
    path.write_text("\n".join(json.dumps(record(n)) for n in range(20)) + "\n")
    told = []
    aiperf_records.read(Content(path), progress=told.append)
    assert len(told) > 5
    assert told == sorted(told)
    assert told[-1] == path.stat().st_size


@pytest.mark.parametrize("unit", ["minutes", None, 3, ["ms"]])
def test_metric_of_an_unknown_unit_is_left_out(tmp_path, unit):
    lines = [record(n) for n in range(10)]
    for line in lines:
        line["metrics"]["time_to_first_token"]["unit"] = unit
    reading = read_records(tmp_path, lines)
    (run,) = reading.runs
    assert "mean_ttft_s" not in run
    assert "mean_tpot_s" not in run
    assert run["mean_e2e_s"] == 1
    assert said(reading, "in 10 of 10 records: time_to_first_token in the unit")


def test_units_may_be_others_than_ms(tmp_path):
    lines = [record(n) for n in range(10)]
    for line in lines[:5]:
        line["metrics"]["request_latency"] = {"value": 1e9, "unit": "ns"}
        line["metrics"]["inter_chunk_latency"] = {"value": [2e7, 3e7, 4e7], "unit": "ns"}
    (run,) = read_records(tmp_path, lines).runs
    assert run["p99_e2e_s"] == pytest.approx(1.0)
    assert run["mean_itl_s"] == pytest.approx(0.03)


def test_requests_that_lack_a_figure_are_left_out_of_it_only(tmp_path):
    lines = [record(n, ttft=100.0 + 10 * n, tokens=11) for n in range(10)]
    lines[0]["metrics"].pop("time_to_first_token")
    lines[1]["metrics"]["output_sequence_length"]["value"] = 0
    reading = read_records(tmp_path, lines)
    (run,) = reading.runs
    assert run["num_requests"] == 10
    assert run["mean_ttft_s"] == pytest.approx(np.mean([120 + 10 * n for n in range(8)]) / 1e3)
    assert run["output_len_tokens"] == 11
    assert said(reading, "ttft_s is not known of 1 of 10 requests")
    assert said(reading, "output_len_tokens is not known of 1 of 10 requests")
    assert len(checked(reading)) == 1


def test_times_that_cannot_be_are_left_out(tmp_path):
    lines = [record(n) for n in range(10)]
    lines[2]["metrics"]["request_latency"]["value"] = -5.0
    lines[3]["metrics"]["request_latency"]["value"] = float("nan")
    lines[4]["metrics"]["time_to_first_token"]["value"] = 2000.0  # after the end
    lines[5]["metadata"]["request_start_ns"] = None
    lines[6]["metrics"]["request_latency"]["value"] = "fast"
    reading = read_records(tmp_path, lines)
    assert reading.runs[0]["num_requests"] == 5
    assert said(reading, "5 of 10 requests have times that cannot be")
    assert said(reading, "in 1 of 10 records: request_latency without a number")


def test_clock_that_goes_backwards_changes_no_latency(tmp_path):
    forward = read_records(tmp_path, [record(n) for n in range(10)]).runs[0]
    backward = read_records(tmp_path, [record(n) for n in range(10)][::-1]).runs[0]
    assert backward == pytest.approx(forward)


def test_start_on_another_clock_is_no_moment(tmp_path):
    lines = [record(n) for n in range(10)]
    for line in lines:
        line["metadata"]["request_start_ns"] -= 1_796_227_000_000_000_000
    (run,) = read_records(tmp_path, lines).runs
    assert "_end_s" not in run
    assert run["request_rate_rps"] == pytest.approx(4.0)


def test_phase_that_is_not_told_is_said(tmp_path):
    lines = [record(n) for n in range(10)]
    for line in lines:
        line["metadata"].pop("benchmark_phase")
    reading = read_records(tmp_path, lines)
    assert reading.runs[0]["num_requests"] == 10
    assert said(reading, "10 of 10 records do not tell their phase")


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_requests_are_no_run(tmp_path, count):
    failed = [record(n, error={"code": 500}) for n in range(3)]
    lines = [record(n) for n in range(count)] + failed
    if not count:
        reading = read_records(tmp_path, lines)
        assert not reading.runs
    else:
        reading = read_records(tmp_path, lines)
        assert "at least 2 finished requests" in reading.skipped[0]
    assert said(reading, "of 3" if not count else "of 4", "3 failed")


def test_file_without_records_is_refused(tmp_path):
    with pytest.raises(FormatError, match=r"no line that is a record of AIPerf.*metadata"):
        read_records(tmp_path, [{"a": 1}, {"b": 2}])


def test_zstandard_and_gzip_give_the_same(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    raw = gzip.decompress((FILES / "0.3.0_open" / RECORDS["0.3.0_open"]).read_bytes())
    path = tmp_path / "profile_export.jsonl.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(raw))
    assert aiperf_records.read(Content(path)).runs == read("0.3.0_open").runs
