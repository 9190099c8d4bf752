"""The content of files: packing, encodings, sizes, one document or one a line."""

import contextlib
import gzip
import json
import random
import time
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_sd.exceptions import FormatError
from bayes_sd.readers import content as module
from bayes_sd.readers.content import Content, parse_json

RUNS = [{"rate": 1.0, "name": "é漢😀"}, {"rate": 2.0, "name": "b"}, {"rate": 3.0, "name": "c"}]
LINES = "".join(json.dumps(run, ensure_ascii=False) + "\n" for run in RUNS)
NUMBERED = [("line 1", RUNS[0]), ("line 2", RUNS[1]), ("line 3", RUNS[2])]


@pytest.fixture
def file(tmp_path):
    """Write bytes or text to a file and open it as content."""

    def of(data: bytes | str, name: str = "result.json") -> Content:
        path = tmp_path / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return Content(path)

    return of


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


PACK = {
    "plain": ("runs.jsonl", lambda data: data),
    "gz": ("runs.jsonl.gz", gzip.compress),
    "gz of two members": ("runs.jsonl.gz", lambda d: gzip.compress(d[:9]) + gzip.compress(d[9:])),
    "zst": ("runs.jsonl.zst", zstd),
    "zst of two frames": ("runs.jsonl.zst", lambda d: zstd(d[:9]) + zstd(d[9:])),
}


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize(
    "encoded",
    [
        LINES.encode(),
        b"\xef\xbb\xbf" + LINES.encode(),
        LINES.replace("\n", "\r\n").encode(),
        ("\n\n" + LINES.replace("\n", "\n \n")).encode(),
        LINES.rstrip("\n").encode(),
        LINES.encode("utf-16"),
        b"\xfe\xff" + LINES.encode("utf-16-be"),
    ],
    ids=["utf-8", "mark", "crlf", "blank lines", "no last newline", "utf-16", "utf-16-be"],
)
def test_lines_are_the_same_in_any_packing_and_encoding(file, packing, encoded):
    name, pack = PACK[packing]
    content = file(pack(encoded), name)
    assert content.is_lines
    assert not content.is_json
    assert content.sample == RUNS[0]
    assert [found for _, found in content.entries()] == RUNS
    assert content.name == "runs.jsonl"
    assert "漢" in content.text()


def test_places_count_blank_lines(file):
    content = file('{"a": 1}\n\n{"a": 2}\n')
    assert list(content.entries()) == [("line 1", {"a": 1}), ("line 3", {"a": 2})]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("indent", [None, 1])
def test_one_document_whatever_its_lines_and_encoding(file, encoding, indent):
    content = file(json.dumps(RUNS[0], ensure_ascii=False, indent=indent).encode(encoding))
    assert content.is_json
    assert not content.is_lines
    assert content.sample == content.json == RUNS[0]
    assert list(content.entries()) == [("", RUNS[0])]


def test_a_list_gives_its_entries(file):
    content = file(json.dumps(RUNS))
    assert content.is_json
    assert list(content.entries()) == [(f"entry {n}", run) for n, run in enumerate(RUNS, 1)]


def test_a_document_of_one_line_is_not_lines(file):
    assert list(file('{"a": 1}\n\n').entries()) == [("", {"a": 1})]


def test_a_bad_line_takes_no_other_with_it(file):
    places, found = zip(*file('{"a": 1}\n{"a": \n{"a": 3}\n').entries(), strict=True)
    assert places == ("line 1", "line 2", "line 3")
    assert found[0] == {"a": 1}
    assert found[2] == {"a": 3}
    assert isinstance(found[1], FormatError)
    assert str(found[1]).startswith("line 2 is no JSON: ")


def test_nan_and_infinity_are_read_as_python_writes_them(file):
    (_, found), (_, other) = file('{"rate": Infinity}\n{"rate": -Infinity, "x": NaN}\n').entries()
    assert found["rate"] == float("inf")
    assert other["rate"] == -float("inf")
    assert other["x"] != other["x"]


@pytest.mark.parametrize("nan", ["", "NaN"])
@pytest.mark.parametrize("bracket", ["[", '{"a":'])
def test_deep_nesting_is_an_error_not_a_crash(file, bracket, nan):
    content = file(bracket * 100_000 + nan)
    with pytest.raises(FormatError, match="no JSON"):
        _ = content.json


@pytest.mark.parametrize(
    ("start", "is_json"),
    [
        ("[2026-12-02 10:00:00] Decode batch", False),
        ("[INFO] started", False),
        (' [ \n {"a": 1}]', True),
        ("[[1]]", True),
        ("[]", True),
        ("{}", True),
        ("# HELP vllm:x", False),
        ('"text"', False),
    ],
)
def test_a_log_with_brackets_is_no_json(file, start, is_json):
    assert file(start).is_json is is_json


def test_text_has_no_sample(file):
    assert file("rate,latency\n1,2\n").sample is None


@pytest.mark.parametrize("data", [b"", b" \n\t\n", gzip.compress(b"")])
def test_empty(file, data):
    name = "a.json.gz" if data[:1] == b"\x1f" else "a.json"
    with pytest.raises(FormatError, match=rf"{name} is empty\. Leave it out"):
        file(data, name)


def test_a_folder_and_a_missing_file(tmp_path):
    with pytest.raises(FormatError, match="is a folder"):
        Content(tmp_path)
    with pytest.raises(FormatError, match="is not a file"):
        Content(tmp_path / "none.json")


@pytest.mark.parametrize("data", ['{"name": "é"}'.encode("latin-1"), b"\x89PNG\r\n\x1a\n\x00\xff"])
def test_other_encodings_are_refused(file, data):
    with pytest.raises(FormatError, match="no text in UTF-8"):
        file(data)


def test_parquet_is_known_by_its_mark(file):
    content = file(b"PAR1\x00\xff\xfe\x00PAR1", "runs.parquet")
    assert content.is_binary
    assert content.sample is None


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst"])
def test_a_packed_file_that_is_none(file, name):
    with pytest.raises(FormatError, match=rf"{name} cannot be read: .*Copy or pack it again"):
        file(LINES, name)


def random_lines(size: int) -> bytes:
    """Return lines that do not pack well, so that half a file holds some of them."""
    draw = random.Random(1)
    return b"".join(b'{"x": "%x"}\n' % draw.getrandbits(4000) for _ in range(size))


@pytest.mark.parametrize(("name", "pack"), [("a.jsonl.gz", gzip.compress), ("a.jsonl.zst", zstd)])
def test_half_a_packed_file_gives_its_lines_and_the_error(file, name, pack):
    """Nothing that was read is lost, and the loss of the rest is said."""
    packed = pack(random_lines(2000))
    content = file(packed[: len(packed) // 2], name)
    found = [value for _, value in content.entries()]
    assert 400 < len(found) < 1600
    assert all(isinstance(value, dict) for value in found[:-1])
    assert isinstance(found[-1], FormatError)
    assert "cannot be read" in str(found[-1])


def test_a_zstd_file_without_its_last_byte(file):
    with pytest.raises(FormatError, match="its end is missing"):
        file(zstd(LINES.encode())[:-1], "a.jsonl.zst")


def test_a_file_above_the_size_that_is_parsed_at_once(file, monkeypatch):
    monkeypatch.setattr(module, "MAX_WHOLE_BYTES", 1000)
    monkeypatch.setattr(module, "HEAD_BYTES", 100)
    content = file(json.dumps(["x"] * 500, indent=1))
    with pytest.raises(FormatError, match="not one record a line"):
        list(content.entries())
    assert len(list(file(LINES * 40).entries())) == 120  # line by line there is no limit


def test_a_line_above_the_size_of_a_record(file, monkeypatch):
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 1000)
    content = file('{"a": 1}\n' + json.dumps({"b": "x" * 2000}) + '\n{"a": 3}\n')
    first, error = content.entries()
    assert first == ("line 1", {"a": 1})
    assert "line 2 is above" in str(error[1])


def test_a_long_document_of_one_line_is_no_record(file, monkeypatch):
    """The limit on records is not one on documents."""
    monkeypatch.setattr(module, "HEAD_BYTES", 100)
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 1000)
    run = {"texts": ["x" * 50] * 100}
    for end in ("", "\n", "\n\n"):
        assert list(file(json.dumps(run) + end).entries()) == [("", run)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_first_line_above_the_head(file, monkeypatch, encoding):
    monkeypatch.setattr(module, "HEAD_BYTES", 64)
    long = {"texts": ["é" * 50] * 10}
    content = file((json.dumps(long, ensure_ascii=False) + "\n" + LINES).encode(encoding))
    assert content.is_lines
    assert [found for _, found in content.entries()] == [long, *RUNS]


def test_a_first_line_above_the_real_head(file):
    long = {"texts": ["x" * 1000] * 1000}
    content = file(json.dumps(long) + "\n" + LINES)
    assert len(content.head) == module.HEAD_BYTES
    assert content.is_lines
    assert content.sample == long


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("shift", range(4))
def test_a_head_that_ends_within_a_character(file, monkeypatch, mark, shift):
    monkeypatch.setattr(module, "HEAD_BYTES", 40)
    content = file(mark + b"x" * shift + ("漢" * 40).encode())
    assert content.head == "x" * shift + "漢" * ((40 - len(mark) - shift) // 3)


def test_a_head_that_ends_within_a_pair_of_utf_16(file, monkeypatch):
    monkeypatch.setattr(module, "HEAD_BYTES", 40)
    assert file(("x" + "😀" * 40).encode("utf-16")).head == "x" + "😀" * 9


def test_a_long_line_takes_time_in_proportion(file):
    content = file(json.dumps({"texts": ["x" * 1000] * 20_000}))
    start = time.perf_counter()
    assert len(content.sample["texts"]) == 20_000
    assert time.perf_counter() - start < 20


@pytest.mark.parametrize("raw", [b"", b"{", b"nul", b"\xff\xfe{", b"\xff", b"[1e999]", b"[NaN"])
def test_what_is_no_json_says_so(raw):
    with pytest.raises(FormatError, match=r"^a\.json is no JSON: .*run it again\.$"):
        parse_json(raw, "a.json")


@given(data=st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_bytes_give_content_or_the_error(tmp_path_factory, data):
    path: Path = tmp_path_factory.mktemp("bytes") / "a.json"
    path.write_bytes(data)
    with contextlib.suppress(FormatError):
        content = Content(path)
        assert isinstance(content.is_json, bool)
        list(content.entries())
        content.text()
