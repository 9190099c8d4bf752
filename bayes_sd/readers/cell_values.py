"""From what stands in a cell, text or a parsed value, to what its column holds."""

import datetime
import decimal
import math
from typing import Any

import numpy as np

from bayes_sd.exceptions import FormatError
from bayes_sd.frames import FALSE_WORDS, TRUE_WORDS
from bayes_sd.readers.reading import short
from bayes_sd.schema_columns import Column

BLANK_WORDS = frozenset({"", "nan", "nat", "<na>", "n/a", "#n/a", "null"})
BLANK_NUMBERS = BLANK_WORDS | {"none", "na", "-"}


def parse_cell(entry: Column, value: Any) -> str | float | int | bool | None:
    """Return a cell in the type of its column; None if it is blank.

    Whether it is in the column's range is not checked.

    Parameters
    ----------
    entry : Column
        The column.
    value : object
        Text as in a CSV file, or a value of any type.

    Raises
    ------
    FormatError
        If it cannot be read as the column's type; the message starts with the column's name.

    Examples
    --------
    >>> from bayes_sd.schema import column
    >>> parse_cell(column("num_requests"), " 300 "), parse_cell(column("mean_e2e_s"), "nan")
    (300, None)
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, decimal.Decimal):
        value = float(value)
    if isinstance(value, str):
        if not value.isprintable():  # one line, whatever stands in it
            value = " ".join("".join(c if c.isprintable() else " " for c in value).split())
        value = value.strip()
        words = BLANK_WORDS if entry.dtype == "str" else BLANK_NUMBERS
        value = None if value.lower() in words else value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if entry.dtype == "str":
        return _text(entry, value)
    if entry.dtype == "bool":
        return _truth(entry, value)
    if entry.dtype == "floats":
        return _number_list(entry, value)
    found = _number(value)
    if found is None:
        raise _wrong(entry, value)
    whole = entry.dtype == "int" and found.is_integer() and abs(found) < 2**53
    return int(found) if whole else found


def is_in_range(entry: Column, value: str | float | int | bool) -> bool:
    """Tell whether a parsed cell is one that its column allows."""
    if entry.choices:
        return value in entry.choices
    if entry.dtype in ("str", "bool"):
        return True
    parts = value.split(";") if isinstance(value, str) else [value]
    return all(_is_number_in_range(entry, float(part)) for part in parts)


def _is_number_in_range(entry: Column, value: float) -> bool:
    if entry.low is not None and (value <= entry.low if entry.above else value < entry.low):
        return False
    if entry.high is not None and value > entry.high:
        return False
    return entry.dtype != "int" or value.is_integer()


def _wrong(entry: Column, value: Any) -> FormatError:
    return FormatError(f"{entry.name} must be {entry.allowed()}. Got {short(value)} instead.")


def _text(entry: Column, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, datetime.date):
        return value.isoformat()[:10] if entry.name == "date" else value.isoformat()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _shortest(value)
    raise _wrong(entry, value)


def _truth(entry: Column, value: Any) -> bool:
    word = str(value).lower() if isinstance(value, str | bool | int | float) else ""
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS and word:
        return False
    raise _wrong(entry, value)


def _number(value: Any) -> float | None:
    """Return a finite number; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = math.nan if isinstance(value, str) and "_" in value else float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _number_list(entry: Column, value: Any) -> str | None:
    """Return numbers joined by semicolons, as they were written where they are text."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, str | list | tuple):
        value = [value]
    parts = [p.strip() for p in value.split(";")] if isinstance(value, str) else list(value)
    if not parts:
        return None
    if any(_number(part) is None for part in parts):
        raise _wrong(entry, value)
    return ";".join(part if isinstance(part, str) else _shortest(part) for part in parts)


def _shortest(value: float) -> str:
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return str(int(value)) if whole else str(value)
