"""Scenarios from a file: one row each, the fields of `Scenario` as columns."""

import csv
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from bayes_sd.exceptions import ArgumentError, FormatError, SchemaError
from bayes_sd.nearest import did_you_mean, nearest_first
from bayes_sd.scenario import Scenario

NAME = "name"
LOADS = ("request_rate_rps", "concurrency")
WHOLE = ("num_speculative_tokens", "num_requests", "max_num_seqs")
TEXT = ("pair", "arrivals", "verifier", "deployment")
FIELDS = tuple(field.name for field in fields(Scenario))
WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def read_scenarios(
    path: str | Path, *, defaults: Mapping[str, Any] | None = None
) -> dict[str, Scenario]:
    r"""Read scenarios from a CSV file, one a row.

    Parameters
    ----------
    path : str or pathlib.Path
        A CSV file. Columns: any fields of `Scenario`, by name; ``name``, of the row, if wanted.
        A blank cell is the default. Several rates of acceptance are joined by ``;``.
    defaults : mapping, optional
        Values of fields for blank cells and missing columns, such as ``{"pair": "Qwen3-8B"}``. A
        load among them is for rows that have neither a rate nor a concurrency.

    Returns
    -------
    dict of str to Scenario
        By the row's name; without one ``line 2`` and so on.

    Raises
    ------
    FormatError
        If the file cannot be read as CSV, or has no rows.
    SchemaError
        If a column is unknown or there twice.
    ArgumentError
        If a cell is not what its field allows; file, line and column are named.

    Examples
    --------
    >>> import tempfile
    >>> text = "name,request_rate_rps,num_speculative_tokens\nidle,0.5,3\nbusy,8,0\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "scenarios.csv")
    ...     _ = file.write_text(text)
    ...     rows = read_scenarios(file, defaults={"pair": "Qwen3-8B"})
    >>> rows["busy"].label
    'Qwen3-8B, k = 0, 8 rps'
    """
    file = Path(path)
    given = {name: value for name, value in (defaults or {}).items() if value is not None}
    found: dict[str, Scenario] = {}
    lines: dict[str, int] = {}
    for line, cells in _rows(file):
        name = cells.pop(NAME, "") or f"line {line}"
        if name in found:
            raise ArgumentError(
                f"{file}, line {line}, column {NAME}: names of rows must differ. Got {name!r} "
                f"again, as in line {lines[name]}. Give the row another name."
            )
        values = {c: _value(file, line, c, text) for c, text in cells.items() if text}
        drop = LOADS if any(load in values for load in LOADS) else ()
        start = {n: v for n, v in given.items() if n not in drop}
        try:
            found[name] = Scenario(**{"pair": "", **start, **values})
        except ArgumentError as error:
            raise ArgumentError(
                f"{file}, line {line}: {_with_advice(str(error), values)}"
            ) from None
        lines[name] = line
    if not found:
        raise FormatError(f"{file} has no scenarios: write one a row, below the names of columns.")
    return found


def _with_advice(message: str, values: Mapping[str, Any]) -> str:
    if message.startswith("pair must be a label") and "pair" not in values:
        return "column pair must name a fitted pair. Got a blank instead. Fill it, or give --pair."
    return message


def _rows(file: Path) -> list[tuple[int, dict[str, str]]]:
    """Return the line number and the cells of each row that is not blank, by column."""
    if not file.is_file():
        raise FormatError(f"{file} is not a file. Give a CSV file of scenarios.")
    if file.suffix.lower() in (".yaml", ".yml", ".json"):
        raise FormatError(
            f"{file}: scenarios must be a CSV file. Got one that ends in {file.suffix!r} instead."
        )
    rows: list[tuple[int, dict[str, str]]] = []
    try:
        with file.open(newline="", encoding="utf-8-sig") as text:
            reader = csv.reader(text, strict=True)
            names = [cell.strip() for cell in next(reader, [])]
            _check_names(file, names)
            for row in reader:
                cells = [cell.strip() for cell in row]
                if not any(cells):
                    continue
                if len(cells) != len(names):
                    raise FormatError(
                        f"{file}, line {reader.line_num}: a row must have {len(names)} cells, one "
                        f"per column. Got {len(cells)} instead. Join several rates of acceptance "
                        "by ';', or put quotation marks around them."
                    )
                rows.append((reader.line_num, dict(zip(names, cells, strict=True))))
    except (csv.Error, UnicodeDecodeError) as error:
        raise FormatError(f"{file} cannot be read as CSV: {error}.") from None
    return rows


def _check_names(file: Path, names: list[str]) -> None:
    allowed = (NAME, *FIELDS)
    for number, name in enumerate(names, 1):
        if name not in allowed:
            listed = ", ".join(nearest_first(name, allowed))
            advice = f"{did_you_mean(name, allowed)} Rename it, or take it out.".lstrip()
            raise SchemaError(
                f"{file}, line 1, column {number}: a column must be one of {listed}. "
                f"Got {name!r} instead. {advice}"
            )
        if names.index(name) != number - 1:
            raise SchemaError(
                f"{file}, line 1: names of columns must be unique. Got {name!r} more than once "
                "instead. Take one out."
            )


def _value(file: Path, line: int, column: str, text: str) -> Any:
    """Return a cell in its field's type."""
    read: Callable[[str], Any]
    if column in TEXT:
        return text
    if column in WHOLE:
        read, allowed = int, "a whole number"
    elif column == "drafter_loaded":
        read, allowed = lambda word: WORDS[word.lower()], "true or false"
    elif column == "acceptance":
        read, allowed = _acceptance, "a rate from 0 to 1, or several joined by ';'"
    else:
        read, allowed = float, "a number"
    try:
        return read(text)
    except (ValueError, KeyError):
        raise ArgumentError(
            f"{file}, line {line}, column {column}: it must be {allowed}. Got {text!r} instead. "
            "Correct the cell, or leave it blank for the default."
        ) from None


def _acceptance(text: str) -> float | tuple[float, ...]:
    rates = tuple(float(part) for part in text.replace(",", ";").split(";"))
    return rates[0] if len(rates) == 1 else rates
