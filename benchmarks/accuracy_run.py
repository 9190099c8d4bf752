"""Every data set, split, fold and method in turn: rows of scores, from the cache where kept."""

import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import accuracy_bayes
from benchmarks.accuracy_cache import Cache, code_fingerprint, fingerprint, versions
from benchmarks.accuracy_data import Case
from benchmarks.accuracy_models import COMPETITORS, OURS
from benchmarks.accuracy_score import score_rows, sign_questions, sign_rows
from benchmarks.accuracy_splits import SPLITS, Fold
from benchmarks.accuracy_task import Ints, blind_task

SCORING = ("benchmarks.accuracy_score", "benchmarks.accuracy_task", "benchmarks.accuracy_data")
SEED = 11
type Only = Callable[[str, str, str], bool]


@dataclass(frozen=True)
class Results:
    """All rows: scores by run, signs, and one line per fold and method on how it went."""

    rows: pd.DataFrame
    signs: pd.DataFrame
    folds: pd.DataFrame


def run_table(
    cases: list[Case],
    cache: Cache,
    sampler: accuracy_bayes.Sampler,
    *,
    methods: list[str],
    splits: list[str],
    fold_limit: int | None = None,
    say: Callable[[str], None] = print,
) -> Results:
    """Compute what is not in the cache, and return all of it.

    Parameters
    ----------
    cases : list of Case
        Data sets.
    cache : Cache
        Where results are kept.
    sampler : Sampler
        Settings of bayes_sd.
    methods, splits : list of str
        Names in ``COMPETITORS`` or ``bayes_sd``; names in ``SPLITS``.
    fold_limit : int, optional
        Only so many folds of each split.
    say : callable
        Told of each result as it is there.
    """
    rows, signs, folds = [], [], []
    for case in cases:
        for split in splits:
            of_split = SPLITS[split](case.data)
            for number, fold in enumerate(of_split[:fold_limit]):
                for method in methods:
                    key = (case.name, split, f"{number} {fold.name}", method)
                    result = _result(case, fold, key, method, cache, sampler, say)
                    names = dict(zip(("data", "split", "fold", "method"), key, strict=True))
                    rows.append(pd.DataFrame(result["rows"]).assign(**names))
                    signs.append(pd.DataFrame(result["signs"]).assign(**names))
                    folds.append(names | result["how"])
    return Results(_joined(rows), _joined(signs), pd.DataFrame(folds))


def _joined(tables: list[pd.DataFrame]) -> pd.DataFrame:
    full = [table for table in tables if len(table)]
    return pd.concat(full, ignore_index=True) if full else tables[0]


def _result(
    case: Case,
    fold: Fold,
    key: tuple[str, ...],
    method: str,
    cache: Cache,
    sampler: accuracy_bayes.Sampler,
    say: Callable[[str], None],
) -> dict[str, Any]:
    own = sampler.settings if method == OURS else {"seed": SEED}
    modules = accuracy_bayes.MODULES if method == OURS else COMPETITORS[method].modules
    mark = fingerprint(
        case.data.attrs["data_hash"],
        fold.train.tobytes(),
        fold.tested.tobytes(),
        b"" if fold.scope is None else fold.scope.tobytes(),
        [*key, own, versions()],
        code_fingerprint((*modules, *SCORING)),
    )

    def compute() -> dict[str, Any]:
        return _compute(case, fold, method, sampler)

    result, was_kept = cache.get(key, mark, compute)
    kept = "kept" if was_kept else f"{result['how']['seconds']:.1f} s"
    say(f"{' | '.join(key)}: {len(result['rows'].get('run', ()))} runs, {kept}")
    return result


def _compute(
    case: Case, fold: Fold, method: str, sampler: accuracy_bayes.Sampler
) -> dict[str, Any]:
    tested = np.flatnonzero(fold.tested)
    questions = sign_questions(case.data, tested)
    asked: Ints = np.union1d(tested, questions["partner"].to_numpy(dtype=int))
    begun = time.perf_counter()
    how: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method == OURS:
            draws, how = sampler.predict(case, fold, asked, SEED)
            has_density = True
        else:
            task = blind_task(case.data, fold.train, asked, SEED)
            draws, has_density = COMPETITORS[method].draw(task), COMPETITORS[method].has_density
    seconds = time.perf_counter() - begun
    at = np.searchsorted(asked, tested)
    rows = score_rows(case.data, tested, draws[:, at], has_density)
    signs = sign_rows(questions, asked, draws)
    status = json.loads(how.pop("status", "[]"))
    if status:
        rows["status"] = [status[i] for i in np.searchsorted(asked, rows["run"])]
    return {
        "rows": rows.to_dict("list"),
        "signs": signs.to_dict("list"),
        "how": how | {"seconds": seconds},
    }
