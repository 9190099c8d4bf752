"""From cells of runs to a table that passes the schema, and the runs that cannot be in it."""

import warnings
from collections.abc import Sequence

import pandas as pd

from bayes_sd.exceptions import BayesSdError, BayesSdWarning
from bayes_sd.frames import check_runs
from bayes_sd.readers.reading import Cells, is_blank
from bayes_sd.schema import column, column_names

REMEDY = {
    "verifier": "which model was served",
    "method": "how the server drafted, 'none' if it did not",
    "num_speculative_tokens": "drafted tokens per step, 0 without speculation",
    "load_kind": "open or closed",
}


def missing_cells(run: Cells) -> list[str]:
    """Name what a run lacks and no run can do without.

    Examples
    --------
    >>> missing_cells({"run_id": "a", "sweep_id": "s", "method": "none"})[:2]
    ['verifier', 'num_speculative_tokens']
    """
    lacking = [n for n in column_names(required_only=True) if is_blank(run.get(n))]
    if not run.get("is_throughput_test"):
        load = {"open": "request_rate_rps", "closed": "concurrency"}.get(str(run.get("load_kind")))
        if load and is_blank(run.get(load)):
            lacking.append(load)
    return lacking


def table(runs: Sequence[Cells]) -> pd.DataFrame:
    """Put runs into a table with the columns of the schema that any of them has, in its order."""
    names = [n for n in column_names() if any(n in run for run in runs)]
    frame = pd.DataFrame({n: [run.get(n) for run in runs] for n in names})
    for name in names:
        kind = column(name).dtype
        if kind in ("str", "floats"):
            frame[name] = frame[name].map(lambda v: "" if is_blank(v) else str(v)).astype(object)
        elif kind == "bool":
            frame[name] = frame[name].map(lambda v: False if is_blank(v) else v)
        else:
            numbers = pd.to_numeric(frame[name], errors="coerce")
            unread = numbers.isna() & ~frame[name].map(is_blank)
            frame[name] = numbers if not unread.any() else frame[name]
    return frame


def keep_valid(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str], list[str]]:
    """Keep the rows that pass `check_runs` together; say why others do not.

    Parameters
    ----------
    frame : pandas.DataFrame
        Runs, indexed by what messages shall call them.

    Returns
    -------
    valid : pandas.DataFrame
        The rows that pass, with their index.
    refused : list of str
        One message for each thing that is wrong, naming all rows that have it.
    notes : list of str
        Warnings of the check of those that pass.
    """
    refused: list[str] = []
    while len(frame):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                check_runs(frame)
            except BayesSdError as error:
                problems = [p for p in error.problems if p.rows]
                if not problems:
                    return frame.iloc[:0], [*refused, str(error)], []
                refused += [p.message for p in problems]
                bad = {row for problem in problems for row in problem.rows}
                frame = frame[[row not in bad for row in frame.index]]
                continue
        ours = [w for w in caught if issubclass(w.category, BayesSdWarning)]
        return frame, refused, list(dict.fromkeys(str(w.message) for w in ours))
    return frame, refused, []
