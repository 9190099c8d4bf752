"""The command ``pack``: a small file of a fit, for queries."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_sd.cli_options import FitFile, Json, Quiet
from bayes_sd.cli_output import at_work, heading, show, write_json


def pack(
    fit_file: FitFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write.", metavar="SMALL.nc")
    ],
    draws: Annotated[
        int | None,
        typer.Option(help="Draws kept over all chains. By default 1000, or as many as fit."),
    ] = None,
    max_size_mb: Annotated[
        float, typer.Option("--max-size-mb", help="Size that the file may have by default, MB.")
    ] = 5.0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a small file of a fit, for queries.

    It answers predict, choose, report and drift.
    The verdict on the whole fit goes with it. Keep the whole file for checks of the model.
    """
    with at_work("Packing.", quiet=quiet) as said:
        from bayes_sd.decide import convergence_note
        from bayes_sd.packing import thin_for_queries
        from bayes_sd.render import render_convergence
        from bayes_sd.storage import load, save

        tree = load(fit_file)
        note = convergence_note(tree)
        packed = thin_for_queries(tree, draws=draws, size_mb=max_size_mb)
        written = save(packed, output)
        size, before = written.stat().st_size, fit_file.stat().st_size
    kept, of = (int(packed.attrs[name]) for name in ("packed_draws", "packed_of_draws"))
    if json:
        document = heading("pack", note, file=str(written), size_bytes=size)
        write_json(document | {"draws": kept, "draws_of_fit": of, "warnings": said})
        return
    show(render_convergence(note))
    show(f"Wrote {written}: {kept} of {of} draws, {size / 1e6:.2f} MB (was {before / 1e6:.2f} MB).")
