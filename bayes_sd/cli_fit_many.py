"""The command ``fit-many``: a fit for each group of runs, side by side."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bayes_sd.cli_fit import Bundled, Tables, read_tables
from bayes_sd.cli_options import Chains, Draws, Json, Quiet, Seed, TargetAccept, Tune
from bayes_sd.cli_output import heading, show, spoken_warnings, tell, write_json

FAILED = 1  # exit status: some group has no fit


def fit_many(
    paths: Tables = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Column whose values make a group. Repeatable. By default verifier.",
            metavar="COLUMN",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to write to.", metavar="FOLDER")
    ] = Path("fleet"),
    data: Bundled = None,
    pooled: Annotated[
        bool, typer.Option("--pooled", help="Fit all runs together, too, as one more group.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(help="Processes. By default one for each core.", metavar="N"),
    ] = None,
    draws: Draws = 1000,
    tune: Tune = 500,
    chains: Chains = 4,
    seed: Seed = 0,
    target_accept: TargetAccept = 0.95,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Fit each group of a table of runs, and keep what is done.

    The same command again goes on where it was stopped, and fits groups whose runs changed.
    Exit status 1 if some group failed.
    """
    with spoken_warnings() as said:
        frame = read_tables(paths or [], data or [])
        from bayes_sd import fleet

        columns = by or ["verifier"]
        if not quiet:
            tell(f"{len(frame)} runs, by {', '.join(columns)}: each group takes minutes.")
        fits = fleet.fit_many(
            frame,
            columns,
            output,
            pooled=pooled,
            workers=workers,
            draws=draws,
            tune=tune,
            chains=chains,
            random_seed=seed,
            target_accept=target_accept,
            progressbar=not quiet,
        )
    rows = _rows(fits.groups)
    loose = [row["group"] for row in rows if row["converged"] is False]
    note = f"NOT CONVERGED, do not decide on the fits of: {', '.join(loose)}." if loose else ""
    if json:
        document = heading("fit-many", note, folder=str(fits.folder), by=columns)
        write_json(document | {"groups": rows, "warnings": said})
    else:
        show(_table(rows), fits.sentence(), *([note] if note else []))
        show(f"Wrote {fits.folder}. Next: bayes-sd check {rows[0]['file'] or 'FIT.nc'}")
    if any(row["status"] == "failed" for row in rows):
        raise typer.Exit(FAILED)


def _rows(groups: Any) -> list[dict[str, Any]]:
    """Return the table of groups as plain values."""
    import pandas as pd

    from bayes_sd.fleet_store import TABLE_COLUMNS

    keys = [name for name in groups.columns if name not in TABLE_COLUMNS]
    rows = []
    for row in groups.astype(object).to_dict(orient="records"):
        converged = row["converged"]
        rows.append(
            {
                "group": row["group"],
                "columns": {name: row[name] for name in keys if isinstance(row[name], str)},
                "status": row["status"],
                "converged": None if pd.isna(converged) else bool(converged),
                "verdict": row["verdict"],
                "num_runs": int(row["num_runs"]),
                "seconds": float(row["seconds"]),
                "file": row["path"] or None,
                "error": row["error"],
                "warnings": row["warnings"].split("\n") if row["warnings"] else [],
            }
        )
    return rows


def _table(rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text("Groups", style="bold"), title_justify="left")
    for name in ("group", "status", "converged", "runs", "seconds", "error"):
        table.add_column(name)
    words_of = {True: "yes", False: "NO", None: "–"}
    for row in rows:
        table.add_row(
            Text(row["group"]),
            row["status"],
            words_of[row["converged"]],
            str(row["num_runs"]),
            f"{row['seconds']:.1f}",
            Text(row["error"]),
        )
    return table
