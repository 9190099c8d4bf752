"""Command ``policy``: the draft length at each load, and the file that an engine takes."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bayes_sd.cli_ask import MAX_NUM_SEQS, fill_of, loads_of, scenario_of
from bayes_sd.cli_options import (
    Acceptance,
    Arrivals,
    Concurrencies,
    FitFile,
    InputLen,
    Json,
    MaxNumSeqs,
    OutputLen,
    Pair,
    Rates,
    Seed,
)
from bayes_sd.cli_output import records, show, spoken_warnings, tell, write_json
from bayes_sd.cli_scenarios import ScenariosFile, answer, asked_of, policies, refuse_beside
from bayes_sd.exceptions import ArgumentError


def policy(
    fit_file: FitFile,
    pair: Pair = None,
    scenarios: ScenariosFile = None,
    rate: Rates = None,
    concurrency: Concurrencies = None,
    draft_length: Annotated[
        list[int] | None,
        typer.Option(
            "--draft-length",
            "-k",
            help="Draft length to compare. Repeatable; by default 0 (off) and those measured.",
            metavar="K",
        ),
    ] = None,
    acceptance: Acceptance = None,
    arrivals: Arrivals = "poisson",
    input_len: InputLen = None,
    output_len: OutputLen = None,
    max_num_seqs: MaxNumSeqs = MAX_NUM_SEQS,
    monotone: Annotated[
        bool, typer.Option(help="Whether the draft length must not rise with load.")
    ] = True,
    export: Annotated[
        str | None, typer.Option(help="Write an engine's file: vllm, sglang or tensorrt-llm.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The engine's file.")
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Choose a draft length for each load, and write it as the engine takes it.

    Example: bayes-sd policy fit.nc --pair drafter-a60 --rate 1 --rate 4 --rate 8 --export vllm
    """
    with spoken_warnings() as said:
        name, loads = loads_of(rate, concurrency)
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
            fill = fill_of(arrivals, input_len, output_len, max_num_seqs) | {name: loads[0]}
            asked = asked_of(tree, scenarios, pair=pair, acceptance=acceptance, **fill)
            table = policies(tree, asked, name, loads, draft_length, monotone=monotone, seed=seed)
            columns = [name, "num_speculative_tokens", "probability_best", "expected_regret"]
            columns += ["verdict", "median_e2e_s", "status"]
            note = convergence_note(tree)
            answer("policy", table, columns, note, said, json=json)
            return
        first = scenario_of(tree, pair, name, loads[0], acceptance, arrivals, input_len, output_len)
        first = first.with_(max_num_seqs=max_num_seqs)
        table = draft_length_policy(
            tree, first, loads, candidates=draft_length, monotone=monotone, random_seed=seed
        )
        written = None if export is None else export_policy(table, export, output)
    note = str(table.attrs["convergence"])
    if json:
        document: dict[str, Any] = {"command": "policy", "converged": not note, "pair": first.pair}
        document |= {"convergence": note, "policy": records(table), "engine_file": written}
        write_json(document | {"warnings": said})
        return
    show(render_policy(table, f"{first.pair}: draft length by load", note))
    if written is not None and output is None:
        write_json(written)
    elif written is not None:
        tell(f"{export} file written to {output}")
