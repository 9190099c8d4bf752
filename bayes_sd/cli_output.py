"""What the command line writes: one message for a mistake, one JSON document, tables otherwise."""

import json
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from bayes_sd.exceptions import BayesSdWarning, ConvergenceWarning

MISTAKE, INTERRUPTED = 2, 130


def fail(message: str) -> int:
    """Write one message about a user's mistake to stderr, and return the exit status."""
    typer.echo(f"bayes-sd: {message}", err=True)
    return MISTAKE


def tell(message: str) -> None:
    """Write a line about progress to stderr."""
    typer.echo(message, err=True)


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it; what is not a finite number is None.

    Parameters
    ----------
    value : object
        Numbers (of NumPy too), text, None, and dicts, lists and tuples of them.

    Examples
    --------
    >>> plain({"rate": float("inf"), "k": (0, 3)})
    {'rate': None, 'k': [0, 3]}
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    if hasattr(value, "tolist"):  # an array, or a number of NumPy
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return None if value != value or str(value) == "<NA>" else str(value)


def write_json(document: dict[str, Any]) -> None:
    """Write a JSON document to stdout."""
    typer.echo(json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False))


def records(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a pandas table, the index first."""
    return [dict(row) for row in table.reset_index().astype(object).to_dict(orient="records")]


def heading(command: str, note: str, **about: Any) -> dict[str, Any]:
    """Return how each JSON document about a fit begins.

    Parameters
    ----------
    command : str
        Command that answers.
    note : str
        What must be said first about the fit; empty if it converged.
    **about
        What follows.

    Examples
    --------
    >>> heading("predict", "", pair="a")
    {'command': 'predict', 'converged': True, 'convergence': '', 'pair': 'a'}
    """
    return {"command": command, "converged": not note, "convergence": note, **about}


def show(*renderables: Any, stderr: bool = False) -> None:
    """Write tables to stdout, or to stderr beside JSON."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:  # a pipe or a file has no width: do not break lines at 80
        console = Console(stderr=stderr, highlight=False, width=160)
    for renderable in renderables:
        console.print(renderable)


@contextmanager
def spoken_warnings() -> Iterator[list[str]]:
    """Write each warning once to stderr, as one message, and collect the messages.

    `ConvergenceWarning` is left out: every command says first what is wrong with a fit.
    """
    said: list[str] = []

    def speak(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = str(message)
        if issubclass(category, ConvergenceWarning) or text in said:
            return
        said.append(text)
        name = "warning" if issubclass(category, BayesSdWarning) else category.__name__
        sys.stderr.write(f"{name}: {text}\n")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = speak  # type: ignore[assignment]
        yield said


@contextmanager
def working(doing: str, *, quiet: bool = False) -> Iterator[None]:
    """Show on a terminal that work goes on, with the time it took so far, on stderr.

    Nothing is written where stderr is a file or a pipe, or if it is to be quiet.
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(doing, total=None)
        yield


@contextmanager
def at_work(doing: str, *, quiet: bool = False) -> Iterator[list[str]]:
    """Do both: `working` and `spoken_warnings`, whose list is given."""
    with spoken_warnings() as said, working(doing, quiet=quiet):
        yield said
