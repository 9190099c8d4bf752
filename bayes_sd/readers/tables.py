"""Write tables of runs and of requests to files."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from bayes_sd.exceptions import ArgumentError, FormatError
from bayes_sd.whole_file import whole_file

if TYPE_CHECKING:
    from bayes_sd.readers.report import ReadReport

ENDINGS = (".csv", ".csv.gz", ".parquet")


def check_output(path: Path, endings: tuple[str, ...] = ENDINGS) -> None:
    """Refuse a file that cannot be written, before anything is read.

    Parameters
    ----------
    path : Path
        File to write.
    endings : tuple of str
        What its name may end in.

    Raises
    ------
    ArgumentError
        If its name has another ending than those that can be written.
    FormatError
        If its folder does not exist or cannot be written to.
    """
    if not path.name.lower().endswith(endings):
        raise ArgumentError(
            f"{path} must end in {', '.join(endings)}: the ending says what to write."
        )
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise FormatError(
            f"{path} cannot be written: its folder must exist and be writable. Make it first."
        )


def write_runs(frame: pd.DataFrame, path: Path) -> None:
    """Write a table of runs; an existing file is replaced only when the new one is whole."""
    check_output(path)
    with whole_file(path, FormatError) as part:
        if path.suffix.lower() == ".parquet":
            frame.to_parquet(part, index=False)
        else:
            is_packed = path.name.lower().endswith(".gz")
            frame.to_csv(part, index=False, compression="gzip" if is_packed else None)


def write_requests(report: "ReadReport", path: Path) -> None:
    """Write the requests of all runs to one Parquet file, run by run, with their ``run_id``.

    Parameters
    ----------
    report : ReadReport
        Of `read_report` with ``keep_requests=True``.
    path : Path
        File to write; times are seconds, lengths tokens.
    """
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    from bayes_sd.readers.requests import REQUEST_COLUMNS

    check_output(path, (".parquet",))
    kinds = [("run_id", pa.string()), *((name, pa.float64()) for name in REQUEST_COLUMNS)]
    schema = pa.schema(kinds)
    with whole_file(path, FormatError) as part, pq.ParquetWriter(part, schema) as writer:
        for run_id, frame in report.requests.items():
            columns = frame.reindex(columns=list(REQUEST_COLUMNS)).assign(run_id=run_id)
            writer.write_table(pa.Table.from_pandas(columns, schema, preserve_index=False))
