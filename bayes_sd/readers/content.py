"""The content of one file, whatever it is packed in: text, lines, parsed JSON."""

import codecs
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import orjson
import zstandard

from bayes_sd.exceptions import FormatError

HEAD_BYTES = 1 << 18
MAX_WHOLE_BYTES = 256 << 20  # parsed at once, which takes several times as much memory
MAX_LINE_BYTES = 64 << 20
ZSTD_BYTES = 1 << 10  # unpacked in one go, to at most some ten thousand times as much
CANNOT_READ = (OSError, EOFError, zlib.error, zstandard.ZstdError)
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# A log may start with a date in brackets; a list of results starts with an object.
JSON_START = re.compile(r"\s*(\{|\[\s*[\[{\]])")


class _ZstdFile(io.RawIOBase):
    """A Zstandard file, whose end must be there: `zstandard.open` takes half a file for a whole."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._unpacker = zstandard.ZstdDecompressor().decompressobj()
        self._packed = b""
        self._unpacked = memoryview(b"")

    def readable(self) -> bool:
        """Tell that the file can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; return how much, 0 at the end of the file."""
        while not self._unpacked:
            self._packed = self._packed or self._file.read(ZSTD_BYTES)
            if not self._packed and not self._unpacker.eof:
                raise EOFError("its end is missing")
            if not self._packed:
                return 0
            if self._unpacker.eof:  # another frame follows
                self._unpacker = zstandard.ZstdDecompressor().decompressobj()
            self._unpacked = memoryview(self._unpacker.decompress(self._packed))
            self._packed = self._unpacker.unused_data
        size = min(len(buffer), len(self._unpacked))
        buffer[:size] = self._unpacked[:size]
        self._unpacked = self._unpacked[size:]
        return size

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def _open_zstd(path: Path, mode: str) -> IO[bytes]:
    return io.BufferedReader(_ZstdFile(path), 1 << 17)


PACKED = {".gz": gzip.open, ".zst": _open_zstd}


class Content:
    """One file, opened on demand; every failure is a `FormatError` that names it.

    Parameters
    ----------
    path : Path
        A file; ``.gz`` and ``.zst`` are unpacked as they are read.

    Raises
    ------
    FormatError
        If it is no file, is empty, cannot be unpacked, or is not text.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_dir():
            raise FormatError(f"{path} is a folder. Give the files in it, or the folder itself.")
        if not path.is_file():
            raise FormatError(f"{path} is not a file. Check the name.")
        raw = self._read(HEAD_BYTES)
        if not raw.strip():
            raise FormatError(f"{path} is empty. Leave it out, or run its benchmark again.")
        self.is_binary = raw[:4] == b"PAR1"  # a Parquet table
        self.head_is_all = len(raw) < HEAD_BYTES
        self._is_utf16 = raw[:2] in UTF16_MARKS
        self.head = "" if self.is_binary else self._text(raw, cut=not self.head_is_all)

    @property
    def name(self) -> str:
        """The file's name without the ending of its packing."""
        return self.path.stem if self.path.suffix in PACKED else self.path.name

    @cached_property
    def is_json(self) -> bool:
        """Whether the file starts as one JSON document does."""
        return bool(JSON_START.match(self.head)) and not self.is_lines

    @cached_property
    def is_lines(self) -> bool:
        """Whether the file holds one JSON object a line, and more than one line."""
        lines = self.head.lstrip().split("\n")
        if not lines[0].startswith("{"):
            return False
        if len(lines) == 1:  # the first line alone fills the head: look further
            return not self.head_is_all and self._first_line_is_a_document()
        try:
            parse_json(lines[0].encode(), "")
        except FormatError:
            return False
        return any(line.strip() for line in lines[1:])

    @cached_property
    def sample(self) -> Any:
        """The first JSON value of the file, by which its format is known; None if there is none."""
        if self.is_binary:
            return None
        if self.is_lines:
            for number, line in self.lines():
                return parse_json(line, f"{self.path} line {number}")
        return self.json if self.is_json else None

    @cached_property
    def json(self) -> Any:
        """The whole file parsed as one JSON document."""
        return parse_json(self._read(MAX_WHOLE_BYTES + 1), str(self.path))

    def text(self) -> str:
        """Return the whole file as text."""
        return self._text(self._read(MAX_WHOLE_BYTES + 1))

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield number (from 1) and bytes of each line that is not blank, as they are read."""
        try:
            with self._open() if not self._is_utf16 else self._as_utf8() as file:
                number = 0
                while line := file.readline(MAX_LINE_BYTES + 1):
                    number += 1
                    if len(line) > MAX_LINE_BYTES:
                        raise FormatError(
                            f"{self.path} line {number} is above {MAX_LINE_BYTES >> 20} MB. A line "
                            "holds one record; write the file anew, one record a line."
                        )
                    if line.strip():
                        yield number, line
        except CANNOT_READ as error:
            raise self._broken(error) from error

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Yield the objects of a file, whether one, a list of them, or one a line.

        Yields
        ------
        place : str
            Where in the file, for messages: ``""`` for the whole, ``"line 3"``, ``"entry 2"``.
        found : object
            The parsed value, or the `FormatError` that says why this one cannot be had.
        """
        if not self.is_lines:
            whole = self.json
            if not isinstance(whole, list):
                yield "", whole
                return
            for number, entry in enumerate(whole, 1):
                yield f"entry {number}", entry
            return
        lines = self.lines()
        while True:
            try:
                number, line = next(lines)
            except StopIteration:
                return
            except FormatError as error:  # the rest of the file cannot be had
                yield "", error
                return
            place = f"line {number}"
            try:
                yield place, parse_json(line, place)
            except FormatError as error:
                yield place, error

    def _first_line_is_a_document(self) -> bool:
        try:
            with self._open() if not self._is_utf16 else self._as_utf8() as file:
                while (first := file.readline(MAX_LINE_BYTES + 1)) and not first.strip():
                    pass
                if not (first.endswith(b"\n") and first.rstrip().endswith(b"}")):
                    return False  # a document of several lines, or one that fills the file
                while rest := file.readline(HEAD_BYTES):
                    if rest.strip():
                        return True
                return False
        except CANNOT_READ as error:
            raise self._broken(error) from error

    def _as_utf8(self) -> IO[bytes]:
        return io.BytesIO(self.text().encode())

    def _open(self) -> IO[bytes]:
        opener: Any = PACKED.get(self.path.suffix, open)
        opened: IO[bytes] = opener(self.path, "rb")
        return opened

    def _read(self, size: int) -> bytes:
        try:
            with self._open() as file:
                found = file.read(size)
        except CANNOT_READ as error:
            raise self._broken(error) from error
        if len(found) > MAX_WHOLE_BYTES:
            raise FormatError(
                f"{self.path} is above {MAX_WHOLE_BYTES >> 20} MB and not one record a line. Save "
                "it without per-request details, or one record a line (JSONL)."
            )
        return found

    def _broken(self, error: Exception) -> FormatError:
        reason = str(error).strip() or type(error).__name__
        return FormatError(f"{self.path} cannot be read: {reason}. Copy or pack it again.")

    def _text(self, raw: bytes, *, cut: bool = False) -> str:
        encoding = "utf-16" if raw[:2] in UTF16_MARKS else "utf-8-sig"
        decoder = codecs.getincrementaldecoder(encoding)()
        try:  # a text that was cut may end within a character
            return decoder.decode(raw, final=not cut)
        except UnicodeDecodeError:
            pass
        raise FormatError(
            f"{self.path} is no text in UTF-8 (or UTF-16 with its mark). Save it as UTF-8; a "
            "packed file must end in .gz or .zst."
        )


def parse_json(raw: bytes, place: str) -> Any:
    """Parse one JSON document, quickly; with NaN and Infinity, which tools write, where need be.

    Parameters
    ----------
    raw : bytes
        The document, in UTF-8, or in UTF-16 with its mark.
    place : str
        Where it stands, for the message.

    Raises
    ------
    FormatError
        If it is no JSON.

    Examples
    --------
    >>> parse_json(b'{"rate": Infinity}', "run.json")
    {'rate': inf}
    """
    if raw[:3] == b"\xef\xbb\xbf":
        raw = raw[3:]
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        strict = str(error)
    try:
        if b"NaN" in raw or b"Infinity" in raw or raw[:2] in UTF16_MARKS:
            return json.loads(raw)
    except RecursionError:
        strict = "it is nested too deeply"
    except ValueError as error:
        strict = str(error)
    start = f"{place} is" if place else "it is"
    raise FormatError(
        f"{start} no JSON: {strict}. If the run was stopped while it wrote the file, run it again."
    )
