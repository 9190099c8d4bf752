"""Commands that set runs and pairs against each other: ``compare`` and ``next-run``."""

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
from bayes_sd.cli_output import show, spoken_warnings, tell, write_json
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
        typer.Option(help="Cost of each pair, in their order: latency x cost is compared."),
    ] = None,
    acceptance: Acceptance = None,
    arrivals: Arrivals = "poisson",
    input_len: InputLen = None,
    output_len: OutputLen = None,
    max_num_seqs: MaxNumSeqs = MAX_NUM_SEQS,
    kind: Annotated[
        str, typer.Option(help="mean: the configurations. run: one fresh run of each.")
    ] = "mean",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compare pairs and draft lengths at the same loads.

    Example: bayes-sd compare fit.nc --pair drafter-a60@3 --pair drafter-a85@3 --rate 2 --rate 6
    """
    with spoken_warnings() as said:
        name, loads = loads_of(rate, concurrency)
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
            fill = fill_of(arrivals, input_len, output_len, max_num_seqs)
            fill |= {name: loads[0]} if loads else {}
            candidates = asked_of(tree, scenarios, acceptance=acceptance, **fill)
        for asked in pair or []:
            label, k = _split(asked)
            scenario = scenario_of(
                tree, label, name, loads[0], acceptance, arrivals, input_len, output_len
            )
            scenario = scenario.with_(num_speculative_tokens=k, max_num_seqs=max_num_seqs)
            candidates[f"{scenario.pair}, k = {k}"] = scenario
        found = compare_pairs(
            tree, candidates, loads=loads or None, costs=cost, kind=kind, random_seed=seed
        )
    if json:
        document = {"command": "compare", "converged": not found.convergence}
        write_json(document | found.to_dict() | {"warnings": said})
        return
    show(_table(found.to_frame().reset_index(), f"Latency, {kind}"))
    tell(found.statement())


def next_run(
    fit_file: FitFile,
    pair: Pair = None,
    rate: Rates = None,
    concurrency: Concurrencies = None,
    draft_length: Annotated[
        list[int] | None,
        typer.Option(
            "--draft-length",
            "-k",
            help="Draft length that could be run. Repeatable; by default 0 and those measured.",
            metavar="K",
        ),
    ] = None,
    num_requests: Annotated[int, typer.Option(help="Requests of each run.")] = 200,
    certainty: Annotated[float, typer.Option(help="P(best) for the number of runs.")] = 0.95,
    acceptance: Acceptance = None,
    arrivals: Arrivals = "poisson",
    input_len: InputLen = None,
    output_len: OutputLen = None,
    max_num_seqs: MaxNumSeqs = MAX_NUM_SEQS,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Say which benchmark run to make next, to choose a draft length at the loads given.

    Example: bayes-sd next-run fit.nc --pair drafter-a60 --rate 2 --rate 6 --rate 10
    """
    with spoken_warnings() as said:
        name, loads = loads_of(rate, concurrency)
        if not loads:
            raise ArgumentError("next-run needs loads: --rate 4 --rate 8, or --concurrency 16.")
        from bayes_sd.decide import draft_lengths
        from bayes_sd.run_value import next_run as value_runs
        from bayes_sd.runs_needed import runs_until_sure
        from bayes_sd.storage import load

        tree = load(fit_file)
        first = scenario_of(tree, pair, name, loads[0], acceptance, arrivals, input_len, output_len)
        first = first.with_(max_num_seqs=max_num_seqs, num_requests=num_requests)
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
        document = {"command": "next-run", "converged": not found.convergence}
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
