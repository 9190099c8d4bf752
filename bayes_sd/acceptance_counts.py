"""Accepted drafts from whatever form a run reports them in: by position, or a mean per step.

Engines and load tools print the same thing in many ways. All of them come down to two: accepted
and trials at each position, which are scored exactly, and where only a total is known, the mean
of accepted drafts per step and the number of steps it is over.
"""

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


def _length_counts(frame: pd.DataFrame) -> list[np.ndarray]:
    """Return the steps that accepted 0, 1, ..., k drafts; empty where not given."""
    if "accepted_length_counts" not in frame:
        return [np.array([])] * len(frame)
    return parse_positions(frame["accepted_length_counts"])


def _emitted_tokens(frame: pd.DataFrame) -> np.ndarray:
    """Return the tokens of a run that steps emitted: all but each request's first."""
    after_first = frame["output_len_tokens"].to_numpy(dtype=float) - 1
    return frame["num_requests"].to_numpy(dtype=float) * after_first


def _mean_per_step(frame: pd.DataFrame, drafts: np.ndarray) -> np.ndarray:
    """Return accepted drafts per step, from the most direct of the figures; NaN without any.

    ``draft_acceptance_rate`` times k comes last: it is per step only if every step drafts k.
    """
    length = frame["num_speculative_tokens"].to_numpy(dtype=float)
    accepted = frame["num_accepted_tokens"].to_numpy(dtype=float)
    drafted = frame["num_draft_tokens"].to_numpy(dtype=float)
    candidates = (
        accepted / np.where(drafts > 0, drafts, np.nan),
        frame["mean_acceptance_length"].to_numpy(dtype=float) - 1,
        accepted / np.where(drafted > 0, drafted, np.nan) * length,
        frame["draft_acceptance_rate"].to_numpy(dtype=float) * length,
    )
    found = np.full(len(frame), np.nan)
    for figure in candidates:
        found = np.where(np.isnan(found), figure, found)
    return np.where(drafts == 0, np.nan, np.clip(found, 0, length))


def _row(
    lengths: np.ndarray,
    counts: np.ndarray,
    rates: np.ndarray,
    *,
    drafts: float,
    length: int,
    per_step: float,
    tokens: float,
) -> np.ndarray | None:
    """Return steps, then accepted at each position, of one run; None if it gives no positions."""
    if len(lengths):
        return np.cumsum(lengths[::-1])[::-1]  # steps that accepted at least 0, 1, ..., k
    if len(counts):
        if np.isnan(drafts) and per_step > 0:
            drafts = max(np.round(counts.sum() / per_step), counts[0])
        return None if np.isnan(drafts) else np.append(drafts, counts)
    if len(rates):
        if np.isnan(drafts):
            drafts = np.round(tokens / (1 + rates.sum()))
        return np.append(drafts, np.round(rates * drafts))
    if length == 1 and not np.isnan(per_step):
        drafts = np.round(tokens / (1 + per_step)) if np.isnan(drafts) else drafts
        return np.array([drafts, np.round(per_step * drafts)])
    return None


def counts_by_position(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count accepted drafts and trials at each position.

    A draft at position j is on trial only if all before it were accepted, so the trials at
    position 1 are the steps that drafted, and those at position j the accepted ones at j - 1.
    In this order: a histogram of accepted lengths, which is the same thing counted differently;
    counts per position; rates per position times the number of steps, rounded; for k = 1 the
    total or the mean. Runs with a forced rate, with k = 0 or without speculation have no counts.

    Where rates come without a number of steps, it is taken as num_requests x (output_len_tokens
    - 1) / tokens per step: it says how much the rates weigh, not what they are.
    `has_estimated_steps` marks these runs.

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
    per_step = _mean_per_step(frame, drafts)
    tokens = _emitted_tokens(frame)
    needed = is_estimated(frame)
    lengths = _length_counts(frame)
    counts = parse_positions(frame["accepted_per_position"])
    rates = parse_positions(frame["acceptance_per_position"])
    is_counted = np.zeros(len(frame), dtype=bool)
    for i in np.flatnonzero(needed & (drafts != 0)):
        row = _row(
            lengths[i],
            counts[i],
            rates[i],
            drafts=drafts[i],
            length=int(length[i]),
            per_step=per_step[i],
            tokens=tokens[i],
        )
        if row is None or row[0] < 1:
            continue
        row = np.minimum.accumulate(row)
        accepted[i, : length[i]] = row[1:]
        trials[i, : length[i]] = row[:-1]
        is_counted[i] = True
    return accepted, trials, is_counted


def acceptance_totals(
    frame: pd.DataFrame, is_counted: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean of accepted drafts per step where nothing is known by position.

    In this order: num_accepted_tokens / steps; mean_acceptance_length - 1 (the 1 is the
    verifier's own token); num_accepted_tokens / num_draft_tokens x k; draft_acceptance_rate x k.
    The last two hold if every step drafts k tokens. The steps are num_drafts or
    num_draft_tokens / k; else num_requests x (output_len_tokens - 1) / tokens per step.

    Parameters
    ----------
    frame : pandas.DataFrame
        Cleaned table of runs.
    is_counted : array[run] of bool
        Third result of `counts_by_position`: these runs say more than a total, and have none.

    Returns
    -------
    per_step : array[run] of float
        Accepted drafts per step, tokens/step, from 0 to k; NaN where not used.
    steps : array[run] of float
        Steps that the mean is over; 0 where not used.
    is_total : array[run] of bool
        Whether the run has such a mean.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayes_sd.schema import column_names
    >>> frame = pd.DataFrame(columns=list(column_names()), index=[0])
    >>> frame = frame.assign(
    ...     method="mtp", num_speculative_tokens=3, num_requests=40, output_len_tokens=101.0
    ... ).assign(mean_acceptance_length=2.5)
    >>> per_step, steps, _ = acceptance_totals(frame, np.array([False]))
    >>> per_step.tolist(), steps.tolist()
    ([1.5], [1600.0])
    """
    drafts = _number_of_drafts(frame)
    per_step = _mean_per_step(frame, drafts)
    steps = np.where(np.isnan(drafts), np.round(_emitted_tokens(frame) / (1 + per_step)), drafts)
    needed = is_estimated(frame)
    is_total = needed & ~is_counted & ~np.isnan(per_step) & (steps >= 1)
    return np.where(is_total, per_step, np.nan), np.where(is_total, steps, 0.0), is_total


def has_estimated_steps(frame: pd.DataFrame) -> np.ndarray:
    """Mark runs whose number of drafting steps is not given: array[run] of bool."""
    given = np.array([len(lengths) > 0 for lengths in _length_counts(frame)], dtype=bool)
    return np.isnan(_number_of_drafts(frame)) & ~given


def figures_in_group(group: np.ndarray, is_known: np.ndarray) -> np.ndarray:
    """Mark runs with a figure of acceptance, or with another run of their group that has one.

    Parameters
    ----------
    group : array[run] of int
        Number of the run's acceptance group, -1 for none.
    is_known : array[run] of bool
        Whether the run has counts or a total.

    Returns
    -------
    array[run] of bool

    Examples
    --------
    >>> figures_in_group(np.array([0, 0, 1, -1]), np.array([True, False, False, False])).tolist()
    [True, True, False, False]
    """
    return (group >= 0) & np.isin(group, group[is_known])


def is_estimated(frame: pd.DataFrame) -> np.ndarray:
    """Mark runs whose acceptance is estimated from their counts: array[run] of bool.

    Not those with a rate that is forced, or known of a tree or adaptive drafting
    (`bayes_sd.draft_shapes`).
    """
    known = frame.get("known_acceptance_rate", frame["forced_acceptance_rate"])
    return needs_acceptance(frame) & known.isna().to_numpy()


def needs_acceptance(frame: pd.DataFrame) -> np.ndarray:
    """Mark runs that draft, whose latency therefore depends on acceptance: array[run] of bool."""
    drafts = frame["num_speculative_tokens"] > 0
    return ((frame["method"] != "none") & drafts).to_numpy(dtype=bool)
