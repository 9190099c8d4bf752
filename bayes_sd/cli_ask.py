"""Commands that ask a fit: ``predict`` and ``choose``."""

from typing import Annotated, Any

import typer

from bayes_sd.cli_options import (
    MAX_NUM_SEQS,
    Acceptance,
    Arrivals,
    Candidates,
    Concurrencies,
    DraftLengths,
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
    unit_of,
    words,
)
from bayes_sd.cli_output import at_work, heading, records, show, write_json
from bayes_sd.cli_scenarios import (
    ScenariosFile,
    answer,
    asked_of,
    chosen,
    predicted,
    refuse_beside,
)
from bayes_sd.exceptions import ArgumentError


def predict(
    fit_file: FitFile,
    pair: Pair = None,
    scenarios: ScenariosFile = None,
    rate: Rates = None,
    concurrency: Concurrencies = None,
    draft_length: DraftLengths = None,
    acceptance: Acceptance = None,
    arrivals: Arrivals = "poisson",
    input_len: InputLen = None,
    output_len: OutputLen = None,
    max_num_seqs: MaxNumSeqs = MAX_NUM_SEQS,
    num_requests: NumRequests = 200,
    kind: Annotated[
        str,
        typer.Option(
            help="mean: of the configuration. run: that a fresh run would report.",
            autocompletion=words("mean", "run", "request"),
        ),
    ] = "mean",
    level: Annotated[float, typer.Option(help="Probability of the interval.")] = 0.9,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Predict latency at one load or several."""
    with at_work("Predicting.", quiet=quiet) as said:
        name, loads = loads_of(rate, concurrency)
        fill = fill_of(arrivals, input_len, output_len, max_num_seqs)
        fill |= {"num_requests": num_requests}
        if not loads and scenarios is None:
            raise ArgumentError(
                "predict needs a load: --rate 4 or --concurrency 16. Or give --scenarios FILE."
            )
        from bayes_sd.decide import convergence_note
        from bayes_sd.predict import predict_latency
        from bayes_sd.render import render_summary
        from bayes_sd.storage import load
        from bayes_sd.summary import summarise

        tree = load(fit_file)
        if scenarios is not None:
            refuse_beside(rate=rate, concurrency=concurrency, draft_length=draft_length)
            asked = asked_of(tree, scenarios, pair=pair, acceptance=acceptance, **fill)
            table = predicted(tree, asked, kind, level, seed)
            columns = [c for c in table.columns if c != "name"]
            note = convergence_note(tree)
            answer("predict", table, columns, note, said, json=json, kind=kind, level=level)
            return
        first = scenario_of(tree, pair, name, loads[0], acceptance, **fill)
        points = [
            first.with_(num_speculative_tokens=k, **{name: value})
            for value in loads
            for k in sorted(set(draft_length or [0]))
        ]
        table = summarise(predict_latency(tree, points, kind=kind, random_seed=seed), level)
        note = convergence_note(tree)
    if not json:
        show(render_summary(table, note=note, level=level))
        return
    rows = records(table)
    for row, scenario in zip(rows, points, strict=True):
        row |= {"num_speculative_tokens": scenario.num_speculative_tokens, name: scenario.load}
    document = heading("predict", note, pair=first.pair, kind=kind, level=level)
    write_json(document | {"predictions": rows, "warnings": said})


def choose(
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
    utility: Annotated[
        str,
        typer.Option(
            help="What to compare at one load: mean, p95, slo, goodput, cost, cvar.",
            autocompletion=words("mean", "p50", "p90", "p95", "p99", "slo", "goodput", "cvar"),
        ),
    ] = "mean",
    slo: Annotated[
        str | None,
        typer.Option(help="Objective of slo and goodput, such as 'e2e_p95 <= 2'.", metavar="TERM"),
    ] = None,
    break_even: Annotated[
        list[int] | None,
        typer.Option(
            help="Also say from which load on this draft length stops paying. Repeatable.",
            metavar="K",
        ),
    ] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Choose the draft length at one load or several."""
    with at_work("Choosing.", quiet=quiet) as said:
        name, loads = loads_of(rate, concurrency)
        fill = fill_of(arrivals, input_len, output_len, max_num_seqs)
        if not loads and not break_even and scenarios is None:
            raise ArgumentError(
                "choose needs a load (--rate 4 or --concurrency 16) or --break-even 3. Or give "
                "--scenarios FILE."
            )
        if scenarios is None and len(loads) != 1 and (utility != "mean" or slo):
            raise ArgumentError(
                f"--utility and --slo must come with one load. Got {len(loads)} instead: ask for "
                "each by itself."
            )
        from bayes_sd.break_even import break_even_rate
        from bayes_sd.decide import choose_draft_length, convergence_note
        from bayes_sd.policy import draft_length_policy
        from bayes_sd.render import render_break_even, render_decision, render_policy
        from bayes_sd.storage import load

        tree = load(fit_file)
        if scenarios is not None:
            refuse_beside(rate=rate, concurrency=concurrency, break_even=break_even)
            asked = asked_of(tree, scenarios, pair=pair, acceptance=acceptance, **fill)
            table = chosen(tree, asked, draft_length, utility, slo, seed)
            columns = [c for c in table.columns if c not in ("name", "scenario")]
            note = convergence_note(tree)
            answer("choose", table, columns, note, said, json=json, utility=utility)
            return
        start = loads[0] if loads else 1.0
        scenario = scenario_of(tree, pair, name, start, acceptance, **fill)
        note = convergence_note(tree)
        document = heading("choose", note, pair=scenario.pair)
        views: list[Any] = []
        if len(loads) == 1:
            decision = choose_draft_length(
                tree,
                scenario,
                utility=utility,
                slo=slo,
                candidates=draft_length,
                random_seed=seed,
            )
            document["decision"] = {name: start, **decision.to_dict()}
            views.append(render_decision(decision, f"{scenario.pair} at {start:g} {unit_of(name)}"))
        elif loads:
            policy = draft_length_policy(
                tree, scenario, loads, candidates=draft_length, random_seed=seed
            )
            document["policy"] = records(policy)
            views.append(render_policy(policy, f"{scenario.pair}: draft length by load", note))
        turns = [
            break_even_rate(
                tree, scenario.pair, num_speculative_tokens=k, scenario=scenario, random_seed=seed
            )
            for k in sorted(set(break_even or []))
        ]
        if turns:
            document["break_even"] = [turn.to_dict() for turn in turns]
            views.append(render_break_even(turns))
    if json:
        write_json(document | {"warnings": said})
    else:
        show(*views)
