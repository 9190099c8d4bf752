"""The groups of a fleet: their runs, names, seeds, and fingerprints of what their fits hang on."""

import hashlib
import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import pandas as pd

from bayes_sd.data import data_hash
from bayes_sd.exceptions import ArgumentError, BayesSdError, DataError
from bayes_sd.frames import check_runs
from bayes_sd.labels import known, unique_labels
from bayes_sd.nearest import nearest_names
from bayes_sd.prior import Prior
from bayes_sd.schema import COLUMNS, SCHEMA_VERSION
from bayes_sd.storage import FORMAT

POOLED = "(pooled)"
ROW_ORDER = ("source_id", "sweep_id", "run_id")
SEED_BYTES = 6  # whole numbers up to 2^48, which JSON and floats hold exactly


@dataclass(frozen=True)
class FitSettings:
    """How every group of a fleet is fitted; fields as in `bayes_sd.fit`.

    Attributes
    ----------
    draws, tune, chains : int
    target_accept : float
    responses : tuple of str or None
    priors : dict of str to Prior or None
    share_compilation : bool
        Whether groups of one shape share what was compiled.
    cores : int
        Threads that the chains of one fit may use.
    """

    draws: int = 1000
    tune: int = 500
    chains: int = 4
    target_accept: float = 0.95
    responses: tuple[str, ...] | None = None
    priors: dict[str, Prior] | None = None
    share_compilation: bool = True
    cores: int = 1

    def decisive(self) -> dict[str, Any]:
        """Return what decides on the posterior and its size, as JSON can hold it."""
        priors = {
            name: [p.family, float(p.center), float(p.spread)]
            for name, p in (self.priors or {}).items()
        }
        return {
            "draws": self.draws,
            "tune": self.tune,
            "chains": self.chains,
            "target_accept": self.target_accept,
            "responses": None if self.responses is None else sorted(self.responses),
            "priors": priors,
        }


@dataclass(frozen=True)
class Group:
    """One group of runs, to be fitted by itself.

    Attributes
    ----------
    name : str
        What the user calls it.
    key : dict of str to str
        Its value of each column that the runs are grouped by; empty for all runs.
    frame : pandas.DataFrame
        Its runs, in an order that does not hang on that of the table.
    seed : int
        Random seed of its fit.
    fingerprint : str
        Hash of its data and of all that decides on its fit.
    """

    name: str
    key: dict[str, str]
    frame: pd.DataFrame = field(repr=False)
    seed: int
    fingerprint: str

    @property
    def stem(self) -> str:
        """Name of its file without the ending, safe on every file system, no two alike."""
        values = " ".join(self.key[column] for column in sorted(self.key)) or self.name
        readable = re.sub(r"[^A-Za-z0-9._-]+", "_", values).strip("._")[:60]
        return f"{readable or 'group'}-{_digest(_text(self.key))[:8]}"


def split_runs(
    frame: pd.DataFrame,
    by: str | Sequence[str],
    settings: FitSettings,
    *,
    random_seed: int = 0,
    pooled: bool = False,
) -> list[Group]:
    """Split a table of runs into groups.

    Parameters
    ----------
    frame : pandas.DataFrame, one row per run
        Table of runs.
    by : str or sequence of str
        Columns whose values make a group; blanks count as ``unknown``.
    settings : FitSettings
        How they are fitted, for their fingerprints.
    random_seed : int
        Seed of the fleet; that of a group follows from it and from the group's key.
    pooled : bool
        Whether all runs together are a further group, the first.

    Returns
    -------
    list of Group
        In the order of their names.

    Raises
    ------
    ArgumentError
        If a column is missing, or none is given.
    DataError
        If the table has no rows.
    """
    columns = _checked_columns(frame, by)
    cells = [known(frame[name]) for name in columns]
    rows = list(zip(*cells, strict=True))
    keys = sorted(set(rows))
    texts = [_text(dict(zip(columns, key, strict=True))) for key in keys]
    plain = [" | ".join(key) for key in keys]
    candidates = [[t if n == POOLED else n, t] for n, t in zip(plain, texts, strict=True)]
    places: dict[tuple[str, ...], list[int]] = {key: [] for key in keys}
    for place in _row_order(frame):
        places[rows[place]].append(place)
    foreign = [name for name in columns if name not in {c.name for c in COLUMNS}]
    known_to_schema = frame.drop(columns=foreign)  # else each fit would warn of them
    parts = [
        (name, dict(zip(columns, key, strict=True)), known_to_schema.iloc[places[key]])
        for name, key in zip(unique_labels(candidates), keys, strict=True)
    ]
    if pooled:
        parts.insert(0, (POOLED, {}, known_to_schema.iloc[_row_order(frame)]))
    return [_group(*part, settings, random_seed) for part in parts]


def seed_of(key: dict[str, str], random_seed: int) -> int:
    """Return the seed of a group: it hangs on the fleet's seed and the group's key alone.

    Examples
    --------
    >>> seed_of({"verifier": "a"}, 0) == seed_of({"verifier": "a"}, 1)
    False
    """
    return int(_digest(f"{random_seed}|{_text(key)}")[: 2 * SEED_BYTES], 16)


def _group(
    name: str, key: dict[str, str], frame: pd.DataFrame, settings: FitSettings, random_seed: int
) -> Group:
    seed = seed_of(key, random_seed)
    decisive = settings.decisive() | {
        "seed": seed,
        "data": _hash_of_runs(frame),
        "format": FORMAT,
        "schema": SCHEMA_VERSION,
        "bayes_sd": version("bayes_sd"),
    }
    return Group(name, key, frame, seed, _digest(json.dumps(decisive, sort_keys=True)))


def _hash_of_runs(frame: pd.DataFrame) -> str:
    """Return the hash that a fit of the runs stamps; of runs that cannot be read, one of the text.

    What is wrong with them is told by their fit, which fails.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return data_hash(check_runs(frame))
    except BayesSdError:
        return "unchecked " + _digest(frame.to_csv(index=False))


def _checked_columns(frame: Any, by: str | Sequence[str]) -> list[str]:
    """Return the columns to group by, each once."""
    if not isinstance(frame, pd.DataFrame):
        raise ArgumentError(
            f"data must be a table of runs, a pandas DataFrame. Got {type(frame).__name__} instead."
        )
    columns = [by] if isinstance(by, str) else list(by)
    if not columns:
        raise ArgumentError(
            'by must name at least one column of the table. Got none: by="verifier", for example.'
        )
    for name in columns:
        if name not in frame.columns:
            has = sorted(map(str, frame.columns))
            near = nearest_names(str(name), has)
            advice = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(has)}."
            raise ArgumentError(
                f"by must name columns of the table. Got {name!r} instead, which it lacks. {advice}"
            )
    if frame.empty:
        raise DataError("the table of runs has no rows; read at least one benchmark result.")
    return list(dict.fromkeys(columns))


def _row_order(frame: pd.DataFrame) -> list[int]:
    """Return the places of the rows, sorted by what names a run."""
    names = [name for name in ROW_ORDER if name in frame.columns]
    rows = list(zip(*(frame[name].astype(str) for name in names), strict=True))
    return sorted(range(len(frame)), key=rows.__getitem__) if names else list(range(len(frame)))


def _text(key: dict[str, str]) -> str:
    return json.dumps(key, sort_keys=True, ensure_ascii=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
