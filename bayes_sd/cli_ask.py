"""Commands that ask a fit: ``predict`` and ``choose``."""

from typing import Annotated, Any

import typer

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
    pair_or_only,
    parse_acceptance,
)
from bayes_sd.cli_output import records, show, spoken_warnings, write_json
from bayes_sd.cli_scenarios import (
    ScenariosFile,
    answer,
    asked_of,
    chosen,
    predicted,
    refuse_beside,
)
from bayes_sd.exceptions import ArgumentError

MAX_NUM_SEQS = 256


def loads_of(
    rates: list[float] | None, concurrencies: list[float] | None
) -> tuple[str, list[float]]:
    """Return the name of the load and its values, increasing; empty if none is given."""
    if rates and concurrencies:
        raise ArgumentError(
            "--rate (open loop) and --concurrency (closed loop) exclude each other. Got both: "
            "drop one of them."
        )
    return (
        ("concurrency", sorted(set(concurrencies)))
        if concurrencies
        else ("request_rate_rps", sorted(set(rates or [])))
    )


def predict(
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
            help="Draft length; 0, the default, is off. Repeatable.",
            metavar="K",
        ),
    ] = None,
    acceptance: Acceptance = None,
    arrivals: Arrivals = "poisson",
    input_len: InputLen = None,
    output_len: OutputLen = None,
    max_num_seqs: MaxNumSeqs = MAX_NUM_SEQS,
    num_requests: Annotated[int, typer.Option(help="Requests of the run that `run` means.")] = 200,
    kind: Annotated[
        str, typer.Option(help="mean: of the configuration. run: that a fresh run would report.")
    ] = "mean",
    level: Annotated[float, typer.Option(help="Probability of the interval.")] = 0.9,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Predict latency at one load or several.

    Example: bayes-sd predict fit.nc --pair Qwen3-8B --rate 4 -k 0 -k 3 --acceptance 0.7
    """
    with spoken_warnings() as said:
        name, loads = loads_of(rate, concurrency)
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
            fill = fill_of(arrivals, input_len, output_len, max_num_seqs)
            fill |= {"num_requests": num_requests}
            asked = asked_of(tree, scenarios, pair=pair, acceptance=acceptance, **fill)
            table = predicted(tree, asked, kind, level, seed)
            columns = [c for c in table.columns if c != "name"]
            note = convergence_note(tree)
            answer("predict", table, columns, note, said, json=json, kind=kind, level=level)
            return
        first = scenario_of(tree, pair, name, loads[0], acceptance, arrivals, input_len, output_len)
        first = first.with_(max_num_seqs=max_num_seqs, num_requests=num_requests)
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
    document: dict[str, Any] = {"command": "predict", "converged": not note, "convergence": note}
    document |= {"pair": first.pair, "kind": kind, "level": level}
    write_json(document | {"predictions": rows, "warnings": said})


def choose(
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
    utility: Annotated[
        str,
        typer.Option(help="What to compare at one load: mean, p95, slo, goodput, cost, cvar."),
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
    json: Json = False,
) -> None:
    """Choose the draft length at one load or several.

    Example: bayes-sd choose fit.nc --pair Qwen3-8B --rate 2 --rate 8 --acceptance 0.7
    """
    with spoken_warnings() as said:
        name, loads = loads_of(rate, concurrency)
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
            fill = fill_of(arrivals, input_len, output_len, max_num_seqs)
            asked = asked_of(tree, scenarios, pair=pair, acceptance=acceptance, **fill)
            table = chosen(tree, asked, draft_length, utility, slo, seed)
            columns = [c for c in table.columns if c not in ("name", "scenario")]
            note = convergence_note(tree)
            answer("choose", table, columns, note, said, json=json, utility=utility)
            return
        start = loads[0] if loads else 1.0
        scenario = scenario_of(tree, pair, name, start, acceptance, arrivals, input_len, output_len)
        scenario = scenario.with_(max_num_seqs=max_num_seqs)
        note = convergence_note(tree)
        document: dict[str, Any] = {"command": "choose", "converged": not note, "convergence": note}
        document["pair"] = scenario.pair
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
            views.append(render_decision(decision, f"{scenario.pair} at {start:g} {_unit(name)}"))
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


def _unit(name: str) -> str:
    return "requests/s" if name == "request_rate_rps" else "requests in flight"


def fill_of(
    arrivals: str, input_len: float | None, output_len: float | None, max_num_seqs: int
) -> dict[str, Any]:
    """Return what options say for blank cells of a file of scenarios."""
    return {
        "arrivals": arrivals,
        "input_len_tokens": input_len,
        "output_len_tokens": output_len,
        "max_num_seqs": max_num_seqs,
    }


def scenario_of(
    tree: Any,
    pair: str | None,
    name: str,
    load: float,
    acceptance: str | None,
    arrivals: str,
    input_len: float | None,
    output_len: float | None,
) -> Any:
    """Return the scenario of the options, at one load and without speculation."""
    from bayes_sd.scenario import Scenario

    return Scenario(
        pair_or_only(tree, pair),
        request_rate_rps=load if name == "request_rate_rps" else None,
        concurrency=load if name == "concurrency" else None,
        arrivals=arrivals,
        input_len_tokens=input_len,
        output_len_tokens=output_len,
        acceptance=parse_acceptance(acceptance),
    )
