"""Errors and warnings of the library, each with one line of meaning.

Every error is also the built-in error that it refines, so ``except ValueError`` still works.
An error about a table of runs carries ``rows``, the index labels of all rows concerned, and
``problems``, one entry with ``message`` and ``rows`` for each thing that is wrong.
"""

from collections.abc import Iterable
from typing import Any


class BayesSdError(Exception):
    """Base of all errors raised on purpose by this library."""

    def __init__(
        self, message: str = "", *, rows: Iterable[Any] = (), problems: Iterable[Any] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.problems: tuple[Any, ...] = tuple(problems)
        self.rows: list[Any] = list(rows)

    def __str__(self) -> str:
        """Return the message as written; ``KeyError`` would show its repr."""
        return self.message


class ArgumentError(BayesSdError, ValueError):
    """An argument of a function is outside what it accepts."""


class SchemaError(BayesSdError, ValueError):
    """A table of runs lacks columns, or holds values that cannot be right."""


class UnitError(BayesSdError, ValueError):
    """A column is in another unit than its name says, such as milliseconds for seconds."""


class DataError(BayesSdError, ValueError):
    """The data are well formed but hold nothing that the model can use."""


class FormatError(BayesSdError, ValueError):
    """A file is not in the format that it was read as."""


class UnknownPairError(BayesSdError, KeyError):
    """A pair, verifier or deployment was asked for that the data do not contain."""


class LiveSourceError(DataError):
    """Live metrics could not be had: the server did not answer, or not what was asked."""


class FitFileError(BayesSdError, ValueError):
    """A saved fit cannot be used: damaged, of another version, or of other data."""


class ConvergenceError(BayesSdError, RuntimeError):
    """The sampler did not converge, and the caller asked that this be an error."""


class BayesSdWarning(UserWarning):
    """Base of all warnings of this library."""


class ConvergenceWarning(BayesSdWarning):
    """The draws may not represent the posterior: R-hat, ESS or divergences."""


class UnitWarning(BayesSdWarning):
    """Columns disagree in a way that a wrong unit or a mislabelled column would explain."""


class UnusedRunsWarning(BayesSdWarning):
    """Runs were left out of the data set, with the reason."""


class UnknownColumnWarning(BayesSdWarning):
    """A table has columns that the schema does not know; they are not used."""


class LittlesLawWarning(BayesSdWarning):
    """Arrival rate times latency disagrees with the measured number in the system."""


class AssumptionWarning(BayesSdWarning):
    """Something was assumed that the data do not say."""


class ExtrapolationWarning(BayesSdWarning):
    """An answer lies outside the range that was measured."""
