"""Command ``capacity``: the highest rate within an objective, and the replicas for a traffic."""

from typing import Annotated, Any

import typer

from bayes_sd.cli_options import (
    MAX_NUM_SEQS,
    Acceptance,
    Arrivals,
    DraftLengths,
    FitFile,
    InputLen,
    Json,
    MaxNumSeqs,
    OutputLen,
    Pair,
    Quiet,
    Seed,
    fill_of,
    scenario_of,
)
from bayes_sd.cli_output import at_work, heading, show, write_json
from bayes_sd.cli_scenarios import ScenariosFile, answer, asked_of, limits, refuse_beside
from bayes_sd.exceptions import ArgumentError

_NO_NUMBER = {  # of replicas, by verdict
    "found": "",
    "no limit found": "",
    "not enough data": "not enough data",
    "not met at any load": "none will do",
}


def capacity(
    fit_file: FitFile,
    slo: Annotated[
        list[str] | None,
        typer.Option(
            help="Upper limit on latency, such as 'e2e_p95 <= 2.0' or 'tpot_mean <= 30 ms'. "
            "Repeatable: all are to be met.",
            metavar="TERM",
        ),
    ] = None,
    pair: Pair = None,
    scenarios: ScenariosFile = None,
    rate: Annotated[
        list[float] | None,
        typer.Option(
            help="Also say how many replicas serve this rate, requests/s of all of them together. "
            "Repeatable.",
            metavar="RATE",
        ),
    ] = None,
    draft_length: DraftLengths = None,
    certainty: Annotated[
        float, typer.Option(help="Probability with which the objective is to be met.")
    ] = 0.95,
    cost: Annotated[
        float | None,
        typer.Option("--cost-per-replica-hour", help="Cost of one replica for one hour."),
    ] = None,
    acceptance: Acceptance = None,
    arrivals: Arrivals = "poisson",
    input_len: InputLen = None,
    output_len: OutputLen = None,
    max_num_seqs: MaxNumSeqs = MAX_NUM_SEQS,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Say up to which rate an objective is met.

    With --rate also how many replicas a traffic needs.
    """
    with at_work("Searching rates.", quiet=quiet) as said:
        if not slo:
            raise ArgumentError("capacity needs an objective: --slo 'e2e_p95 <= 2.0'.")
        if cost is not None and not rate:
            raise ArgumentError(
                "--cost-per-replica-hour needs a traffic to serve. Give it: --rate 40."
            )
        from bayes_sd.capacity import max_rate
        from bayes_sd.decide import convergence_note
        from bayes_sd.replicas import replicas_needed
        from bayes_sd.slo import Slo
        from bayes_sd.storage import load

        asked = Slo(*slo)
        fill = fill_of(arrivals, input_len, output_len, max_num_seqs)
        tree = load(fit_file)
        if scenarios is not None:
            refuse_beside(rate=rate, draft_length=draft_length, cost_per_replica_hour=cost)
            fill |= {"request_rate_rps": 1.0}
            rows = asked_of(tree, scenarios, pair=pair, acceptance=acceptance, **fill)
            table = limits(tree, rows, asked, certainty, seed)
            columns = ["rate", "unit", "low_broken", "median_broken", "high_broken"]
            columns += ["next_rate", "verdict", "status"]
            answer(
                "capacity", table, columns, convergence_note(tree), said,
                json=json, slo=str(asked), certainty=certainty,
            )  # fmt: skip
            return
        first = scenario_of(tree, pair, "request_rate_rps", 1.0, acceptance, **fill)
        arms = [first.with_(num_speculative_tokens=k) for k in sorted(set(draft_length or [0]))]
        note = convergence_note(tree)
        if rate:
            needed = [
                replicas_needed(
                    tree,
                    arm,
                    asked,
                    sorted(set(rate)),
                    certainty,
                    cost_per_replica_hour=cost,
                    random_seed=seed,
                )
                for arm in arms
            ]
            highest = [each.per_replica for each in needed]
        else:
            needed = []
            highest = [max_rate(tree, arm, asked, certainty, random_seed=seed) for arm in arms]
    if not json:
        show(*_views(highest, needed, note))
        return
    document = heading("capacity", note, pair=first.pair, slo=str(asked), certainty=certainty)
    document["max_rate"] = [
        {"num_speculative_tokens": limit.scenario.num_speculative_tokens, **limit.to_dict()}
        for limit in highest
    ]
    if needed:
        document["replicas"] = [
            {"num_speculative_tokens": k, **_without_limit(each.to_dict())}
            for k, each in zip([arm.num_speculative_tokens for arm in arms], needed, strict=True)
        ]
    write_json(document | {"warnings": said})


def _without_limit(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the document has elsewhere."""
    return {key: value for key, value in document.items() if key != "per_replica"}


def _views(limits: list[Any], needed: list[Any], note: str) -> list[Any]:
    """Return what to show: convergence, a sentence per draft length, a table of replicas."""
    from dataclasses import replace

    from rich.text import Text

    from bayes_sd.render import render_convergence

    text = Text()
    for limit in limits:
        text.append("- " + replace(limit, convergence="").statement() + "\n")
    views = [render_convergence(note), Text("Highest rate within the objective", style="bold")]
    views.append(text)
    return [*views, _replica_table(needed)] if needed else views


def _replica_table(needed: list[Any]) -> Any:
    """Return a table with one row per draft length and rate."""
    import pandas as pd
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    priced = needed[0].cost_per_replica_hour is not None
    names = ["rate, 1/s", "k", "replicas", "rate each, 1/s", "P(SLO met)", "P(one fewer)"]
    table = Table(
        title="Replicas for the traffic",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
    )
    for name in [*names, "cost per hour"] if priced else names:
        table.add_column(name, justify="right")
    for each in needed:
        k = each.per_replica.scenario.num_speculative_tokens
        for _, row in each.to_frame().iterrows():
            numbers = [row["rate_per_replica_rps"], row["p_slo_met"], row["p_one_fewer"]]
            cells = [f"{row['rate_rps']:g}", str(k) if k else "off"]
            cells.append(_NO_NUMBER[each.per_replica.verdict] or str(row["replicas"]))
            cells += [
                "–" if pd.isna(value) else form.format(value)
                for value, form in zip(numbers, ("{:.3g}", "{:.2f}", "{:.2f}"), strict=True)
            ]
            if priced:
                cells.append("–" if pd.isna(row["cost"]) else f"{row['cost']:.4g}")
            table.add_row(*cells)
    return table
