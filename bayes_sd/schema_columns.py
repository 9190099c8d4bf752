"""One column of a table of runs, and the kinds that there are."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One column of the table of runs.

    Attributes
    ----------
    name : str
        Name of the column, with the unit at its end.
    unit : str
        ``"s"``, ``"1/s"``, ``"tokens"``, ``"1"`` for a pure number, ``""`` for text.
    dtype : str
        ``"str"``, ``"int"``, ``"float"``, ``"bool"``, or ``"floats"`` for numbers joined by ``;``.
    low, high : float or None
        Allowed range, ends included unless `above` is set. None is no limit.
    required : bool
        A table without the column, or with a blank cell in it, is refused.
    meaning : str
        What the column holds, and its trap where it has one.
    choices : tuple of str
        Allowed words of a text column; empty if any text will do.
    above : bool
        True if values must be above `low`, not merely equal to it.
    """

    name: str
    unit: str
    dtype: str
    low: float | None
    high: float | None
    required: bool
    meaning: str
    choices: tuple[str, ...] = ()
    above: bool = False

    def allowed(self) -> str:
        """Say in words what a cell may hold.

        Examples
        --------
        >>> amount("mean_e2e_s", "s", "Mean latency.").allowed()
        'above 0 s'
        """
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.dtype in ("str", "bool"):
            return "text" if self.dtype == "str" else "true or false"
        kind = {"int": "a whole number ", "floats": "numbers joined by ';', each "}
        unit = f" {self.unit}" if self.unit not in ("", "1") else ""
        if self.low is None:
            return f"{kind.get(self.dtype, '')}finite{unit}"
        if self.high is not None:
            return f"{kind.get(self.dtype, '')}from {self.low:g} to {self.high:g}{unit}"
        word = "above" if self.above else "at least"
        return f"{kind.get(self.dtype, '')}{word} {self.low:g}{unit}"


def text(
    name: str, meaning: str, *, required: bool = False, choices: tuple[str, ...] = ()
) -> Column:
    """Describe a column of text, of any or of given words."""
    return Column(name, "", "str", None, None, required, meaning, choices)


def count(name: str, unit: str, low: int, meaning: str, *, required: bool = False) -> Column:
    """Describe a column of whole numbers."""
    return Column(name, unit, "int", float(low), None, required, meaning)


def counts(name: str, unit: str, meaning: str) -> Column:
    """Describe a column of lists of counts."""
    return Column(name, unit, "floats", 0.0, None, False, f"{meaning} Joined by ';'.")


def amount(
    name: str, unit: str, meaning: str, *, required: bool = False, zero: bool = False
) -> Column:
    """Describe a column of positive numbers; of not negative ones with ``zero``."""
    return Column(name, unit, "float", 0.0, None, required, meaning, above=not zero)
