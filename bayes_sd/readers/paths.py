"""From what a user gives, paths, folders and patterns, to a list of files."""

import glob
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bayes_sd.exceptions import ArgumentError, FormatError
from bayes_sd.readers.content import PACKED

# Endings of files that are read from a folder; a file that is named itself may have any.
ENDINGS = (".json", ".jsonl", ".csv", ".tsv", ".parquet", ".txt", ".prom", ".log")
BLOCK_BYTES = 1 << 20


@dataclass
class Files:
    """Files to read, and what was left out.

    Attributes
    ----------
    paths : list of Path
        In the order given; those of a folder by name.
    skipped : list of str
        Files of folders that no reader takes, and doubles, with the reason.
    """

    paths: list[Path] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def find_files(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Files:
    """Find the files that paths, folders and patterns stand for; each file once.

    Parameters
    ----------
    paths : path, or iterable of paths
        Files; folders, read with all that is in them; patterns with ``*``, ``?``, ``[...]``,
        ``**`` for any depth.

    Raises
    ------
    ArgumentError
        If there is nothing to read, or an item is no path.
    FormatError
        If a pattern or a folder holds no file.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise ArgumentError("paths must name at least one file, folder or pattern. Got none.")
    found = Files()
    for item in given:
        if not isinstance(item, str | os.PathLike):
            raise ArgumentError(f"paths must hold paths. Got {type(item).__name__} instead.")
        _add(found, os.fspath(item))
    found.paths = list({_real(path): path for path in reversed(found.paths)}.values())[::-1]
    _drop_copies(found)
    return found


def _add(found: Files, item: str) -> None:
    if "\0" in item:
        raise ArgumentError("a path must not contain the character NUL.")
    path = Path(item)
    if path.is_dir():
        inside = sorted(p for p in path.rglob("*") if p.is_file())
        visible = [p for p in inside if not _is_hidden(p.relative_to(path))]
        known = [p for p in visible if _ending(p) in ENDINGS]
        if not known:
            raise FormatError(
                f"{path} holds no file to read. Files that end in {', '.join(ENDINGS)}, packed as "
                ".gz or .zst or not, are read from a folder."
            )
        found.paths += known
        others = sorted({_ending(p) or "no ending" for p in visible if p not in set(known)})
        if others:
            found.skipped.append(
                f"{path}: {len(visible) - len(known)} files with other endings are not read "
                f"({', '.join(others[:6])})."
            )
        return
    if path.exists() or not glob.has_magic(item):
        found.paths.append(path)
        return
    matched = sorted(Path(p) for p in glob.glob(item, recursive=True) if os.path.isfile(p))
    if not matched:
        raise FormatError(f"{item} fits no file. Check the pattern and the folder it starts from.")
    found.paths += matched


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _ending(path: Path) -> str:
    name = path.stem if path.suffix in PACKED else path.name
    return Path(name).suffix.lower()


def _real(path: Path) -> str:
    return os.path.realpath(path)


def _drop_copies(found: Files) -> None:
    """Drop files whose bytes are those of an earlier one, and say so."""
    by_size: dict[int, list[Path]] = {}
    for path in found.paths:
        size = path.stat().st_size if path.is_file() else 0
        if size:
            by_size.setdefault(size, []).append(path)
    first_of: dict[str, Path] = {}
    for same in by_size.values():
        for path in same if len(same) > 1 else []:
            first = first_of.setdefault(_digest(path), path)
            if first != path:
                found.paths.remove(path)
                found.skipped.append(f"{path} is a copy of {first}, byte for byte: read once.")


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
    except OSError:
        return str(path)  # it is told when it is read
    return digest.hexdigest()
