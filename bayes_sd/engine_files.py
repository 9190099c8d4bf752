"""A policy as the file that an engine takes: draft lengths by batch size, checked, and back.

vLLM: ``num_speculative_tokens_per_batch_size``, a list of ``[first, last, k]``, ends inclusive, in
the speculative configuration beside ``num_speculative_tokens``, the ceiling. Tried on vLLM 0.32
[1]_: the batch is the number of requests scheduled in a step, prefills included; sizes beyond the
last range keep its k. TensorRT-LLM: ``draft_len_schedule``, upper end of the batch size to k; above
the last end speculation is off [2]_ (read, not run).

References
----------
.. [1] https://github.com/vllm-project/vllm (0.32.0); measured runs in ``data/README.md``.
.. [2] https://github.com/NVIDIA/TensorRT-LLM/pull/10860
"""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayes_sd.exceptions import ArgumentError, FormatError
from bayes_sd.validate import one_of

ENGINES = ("vllm", "tensorrt-llm")
RANGES, CEILING = "num_speculative_tokens_per_batch_size", "num_speculative_tokens"
SCHEDULE = "draft_len_schedule"


def export_policy(
    policy: pd.DataFrame, engine: str = "vllm", path: str | Path | None = None
) -> dict[str, Any]:
    """Write a policy as an engine's draft lengths by batch size.

    Parameters
    ----------
    policy : pandas.DataFrame
        Result of `draft_length_policy`, over one prompt length.
    engine : {"vllm", "tensorrt-llm"}
        Whose form. SGLang's adaptive configuration takes candidate steps and decides itself.
    path : path, optional
        JSON file to write.

    Returns
    -------
    dict
        What the engine takes, as JSON holds it. It passes `check_engine_file`.

    Raises
    ------
    ArgumentError
        If the policy has two axes, never drafts, or drafts again after it has stopped (in
        TensorRT-LLM, whose schedule cannot say so).
    FormatError
        If the file cannot be written.

    Notes
    -----
    A policy over rates is translated through the posterior median of the requests in the system at
    each row's draft length. Between two rows with different k the turn lies halfway. The engine
    counts the requests of a step, which leaves out those that wait: near the limit on requests in
    flight its batch is lower than ours. Loads past capacity have no row of their own: the last k
    goes on.

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
    else:
        lengths = [k for *_, k in ranges]
        if any(now == 0 and later > 0 for now, later in pairwise(lengths)):
            raise ArgumentError(
                "draft_len_schedule cannot start to draft again at a larger batch. Got draft "
                f"lengths {lengths} instead: use draft_length_policy(..., monotone=True)."
            )
        document = {SCHEDULE: {str(last): k for _, last, k in ranges if k}}
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
    most = int(policy.attrs.get("max_num_seqs", max(1, int(np.ceil(batches[-1])))))
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


def check_engine_file(document: Mapping[str, Any], engine: str = "vllm") -> None:
    """Check draft lengths by batch size as the engine would.

    Parameters
    ----------
    document : mapping
        What the engine takes.
    engine : {"vllm", "tensorrt-llm"}
        Which engine.

    Raises
    ------
    FormatError
        What is wrong, where, and what was allowed.
    """
    import_policy(document, engine)


def import_policy(document: Mapping[str, Any], engine: str = "vllm") -> pd.DataFrame:
    """Read an engine's draft lengths by batch size back.

    Parameters
    ----------
    document : mapping
        Result of `export_policy`, or what somebody wrote by hand.
    engine : {"vllm", "tensorrt-llm"}
        Which engine.

    Returns
    -------
    pandas.DataFrame
        ``first_batch``, ``last_batch``, requests, both ends inclusive, and
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
    ranges = _of_vllm(document) if engine == "vllm" else _of_tensorrt(document)
    names = ["first_batch", "last_batch", "num_speculative_tokens"]
    return pd.DataFrame(ranges, columns=names)


def _of_vllm(document: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    found = document.get(RANGES)
    if not isinstance(found, list) or not found:
        raise FormatError(f"{RANGES} must be a list of [first, last, k]. Got {found!r} instead.")
    ceiling = document.get(CEILING)
    if not _is_count(ceiling) or not ceiling:
        raise FormatError(f"{CEILING} must be a whole number of at least 1. Got {ceiling!r}.")
    ranges: list[tuple[int, int, int]] = []
    for number, entry in enumerate(found, 1):
        place = f"{RANGES}, entry {number}"
        if not isinstance(entry, list | tuple) or len(entry) != 3 or not all(map(_is_count, entry)):
            raise FormatError(f"{place} must be [first, last, k], whole numbers. Got {entry!r}.")
        first, last, k = entry
        after = ranges[-1][1] + 1 if ranges else 1
        if (first != 1 if not ranges else first < after) or last < first:
            allowed = "1" if not ranges else f"at least {after}"
            raise FormatError(
                f"{place}: first must be {allowed} and last not below it. Got {entry!r} instead."
            )
        if k > ceiling:
            raise FormatError(
                f"{place}: k must be at most {CEILING}, {ceiling}. Got {k} instead: the engine "
                "would cut it."
            )
        ranges.append((first, last, k))
    return ranges


def _of_tensorrt(document: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    found = document.get(SCHEDULE)
    if not isinstance(found, Mapping) or not found:
        raise FormatError(f"{SCHEDULE} must map batch sizes to draft lengths. Got {found!r}.")
    ends: dict[int, int] = {}
    for end, k in found.items():
        number = int(end) if isinstance(end, str) and end.isdecimal() else end
        if not _is_count(number) or number < 1 or not _is_count(k):
            raise FormatError(
                f"{SCHEDULE} must map whole numbers from 1 to whole numbers from 0. Got {end!r}: "
                f"{k!r} instead."
            )
        ends[number] = k
    firsts = [1, *(end + 1 for end in sorted(ends))]
    return [(first, end, ends[end]) for first, end in zip(firsts, sorted(ends), strict=False)]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
