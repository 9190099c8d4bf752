"""The folder of a fleet: one file per fit, one note per failure, and a table made of them.

Every file is written beside its place and moved there when it is whole, so whoever stops the
fleet, at whatever moment, leaves whole files behind. The table ``groups.csv`` only repeats what
the files say, and is made of them again if it is lost.
"""

import json
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import h5netcdf
import pandas as pd

from bayes_sd.exceptions import FitFileError
from bayes_sd.storage import FORMAT
from bayes_sd.whole_file import PART, whole_file

TABLE = "groups.csv"
FIT, FAILURE = ".nc", ".failed.json"
OLD_S = 3600.0
STAMP = "fleet_record"  # attribute of a fit's file
FITTED, KEPT, FAILED = "fitted", "kept", "failed"
TABLE_COLUMNS = (
    *("group", "status", "converged", "verdict", "num_runs", "seconds", "path", "error"),
    "warnings",
)


@dataclass(frozen=True)
class Record:
    """What is known of one group's fit.

    Attributes
    ----------
    group : str
        Name of the group.
    key : dict of str to str
        Its value of each column that the runs were grouped by; empty for all runs.
    fingerprint : str
        Hash of its data and of all that decides on its fit.
    status : {"fitted", "kept", "failed"}
        ``kept`` is a fit of an earlier call.
    num_runs : int
    seconds : float
        That the fit took.
    converged : bool or None
        Whether it passed `diagnose`; None if it failed.
    verdict : str
        The verdict in words.
    error : str
        Why it failed; empty if it did not.
    warnings : tuple of str
        What was warned of on the way.
    """

    group: str
    key: dict[str, str]
    fingerprint: str
    status: str
    num_runs: int
    seconds: float
    converged: bool | None = None
    verdict: str = ""
    error: str = ""
    warnings: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the record as JSON text."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Record":
        """Return the record that `to_json` wrote."""
        fields = json.loads(text)
        return cls(**{**fields, "warnings": tuple(fields["warnings"])})


def open_folder(folder: str | Path) -> Path:
    """Return the folder of a fleet, made if it is not there, and cleared of old unfinished files.

    Raises
    ------
    FitFileError
        If it is a file, or cannot be made or written to.
    """
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise FitFileError(f"{path} must be a folder for the fits. Got a file: choose another.")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
        for part in path.glob(f".*{PART}"):  # a fresh one may be another process's
            if time.time() - part.stat().st_mtime > OLD_S:
                part.unlink()
    except OSError as error:
        raise FitFileError(f"{path} cannot be written to: {error}. Choose another.") from error
    return path


def write_fit(folder: Path, stem: str, content: bytes) -> None:
    """Write a group's fit, and remove the note of an earlier failure."""
    _write(folder / f"{stem}{FIT}", content)
    forget_failure(folder, stem)


def write_failure(folder: Path, stem: str, record: Record) -> None:
    """Write why a group has no fit; a fit of other data or settings stays as it is."""
    _write(folder / f"{stem}{FAILURE}", record.to_json().encode())


def read_fit_record(path: Path) -> Record | None:
    """Return what a fit's file says of itself; None if there is none, or it is damaged."""
    try:
        with h5netcdf.File(path, "r") as opened:
            stamp, form = opened.attrs[STAMP], opened.attrs["format"]
        return Record.from_json(str(stamp)) if str(form) == FORMAT else None
    except (OSError, KeyError, ValueError, TypeError):
        return None


def forget_failure(folder: Path, stem: str) -> None:
    """Remove the note of a group's failure, if there is one."""
    (folder / f"{stem}{FAILURE}").unlink(missing_ok=True)


def read_folder(folder: Path) -> tuple[dict[str, Record], dict[str, Record]]:
    """Return the records of all fits and of all failures of a folder, by the stem of their file.

    Files that cannot be read count as not there.
    """
    fits = {path.name.removesuffix(FIT): read_fit_record(path) for path in folder.glob(f"*{FIT}")}
    failures = {}
    for path in folder.glob(f"*{FAILURE}"):
        try:
            found = Record.from_json(path.read_text(encoding="utf-8"))
        except (OSError, KeyError, ValueError, TypeError):
            continue
        failures[path.name.removesuffix(FAILURE)] = found
    return {stem: record for stem, record in fits.items() if record is not None}, failures


def merged(fits: dict[str, Record], failures: dict[str, Record]) -> dict[str, Record]:
    """Return one record per group.

    A failure counts if it is of other data or settings than the fit beside it: one of the same
    was mended, and its note not yet removed.
    """
    records = dict(fits)
    for stem, failure in failures.items():
        if stem not in fits or fits[stem].fingerprint != failure.fingerprint:
            records[stem] = failure
    return records


def table_of(folder: Path, records: Iterable[tuple[str, Record]]) -> pd.DataFrame:
    """Return records as a table, one row per group, with its values of the columns grouped by.

    Parameters
    ----------
    folder : Path
        Folder of the fleet, for the column ``path``.
    records : iterable of (str, Record)
        Stem of the file, and the record.
    """
    rows: list[dict[str, Any]] = []
    for stem, record in records:
        row: dict[str, Any] = {
            name: getattr(record, name) for name in TABLE_COLUMNS if name not in ("path",)
        }
        row["path"] = "" if record.status == FAILED else str(folder / f"{stem}{FIT}")
        row["warnings"] = "\n".join(record.warnings)
        keyed = {column_of(name): value for name, value in record.key.items()}
        rows.append(keyed | row)
    frame = pd.DataFrame(rows)
    keys = [name for name in frame.columns if name not in TABLE_COLUMNS]
    frame = frame.reindex(columns=[TABLE_COLUMNS[0], *keys, *TABLE_COLUMNS[1:]])
    frame["converged"] = frame["converged"].astype("boolean")
    return frame


def column_of(grouped_by: str) -> str:
    """Return the table's column for one that the runs are grouped by."""
    return f"by_{grouped_by}" if grouped_by in TABLE_COLUMNS else grouped_by


def write_table(folder: Path, records: dict[str, Record]) -> None:
    """Write ``groups.csv``, whole or not at all; paths in it are names within the folder."""
    frame = table_of(Path(), sorted(records.items()))
    _write(folder / TABLE, frame.to_csv(index=False).encode())


def _write(path: Path, content: bytes) -> None:
    with whole_file(path) as part:
        part.write_bytes(content)
