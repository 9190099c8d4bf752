"""Acceptance from the counters of a vLLM server over a run.

``num_drafts`` counts, for each step and request, a draft that was verified; accepted tokens leave
out the verifier's own. One series of accepted tokens per position exists from the start for each
of the ``num_speculative_tokens`` that the server was given, so their number is the draft length,
or its ceiling. Names and meanings: vLLM [1]_, Apache-2.0. Early 2025 had drafted and accepted
tokens only. The engine before it (V0) added running totals to its counters, which are no counts.

References
----------
.. [1] https://github.com/vllm-project/vllm/blob/main/vllm/v1/spec_decode/metrics.py
"""

import itertools
import math
from collections.abc import Callable
from typing import Protocol

from bayes_sd.exceptions import FormatError
from bayes_sd.readers.reading import Cells, short

DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
POSITIONS = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
OLD_ENGINE = (
    "vllm:spec_decode_draft_acceptance_rate",
    "vllm:spec_decode_efficiency",
    "vllm:spec_decode_num_emitted_tokens_total",
)
WHOLE_PAGE = ("vllm:request_success_total", "vllm:generation_tokens_total")
SHORTER = 0.999  # fewer drafted tokens than this share of the longest possible are a choice


class Gains(Protocol):
    """What each series gained over a run, as `bayes_sd.readers.scrapes.Differences`."""

    def __contains__(self, name: str) -> bool:
        """Tell whether there is a series of this name."""

    def by(self, name: str, key: Callable[[dict[str, str]], str]) -> dict[str, float]:
        """Add up what series of one name gained, in groups by their labels."""

    def total(self, name: str) -> float:
        """Return what all series of one name gained together; NaN if there is none."""


def is_old_engine(found: Gains) -> bool:
    """Tell whether a page is of the engine before V1 that speculates."""
    return any(name in found for name in OLD_ENGINE)


def acceptance(found: Gains, notes: list[str]) -> Cells:
    """Return what counters of drafts gained, and the draft length that they show.

    Parameters
    ----------
    found : Gains
        Of one server over a run.
    notes : list of str
        Takes what was assumed, or looks wrong.

    Returns
    -------
    dict
        Method ``none`` where a whole page has no counters of drafts; else counts, ratios and
        ``num_speculative_tokens``, and ``num_draft_steps`` where drafts were shorter. Empty where
        the counters cannot be right.

    Raises
    ------
    FormatError
        If a counter is no whole number.
    """
    if is_old_engine(found):
        notes.append(
            "the page is of vLLM's engine V0, whose acceptance gauges and counters are no counts "
            "of a run: not used. Give draft_acceptance_rate, or run the server's engine V1."
        )
        return {}
    if DRAFTED not in found and DRAFTS not in found:
        if not any(name in found for name in WHOLE_PAGE):
            return {}
        notes.append(
            "the page has no counters of drafts, which a vLLM server has if it drafts: taken for a "
            "server without speculation (method none)."
        )
        return {"method": "none", "num_speculative_tokens": 0}
    drafts, drafted, accepted = (_count(found, name) for name in (DRAFTS, DRAFTED, ACCEPTED))
    if drafted == 0 or drafts == 0:
        notes.append(
            "nothing was drafted during the run: give method 'none' and num_speculative_tokens 0 "
            "if the server does not speculate, or the method with 0 if it does and was off."
        )
        return {"num_drafts": drafts, "num_draft_tokens": drafted, "num_accepted_tokens": accepted}
    if accepted > drafted or drafts > drafted:
        notes.append(
            f"{drafts:.0f} drafts with {drafted:.0f} tokens of which {accepted:.0f} were accepted "
            "cannot be: acceptance is not used."
        )
        return {}
    cells: Cells = {
        "num_drafts": drafts,
        "num_draft_tokens": drafted,
        "num_accepted_tokens": accepted,
        "draft_acceptance_rate": accepted / drafted,
    }
    if math.isnan(drafts):
        return cells
    cells["mean_acceptance_length"] = 1 + accepted / drafts
    return cells | _positions(found, drafts, drafted, accepted, notes)


def _positions(
    found: Gains, drafts: float, drafted: float, accepted: float, notes: list[str]
) -> Cells:
    """Return the draft length and accepted tokens by position, where they fit the totals."""
    by_position = found.by(POSITIONS, lambda labels: labels.get("position", ""))
    length = len(by_position)
    if not length:
        return {}
    counts = [by_position.get(str(position), math.nan) for position in range(length)]
    if drafted > drafts * length or math.isnan(sum(counts)):
        notes.append(
            f"{drafted / drafts:.3g} tokens were drafted per draft and accepted tokens are counted "
            f"for {length} positions ({', '.join(short(p) for p in sorted(by_position)[:5])}): the "
            "draft length is not taken from them."
        )
        return {}
    cells: Cells = {"num_speculative_tokens": length}
    falls = all(one >= other for one, other in itertools.pairwise(counts))
    if falls and counts[0] <= drafts and sum(counts) == accepted:
        cells["accepted_per_position"] = ";".join(f"{count:.0f}" for count in counts)
    else:
        notes.append(
            "accepted tokens by position do not add up to all accepted ones, or rise: not used."
        )
    if drafted < SHORTER * drafts * length:
        cells["num_draft_steps"] = drafted / drafts
        notes.append(
            f"{drafted / drafts:.3g} tokens were drafted per draft, of up to {length}: "
            "num_draft_steps is set to the mean."
        )
    return cells


def _count(found: Gains, name: str) -> float:
    count = found.total(name)
    if math.isfinite(count) and count != math.floor(count):
        raise FormatError(f"{name} must count whole tokens. Got {count:.9g} instead.")
    return count
