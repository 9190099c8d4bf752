"""Command ``policy``: the draft length at each load, and the file that an engine takes."""

from pathlib import Path
from typing import Annotated

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
    Pair,
    Quiet,
    Rates,
    Seed,
    fill_of,
    loads_of,
    scenario_of,
    words,
)
from bayes_sd.cli_output import at_work, heading, records, show, tell, write_json
from bayes_sd.cli_scenarios import ScenariosFile, answer, asked_of, policies, refuse_beside
from bayes_sd.exceptions import ArgumentError


def policy(
    fit_file: FitFile,
    pair: Pair = None,
    scenarios: ScenariosFile = None,
    rate: Rates = None,
    concurrency: Concurrencies = None,
    draft_length: Candidates = None,
    acceptance: Acceptance = None,
    arrivals: Arrivals = "poisson",
    input_len: InputLen = None,
    output_len: OutputLen = None,
    max_num_seqs: MaxNumSeqs = MAX_NUM_SEQS,
    monotone: Annotated[
        bool, typer.Option(help="Whether the draft length must not rise with load.")
    ] = True,
    export: Annotated[
        str | None,
        typer.Option(
            help="Write an engine's file: vllm, sglang or tensorrt-llm.",
            autocompletion=words("vllm", "sglang", "tensorrt-llm"),
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The engine's file.")
    ] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Choose a draft length for each load.

    With --export it is written as the engine takes it.
    """
    with at_work("Choosing at each load.", quiet=quiet) as said:
        name, loads = loads_of(rate, concurrency)
        fill = fill_of(arrivals, input_len, output_len, max_num_seqs)
        if not loads:
            raise ArgumentError("policy needs loads: --rate 1 --rate 4, or --concurrency 16.")
        if output is not None and export is None:
            raise ArgumentError("--output must come with --export, such as --export vllm.")
        from bayes_sd.decide import convergence_note
        from bayes_sd.engine_files import export_policy
        from bayes_sd.policy import draft_length_policy
        from bayes_sd.render import render_policy
        from bayes_sd.storage import load

        tree = load(fit_file)
        if scenarios is not None:
            refuse_beside(export=export, output=output)
            fill |= {name: loads[0]}
            asked = asked_of(tree, scenarios, pair=pair, acceptance=acceptance, **fill)
            table = policies(tree, asked, name, loads, draft_length, monotone=monotone, seed=seed)
            columns = [name, "num_speculative_tokens", "probability_best", "expected_regret"]
            columns += ["verdict", "median_e2e_s", "status"]
            note = convergence_note(tree)
            answer("policy", table, columns, note, said, json=json)
            return
        first = scenario_of(tree, pair, name, loads[0], acceptance, **fill)
        table = draft_length_policy(
            tree, first, loads, candidates=draft_length, monotone=monotone, random_seed=seed
        )
        written = None if export is None else export_policy(table, export, output)
    note = str(table.attrs["convergence"])
    if json:
        document = heading("policy", note, pair=first.pair, policy=records(table))
        document |= {"engine_file": written}
        write_json(document | {"warnings": said})
        return
    show(render_policy(table, f"{first.pair}: draft length by load", note))
    if written is not None and output is None:
        write_json(written)
    elif written is not None and not quiet:
        tell(f"{export} file written to {output}")
