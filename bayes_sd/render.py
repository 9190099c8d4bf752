"""Results as tables for a terminal. What is wrong with a fit comes first in each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bayes_sd.break_even import BreakEven
from bayes_sd.convergence import MAX_R_HAT, MIN_E_BFMI, MIN_ESS, Verdict
from bayes_sd.decision import Decision

OFF = "p_best_k0"
WIDTHS = {"status": 12, "verdict": 8}  # kept free of line breaks


def render_convergence(note: str) -> RenderableType:
    """Return what must be said first about a fit; nothing if there is nothing to say.

    Parameters
    ----------
    note : str
        Result of `bayes_sd.decide.convergence_note`.

    Returns
    -------
    rich renderable
    """
    if not note:
        return Group()
    return Panel(Text(note), title="DO NOT TRUST THIS FIT", style="bold red", border_style="red")


def render_verdict(verdict: Verdict) -> RenderableType:
    """Return the verdict on a fit as a table of checks, the sentence first.

    Parameters
    ----------
    verdict : Verdict
        Result of `diagnose`.

    Returns
    -------
    rich renderable
    """
    table = _table("Checks of the sampling", ["check", ">value", "allowed", "worst parameter"])
    rows = [
        ("R-hat", f"{verdict.r_hat:.3f}", f"up to {MAX_R_HAT}", verdict.worst_r_hat),
        ("bulk ESS", f"{verdict.ess_bulk:.0f}", f"from {MIN_ESS}", verdict.worst_ess_bulk),
        ("tail ESS", f"{verdict.ess_tail:.0f}", f"from {MIN_ESS}", verdict.worst_ess_tail),
        ("divergences", str(verdict.divergences), "0", ""),
        ("E-BFMI", f"{verdict.e_bfmi:.2f}", f"from {MIN_E_BFMI}", ""),
    ]
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    first: RenderableType = Text("Converged.", style="green")
    return Group(first if verdict.passed else render_convergence(verdict.sentence()), table)


def render_decision(decision: Decision, title: str = "") -> RenderableType:
    """Return a decision: convergence, the answer in words, one row per draft length.

    Parameters
    ----------
    decision : Decision
        Result of `choose_draft_length`.
    title : str
        What was asked.

    Returns
    -------
    rich renderable
    """
    table = _table(
        title or "Draft lengths",
        [">k", ">median, s", ">90 % interval, s", ">P(best)", ">regret, %", "status"],
        caption=f"Latency end to end, kind = {decision.kind}. Regret: expected loss against the "
        "best k.",
    )
    for k, row in decision.to_frame().iterrows():
        interval = f"{_number(row['low_e2e_s'])} to {_number(row['high_e2e_s'])}"
        table.add_row(
            _draft_length(k),
            _number(row["median_e2e_s"]),
            interval,
            f"{row['probability_best']:.2f}",
            f"{100 * row['expected_regret']:.1f}",
            _status(row["status"], row["outside"]),
            style="bold" if k == decision.choice else None,
        )
    words = f"{decision.verdict}: {decision.reason}."
    return Group(render_convergence(decision.convergence), table, Text(words, style="bold"))


def render_policy(policy: pd.DataFrame, title: str = "", note: str = "") -> RenderableType:
    """Return a draft-length policy, one row per load.

    Parameters
    ----------
    policy : pandas.DataFrame
        Result of `draft_length_policy`.
    title : str
        What was asked.
    note : str
        What to say first about the fit, see `bayes_sd.decide.convergence_note`.

    Returns
    -------
    rich renderable
    """
    caption = "Mean latency. Regret: expected loss against the best k."
    if OFF in policy:
        highest = policy[OFF].max()
        caption += f" P(off best) {'< 0.01' if highest < 0.005 else f'up to {highest:.2f}'}."
    columns = [
        ">in flight" if policy.index.name == "concurrency" else ">rate, 1/s",
        ">k",
        ">P(best)",
        ">regret, %",
        "verdict",
        "ties",
        ">median, s",
        "status",
    ]
    table = _table(title or "Draft length by load", columns, caption)
    for load, row in policy.iterrows():
        table.add_row(
            f"{load:g}",
            _draft_length(row["num_speculative_tokens"]),
            _number(row["probability_best"], 2),
            _number(100 * row["expected_regret"], 1),
            row["verdict"],
            _ties(row),
            _number(row["median_e2e_s"]),
            _status(row["status"], row["outside"]),
        )
    return Group(render_convergence(note), table)


def render_draft_lengths(policies: Mapping[str, pd.DataFrame], title: str) -> RenderableType:
    """Return the chosen draft lengths of several policies, one row per policy and load.

    Parameters
    ----------
    policies : mapping of str to pandas.DataFrame
        Name to result of `draft_length_policy`.
    title : str
        What was asked.

    Returns
    -------
    rich renderable
    """
    columns = ["of", ">rate, 1/s", ">k", ">P(best)", "verdict", "ties", ">median, s", "status"]
    table = _table(title, columns)
    for name, policy in policies.items():
        for load, row in policy.iterrows():
            table.add_row(
                name if load == policy.index[0] else "",
                f"{load:g}",
                _draft_length(row["num_speculative_tokens"]),
                _number(row["probability_best"], 2),
                row["verdict"],
                _ties(row),
                _number(row["median_e2e_s"]),
                _status(row["status"], row["outside"]),
            )
    return table


def render_break_even(found: Sequence[BreakEven], title: str = "") -> RenderableType:
    """Return break-even statements, one row per pair and draft length.

    Parameters
    ----------
    found : sequence of BreakEven
        Results of `break_even_rate`, of one fit.
    title : str
        What was asked.

    Returns
    -------
    rich renderable
    """
    notes = [b.convergence for b in found if b.convergence]
    text = Text()
    for each in found:
        text.append("- " + replace(each, convergence="").statement() + "\n")
    head = Text(title or "Where speculation stops paying", style="bold")
    return Group(render_convergence(notes[0] if notes else ""), head, text)


def render_summary(
    summary: pd.DataFrame, title: str = "", note: str = "", level: float = 0.9
) -> RenderableType:
    """Return predictions, one row per scenario.

    Parameters
    ----------
    summary : pandas.DataFrame
        Result of `summarise`.
    title : str
        What was asked.
    note : str
        What to say first about the fit, see `bayes_sd.decide.convergence_note`.
    level : float
        Probability of the intervals.

    Returns
    -------
    rich renderable
    """
    kinds = ", ".join(sorted(set(summary["kind"])))
    table = _table(
        title or "Latency end to end",
        [
            "scenario",
            ">median, s",
            f">{100 * level:g} % interval, s",
            ">in flight",
            ">P(past capacity)",
            "status",
        ],
        caption=f"kind = {kinds}. In flight: median number of requests in the system.",
    )
    for label, row in summary.iterrows():
        table.add_row(
            Text(str(label)),
            _number(row["median_e2e_s"]),
            f"{_number(row['low_e2e_s'])} to {_number(row['high_e2e_s'])}",
            _number(row["effective_batch"]),
            f"{row['p_past_capacity']:.2f}",
            _status(row["status"], row["outside"]),
        )
    return Group(render_convergence(note), table)


def _table(title: str, columns: Sequence[str], caption: str | None = None) -> Table:
    """Return an empty table; a column whose name starts with > is aligned to the right."""
    table = Table(
        title=Text(title, style="bold"),
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        collapse_padding=True,
    )
    for name in columns:
        table.add_column(
            name.removeprefix(">"),
            justify="right" if name.startswith(">") else "left",
            overflow="fold",
            min_width=WIDTHS.get(name),
        )
    return table


def _draft_length(value: Any) -> str:
    """Return a draft length as people say it."""
    return "–" if pd.isna(value) else "off" if value == 0 else str(value)


def _ties(row: pd.Series) -> str:
    """Return the draft lengths that are nearly as good at one load."""
    return " ".join(_draft_length(int(k)) for k in str(row["near_ties"]).split())


def _number(value: float, decimals: int | None = None) -> str:
    """Return three significant digits, or so many decimals; words for what is not a number."""
    if np.isnan(value):
        return "–"
    if np.isinf(value):
        return "∞"
    if decimals is not None:
        return f"{value:.{decimals}f}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _status(status: str, outside: str) -> Text:
    """Return the status, with what lies outside the measured range."""
    style = {"extrapolated": "yellow", "past capacity": "red"}.get(status, "")
    return Text(f"{status} ({outside})" if outside else status, style=style)
