"""Tables of runs: CSV, TSV or Parquet with the columns of `bayes_sd.schema`, one row per run.

Tables with the column names of the collected public measurements are read too
(`bayes_sd.readers.public_runs`). Cells pass through as they are; `bayes_sd.check_runs` judges them.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from bayes_sd.exceptions import FormatError
from bayes_sd.frames import OTHER_NAMES
from bayes_sd.nearest import nearest_names
from bayes_sd.readers.cell_values import parse_cell
from bayes_sd.readers.content import CANNOT_READ, MAX_WHOLE_BYTES, PACKED, Content
from bayes_sd.readers.public_runs import FATE, complete, is_public_runs
from bayes_sd.readers.reading import Cells, Fields, Reading, is_blank, short
from bayes_sd.schema import column, column_names

DELIMITERS = (",", ";", "\t")
MAX_HEADER = 1 << 16
# Names that other tools' tables use too, and that say little of what a file is.
COMMON = frozenset(
    "source_id family_id run_id verifier method load_kind engine engine_version hardware dtype "
    "drafter workload sampling date note concurrency output_tokens_per_s".split()
)
ENOUGH = 3
MAX_ROWS = 1_000_000
MAX_BATCH_ROWS = 10_000
MAX_NAMED = 12
# What a damaged Parquet file ends in; Arrow's own errors are some of them.
BROKEN = (pa.ArrowException, OSError, ValueError, TypeError, LookupError, ArithmeticError)
UNCLOSED = 'A quotation mark (") that is not closed takes lines together: close it, or take it out.'

type Row = tuple[str, Any]


def recognises_text(head: str) -> bool:
    """Tell whether a text begins as a table of runs does."""
    return _is_table(_header(head)[0])


def recognises_parquet(content: Content) -> bool:
    """Tell whether a Parquet file is a table of runs."""
    try:
        return _is_table(_open_parquet(content).schema_arrow.names)
    except FormatError:
        return False


def read(content: Content) -> Reading:
    """Read one table, one run per row."""
    if content.is_binary:
        file = _open_parquet(content)
        names = [str(name) for name in file.schema_arrow.names]
        rows = _parquet_rows(file, names)
    else:
        text = content.text()
        names, delimiter = _header(text)
        rows = _text_rows(text, names, delimiter)
    reading = Reading()
    fates = _fates(names, str(content.path), reading)
    is_public = is_public_runs(names)

    def one_run(fields: Fields) -> tuple[Cells, None]:
        run = _cells(fields, fates)
        return (complete(run, reading) if is_public else run), None

    reading.each(rows, one_run)
    return reading


def _is_table(names: Sequence[str]) -> bool:
    if is_public_runs(names):
        return True
    return len(set(names) & (set(column_names()) - COMMON)) >= ENOUGH


def _header(text: str) -> tuple[list[str], str]:
    """Return the names in the first line, and the character that parts them."""
    start = text[:MAX_HEADER].lstrip("\ufeff\r\n ")
    line = re.split(r"[\r\n]", start, maxsplit=1)[0]
    best: tuple[list[str], str] = ([], DELIMITERS[0])
    known = set(column_names()) | set(FATE)
    most = -1
    for delimiter in DELIMITERS:
        try:
            cells = next(csv.reader([line], delimiter=delimiter), [])
        except csv.Error:
            continue
        names = [cell.strip() for cell in cells]
        if (count := len(known.intersection(names))) > most:
            best, most = (names, delimiter), count
    return best


def _fates(names: Sequence[str], path: str, reading: Reading) -> dict[str, str]:
    """Map the names of the file to those of the schema; note what is not used."""
    repeated = [name for name, count in Counter(names).items() if name and count > 1]
    if repeated:
        raise FormatError(
            f"{path}: names of columns must be unique. Got {', '.join(repeated[:MAX_NAMED])} more "
            "than once instead. Take out the columns that repeat."
        )
    known = {name: name for name in column_names()} | (FATE if is_public_runs(names) else {})
    fates = {name: known[name] for name in names if name in known}
    twice = [name for name in fates if list(fates.values()).count(fates[name]) > 1]
    if twice:
        raise FormatError(
            f"{path}: one column only may stand for {fates[twice[0]]}. Got {' and '.join(twice)} "
            "instead. Take out all but one."
        )
    if not fates:
        raise FormatError(
            f"{path}: the first line must name columns of bayes_sd.schema, such as "
            f"{', '.join(column_names()[:3])}. Got {short(', '.join(names))} instead."
        )
    unknown = [(number, name) for number, name in enumerate(names, 1) if name not in fates]
    if unknown:
        shown = ", ".join(
            _with_hint(name, fates) if name else f"column {number} (without a name)"
            for number, name in unknown[:MAX_NAMED]
        )
        more = f" and {len(unknown) - MAX_NAMED} more" if len(unknown) > MAX_NAMED else ""
        reading.note(f"columns that are not in the schema are not used: {shown}{more}.")
    return fates


def _with_hint(name: str, present: dict[str, str]) -> str:
    shown = short(name)
    meant = OTHER_NAMES.get(name.lower()) or next(
        iter(nearest_names(name[:60], column_names())), ""
    )
    return f"{shown} (perhaps {meant})" if meant and meant not in present else shown


def _text_rows(text: str, names: Sequence[str], delimiter: str) -> Iterator[Row]:
    """Yield line number and cells of each row, or the error that says why there are none."""
    reader = csv.reader(io.StringIO(text, newline=None), delimiter=delimiter)
    while True:
        first = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield "", FormatError(f"{_lines(first, reader.line_num)} cannot be split: {error}.")
            continue
        if cells is None:
            return
        stripped = [cell.strip() for cell in cells]
        if not any(stripped) or stripped == list(names):  # blank, or the header once more
            continue
        if len(cells) != len(names):
            many = f" {UNCLOSED}" if reader.line_num > first else ""
            yield (
                "",
                FormatError(
                    f"{_lines(first, reader.line_num)} must have {len(names)} cells, as the first "
                    f"line has. Got {len(cells)} instead.{many}"
                ),
            )
            continue
        yield _lines(first, reader.line_num), dict(zip(names, stripped, strict=True))


UNCLOSED = 'A quotation mark (") that is not closed takes lines together: close it, or take it out.'


def _lines(first: int, last: int) -> str:
    return f"line {first}" if last <= first else f"lines {first} to {last}"


def _cells(fields: Fields, fates: dict[str, str]) -> Cells:
    """Return the cells of a row by the names of the schema."""
    run: Cells = {}
    for name, ours in fates.items():
        try:
            value = parse_cell(column(ours), fields.values[name])
        except FormatError as error:
            there = "" if name == ours else f"{name} ({ours}): "
            raise FormatError(f"{fields.place}: {there}{error}") from error
        if not is_blank(value):
            run[ours] = value
    if not run:
        raise FormatError(f"{fields.place} has no cell that is not blank in a column that is used.")
    return run


def _open_parquet(content: Content) -> Any:
    opener: Any = PACKED.get(content.path.suffix, open)
    try:
        with opener(content.path, "rb") as file:
            raw = file.read(MAX_WHOLE_BYTES + 1)
        if len(raw) > MAX_WHOLE_BYTES:
            raise FormatError(
                f"{content.path} is above {MAX_WHOLE_BYTES >> 20} MB, too large for a table of one "
                "row per run. Keep the columns of bayes_sd.schema only."
            )
        found = pq.ParquetFile(pa.BufferReader(raw))
    except FormatError:
        raise
    except (*BROKEN, *CANNOT_READ) as error:
        raise FormatError(
            f"{content.path} cannot be read as Parquet: {_reason(error)}. Write it again."
        ) from error
    if found.metadata.num_rows > MAX_ROWS:
        raise FormatError(
            f"{content.path} must have at most {MAX_ROWS:,} rows, one per run. Got "
            f"{found.metadata.num_rows:,} instead."
        )
    return found


def _parquet_rows(file: Any, names: Sequence[str]) -> Iterator[Row]:
    """Yield number and cells of each row, with the columns that are used only."""
    known = set(FATE) | set(column_names())
    used = [name for name in names if name in known]
    number = 0
    try:
        for batch in file.iter_batches(batch_size=MAX_BATCH_ROWS, columns=used):
            columns = [_values(batch.column(name)) for name in used]
            for values in zip(*columns, strict=True):
                number += 1
                yield f"row {number}", dict(zip(used, values, strict=True))
    except BROKEN as error:
        yield (
            "",
            FormatError(
                f"after row {number} the file cannot be read: {_reason(error)}. Write it again."
            ),
        )


def _values(cells: Any) -> Iterable[Any]:
    if pa.types.is_timestamp(cells.type):  # nanoseconds are more than a datetime holds
        cells = cells.cast(pa.timestamp("us"), safe=False)
    return list(cells.to_pylist())


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
