"""Which figures of companions a run takes over: what its result lacks, and what both agree on."""

import math
from pathlib import Path
from typing import Any

from bayes_sd.readers.reading import Cells, is_blank

COUNTS = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
ACCEPTANCE = (
    *COUNTS,
    "accepted_per_position",
    "acceptance_per_position",
    "mean_acceptance_length",
    "draft_acceptance_rate",
    "num_speculative_tokens",
    "num_draft_steps",
)
# Counters that cover several runs say this of each of them, if the drafts are of one length.
SHARED = ("mean_acceptance_length", "acceptance_per_position", "num_speculative_tokens")
IDENTITY = ("engine", "verifier", "input_len_tokens", "output_len_tokens")
DRAFTING = ("method", "drafter", "num_speculative_tokens", "num_speculative_tokens_schedule")
MEANS = ("mean_e2e_s", "mean_ttft_s", "mean_tpot_s", "mean_itl_s")
DISAGREEMENT = 0.01


def fill(cells: Cells, told: Cells, names: tuple[str, ...]) -> list[str]:
    """Fill cells of a run that are blank, in place; return their names."""
    filled = [n for n in names if is_blank(cells.get(n)) and not is_blank(told.get(n))]
    cells |= {name: told[name] for name in filled}
    return filled


def add_counters(place: str, cells: Cells, told: Cells, notes: list[str]) -> None:
    """Compare a result's counts with those of its pages, and fill in what it lacks."""
    fill(cells, told, IDENTITY)
    requests, theirs = cells.get("num_requests", math.nan), told.get("num_requests", math.nan)
    are_same = abs(theirs / requests - 1) <= DISAGREEMENT if requests > 0 else False
    if not are_same and math.isfinite(theirs):
        notes.append(
            f"{place}: {theirs:.0f} requests finished between the pages and {requests:.0f} in the "
            "result: other traffic, such as warm-up. Its latencies are not used."
        )
    if cells.get("method") == "none" and told.get("num_drafts", 0) > 0:
        notes.append(
            f"{place}: the server drafted ({told['num_drafts']:.0f} drafts), so the run is not one "
            "without speculation."
        )
        cells |= {"method": "", "num_speculative_tokens": math.nan}
    if all(cells.get(name, told.get(name)) == told.get(name) for name in COUNTS):
        fill(cells, told, ("method", *ACCEPTANCE))
    for name in COUNTS:
        ours, count = cells.get(name, math.nan), told.get(name, math.nan)
        if abs(count - ours) > DISAGREEMENT * max(ours, 1.0):
            notes.append(
                f"{place}: {name} is {count:.0f} by the pages and {ours:.0f} in the result, which "
                "is used."
            )
    if are_same:
        filled = fill(cells, told, MEANS)
        if filled:
            notes.append(
                f"{place}: {', '.join(filled)} are the server's own, without network and client."
            )


def add_shared_counters(place: str, cells: Cells, told: Cells, notes: list[str]) -> None:
    """Give each of several runs the acceptance of all of them, which is all that is known."""
    fill(cells, told, IDENTITY[:2])
    drafts = told.get("num_drafts", math.nan)
    if told.get("method") == "none":
        fill(cells, told, ("method", "num_speculative_tokens"))
        return
    if not drafts > 0 or any(not is_blank(cells.get(name)) for name in COUNTS):
        return
    if "num_draft_steps" in told:
        notes.append(
            f"{place} cover several runs, whose drafts were of different lengths: acceptance is "
            f"not taken from it (over all, {told['mean_acceptance_length']:.4g} tokens per step)."
        )
        return
    shared = dict(told)
    counts = str(told.get("accepted_per_position", ""))
    if counts:
        rates = [float(count) / drafts for count in counts.split(";")]
        shared["acceptance_per_position"] = ";".join(f"{rate:.6g}" for rate in rates)
    filled = fill(cells, shared, SHARED)
    if filled:
        notes.append(
            f"{place} cover several runs: {', '.join(filled)} of each of them are those of all "
            "together. Acceptance is taken not to change with load."
        )


def add_command(
    place: str, cells: Cells, told: Cells, notes: list[str], *, is_measured: bool
) -> None:
    """Add what a server's command tells; say where result and command are of two servers.

    Parameters
    ----------
    place : str
        Name of the command's file.
    cells : dict
        Of the run; changed in place.
    told : dict
        Of `bayes_sd.readers.server_command.cells_of_command`.
    notes : list of str
        Takes disagreements.
    is_measured : bool
        Whether metrics pages told how the run drafted: then a run without speculation is one.
    """
    told = dict(told)
    names = told.pop("_served_names", ())
    verifier, served = told.get("verifier", ""), cells.get("verifier", "")
    if verifier and served in names and served != verifier:
        notes.append(f"{place}: the model that is served as {served!r} is {verifier!r}.")
        cells["verifier"] = verifier
    elif verifier and served and served not in names and Path(served).name != Path(verifier).name:
        notes.append(
            f"{place}: the command serves {verifier!r}, the result is of {served!r}, which is kept."
        )
    # A result that lacks counters was taken for one without speculation; the command knows better,
    # unless there are metrics pages, which know best.
    is_assumed = cells.get("method") == "none" and not is_measured
    if is_assumed and told.get("method", "none") != "none":
        notes.append(f"{place}: the server drafted ({told['method']}), so the run has a method.")
        cells |= {"method": "", "num_speculative_tokens": math.nan}
    for name in ("method", "num_speculative_tokens"):
        ours, theirs = cells.get(name), told.get(name)
        if not is_blank(ours) and not is_blank(theirs) and ours != theirs:
            notes.append(
                f"{place}: {name} is {_plain(theirs)} by the command and {_plain(ours)} in the "
                "result, which is kept. They may be of two server starts."
            )
            told = {n: v for n, v in told.items() if n not in DRAFTING}
    fill(cells, told, tuple(told))


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else repr(value)
