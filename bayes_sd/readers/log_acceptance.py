"""Acceptance from the rounded figures that a vLLM server logs per interval.

The log does not print the number of drafts. It is drafted tokens / k where each draft has k of
them, which the mean acceptance length, 1 + accepted / drafts, confirms or not.
"""

import math

import numpy as np
import pandas as pd

from bayes_sd.readers.reading import Cells, is_blank

ROUNDING = 0.0051  # of a mean acceptance length with two decimals


def acceptance(part: pd.DataFrame) -> tuple[Cells, list[str]]:
    """Return the acceptance of some intervals together.

    Parameters
    ----------
    part : pandas.DataFrame
        Rows of `bayes_sd.readers.vllm_log.intervals`.

    Returns
    -------
    cells : dict
        Drafted and accepted tokens and their ratio; ``num_speculative_tokens`` as many as rates by
        position; the number of drafts and counts by position where they follow without rounding,
        else the mean acceptance length and rates by position.
    notes : list of str
        What is rounded or left out.
    """
    rows = part[(part["num_draft_tokens"] > 0) & part["num_accepted_tokens"].notna()]
    drafted, accepted = rows["num_draft_tokens"].sum(), rows["num_accepted_tokens"].sum()
    if not drafted > 0 or accepted > drafted:
        return {}, []
    cells: Cells = {
        "num_draft_tokens": float(drafted),
        "num_accepted_tokens": float(accepted),
        "draft_acceptance_rate": float(accepted / drafted),
    }
    if (rows["num_draft_lines"] > 1).any():
        return cells, [
            "several engines logged their acceptance: their rates by position are not added up."
        ]
    rates = [_rates(text) for text in rows["acceptance_per_position"]]
    length = len(rates[0])
    if not length or any(len(r) != length for r in rates):
        return cells, []
    cells["num_speculative_tokens"] = length
    drafts = rows["num_draft_tokens"].to_numpy() / length
    printed = rows["mean_acceptance_length"].to_numpy(dtype=float)
    ratio = rows["num_accepted_tokens"].to_numpy()
    is_whole = bool((drafts == np.floor(drafts)).all())
    if is_whole and (np.abs(1 + ratio / drafts - printed) <= ROUNDING).all():
        return cells | _of_equal_drafts(drafts, np.array(rates), float(accepted)), []
    return _of_unequal_drafts(cells, rows, np.array(rates))


def _of_equal_drafts(drafts: np.ndarray, rates: np.ndarray, accepted: float) -> Cells:
    total = float(drafts.sum())
    cells: Cells = {"num_drafts": total, "mean_acceptance_length": 1 + accepted / total}
    counts = np.rint(rates * drafts[:, None]).sum(axis=0)
    if counts.sum() == accepted and (np.diff(counts) <= 0).all() and counts[0] <= total:
        return cells | {"accepted_per_position": ";".join(f"{n:.0f}" for n in counts)}
    return cells | _mean_rates(rates, drafts)


def _of_unequal_drafts(
    cells: Cells, rows: pd.DataFrame, rates: np.ndarray
) -> tuple[Cells, list[str]]:
    """Return means where drafts have fewer tokens than there are positions, as of n-grams."""
    gained = rows["mean_acceptance_length"].to_numpy(dtype=float) - 1
    accepted = rows["num_accepted_tokens"].to_numpy(dtype=float)
    if not (gained > 0).all() or not (accepted > 0).all():
        return cells, [
            "nothing was accepted in some interval of the log, so the number of drafts does not "
            "follow: rates by position are not used."
        ]
    drafts = accepted / gained
    steps = cells["num_draft_tokens"] / drafts.sum()
    if not 1 - ROUNDING <= steps <= rates.shape[1]:
        return cells, []
    found = {
        **cells,
        "mean_acceptance_length": 1 + float(accepted.sum() / drafts.sum()),
        "num_draft_steps": max(float(steps), 1.0),
        **_mean_rates(rates, drafts),
    }
    return found, [
        f"{steps:.3g} tokens were drafted per draft, of up to {rates.shape[1]}: num_draft_steps is "
        "set to the mean. The number of drafts follows from rounded figures of the log only."
    ]


def _mean_rates(rates: np.ndarray, drafts: np.ndarray) -> Cells:
    mean = np.average(rates, axis=0, weights=drafts)
    if not ((mean >= 0) & (mean <= 1)).all():
        return {}
    return {"acceptance_per_position": ";".join(f"{rate:.5g}" for rate in mean)}


def _rates(text: object) -> list[float]:
    if is_blank(text) or not isinstance(text, str):
        return []
    found = [float(part) for part in text.split(";")]
    return found if all(map(math.isfinite, found)) else []
