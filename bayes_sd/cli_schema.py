"""The command ``schema``: what the JSON of each command holds."""

import json as json_module
from importlib.resources import files
from typing import Annotated, Any

import typer

from bayes_sd.cli_options import words
from bayes_sd.cli_output import write_json
from bayes_sd.validate import one_of

COMMANDS = (
    *("demo", "read", "fit", "fit-many", "check", "predict", "choose"),
    *("policy", "capacity", "compare", "next-run", "report", "drift", "pack"),
)


def schema_of(command: str) -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of what a command writes with ``--json``.

    Parameters
    ----------
    command : str
        Name of a command.

    Raises
    ------
    ArgumentError
        If there is none of that name.

    Examples
    --------
    >>> schema_of("predict")["title"]
    'bayes-sd predict --json'
    """
    one_of(command, COMMANDS, "command")
    text = files("bayes_sd").joinpath("cli_schemas", f"{command}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json_module.loads(text)
    return found


def schema(
    command: Annotated[
        str | None,
        typer.Argument(
            help="Command; without one, the schemas of all of them.",
            autocompletion=words(*COMMANDS),
        ),
    ] = None,
) -> None:
    """Print the JSON schema of what a command writes with --json."""
    if command is None:
        write_json({name: schema_of(name) for name in COMMANDS})
    else:
        write_json(schema_of(command))
