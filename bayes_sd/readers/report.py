"""What reading some files gave, file by file: for people, for JSON, and as warnings."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_sd.exceptions import AssumptionWarning, DataError, FormatError, UnusedRunsWarning

MAX_NAMED = 3


@dataclass(frozen=True)
class FileReport:
    """What one file was and gave.

    Attributes
    ----------
    path : Path
        The file.
    format : str
        What it was taken for (`bayes_sd.readers.formats.FORMATS`); empty if it is unknown.
    meaning : str
        The format in words.
    num_runs : int
        Runs of the table that come from it.
    skipped : tuple of str
        What of it was left out, and why.
    notes : tuple of str
        What was assumed, or looks wrong.
    error : str
        Why nothing of it could be read; empty otherwise.
    joined_to : str
        For a companion, what it adds to: the result file, or the server.
    """

    path: Path
    format: str = ""
    meaning: str = ""
    num_runs: int = 0
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""
    joined_to: str = ""


@dataclass(frozen=True)
class ReadReport:
    """What reading some files gave.

    Attributes
    ----------
    runs : pandas.DataFrame, one row per run
        Runs that pass `bayes_sd.check_runs`.
    incomplete : pandas.DataFrame, one row per run
        Runs that need side information before they can be used; the column ``missing`` names it.
    files : tuple of FileReport
        One per file, in the order read.
    skipped, notes : tuple of str
        What concerns no single file: files not read, runs that contradict each other, warnings of
        the check of the whole table.
    requests : dict of str to pandas.DataFrame
        Requests by ``run_id``, for runs whose files list them, if they were asked for.
    """

    runs: pd.DataFrame
    incomplete: pd.DataFrame
    files: tuple[FileReport, ...]
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    requests: dict[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def was_anything_read(self) -> bool:
        """Whether any file gave a run, complete or not."""
        return bool(len(self.runs) or len(self.incomplete))

    def left_out(self) -> list[str]:
        """List what was left out, with equal reasons of several files in one line."""
        errors = [(f.path, f.error) for f in self.files if f.error]
        parts = [(f.path, text) for f in self.files for text in f.skipped]
        return [text for _, text in errors] + grouped(parts) + self.needs() + list(self.skipped)

    def needs(self) -> list[str]:
        """Say what side information the incomplete runs need, one line for each kind of lack."""
        lines = []
        if len(self.incomplete):
            for missing, rows in self.incomplete.groupby("missing", sort=False):
                names = list(rows["run_id"])
                lines.append(
                    f"{_some(names, 'run')} must have {missing}, which the files do not tell. Give "
                    f"it as side information, such as {str(missing).split(',')[0]}=..., or in a "
                    "TOML file."
                )
        return lines

    def assumed(self) -> list[str]:
        """List what was assumed or looks wrong, equal notes of several files in one line."""
        return grouped([(f.path, t) for f in self.files for t in f.notes]) + list(self.notes)

    def warn(self, stacklevel: int = 2) -> None:
        """Issue one warning for all that was left out, and one for all that was assumed."""
        left, assumed = self.left_out(), self.assumed()
        if left:
            text = "not all of the files is in the table:\n" + _bullets(left)
            warnings.warn(text, UnusedRunsWarning, stacklevel=stacklevel + 1)
        if assumed:
            text = "on reading the files:\n" + _bullets(assumed)
            warnings.warn(text, AssumptionWarning, stacklevel=stacklevel + 1)

    def raise_if_empty(self) -> None:
        """Raise the error that says why there is no run to return.

        Raises
        ------
        FormatError
            If no file could be read.
        DataError
            If files were read and none of their runs can be used as it is.
        """
        if len(self.runs):
            return
        left = self.left_out() or ["the files hold no runs."]
        text = left[0] if len(left) == 1 else "no run could be read:\n" + _bullets(left)
        raise (DataError if self.was_anything_read else FormatError)(text)

    def document(self) -> dict[str, Any]:
        """Return the report as JSON can hold it, without the runs themselves."""
        return {
            "num_runs": len(self.runs),
            "num_incomplete": len(self.incomplete),
            "files": [
                {
                    "path": str(f.path),
                    "format": f.format or None,
                    "num_runs": f.num_runs,
                    "joined_to": f.joined_to or None,
                    "error": f.error or None,
                    "skipped": list(f.skipped),
                    "notes": list(f.notes),
                }
                for f in self.files
            ],
            "skipped": list(self.skipped),
            "needs": self.needs(),
            "notes": list(self.notes),
        }


def grouped(messages: Iterable[tuple[Path, str]]) -> list[str]:
    """Join equal messages of several files into one line that names the files.

    Examples
    --------
    >>> grouped([(Path("a.json"), "no drafts."), (Path("b.json"), "no drafts.")])
    ['2 files (a.json, b.json): no drafts.']
    """
    by_text: dict[str, list[str]] = {}
    for path, text in messages:
        by_text.setdefault(text, []).append(path.name)
    return [
        f"{names[0] if len(names) == 1 else _some(names, 'file')}: {text}"
        for text, names in by_text.items()
    ]


def _some(names: list[str], word: str) -> str:
    """Count names and give the first."""
    shown = ", ".join(names[:MAX_NAMED]) + (", ..." if len(names) > MAX_NAMED else "")
    return f"{len(names)} {word}{'s' if len(names) != 1 else ''} ({shown})"


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
