"""The command line ``bayes-sd``.

Exit status: 0 done; 1 ``check`` of a fit that did not converge; 2 a mistake of the user, with one
message; 130 stopped by Ctrl-C. Large libraries are imported inside the commands, so that help is
quick.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from bayes_sd.cli_ask import choose, predict
from bayes_sd.cli_capacity import capacity
from bayes_sd.cli_compare import compare, next_run
from bayes_sd.cli_demo import demo
from bayes_sd.cli_drift import drift
from bayes_sd.cli_fit import check, fit
from bayes_sd.cli_fit_many import fit_many
from bayes_sd.cli_help import ABOUT, epilog_of
from bayes_sd.cli_output import INTERRUPTED, fail
from bayes_sd.cli_pack import pack
from bayes_sd.cli_policy import policy
from bayes_sd.cli_read import read
from bayes_sd.cli_report import report
from bayes_sd.cli_schema import schema
from bayes_sd.exceptions import BayesSdError

# The base of all errors in how a command was written; typer does not export it by name.
USAGE_ERROR: type[Exception] = next(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
)

app = typer.Typer(
    name="bayes-sd",
    help="Latency of speculative decoding under load, and the draft length to run it with, with "
    "probabilities.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=ABOUT,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: tuple[Callable[..., None], ...] = (
    *(demo, read, fit, fit_many, check, predict, choose, policy, capacity, compare, next_run),
    *(drift, report, pack, schema),
)
for command in COMMANDS:
    name = command.__name__.replace("_", "-")
    app.command(name, epilog=epilog_of(name))(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bayes-sd {version('bayes_sd')}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows ``bayes-sd``; by default that of the process.

    Returns
    -------
    int
    """
    try:
        status = app(
            args=None if arguments is None else list(arguments),
            prog_name="bayes-sd",
            standalone_mode=False,
        )
    except USAGE_ERROR as error:
        return _usage(error)
    except BayesSdError as error:
        return fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    return status if isinstance(status, int) else 0


def _usage(error: Exception) -> int:
    """Say in one line what is wrong with the command as written."""
    context = getattr(error, "ctx", None)
    message = " ".join(error.format_message().split("\n"))  # type: ignore[attr-defined]
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(context.get_help() if context else message, err=True)
        return 2
    path = context.command_path if context else "bayes-sd"
    message = message.rstrip(".")
    return fail(f"{message}{'' if message.endswith('?') else '.'} See {path} --help")


def main() -> None:
    """Run the command line of this process, and exit with its status."""
    sys.exit(run())
