"""Accepted drafts and trials by position, from whatever form a run reports them in."""

import numpy as np
import pandas as pd

from bayes_sd.run_checks import parse_positions


def _number_of_drafts(frame: pd.DataFrame) -> np.ndarray:
    """Return the steps that drafted; from drafted tokens / k where that is a whole number."""
    drafts = frame["num_drafts"].to_numpy(dtype=float, copy=True)
    length = frame["num_speculative_tokens"].to_numpy(dtype=float)
    derived = frame["num_draft_tokens"].to_numpy(dtype=float) / np.where(length > 0, length, np.nan)
    use = np.isnan(drafts) & (derived == np.floor(derived))
    drafts[use] = derived[use]
    return drafts


def _first_position(frame: pd.DataFrame, drafts: np.ndarray) -> np.ndarray:
    """Return accepted drafts of runs with k = 1 from totals or rates; NaN where not given."""
    total = frame["num_accepted_tokens"].to_numpy(dtype=float)
    from_rate = np.round(frame["draft_acceptance_rate"].to_numpy(dtype=float) * drafts)
    from_length = np.round((frame["mean_acceptance_length"].to_numpy(dtype=float) - 1) * drafts)
    known = np.where(np.isnan(total), from_rate, total)
    known = np.where(np.isnan(known), from_length, known)
    return np.where(frame["num_speculative_tokens"] == 1, known, np.nan)


def counts_by_position(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count accepted drafts and trials at each position.

    A draft at position j is on trial only if all before it were accepted, so the trials at
    position 1 are the steps that drafted, and those at position j the accepted ones at j - 1.
    Counts per position are taken as they are; else rates per position times the number of steps,
    rounded; else, for k = 1, the total or the rate. Runs with a forced rate, with k = 0 or
    without speculation have no counts.

    Parameters
    ----------
    frame : pandas.DataFrame
        Cleaned table of runs.

    Returns
    -------
    accepted, trials : array[run, position] of int
        Zero where not known. Positions go up to the largest draft length.
    is_counted : array[run] of bool
        Whether the run has counts.

    Examples
    --------
    >>> from bayes_sd.datasets import load_vllm_cpu
    >>> from bayes_sd.frames import check_runs
    >>> runs = check_runs(load_vllm_cpu())
    >>> accepted, trials, _ = counts_by_position(
    ...     runs[runs["run_id"] == "dense_a60_k3_rep0_rate0.4"]
    ... )
    >>> accepted.tolist(), trials.tolist()
    ([[248, 141, 94]], [[419, 248, 141]])
    """
    length = frame["num_speculative_tokens"].to_numpy()
    shape = (len(frame), int(length.max(initial=0)))
    accepted, trials = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    drafts = _number_of_drafts(frame)
    single = _first_position(frame, drafts)
    needed = needs_acceptance(frame) & frame["forced_acceptance_rate"].isna().to_numpy()
    counts = parse_positions(frame["accepted_per_position"])
    rates = parse_positions(frame["acceptance_per_position"])
    is_counted = np.zeros(len(frame), dtype=bool)
    for i in np.flatnonzero(needed & (drafts > 0)):
        if len(counts[i]):
            row = counts[i]
        elif len(rates[i]):
            row = np.round(rates[i] * drafts[i])
        elif not np.isnan(single[i]):
            row = np.array([single[i]])
        else:
            continue
        row = np.minimum.accumulate(np.concatenate([[drafts[i]], row]))
        accepted[i, : length[i]] = row[1:]
        trials[i, : length[i]] = row[:-1]
        is_counted[i] = True
    return accepted, trials, is_counted


def needs_acceptance(frame: pd.DataFrame) -> np.ndarray:
    """Mark runs that draft, whose latency therefore depends on acceptance: array[run] of bool."""
    drafts = frame["num_speculative_tokens"] > 0
    return ((frame["method"] != "none") & drafts).to_numpy(dtype=bool)
