"""What result files do not tell: cells from keyword arguments and from one TOML file.

The TOML file has a table ``[runs]`` of cells for all files, and sections ``[[files]]`` of cells for
the files that ``match`` (a glob, compared with the end of the path) and ``pattern`` (a regular
expression, searched in the path) fit. In texts ``{name}`` stands for a named group of the pattern,
or for a cell of the run. Sections are applied in their order and later ones win; keyword arguments
win over all of them, and all of them win over the files.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayes_sd.readers.reading import Cells, is_blank, short
from bayes_sd.readers.side_cells import DURATION, Template, side_cell
from bayes_sd.readers.side_file import Section, read_side_file

# A run's duration is not in the table; readers keep it beside the cells.
DURATION_CELL = f"_{DURATION.name}"
SAME = 1e-9


class SideInformation:
    """Cells that a user gives beside the files.

    Parameters
    ----------
    sections : list of Section
        Of the TOML file, in order.
    given : mapping
        Cells for all runs from keyword arguments, checked.

    Examples
    --------
    >>> side = SideInformation.from_arguments(None, {"num_speculative_tokens": "3"})
    >>> side.cells(Path("run.json"), "", {"verifier": "Qwen/Qwen3-8B"})
    ({'num_speculative_tokens': 3}, [])
    """

    def __init__(self, sections: list[Section], given: Mapping[str, Any]) -> None:
        self._sections = sections
        self._given = dict(given)
        self._used: set[int] = set()

    @classmethod
    def from_arguments(cls, path: Path | None, columns: Mapping[str, Any]) -> "SideInformation":
        """Check what the user gives.

        Parameters
        ----------
        path : Path or None
            TOML file.
        columns : mapping
            Columns of `bayes_sd.schema`, or ``duration_s``, and their value for all runs; texts
            are read as the type of the column.

        Raises
        ------
        ArgumentError
            If a key is no column, or a value is not allowed.
        FormatError
            If the file cannot be read, is no TOML, or a pattern is no regular expression.
        """
        given = {name: side_cell(name, value) for name, value in columns.items()}
        return cls([] if path is None else read_side_file(path), given)

    def cells(self, path: Path, entry: str, run: Cells) -> tuple[Cells, list[str]]:
        """Return the cells that the user gives for one run.

        Parameters
        ----------
        path : Path
            Its file, as the user gave it.
        entry : str
            Its place in the file; a pattern that does not fit the path is searched in path and
            place, with a blank between them.
        run : dict
            What the file tells.

        Returns
        -------
        cells : dict
            By the schema; a duration is ``_duration_s``.
        notes : list of str
            Where the file says otherwise, and texts that could not be filled in.

        Raises
        ------
        ArgumentError
            If a text with names in braces makes a value that is not allowed.
        """
        told: Cells = {}
        notes = []
        for number, section in enumerate(self._sections):
            groups = section.groups(path, entry)
            if groups is None:
                continue
            self._used.add(number)
            for name, value in section.cells.items():
                if not isinstance(value, Template):
                    told[name] = value
                    continue
                known = {**run, **told, **self._given, **groups}
                if missing := value.missing(known):
                    notes.append(
                        f"{section.place}: {name} is not set, for {', '.join(missing)} is not "
                        f"known of the run ({value.text})."
                    )
                    continue
                where = f"{section.place}, for {path}: "
                told[name] = side_cell(name, value.fill(known), where)
        told |= self._given
        if DURATION.name in told:
            told[DURATION_CELL] = told.pop(DURATION.name)
        for name, value in told.items():
            theirs = run.get(name)
            if not is_blank(theirs) and not _are_same(value, theirs):
                notes.append(
                    f"{name.lstrip('_')} is {short(value)} by side information and "
                    f"{short(theirs)} by the file; the former is used."
                )
        return told, notes

    def unused(self) -> list[str]:
        """Say which sections of the TOML file fitted no run."""
        return [
            f"{section.place}: the section fits none of the files read ({_terms(section)}); its "
            "cells are not used."
            for number, section in enumerate(self._sections)
            if number not in self._used and (section.match or section.pattern)
        ]


def _terms(section: Section) -> str:
    terms = [f"match {short(section.match)}"] if section.match else []
    terms += [f"pattern {short(section.pattern.pattern)}"] if section.pattern else []
    return ", ".join(terms)


def _are_same(one: Any, other: Any) -> bool:
    try:
        return math.isclose(float(one), float(other), rel_tol=SAME)
    except (TypeError, ValueError):
        return str(one) == str(other)
