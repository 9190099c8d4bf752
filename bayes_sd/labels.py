"""Numbers and readable names for the things that runs share: verifiers, pairs, deployments."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr

UNKNOWN = "unknown"


def known(cells: pd.Series) -> list[str]:
    """Return the cells as text, whole numbers without a point, blanks as ``unknown``.

    Examples
    --------
    >>> known(pd.Series([8.0, None])), known(pd.Series(["bf16", ""]))
    (['8', 'unknown'], ['bf16', 'unknown'])
    """
    return [
        UNKNOWN
        if cell is None or cell == "" or cell != cell
        else f"{cell:g}"
        if isinstance(cell, float)
        else str(cell)
        for cell in cells
    ]


def number_groups(
    frame: pd.DataFrame, columns: Sequence[str], member: np.ndarray | None = None
) -> tuple[list[tuple[str, ...]], np.ndarray]:
    """Give each distinct combination of some columns a number, in sorted order.

    Parameters
    ----------
    frame : pandas.DataFrame
        Cleaned table of runs.
    columns : sequence of str
        Columns whose combination makes a group; blanks count as ``unknown``.
    member : array[run] of bool, optional
        Rows that belong to a group; all by default.

    Returns
    -------
    keys : list of tuple of str
        The combinations; independent of the order of the rows.
    number : array[run] of int
        Place of each row's combination in `keys`, -1 where not a member.
    """
    rows = list(zip(*(known(frame[name]) for name in columns), strict=True))
    inside = np.ones(len(frame), dtype=bool) if member is None else np.asarray(member)
    keys = sorted({row for row, use in zip(rows, inside, strict=True) if use})
    place = {key: i for i, key in enumerate(keys)}
    numbers = [place[row] if use else -1 for row, use in zip(rows, inside, strict=True)]
    return keys, np.array(numbers, dtype=np.int64)


def unique_labels(candidates: Sequence[Sequence[str]]) -> list[str]:
    """Choose for each thing the shortest label that no other thing has.

    Parameters
    ----------
    candidates : sequence of sequence of str
        For each thing, its labels from short to long; the same number for each.

    Returns
    -------
    list of str
        Distinct labels. Where even the longest collide, ``#2``, ``#3`` ... are added.

    Examples
    --------
    >>> unique_labels([["a", "a on x"], ["a", "a on y"], ["b", "b on x"]])
    ['a on x', 'a on y', 'b']
    """
    same: dict[str, list[int]] = defaultdict(list)
    for i, names in enumerate(candidates):
        same[names[0]].append(i)
    labels = [""] * len(candidates)
    for members in same.values():
        for level in range(len(candidates[members[0]])):
            chosen = [candidates[i][level] for i in members]
            if len(set(chosen)) == len(members):
                break
        for i, name in zip(members, chosen, strict=True):
            labels[i] = name
    seen: Counter[str] = Counter()
    taken = set(labels)
    for i, name in enumerate(labels):
        seen[name] += 1
        if seen[name] > 1:
            count = seen[name]
            while f"{name} #{count}" in taken:
                count += 1
            labels[i] = f"{name} #{count}"
            taken.add(labels[i])
    return labels


def deployment_label(key: Sequence[str]) -> str:
    """Name a deployment by what is known of it.

    Parameters
    ----------
    key : sequence of str
        Engine, version, hardware, tensor-parallel size, type of weights.

    Examples
    --------
    >>> deployment_label(("vllm", "0.14.1", "NVIDIA H200", "1", "unknown"))
    'vllm 0.14.1, NVIDIA H200, TP 1'
    """
    engine, version, hardware, parallel, dtype = key
    parts = [
        " ".join(word for word in (engine, version) if word != UNKNOWN),
        "" if hardware == UNKNOWN else hardware,
        "" if parallel == UNKNOWN else f"TP {parallel}",
        "" if dtype == UNKNOWN else dtype,
    ]
    return ", ".join(part for part in parts if part) or UNKNOWN


def pair_labels(keys: Sequence[tuple[str, ...]], deployments: Sequence[str]) -> list[str]:
    """Name pairs by verifier and method, with drafter and deployment only where needed.

    Parameters
    ----------
    keys : sequence of tuple
        Verifier, method and drafter of each pair.
    deployments : sequence of str
        Label of the deployment of each pair.

    Examples
    --------
    >>> pair_labels(
    ...     [("V", "eagle", "E1"), ("V", "eagle", "E2"), ("V", "ngram", "unknown")], ["x", "x", "x"]
    ... )
    ['V + eagle (E1)', 'V + eagle (E2)', 'V + ngram']
    """
    candidates = []
    for (verifier, method, drafter, *_), deployment in zip(keys, deployments, strict=True):
        short = f"{verifier} + {method}"
        long = f"{short} ({drafter})"
        candidates.append([short, long, f"{short} on {deployment}", f"{long} on {deployment}"])
    return unique_labels(candidates)


def acceptance_labels(keys: Sequence[tuple[str, ...]]) -> list[str]:
    """Name acceptance groups by drafter and verifier, with workload and sampling where needed.

    Parameters
    ----------
    keys : sequence of tuple
        Verifier, method, drafter, workload and sampling setting of each group.

    Examples
    --------
    >>> acceptance_labels([("V", "eagle", "E", "chat", "t0"), ("V", "eagle", "E", "code", "t0")])
    ['E for V, chat', 'E for V, code']
    """
    candidates = []
    for verifier, method, drafter, workload, sampling in keys:
        short = f"{method if drafter == UNKNOWN else drafter} for {verifier}"
        candidates.append(
            [
                short,
                f"{short}, {workload}",
                f"{short}, {sampling}",
                f"{short}, {workload}, {sampling}",
                f"{short}, {workload}, {sampling}, {method}",
            ]
        )
    return unique_labels(candidates)


def experts_fraction(data: xr.Dataset) -> np.ndarray:
    """Return experts per token over all experts of each base, 1 for a dense model."""
    experts, used = data["num_experts"].values, data["experts_per_token"].values
    is_moe = (experts > 0) & (used > 0)
    return np.where(is_moe, used / np.maximum(experts, 1), 1.0)
