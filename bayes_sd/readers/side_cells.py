"""Cells of side information: checked as they are given, or texts with names to be filled in."""

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayes_sd.exceptions import ArgumentError, FormatError
from bayes_sd.frames import OTHER_NAMES
from bayes_sd.nearest import nearest_names
from bayes_sd.readers.cell_values import is_in_range, parse_cell
from bayes_sd.readers.reading import is_blank, short
from bayes_sd.schema import column, column_names
from bayes_sd.schema_columns import Column, amount

# Not a column of the table; rates follow from it where a file has counts only.
DURATION = amount("duration_s", "s", "Time of the whole run.")
NAMES = (*column_names(), DURATION.name)


@dataclass(frozen=True)
class Template:
    """A text with names in braces, such as ``"{config}_rep{rep}"``."""

    text: str
    names: tuple[str, ...]

    def fill(self, known: Mapping[str, Any]) -> str:
        """Put in what the names stand for; all of them must be known."""
        parts = []
        for literal, name, _, _ in string.Formatter().parse(self.text):
            parts.append(literal)
            if name is not None:
                value = known[name]
                whole = isinstance(value, float) and value.is_integer()
                parts.append(str(int(value) if whole else value))
        return "".join(parts)

    def missing(self, known: Mapping[str, Any]) -> list[str]:
        """Return the names that are not known."""
        return [name for name in self.names if is_blank(known.get(name))]


def side_cell(name: str, value: Any, where: str = "") -> Any:
    """Check one cell of side information and return it in the type of its column.

    Parameters
    ----------
    name : str
        Column of the schema, or ``duration_s``.
    value : object
        What the user gave.
    where : str
        Beginning of the message.

    Raises
    ------
    ArgumentError
        If there is no such column, or the value is none that it allows.

    Examples
    --------
    >>> side_cell("num_speculative_tokens", "3")
    3
    """
    entry = side_column(name, where)
    got = f"Got {short(value)} instead."
    if entry.dtype == "str" and isinstance(value, float):  # 0.10 would become 0.1
        raise ArgumentError(f"{where}{name} must be text. {got} Put it in quotes.")
    try:
        found = parse_cell(entry, value)
    except FormatError as error:
        raise ArgumentError(f"{where}{error}{_hint(entry, value)}") from error
    if found is None:
        raise ArgumentError(
            f"{where}{name} must be {entry.allowed()}. {got} Leave it out if it is not known."
        )
    if not is_in_range(entry, found):
        raise ArgumentError(f"{where}{name} must be {entry.allowed()}. {got}{_hint(entry, value)}")
    return found


def side_column(name: str, where: str = "") -> Column:
    """Return the column that side information may give; raise `ArgumentError` if there is none."""
    if name == DURATION.name:
        return DURATION
    if name not in NAMES:
        near = [OTHER_NAMES[name.lower()]] if name.lower() in OTHER_NAMES else []
        near = near or nearest_names(name[:60], NAMES)
        advice = f" Did you mean {' or '.join(near)}?" if near else ""
        listed = ", ".join(dict.fromkeys((*near, *NAMES)))
        raise ArgumentError(
            f"{where}side information must be columns of bayes_sd.schema, or {DURATION.name}. Got "
            f"{short(name)} instead.{advice} Allowed are: {listed}."
        )
    return column(name)


def _hint(entry: Column, value: Any) -> str:
    near = nearest_names(str(value)[:60], entry.choices, 1) if entry.choices else []
    return f" Did you mean '{near[0]}'?" if near else ""


def side_text(text: str, groups: Sequence[str], where: str) -> Template | str:
    """Return a template, or the text itself if it has no names in braces.

    Parameters
    ----------
    text : str
        What the user wrote; doubled braces stand for braces.
    groups : sequence of str
        Names that may be in braces, beside those of cells.
    where : str
        Beginning of the message.

    Raises
    ------
    ArgumentError
        If braces hold anything but such a name.

    Examples
    --------
    >>> side_text("{config}_rep{rep}", ("config", "rep"), "").names
    ('config', 'rep')
    """
    names, literals = [], []
    try:
        for literal, name, spec, conversion in string.Formatter().parse(text):
            literals.append(literal)
            if name is None:
                continue
            if spec or conversion or not name.isidentifier():
                raise ValueError(f"{{{name}}} is no name")
            names.append(name)
    except ValueError as error:
        raise ArgumentError(
            f"{where}braces must hold a name, as in {{rep}}. Got {short(text)} instead ({error}). "
            "Write {{ and }} for braces themselves."
        ) from None
    for name in names:
        if name not in groups and name not in NAMES:
            near = nearest_names(name[:60], (*groups, *NAMES))
            advice = f"Did you mean {{{near[0]}}}?" if near else "Name it with (?P<name>...)."
            raise ArgumentError(
                f"{where}{{{name}}} must be a named group of the section's pattern "
                f"({', '.join(groups) or 'it has none'}) or a column of bayes_sd.schema. Got "
                f"{short(text)} instead. {advice}"
            )
    return Template(text, tuple(names)) if names else "".join(literals)
