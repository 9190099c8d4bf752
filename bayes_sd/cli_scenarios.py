"""What ``--scenarios FILE`` does in each command: one answer per row of the file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from bayes_sd.cli_options import parse_acceptance
from bayes_sd.cli_output import heading, records, show, tell, write_json
from bayes_sd.exceptions import ArgumentError

ScenariosFile = Annotated[
    Path | None,
    typer.Option(
        "--scenarios",
        help="CSV file with one scenario a row, in place of the options of one: columns are "
        "fields of Scenario such as pair, request_rate_rps, num_speculative_tokens, and name. "
        "Other options fill blank cells.",
        metavar="FILE",
    ),
]


def refuse_beside(**options: object) -> None:
    """Refuse options that the rows of a file say themselves.

    Raises
    ------
    ArgumentError
        If one is given.
    """
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
    if given:
        raise ArgumentError(
            f"--scenarios must come without {' and '.join(given)}: each row of the file says that "
            "itself. Take the option out, or add a column to the file."
        )


def asked_of(
    tree: Any,
    file: Path,
    *,
    pair: str | None = None,
    acceptance: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the scenarios of a file by name, options filling blank cells."""
    from bayes_sd.posterior import fitted_bases, fitted_pairs
    from bayes_sd.scenario_files import read_scenarios

    labels = fitted_pairs(tree) or fitted_bases(tree)
    fill: dict[str, Any] = {"pair": pair or (labels[0] if len(labels) == 1 else None)}
    fill |= {"acceptance": parse_acceptance(acceptance), **more}
    return read_scenarios(file, defaults=fill)


def predicted(tree: Any, asked: Mapping[str, Any], kind: str, level: float, seed: int) -> Any:
    """Return one row of latency per scenario."""
    from bayes_sd.predict import predict_latency
    from bayes_sd.summary import summarise

    draws = predict_latency(tree, list(asked.values()), kind=kind, random_seed=seed)
    return _named(asked, summarise(draws, level).reset_index())


def chosen(
    tree: Any,
    asked: Mapping[str, Any],
    candidates: Sequence[int] | None,
    utility: str,
    slo: str | None,
    seed: int,
) -> Any:
    """Return one row per scenario: the draft length to take there, and how sure it is."""
    import pandas as pd

    from bayes_sd.decide import choose_draft_length

    rows = []
    for scenario in asked.values():
        found = choose_draft_length(
            tree, scenario, utility=utility, slo=slo, candidates=candidates, random_seed=seed
        )
        at = None if found.choice is None else found.candidates.index(found.choice)
        rows.append(
            {
                "scenario": scenario.with_(num_speculative_tokens=0).label,
                "choice": pd.NA if found.choice is None else found.choice,
                "verdict": found.verdict,
                "probability_best": None if at is None else found.probability_best[at],
                "expected_regret": None if at is None else found.expected_regret[at],
                "median_e2e_s": None if at is None else found.median_e2e_s[at],
                "status": "past capacity" if at is None else found.status[at],
                "reason": found.reason,
            }
        )
    return _named(asked, pd.DataFrame(rows))


def policies(
    tree: Any,
    asked: Mapping[str, Any],
    load: str,
    loads: Sequence[float],
    candidates: Sequence[int] | None,
    *,
    monotone: bool,
    seed: int,
) -> Any:
    """Return the policies of all scenarios below each other; their own loads are not used."""
    import pandas as pd

    from bayes_sd.policy import draft_length_policy

    tables = {}
    for name, scenario in asked.items():
        at = scenario.with_(**{load: loads[0]})
        table = draft_length_policy(
            tree, at, loads, candidates=candidates, monotone=monotone, random_seed=seed
        )
        tables[name] = table.reset_index()
    return pd.concat(tables, names=["name"]).reset_index("name").reset_index(drop=True)


def limits(tree: Any, asked: Mapping[str, Any], slo: Any, certainty: float, seed: int) -> Any:
    """Return one row per scenario: the highest rate within an objective."""
    import pandas as pd

    from bayes_sd.capacity import max_rate

    rows = [
        max_rate(tree, each, slo, certainty, random_seed=seed).to_frame().reset_index()
        for each in asked.values()
    ]
    return _named(asked, pd.concat(rows, ignore_index=True))


def answer(command: str, table: Any, columns: Sequence[str], note: str, said: list[str], *,
           json: bool, **about: Any) -> None:  # fmt: skip
    """Write a table with one row per scenario: some columns of it, or all as JSON."""
    if json:
        document = heading(command, note, **about)
        rows = [{k: v for k, v in row.items() if k != "index"} for row in records(table)]
        write_json(document | {"scenarios": rows, "warnings": said})
        return
    from rich.markup import escape
    from rich.table import Table

    if note:
        tell(note)
    kept = [name for name in ("name", *columns) if name in table]
    shown = Table(*kept, title_justify="left")
    for row in table[kept].itertuples(index=False):
        shown.add_row(*(_cell(value, escape) for value in row))
    show(shown)


def _cell(value: Any, escape: Any) -> str:
    if value is None or str(value) in ("<NA>", "nan"):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))


def _named(asked: Mapping[str, Any], table: Any) -> Any:
    table = table.drop(columns=[c for c in ("name", "index") if c in table])
    table.insert(0, "name", list(asked))
    return table
