"""Checks of arguments that many functions share, with one form of message.

Every message reads "NAME must be ... Got ... instead." and then says what to do.
"""

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bayes_sd.exceptions import ArgumentError, BayesSdError
from bayes_sd.nearest import did_you_mean, nearest_first


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a table, and where.

    Attributes
    ----------
    message : str
        What, where, what was allowed, what to do.
    rows : list
        Index labels of all rows concerned.
    """

    message: str
    rows: list[Any]


def name_rows(rows: Sequence[Any], limit: int = 10) -> str:
    """Name the first rows, and say how many more there are.

    Examples
    --------
    >>> name_rows([4, 9, 17])
    'rows 4, 9, 17'
    >>> name_rows(list(range(12)))
    'rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more'
    """
    shown = ", ".join(str(row) for row in rows[:limit])
    more = f" and {len(rows) - limit} more" if len(rows) > limit else ""
    return f"row{'s' if len(rows) != 1 else ''} {shown}{more}"


def raise_problems(problems: Sequence[Problem], error: type[BayesSdError], subject: str) -> None:
    """Raise one error for all problems found; return if there are none.

    Parameters
    ----------
    problems : sequence of Problem
        What was found.
    error : type
        The error to raise.
    subject : str
        What was checked, for the first line of the message.
    """
    if not problems:
        return
    rows = list(dict.fromkeys(row for problem in problems for row in problem.rows))
    if len(problems) == 1:
        raise error(problems[0].message, rows=rows, problems=problems)
    lines = "\n".join(f"- {problem.message}" for problem in problems)
    raise error(f"{subject} has {len(problems)} problems:\n{lines}", rows=rows, problems=problems)


def _wrong(name: str, expected: str, value: object, advice: str = "") -> ArgumentError:
    message = f"{name} must be {expected}. Got {value!r} instead."
    return ArgumentError(f"{message} {advice}".strip())


def _real(value: Any, name: str, expected: str) -> float:
    """Return a finite float; text, truth values, NaN and infinity are refused."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _wrong(name, expected, value)
    number = float(value)
    if not math.isfinite(number):
        raise _wrong(name, expected, number)
    return number


def one_of(value: Any, allowed: Sequence[Any], name: str) -> Any:
    """Return the value if it is one of those allowed.

    Parameters
    ----------
    value : object
        What the user gave.
    allowed : sequence
        What is accepted.
    name : str
        Name of the argument, for the message.

    Raises
    ------
    ArgumentError
        If the value is not among them; the message names the nearest first, then all others.

    Examples
    --------
    >>> one_of("mean", ("mean", "run", "request"), "kind")
    'mean'
    """
    if any(type(value) is type(option) and value == option for option in allowed):
        return value
    texts = isinstance(value, str) and all(isinstance(option, str) for option in allowed)
    listed = nearest_first(value, allowed) if texts else allowed
    advice = did_you_mean(value, allowed) if texts else ""
    raise _wrong(name, "one of " + ", ".join(repr(each) for each in listed), value, advice)


def finite_number(value: Any, name: str) -> float:
    """Return the value as a float if it is a finite number and not a truth value.

    Raises
    ------
    ArgumentError
        If it is text, a truth value, NaN or infinite.

    Examples
    --------
    >>> finite_number(2, "slope")
    2.0
    """
    return _real(value, name, "a finite number")


def positive(value: Any, name: str, *, unit: str = "") -> float:
    """Return the value as a float if it is above zero.

    Parameters
    ----------
    value : object
        What the user gave.
    name : str
        Name of the argument.
    unit : str, default ""
        Unit that the message names, such as ``"seconds"``.

    Raises
    ------
    ArgumentError
        If it is not a finite number above zero.

    Examples
    --------
    >>> positive(0.5, "latency_s", unit="seconds")
    0.5
    """
    expected = f"a finite number above 0{' ' + unit if unit else ''}"
    number = _real(value, name, expected)
    if number <= 0:
        raise _wrong(name, expected, number)
    return number


def not_negative(value: Any, name: str, *, unit: str = "") -> float:
    """Return the value as a float if it is zero or above.

    Raises
    ------
    ArgumentError
        If it is not a finite number of at least zero.

    Examples
    --------
    >>> not_negative(0, "slack_s")
    0.0
    """
    expected = f"a finite number of at least 0{' ' + unit if unit else ''}"
    number = _real(value, name, expected)
    if number < 0:
        raise _wrong(name, expected, number)
    return number


def probability(value: Any, name: str, *, ends: bool = True) -> float:
    """Return the value as a float if it is a probability.

    Parameters
    ----------
    value : object
        What the user gave.
    name : str
        Name of the argument.
    ends : bool, default True
        Whether 0 and 1 themselves are allowed.

    Raises
    ------
    ArgumentError
        If it is outside the range; a value from 1 to 100 is taken for a percentage in the advice.

    Examples
    --------
    >>> probability(0.95, "certainty")
    0.95
    """
    expected = "a probability from 0 to 1" if ends else "a probability above 0 and below 1"
    number = _real(value, name, expected)
    inside = 0 <= number <= 1 if ends else 0 < number < 1
    if not inside:
        percent = f"For {number:g} % write {number / 100:g}." if 1 < number <= 100 else ""
        raise _wrong(name, expected, number, percent)
    return number


def whole_number(value: Any, name: str, *, minimum: int = 1, maximum: int | None = None) -> int:
    """Return the value as an int if it is a whole number in range, as for draws or chains.

    Parameters
    ----------
    value : object
        What the user gave; ``4.0`` counts as 4.
    name : str
        Name of the argument.
    minimum : int, default 1
        Smallest allowed.
    maximum : int or None
        Largest allowed.

    Raises
    ------
    ArgumentError
        If it is not a whole number, or out of range.

    Examples
    --------
    >>> whole_number(1000, "draws")
    1000
    """
    end = f" of at least {minimum}" if maximum is None else f" from {minimum} to {maximum}"
    expected = f"a whole number{end}"
    number = _real(value, name, expected)
    if not number.is_integer():
        raise _wrong(name, expected, number)
    if number < minimum or (maximum is not None and number > maximum):
        raise _wrong(name, expected, int(number))
    return int(number)
