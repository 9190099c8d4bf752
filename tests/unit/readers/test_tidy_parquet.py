"""Tables of runs in Parquet: the same cells as in text, and damaged files refused."""

import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_sd.datasets import load_vllm_cpu
from bayes_sd.exceptions import BayesSdError, FormatError
from bayes_sd.frames import check_runs
from bayes_sd.readers import tidy
from bayes_sd.readers.content import Content
from bayes_sd.readers.rows import table


def bundled(quantity=12):
    return load_vllm_cpu().head(quantity)


def test_parquet_table_comes_back_as_it_is(tmp_path):
    frame = bundled()
    path = tmp_path / "runs.parquet"
    frame.to_parquet(path, index=False)
    content = Content(path)
    assert content.is_binary
    assert tidy.recognises_parquet(content)
    reading = tidy.read(content)
    assert (reading.skipped, reading.notes) == ([], [])
    assert reading.runs[0]["_entry"] == "row 1"
    pd.testing.assert_frame_equal(check_runs(table(reading.runs)), check_runs(frame))
    packed = tmp_path / "runs.parquet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert tidy.read(Content(packed)).runs == reading.runs


def test_parquet_keeps_types_that_text_has_not(tmp_path):
    path = tmp_path / "runs.parquet"
    frame = pd.DataFrame(
        {
            "run_id": ["a"],
            "input_len_tokens": pd.array([512], dtype="Int32"),
            "output_len_tokens": np.array([128.5], dtype="float32"),
            "num_requests": pd.array([None], dtype="Int64"),
            "is_throughput_test": [True],
            "accepted_per_position": [[8, 5, 2]],
            "date": pd.to_datetime(["2026-12-01 07:05:54.123456789"]),
            "engine_version": pd.Categorical(["0.10"]),
        }
    )
    frame.to_parquet(path)
    (run,) = tidy.read(Content(path)).runs
    assert run == {
        "_entry": "row 1",
        "run_id": "a",
        "input_len_tokens": 512.0,
        "output_len_tokens": 128.5,
        "is_throughput_test": True,
        "accepted_per_position": "8;5;2",
        "date": "2026-12-01",
        "engine_version": "0.10",
    }


@pytest.mark.parametrize("kept", [8, 100, 1000, -1])
def test_damaged_parquet_is_refused(tmp_path, kept):
    path = tmp_path / "runs.parquet"
    bundled().to_parquet(path)
    path.write_bytes(path.read_bytes()[:kept])
    content = Content(path)
    assert not tidy.recognises_parquet(content)
    with pytest.raises(FormatError, match="cannot be read as Parquet"):
        tidy.read(content)


def test_parquet_of_something_else_is_not_a_table_of_runs(tmp_path):
    path = tmp_path / "images.parquet"
    pd.DataFrame({"image": [b"\xff"], "label": [3]}).to_parquet(path)
    content = Content(path)
    assert not tidy.recognises_parquet(content)
    with pytest.raises(FormatError, match="must name columns"):
        tidy.read(content)


def test_parquet_with_bytes_for_text_skips_the_rows(tmp_path):
    path = tmp_path / "runs.parquet"
    pd.DataFrame({"num_requests": [1, 2], "sweep_id": [b"\xff", b"a"]}).to_parquet(path)
    reading = tidy.read(Content(path))
    assert reading.runs == []
    assert reading.skipped[0].startswith("row 1: sweep_id must be text. Got b'")


@pytest.fixture(scope="module")
def whole_parquet(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "runs.parquet"
    bundled(4).to_parquet(path)
    return path.read_bytes()


@settings(max_examples=60, deadline=None)
@given(
    damage=st.lists(st.tuples(st.integers(4, 2**20), st.integers(0, 255)), min_size=1, max_size=4)
)
def test_damaged_bytes_of_parquet_end_in_runs_or_an_error(tmp_path_factory, whole_parquet, damage):
    path = tmp_path_factory.mktemp("any") / "runs.parquet"
    raw = bytearray(whole_parquet)
    for place, value in damage:
        raw[max(4, place % len(raw))] = value
    path.write_bytes(raw)
    try:
        tidy.read(Content(path))
    except BayesSdError:
        return
