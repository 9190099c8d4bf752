"""A policy as the file that an engine takes: draft lengths by batch size, checked, and back.

What each engine accepts, and the versions seen, stand in `bayes_sd.engine_schemas`.
"""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_sd.engine_schemas import (
    CEILING,
    LONGEST,
    RANGES,
    SCHEDULE,
    STEPS,
    ranges_of_sglang,
    ranges_of_tensorrt,
    ranges_of_vllm,
)
from bayes_sd.exceptions import ArgumentError, FormatError
from bayes_sd.validate import one_of

READERS = {
    "vllm": ranges_of_vllm,
    "sglang": ranges_of_sglang,
    "tensorrt-llm": ranges_of_tensorrt,
}
ENGINES = tuple(READERS)
BATCH_COLUMNS = {
    "low": "low_effective_batch",
    "median": "effective_batch",
    "high": "high_effective_batch",
}


def export_policy(
    policy: pd.DataFrame, engine: str = "vllm", path: str | Path | None = None
) -> dict[str, Any]:
    """Write a policy as an engine's draft lengths by batch size.

    Parameters
    ----------
    policy : pandas.DataFrame
        Result of `draft_length_policy`, over one prompt length.
    engine : {"vllm", "sglang", "tensorrt-llm"}
        Whose form. SGLang gets one candidate per batch size, so that it has nothing to adapt; start
        it with ``--speculative-num-steps`` at one of them and ``--speculative-eagle-topk 1``.
    path : path, optional
        JSON file to write.

    Returns
    -------
    dict
        What the engine takes, as JSON holds it. It passes `check_engine_file`.

    Raises
    ------
    ArgumentError
        If the policy has two axes or never drafts; or, for TensorRT-LLM, whose schedule cannot
        say so, if k rises with load.
    FormatError
        If the file cannot be written.

    Notes
    -----
    A policy over rates is translated through the posterior median of the requests in the system at
    each row's draft length. Between two rows with different k the turn lies halfway. The engine
    counts the requests of a step, which leaves out those that wait: near the limit on requests in
    flight its batch is lower than ours. `turns_of` gives each turn with its interval. Loads past
    capacity have no row of their own: the last k goes on.

    Examples
    --------
    >>> policy = pd.DataFrame(
    ...     {"num_speculative_tokens": [5, 3], "effective_batch": [2.0, 10.0]}, index=[1.0, 4.0]
    ... )
    >>> policy.attrs["max_num_seqs"] = 64
    >>> export_policy(policy)["num_speculative_tokens_per_batch_size"]
    [[1, 6, 5], [7, 64, 3]]
    """
    one_of(engine, ENGINES, "engine")
    ranges = batch_ranges(policy)
    drafting = [k for *_, k in ranges if k]
    if not drafting:
        raise ArgumentError(
            "the policy must draft somewhere. It never does: start the server without speculation."
        )
    if engine == "vllm":
        document: dict[str, Any] = {CEILING: max(drafting), RANGES: [list(r) for r in ranges]}
    elif engine == "sglang":
        document = {str(first): {STEPS: [k]} for first, _, k in ranges}
    else:
        lengths = [k for *_, k in ranges]
        if any(now < later for now, later in pairwise(lengths)):
            raise ArgumentError(
                "draft_len_schedule cannot draft more at a larger batch. Got draft lengths "
                f"{lengths} instead: use draft_length_policy(..., monotone=True)."
            )
        document = {LONGEST: lengths[0], SCHEDULE: {str(last): k for _, last, k in ranges if k}}
    check_engine_file(document, engine)
    if path is not None:
        try:
            Path(path).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise FormatError(f"{path} cannot be written: {error}.") from error
    return document


def batch_ranges(policy: pd.DataFrame) -> list[tuple[int, int, int]]:
    """Return (first batch, last batch, k) of a policy, from 1 to the limit on requests in flight.

    Parameters
    ----------
    policy : pandas.DataFrame
        As in `export_policy`.

    Raises
    ------
    ArgumentError
        If the policy has two axes, or no row with a draft length.
    """
    if policy.index.nlevels > 1 or "num_speculative_tokens" not in policy:
        raise ArgumentError(
            "policy must be the result of draft_length_policy over one prompt length. Take one: "
            "policy.loc[length]."
        )
    rows = policy[policy["num_speculative_tokens"].notna()]
    if rows.empty:
        raise ArgumentError("the policy must have a load that is served. All are past capacity.")
    lengths = [int(k) for k in rows["num_speculative_tokens"]]
    batches = np.maximum.accumulate(rows["effective_batch"].to_numpy(dtype=float))
    finite = batches[np.isfinite(batches)]
    most = int(policy.attrs.get("max_num_seqs", np.ceil(max(finite, default=1.0)).clip(min=1)))
    batches = np.minimum(batches, most)  # infinite where most draws are past capacity
    ranges: list[tuple[int, int, int]] = []
    first = 1
    for i, (now, later) in enumerate(pairwise(lengths)):
        if now == later:
            continue
        last = min(int((batches[i] + batches[i + 1]) / 2), most)
        if last >= first:
            ranges.append((first, last, now))
            first = last + 1
    if first <= most:
        ranges.append((first, most, lengths[-1]))
    return ranges


def turns_of(policy: pd.DataFrame) -> pd.DataFrame:
    """Return where a policy turns from one k to another, in requests in the system.

    Parameters
    ----------
    policy : pandas.DataFrame
        Result of `draft_length_policy`, over one prompt length.

    Returns
    -------
    pandas.DataFrame
        One row per turn: ``before``, ``after`` (draft lengths), ``last_load``, ``first_load`` (of
        the policy, on both sides), ``low_batch``, ``median_batch``, ``high_batch``: halfway between
        the two loads' requests in the system, with the central 90 % of the posterior. How far apart
        the loads lie is not in it: more loads near a turn place it better.

    Raises
    ------
    ArgumentError
        As `batch_ranges`.

    Examples
    --------
    >>> policy = pd.DataFrame(
    ...     {
    ...         "num_speculative_tokens": [5, 3],
    ...         "low_effective_batch": [1.0, 8.0],
    ...         "effective_batch": [2.0, 10.0],
    ...         "high_effective_batch": [3.0, 12.0],
    ...     },
    ...     index=[1.0, 4.0],
    ... )
    >>> turns_of(policy)[["before", "after", "median_batch"]].to_dict("records")
    [{'before': 5, 'after': 3, 'median_batch': 6.0}]
    """
    batch_ranges(policy)
    rows = policy[policy["num_speculative_tokens"].notna()]
    found = []
    for (load, before), (next_load, after) in pairwise(rows.iterrows()):
        k, later = (int(row["num_speculative_tokens"]) for row in (before, after))
        if k != later:
            places = {
                f"{name}_batch": (before[column] + after[column]) / 2
                for name, column in BATCH_COLUMNS.items()
            }
            loads = {"last_load": load, "first_load": next_load}
            found.append({"before": k, "after": later, **loads, **places})
    names = ["before", "after", "last_load", "first_load", *(f"{n}_batch" for n in BATCH_COLUMNS)]
    return pd.DataFrame(found, columns=names)


def check_engine_file(document: Mapping[str, Any], engine: str = "vllm") -> None:
    """Check draft lengths by batch size as the engine would.

    Parameters
    ----------
    document : mapping
        What the engine takes.
    engine : {"vllm", "sglang", "tensorrt-llm"}
        Which engine.

    Raises
    ------
    FormatError
        What is wrong, where, and what was allowed.

    Examples
    --------
    >>> ranges = [[1, 6, 5], [7, 64, 3]]
    >>> check_engine_file({CEILING: 5, RANGES: ranges})
    """
    import_policy(document, engine)


def import_policy(document: Mapping[str, Any], engine: str = "vllm") -> pd.DataFrame:
    """Read an engine's draft lengths by batch size back.

    Parameters
    ----------
    document : mapping
        Result of `export_policy`, or what somebody wrote by hand.
    engine : {"vllm", "sglang", "tensorrt-llm"}
        Which engine.

    Returns
    -------
    pandas.DataFrame
        ``first_batch``, ``last_batch``, requests, both ends inclusive (blank: without end), and
        ``num_speculative_tokens``.

    Raises
    ------
    FormatError
        If it is not what the engine takes.

    Examples
    --------
    >>> import_policy({"draft_len_schedule": {"4": 4, "8": 2}}, "tensorrt-llm").values.tolist()
    [[1, 4, 4], [5, 8, 2]]
    """
    one_of(engine, ENGINES, "engine")
    ranges = READERS[engine](document)
    names = ["first_batch", "last_batch", "num_speculative_tokens"]
    table = pd.DataFrame(ranges, columns=names)
    return table.astype({"last_batch": "Int64"}) if ranges[-1][1] is None else table
