"""Command that turns files of benchmark tools into one table: ``read``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_sd.cli_options import Json, Quiet
from bayes_sd.cli_output import MISTAKE, fail, show, tell, write_json
from bayes_sd.exceptions import ArgumentError

if TYPE_CHECKING:
    from bayes_sd.readers.report import FileReport, ReadReport

MANY = 40  # files, above which they are shown by folder and kind


def read(
    paths: Annotated[
        list[str],
        typer.Argument(help="Files, folders, or patterns in quotes.", metavar="PATH..."),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Table to write: .csv, .csv.gz, .parquet.")
    ] = None,
    format: Annotated[
        str, typer.Option(help="Format of the files; decided by the content if not given.")
    ] = "auto",
    side: Annotated[
        Path | None, typer.Option(help="TOML file of what the files do not tell.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A column for all runs. Repeatable.", metavar="NAME=VALUE"),
    ] = None,
    requests: Annotated[
        Path | None, typer.Option(help="Parquet file to write the single requests to.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
    progressbar: Annotated[bool, typer.Option(help="Show progress.")] = True,
) -> None:
    """Turn files of benchmark tools into one table of runs.

    Known by their content: results of vLLM, GuideLLM, SGLang, AIPerf and InferenceX, and metrics
    pages of vLLM.
    """
    from bayes_sd.readers.collect import read_report
    from bayes_sd.readers.tables import check_output, write_requests, write_runs

    if output is not None:
        check_output(output)
    if requests is not None:
        check_output(requests, (".parquet",))
    report = read_report(
        paths,
        format,
        side_information=side,
        keep_requests=requests is not None,
        progressbar=progressbar and not (as_json or quiet),
        **parse_columns(set_ or []),
    )
    if len(report.runs):
        if output is not None:
            write_runs(report.runs, output)
        if requests is not None:
            write_requests(report, requests)
    if as_json:
        from bayes_sd.cli_output import records

        rows = records(report.runs.reset_index(drop=True)) if output is None else None
        document = {"command": "read"} | report.document()
        document |= {"output": None if output is None else str(output)}
        write_json(document | ({} if rows is None else {"runs": rows}))
    else:
        _show(report, output, requests)
    if not len(report.runs):
        raise typer.Exit(
            MISTAKE if as_json else fail("no run could be read; the reasons are above.")
        )


def parse_columns(settings: list[str]) -> dict[str, Any]:
    """Read settings of columns.

    Examples
    --------
    >>> parse_columns(["num_speculative_tokens=3", "hardware=H200"])
    {'num_speculative_tokens': '3', 'hardware': 'H200'}
    """
    columns = {}
    for setting in settings:
        name, found, value = setting.partition("=")
        if not found or not name.strip():
            raise ArgumentError(
                f"--set must be NAME=VALUE, such as num_speculative_tokens=3. Got {setting!r} "
                "instead."
            )
        columns[name.strip()] = value.strip()
    return columns


def _lines(report: "ReadReport") -> list[tuple[str, str, str]]:
    """Return file, what it was taken for, and runs; of many files, one line per folder and kind."""
    many = len(report.files) > MANY
    groups: dict[tuple[str, str], list[FileReport]] = {}
    for entry in report.files:
        what = f"{entry.meaning} ({entry.format})" if entry.format else "not read"
        if entry.joined_to:
            what = entry.meaning if many else f"{entry.meaning}, joined to {entry.joined_to}"
        # What could not be read keeps a line of its own.
        place = entry.path.parent if many and entry.format else entry.path
        groups.setdefault((str(place), what), []).append(entry)
    lines = []
    for (where, what), members in groups.items():
        number = f"{len(members)} x " if many and members[0].format else ""
        runs = "" if members[0].joined_to else str(sum(m.num_runs for m in members))
        lines.append((where, number + what, runs))
    return lines


def _show(report: "ReadReport", output: Path | None, requests: Path | None) -> None:
    from rich.markup import escape
    from rich.table import Table

    shown = Table("file", "taken for", "runs", title="Files read", title_justify="left")
    for where, what, count in _lines(report):
        shown.add_row(escape(" ".join(where.split())), escape(what), count)
    show(shown)
    if len(report.files) > MANY:
        tell("A line for each folder and kind of file; --json lists each file.")
    for title, lines in (("Left out", report.left_out()), ("Assumed", report.assumed())):
        if lines:
            tell(f"\n{title}:")
            for line in lines:
                tell(f"- {line}")
    where = f", written to {output}" if output is not None else "; write them with -o runs.csv"
    tell(f"\n{len(report.runs)} runs{where if len(report.runs) else ''}")
    if requests is not None and report.requests:
        number = sum(len(frame) for frame in report.requests.values())
        tell(f"{number} requests of {len(report.requests)} runs, written to {requests}")
