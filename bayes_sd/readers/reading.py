"""What a reader hands over, and careful access to what it reads."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from bayes_sd.exceptions import BayesSdError, FormatError

type Cells = dict[str, Any]

MAX_COUNT = 1e20  # nanoseconds since 1970 are below; more of anything was never counted


@dataclass
class Reading:
    """What one file gave.

    Attributes
    ----------
    runs : list of dict
        One per run: cells by the names of `bayes_sd.schema`; what the file does not tell is left
        out. Names that begin with ``_`` are for joining: ``_entry`` (which run of its file),
        ``_end_s`` (Unix time of its end), ``_duration_s``, ``_joins`` (cells of a run whose result
        file is another one).
    requests : list of pandas.DataFrame or None
        Per run, its finished requests with columns of `bayes_sd.readers.requests`, or None where
        the file has no list of them.
    skipped : list of str
        What was left out, and why.
    notes : list of str
        What was assumed, or looks wrong.
    """

    runs: list[Cells] = field(default_factory=list)
    requests: list[pd.DataFrame | None] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, run: Cells, requests: pd.DataFrame | None = None) -> None:
        """Add a run."""
        self.runs.append({name: value for name, value in run.items() if not is_blank(value)})
        self.requests.append(requests)

    def note(self, message: str) -> None:
        """Add a note, once."""
        if message not in self.notes:
            self.notes.append(message)

    def each(
        self,
        entries: Iterable[tuple[str, Any]],
        read: Callable[["Fields"], tuple[Cells, pd.DataFrame | None] | None],
    ) -> None:
        """Read entries one by one; one that cannot be read is skipped, the others are kept.

        Parameters
        ----------
        entries : iterable of (str, object)
            Place and parsed object of each, or the error that says why there is none.
        read : callable
            Returns the run's cells and its requests; None to add nothing.
        """
        for place, entry in entries:
            if isinstance(entry, BayesSdError):
                self.skipped.append(str(entry))
                continue
            try:
                found = read(Fields(entry, place))
            except BayesSdError as error:
                self.skipped.append(str(error))
                continue
            if found is not None:
                cells, requests = found
                if place:
                    cells = {"_entry": place, **cells}
                self.add(cells, requests)


class Fields:
    """A parsed object whose values are checked as they are taken.

    Parameters
    ----------
    values : object
        What was parsed; anything but an object is refused.
    place : str
        Where it stands, for messages.

    Raises
    ------
    FormatError
        If it is not an object, and by the methods if a value cannot be.

    Examples
    --------
    >>> fields = Fields({"mean_ttft_ms": 12.5, "date": "x"}, "entry 1")
    >>> fields.number("mean_ttft_ms", scale=1e-3)
    0.0125
    >>> fields.number("date")
    Traceback (most recent call last):
        ...
    bayes_sd.exceptions.FormatError: entry 1: date must be a number. Got 'x' instead.
    """

    def __init__(self, values: Any, place: str = "") -> None:
        self.place = place
        if not isinstance(values, dict):
            where = f"{place}: " if place else ""
            raise FormatError(f"{where}must be a JSON object. Got {short(values)} instead.")
        self.values: dict[str, Any] = values

    def __contains__(self, name: str) -> bool:
        """Tell whether a key is there and not null."""
        return self.values.get(name) is not None

    def at(self, name: str) -> str:
        """Name a value of this object for a message."""
        return f"{self.place}: {name}" if self.place else name

    def wrong(self, name: str, allowed: str) -> FormatError:
        """Return the error of a value that cannot be."""
        return FormatError(
            f"{self.at(name)} must be {allowed}. Got {short(self.values.get(name))} instead."
        )

    def number(self, *names: str, scale: float = 1.0, low: float = 0.0) -> float:
        """Return the first of some numbers that is there, times a scale; NaN if none is.

        NaN and infinity count as not there, as text or as numbers; other text, and numbers below
        ``low``, are an error.
        """
        for name in names:
            found = self.any_number(name)
            if math.isfinite(found):
                found *= scale
                if not low <= found < math.inf:
                    raise self.wrong(name, f"at least {low:g}" if found < low else "within range")
                return found
        return math.nan

    def any_number(self, name: str) -> float:
        """Return a number as it is, infinity too; NaN if it is not there."""
        value = self.values.get(name)
        if value is None:
            return math.nan
        try:
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise ValueError
            return float(value)
        except (ValueError, OverflowError):
            raise self.wrong(name, "a number") from None

    def count(self, *names: str) -> float:
        """Return the first of some whole numbers that is there; NaN if none is."""
        for name in names:
            found = self.number(name)
            if math.isnan(found):
                continue
            if found != math.floor(found) or found > MAX_COUNT:
                raise self.wrong(name, f"a whole number up to {MAX_COUNT:g}")
            return found
        return math.nan

    def completed(self, name: str = "completed") -> float:
        """Return how many requests were answered; none is an error, for it says nothing."""
        found = self.count(name)
        if not found > 0:
            raise FormatError(
                f"{self.at(name)} must be at least 1. Got {short(self.values.get(name))} instead: "
                "no request of this run was answered, so it says nothing of latency."
            )
        return found

    def text(self, *names: str) -> str:
        """Return the first of some texts that is there, as one printable line; empty if none is."""
        for name in names:
            value = self.values.get(name)
            if isinstance(value, str):
                words = "".join(c if c.isprintable() else " " for c in value).split()
                if words:
                    return " ".join(words)
        return ""

    def items(self, name: str) -> list[Any]:
        """Return a list of anything; empty if it is not there."""
        found = self.values.get(name)
        if found is None:
            return []
        if not isinstance(found, list):
            raise self.wrong(name, "a list")
        return found

    def numbers(self, name: str) -> np.ndarray | None:
        """Return a list of numbers, null as NaN; None if the list is not there or empty."""
        return as_numbers(self.values.get(name), self.at(name))

    def part(self, *names: str) -> "Fields":
        """Return an object within this one; an empty one if it is not there."""
        found: Any = self.values
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        return Fields({} if found is None else found, self.at(".".join(names)))


def as_numbers(values: Any, place: str) -> np.ndarray | None:
    """Return a list of numbers as an array, null as NaN; None if it is missing or empty."""
    if values is None or (isinstance(values, list) and not values):
        return None
    if isinstance(values, list) and {type(v) for v in values} <= {int, float, type(None)}:
        try:
            return np.array([math.nan if v is None else v for v in values], dtype=float)
        except OverflowError:
            pass
    raise FormatError(f"{place} must be a list of numbers. Got {short(values)} instead.")


def is_blank(value: Any) -> bool:
    """Tell whether a cell says nothing: missing, empty text, or not a finite number."""
    if value is None or value == "":
        return True
    return isinstance(value, float | np.floating) and not math.isfinite(value)


def short(value: Any) -> str:
    """Return a value for a message: one line, at most 60 characters.

    Examples
    --------
    >>> short([1, 2]), short("a" * 80)[-5:]
    ('a list of 2', 'aa...')
    """
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = repr(value) if value is not None else "nothing"
    return text if len(text) <= 60 else text[:57] + "..."
