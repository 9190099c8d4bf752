"""The command ``report``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bayes_sd.cli_options import (
    MAX_NUM_SEQS,
    Acceptance,
    Arrivals,
    Candidates,
    Concurrencies,
    FitFile,
    InputLen,
    Json,
    MaxNumSeqs,
    OutputLen,
    Quiet,
    Rates,
    Seed,
    fill_of,
    loads_of,
    parse_acceptance,
)
from bayes_sd.cli_output import heading, spoken_warnings, tell, write_json
from bayes_sd.exceptions import ArgumentError


def report(
    fit_file: FitFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Page to write.", metavar="REPORT.html")
    ],
    pair: Annotated[
        list[str] | None,
        typer.Option(
            help="Show this pair. Repeatable; by default every fitted pair.", metavar="PAIR"
        ),
    ] = None,
    rate: Rates = None,
    concurrency: Concurrencies = None,
    draft_length: Candidates = None,
    acceptance: Acceptance = None,
    arrivals: Arrivals = "poisson",
    input_len: InputLen = None,
    output_len: OutputLen = None,
    max_num_seqs: MaxNumSeqs = MAX_NUM_SEQS,
    slo: Annotated[
        str | None,
        typer.Option(
            help="Objective that the page begins with, as 'e2e_p95 <= 2'; its reader may type "
            "another.",
            metavar="TERM",
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Heading of the page.")] = (
        "Latency of speculative decoding"
    ),
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a fit as one interactive page that needs no network."""
    with spoken_warnings() as said:
        name, loads = loads_of(rate, concurrency)
        if not title.strip():
            raise ArgumentError("--title must hold a text. Got none instead.")
        from bayes_sd.decide import convergence_note
        from bayes_sd.posterior import fitted_bases, fitted_pairs
        from bayes_sd.report import write_report
        from bayes_sd.scenario import Scenario
        from bayes_sd.storage import load

        tree = load(fit_file)
        note = convergence_note(tree)
        if note:
            tell(note)
        fill: dict[str, Any] = fill_of(arrivals, input_len, output_len, max_num_seqs)
        fill["acceptance"] = parse_acceptance(acceptance)
        own = {"arrivals": "poisson", "max_num_seqs": MAX_NUM_SEQS}
        named = [key for key, value in fill.items() if value != own.get(key)]
        scenarios = None
        if pair or named or concurrency:
            labels = pair or fitted_pairs(tree) or fitted_bases(tree)
            fill[name] = loads[0] if loads else 1.0
            scenarios = [Scenario(label, **fill) for label in labels]
        written = write_report(
            tree,
            output,
            scenarios=scenarios,
            loads=loads or None,
            draft_lengths=draft_length,
            slo=slo,
            title=title,
            random_seed=seed,
            progress=None if quiet else tell,
        )
    size = written.stat().st_size
    if json:
        document = heading("report", note, path=str(written), size_bytes=size)
        write_json(document | {"warnings": said})
    else:
        typer.echo(f"Wrote {written} ({size / 1e6:.1f} MB). Open it in a browser.")
