"""Drafts that are no chain of k: trees, and draft lengths that change within a run.

The law asks for two means per step: draft passes, and tokens of a request that the verifier
checks (`bayes_sd.physics.step_time`); a chain has k and k + 1. Steps follow from the measured mean
acceptance length: such a run says nothing of acceptance by position.
"""

import re
import warnings

import numpy as np
import pandas as pd

from bayes_sd.acceptance_counts import needs_acceptance
from bayes_sd.equivalent_rate import equivalent_acceptance_rate
from bayes_sd.exceptions import AssumptionWarning
from bayes_sd.validate import name_rows

UNKNOWN_SHAPE = (
    "with a draft length that changes within the run, or a tree, whose steps cannot be told; give "
    "num_draft_steps (draft passes per step, its mean), num_verified_tokens (of a request per "
    "step) and mean_acceptance_length over all steps"
)


def with_draft_shapes(frame: pd.DataFrame) -> pd.DataFrame:
    """Fill draft passes and verified tokens per step, and mark the runs where they are no chain's.

    Parameters
    ----------
    frame : pandas.DataFrame
        Cleaned table of runs.

    Returns
    -------
    pandas.DataFrame
        A copy with ``num_draft_steps`` and ``num_verified_tokens`` filled: k and k + 1 where
        nothing else is said; drafted tokens / drafts for a schedule of draft lengths without 0
        (steps that draft nothing are in no counter). ``known_acceptance_rate`` is the forced one;
        of runs that are no chain the rate that gives their mean acceptance length
        (`equivalent_acceptance_rate`), if it is known. A column ``has_unknown_shape`` marks those
        whose shape or mean length is not.

    Warns
    -----
    AssumptionWarning
        If drafted tokens / drafts stand for the draft passes of an adaptive run.
    """
    k = frame["num_speculative_tokens"].to_numpy(dtype=float)
    passes = frame["num_draft_steps"].to_numpy(dtype=float, copy=True)
    verified = frame["num_verified_tokens"].to_numpy(dtype=float, copy=True)
    schedule = frame["num_speculative_tokens_schedule"].to_numpy(dtype=str)
    drafts = frame["num_drafts"].to_numpy(dtype=float)
    adaptive = schedule != ""
    counted = np.array([bool(cell) and not _drafts_nothing(cell) for cell in schedule])
    drafted = frame["num_draft_tokens"].to_numpy(dtype=float)
    mean_drafts = drafted / np.where(drafts > 0, drafts, np.nan)
    filled = counted & np.isnan(passes) & ~np.isnan(mean_drafts)
    passes[filled] = mean_drafts[filled]
    if filled.any():
        warnings.warn(
            f"draft passes of {filled.sum()} runs whose draft length changes are taken as "
            f"num_draft_tokens / num_drafts ({name_rows(list(frame.index[filled]))}). "
            "Give num_draft_steps if you have it.",
            AssumptionWarning,
            stacklevel=3,
        )
    is_chain = ~adaptive & (np.isnan(passes) | (passes == k))
    is_chain &= np.isnan(verified) | (verified == k + 1)
    unknown = adaptive & np.isnan(passes)
    verified = np.where(np.isnan(verified), np.where(np.isnan(passes), k, passes) + 1, verified)
    passes = np.where(np.isnan(passes), k, passes)
    rate = frame["forced_acceptance_rate"].to_numpy(dtype=float, copy=True)
    length = _mean_length(frame, counted | ~adaptive)
    for i in np.flatnonzero(~is_chain & needs_acceptance(frame) & np.isnan(rate)):
        if np.isnan(length[i]):
            unknown[i] = True
        else:
            rate[i] = equivalent_acceptance_rate(length[i], int(k[i]))
    return frame.assign(
        num_draft_steps=passes,
        num_verified_tokens=verified,
        known_acceptance_rate=rate,
        has_unknown_shape=unknown,
    )


def _drafts_nothing(schedule: str) -> bool:
    """Tell a schedule that may switch drafting off: one with a 0, or in a form not known here."""
    numbers = re.findall(r"\d+(?:\.\d+)?", schedule)
    return not schedule.startswith("[[") or any(float(number) == 0 for number in numbers)


def _mean_length(frame: pd.DataFrame, counters_hold: np.ndarray) -> np.ndarray:
    """Return tokens per step over all steps, NaN where not known.

    By the counters of accepted drafts and drafting steps, except where some steps may have drafted
    nothing: these are in no counter.
    """
    given = frame["mean_acceptance_length"].to_numpy(dtype=float)
    drafts = frame["num_drafts"].to_numpy(dtype=float)
    accepted = frame["num_accepted_tokens"].to_numpy(dtype=float)
    counted = 1 + accepted / np.where(drafts > 0, drafts, np.nan)
    return np.where(np.isnan(counted) | ~counters_hold, given, counted)
