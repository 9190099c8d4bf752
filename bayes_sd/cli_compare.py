"""Commands that set runs and pairs against each other: ``compare`` and ``next-run``."""

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
    NumRequests,
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
from bayes_sd.cli_output import at_work, heading, show, tell, write_json
from bayes_sd.cli_scenarios import ScenariosFile, asked_of, refuse_beside
from bayes_sd.exceptions import ArgumentError


def compare(
    fit_file: FitFile,
    pair: Annotated[
        list[str] | None,
        typer.Option(
            help="A fitted pair, or a part of its label that fits only one; @K after it is its "
            "draft length, as in 'drafter-a60@3'. Give two or more.",
            metavar="PAIR[@K]",
        ),
    ] = None,
    scenarios: ScenariosFile = None,
    rate: Rates = None,
    concurrency: Concurrencies = None,
    cost: Annotated[
        list[float] | None,
        typer.Option(
            help="Cost of each pair, in their order: latency x cost is compared.", metavar="COST"
        ),
    ] = None,
    acceptance: Acceptance = None,
    arrivals: Arrivals = "poisson",
    input_len: InputLen = None,
    output_len: OutputLen = None,
    max_num_seqs: MaxNumSeqs = MAX_NUM_SEQS,
    kind: Annotated[
        str,
        typer.Option(
            help="mean: the configurations. run: one fresh run of each.",
            autocompletion=words("mean", "run"),
        ),
    ] = "mean",
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Compare pairs and draft lengths at the same loads."""
    with at_work("Comparing.", quiet=quiet) as said:
        name, loads = loads_of(rate, concurrency)
        fill = fill_of(arrivals, input_len, output_len, max_num_seqs)
        if not loads and scenarios is None:
            raise ArgumentError(
                "compare needs a load: --rate 4 or --concurrency 16. Or give --scenarios FILE."
            )
        from bayes_sd.pair_comparison import compare_pairs
        from bayes_sd.storage import load

        tree = load(fit_file)
        candidates = {}
        if scenarios is not None:
            refuse_beside(pair=pair)
            given = fill | ({name: loads[0]} if loads else {})
            candidates = asked_of(tree, scenarios, acceptance=acceptance, **given)
        for asked in pair or []:
            label, k = _split(asked)
            scenario = scenario_of(tree, label, name, loads[0], acceptance, **fill)
            scenario = scenario.with_(num_speculative_tokens=k)
            candidates[f"{scenario.pair}, k = {k}"] = scenario
        found = compare_pairs(
            tree, candidates, loads=loads or None, costs=cost, kind=kind, random_seed=seed
        )
    if json:
        document = heading("compare", found.convergence)
        write_json(document | found.to_dict() | {"warnings": said})
        return
    show(_table(found.to_frame().reset_index(), f"Latency, {kind}"))
    tell(found.statement())


def next_run(
    fit_file: FitFile,
    pair: Pair = None,
    rate: Rates = None,
    concurrency: Concurrencies = None,
    draft_length: Candidates = None,
    num_requests: NumRequests = 200,
    certainty: Annotated[float, typer.Option(help="P(best) for the number of runs.")] = 0.95,
    acceptance: Acceptance = None,
    arrivals: Arrivals = "poisson",
    input_len: InputLen = None,
    output_len: OutputLen = None,
    max_num_seqs: MaxNumSeqs = MAX_NUM_SEQS,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Say which benchmark run to make next.

    The one that helps most to choose a draft length at the loads given.
    """
    with at_work("Valuing runs.", quiet=quiet) as said:
        name, loads = loads_of(rate, concurrency)
        fill = fill_of(arrivals, input_len, output_len, max_num_seqs)
        if not loads:
            raise ArgumentError("next-run needs loads: --rate 4 --rate 8, or --concurrency 16.")
        from bayes_sd.decide import draft_lengths
        from bayes_sd.run_value import next_run as value_runs
        from bayes_sd.runs_needed import runs_until_sure
        from bayes_sd.storage import load

        tree = load(fit_file)
        fill |= {"num_requests": num_requests}
        first = scenario_of(tree, pair, name, loads[0], acceptance, **fill)
        lengths = draft_lengths(tree, first, draft_length)
        runs = [
            first.with_(num_speculative_tokens=k, **{name: value})
            for value in loads
            for k in lengths
        ]
        found = value_runs(tree, runs, draft_length_candidates=lengths, random_seed=seed)
        needed: list[dict[str, Any]] = [
            {
                name: value,
                "runs_of_the_two_best": runs_until_sure(
                    tree,
                    first.with_(**{name: value}),
                    candidates=lengths,
                    certainty=certainty,
                    random_seed=seed,
                ),
            }
            for value in loads
        ]
    if json:
        document = heading("next-run", found.convergence)
        document |= found.to_dict() | {"certainty": certainty, "runs_until_sure": needed}
        write_json(document | {"warnings": said})
        return
    show(_table(found.to_frame(), "Runs, the most useful first"))
    tell(found.statement())
    for row in needed:
        number = row["runs_of_the_two_best"]
        words = (
            "more than 64 runs: the two best are as good as equal"
            if number is None
            else "no further run"
            if number == 0
            else f"{number} more runs of each of the two best"
        )
        tell(f"{row[name]:g}: {words} until P(best) is {certainty:g}.")


def _split(asked: str) -> tuple[str, int]:
    """Return the pair's label and the draft length of an option ``PAIR@K``; 0 without."""
    label, found, length = asked.rpartition("@")
    if not found:
        return asked, 0
    if not length.isdecimal():
        raise ArgumentError(
            f"--pair must be PAIR or PAIR@K with a whole number K. Got {asked!r} instead."
        )
    return label, int(length)


def _table(frame: Any, title: str) -> Any:
    from rich.markup import escape
    from rich.table import Table

    shown = Table(*(str(c) for c in frame.columns), title=title, title_justify="left")
    for row in frame.itertuples(index=False):
        shown.add_row(*(f"{v:.4g}" if isinstance(v, float) else escape(str(v)) for v in row))
    return shown
