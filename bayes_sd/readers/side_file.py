"""The TOML file of side information: its sections, and which files each of them is for."""

import os
import re
import tomllib
import warnings
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from bayes_sd.exceptions import FormatError
from bayes_sd.readers.content import PACKED
from bayes_sd.readers.reading import short
from bayes_sd.readers.side_cells import Template, side_cell, side_column, side_text

KEYS = ("match", "pattern")


@dataclass(frozen=True)
class Section:
    """Cells for the files that fit; all files, if there is nothing to fit.

    Attributes
    ----------
    place : str
        Where it stands, for messages.
    cells : dict
        Checked values, and `Template` for texts that depend on the file.
    match : str
        Glob, compared with the end of the path; empty for any.
    pattern : re.Pattern or None
        Searched in the path.
    """

    place: str
    cells: dict[str, Any]
    match: str = ""
    pattern: re.Pattern[str] | None = None

    def groups(self, path: Path, entry: str) -> dict[str, str | None] | None:
        """Return the named groups of the pattern if a file fits, else None."""
        bare = path.with_suffix("") if path.suffix in PACKED else path
        if self.match:
            ends = {PurePosixPath(Path(os.path.abspath(p)).as_posix()) for p in (path, bare)}
            if not any(end.match(self.match) for end in ends):
                return None
        if self.pattern is None:
            return {}
        for text in (path.as_posix(), bare.as_posix(), f"{path.as_posix()} {entry}"):
            if found := self.pattern.search(text):
                return found.groupdict()
        return None


def read_side_file(path: Path) -> list[Section]:
    """Read a TOML file of side information.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    list of Section
        ``[runs]`` first, then ``[[files]]`` in their order.

    Raises
    ------
    FormatError
        If it cannot be read, is no TOML, or a pattern or a match is none.
    ArgumentError
        If a key is no column, or a value is not allowed.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
        document = tomllib.loads(text)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise FormatError(f"{path} cannot be read: {reason}. Check the name.") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is no text in UTF-8. Save it as UTF-8.") from error
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise FormatError(
            f"{path} is no TOML: {reason}. Texts must be in quotes, as in verifier = "
            '"Qwen/Qwen3-8B"; in single ones if they hold a backslash.'
        ) from error
    lines = _Lines(path, text)
    for key in document:
        if key not in ("runs", "files"):
            raise FormatError(
                f"{lines.at(-1, key)}side information must stand under [runs] or [[files]]. Got "
                f"{short(key)} instead. Put cells for all files below a line [runs]."
            )
    runs, files = document.get("runs", {}), document.get("files", [])
    if not isinstance(runs, dict):
        raise FormatError(f"{lines.at(-1, 'runs')}runs must be a table: write a line [runs].")
    if not isinstance(files, list) or not all(isinstance(entry, dict) for entry in files):
        raise FormatError(
            f"{lines.at(-1, 'files')}files must be sections: write [[files]], with two brackets."
        )
    sections = [_section(runs, lines, 0)] if runs else []
    return sections + [_section(entry, lines, number) for number, entry in enumerate(files, 1)]


def _section(values: dict[str, Any], lines: "_Lines", number: int) -> Section:
    """Check one section; number 0 is ``[runs]``."""
    match, pattern = values.get("match", ""), None
    if number:
        if not any(key in values for key in KEYS):
            raise FormatError(
                f"{lines.at(number)}a section [[files]] must have match or pattern. Got neither "
                "instead. Cells for all files belong under [runs]."
            )
        if "match" in values:
            _check_match(match, lines.at(number, "match"))
        if "pattern" in values:
            pattern = _compile(values["pattern"], lines.at(number, "pattern"))
    cells = {}
    for name, value in values.items():
        if number and name in KEYS:
            continue
        where = lines.at(number, name)
        side_column(name, where)
        if isinstance(value, str):
            value = side_text(value, tuple(pattern.groupindex) if pattern else (), where)
        is_open = isinstance(value, Template)
        cells[name] = value if is_open else side_cell(name, value, where)
    return Section(lines.at(number).removesuffix(": "), cells, match, pattern)


def _check_match(match: Any, where: str) -> None:
    try:
        if not isinstance(match, str):
            raise ValueError
        PurePosixPath("a").match(match)
    except ValueError:
        raise FormatError(
            f'{where}match must be a glob, such as "k3_*/rep*.json". Got {short(match)} instead.'
        ) from None


def _compile(pattern: Any, where: str) -> re.Pattern[str]:
    if not isinstance(pattern, str) or not pattern:
        raise FormatError(
            f"{where}pattern must be a regular expression, such as '_k(?P<k>\\d+)/'. Got "
            f"{short(pattern)} instead."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of meanings that may change
            return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise FormatError(
            f"{where}pattern must be a regular expression. Got {short(pattern)} instead: {error}. "
            "Write it in single quotes, so that its backslashes are kept."
        ) from error


class _Lines:
    """Where the keys of a TOML file stand, as far as a search for them tells."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._found: dict[tuple[int, str], int] = {}
        section, number = -1, 0
        for line_number, line in enumerate(text.splitlines(), 1):
            header = re.match(r"\s*\[\s*(\[?)\s*[\"']?(\w+)", line)
            key = re.match(r"\s*[\"']?([\w-]+)[\"']?\s*=", line)
            if header and header[1] and header[2] == "files":
                number += 1
                section = number
                self._found.setdefault((section, ""), line_number)
            elif header:
                section = 0 if header[2] == "runs" else -1
                self._found.setdefault((-1, header[2]), line_number)
                self._found.setdefault((section, ""), line_number)
            elif key:
                self._found.setdefault((section, key[1]), line_number)

    def at(self, section: int, key: str = "") -> str:
        """Name a place for the beginning of a message; section -1 is the file's top."""
        line = self._found.get((section, key)) or self._found.get((section, ""))
        if line and (section >= 0 or key):
            return f"{self._path} line {line}: "
        return f"{self._path} section {section}: " if section > 0 else f"{self._path}: "
