"""Checks of a table of runs before anything is computed from it."""

import warnings

import numpy as np
import pandas as pd

from bayes_sd.exceptions import (
    ArgumentError,
    AssumptionWarning,
    DataError,
    SchemaError,
    UnknownColumnWarning,
)
from bayes_sd.nearest import nearest_names
from bayes_sd.run_checks import (
    identity_problems,
    load_problems,
    method_problems,
    parse_positions,
    percentile_problems,
    position_problems,
)
from bayes_sd.schema import COLUMNS, column_names
from bayes_sd.schema_columns import Column
from bayes_sd.unit_checks import check_units
from bayes_sd.validate import Problem, name_rows, raise_problems

# Names that people use elsewhere, for the hints in messages only: nothing is renamed by itself.
OTHER_NAMES = {
    "k": "num_speculative_tokens",
    "isl": "input_len_tokens",
    "input_len": "input_len_tokens",
    "osl": "output_len_tokens",
    "output_len": "output_len_tokens",
    "n_requests": "num_requests",
    "num_prompts": "num_requests",
    "model": "verifier",
    "target_model": "verifier",
    "draft_model": "drafter",
    "tp": "tensor_parallel_size",
    "achieved_rps": "completed_rate_rps",
    "request_throughput": "completed_rate_rps",
    "arrival_rate_rps": "request_rate_rps",
    "offered_rps": "request_rate_rps",
    "request_rate": "target_rate_rps",
    "acceptance_rate": "draft_acceptance_rate",
    "acceptance_length": "mean_acceptance_length",
    "max_concurrency": "concurrency",
}
TRUE_WORDS = {"true": True, "1": True, "1.0": True, "yes": True}
FALSE_WORDS = {"false": False, "0": False, "0.0": False, "no": False, "": False}


def _hints(names: list[str], present: list[str]) -> dict[str, str]:
    """Map columns that are present to the schema names they probably stand for."""
    hints: dict[str, str] = {}
    for name in names:
        other = [p for p in present if OTHER_NAMES.get(p.lower()) == name]
        near = other or nearest_names(name, present, 1)
        if near:
            hints.setdefault(near[0], name)
    return hints


def _check_columns(frame: pd.DataFrame) -> None:
    """Refuse missing and doubled columns; warn of unknown ones."""
    repeated = sorted(set(map(str, frame.columns[frame.columns.duplicated()])))
    if repeated:
        raise SchemaError(
            f"column names must be unique. Got {', '.join(repeated)} more than once instead. "
            "Keep the first: frame = frame.loc[:, ~frame.columns.duplicated()]"
        )
    known = set(column_names())
    unknown = [str(name) for name in frame.columns if name not in known]
    missing = [name for name in column_names(required_only=True) if name not in frame]
    if missing:
        hints = _hints(missing, unknown)
        advice = f" If they mean it: frame = frame.rename(columns={hints!r})" if hints else ""
        raise SchemaError(
            f"the table of runs lacks {len(missing)} required column"
            f"{'s' if len(missing) > 1 else ''}: {', '.join(missing)}. Present and not "
            f"recognised: {', '.join(unknown) or 'none'}.{advice}"
        )
    if unknown:
        hints = _hints([name for name in known if name not in frame], unknown)
        advice = f" If they mean it: frame = frame.rename(columns={hints!r})" if hints else ""
        warnings.warn(
            f"columns not in the schema are not used: {', '.join(unknown)}.{advice}",
            UnknownColumnWarning,
            stacklevel=3,
        )


def _clean_text(cells: pd.Series) -> pd.Series:
    blank = cells.isna()
    text = cells.astype(object).where(~blank, "")
    return text.map(lambda cell: str(cell).strip()).astype(object)


def _parse(cells: pd.Series, entry: Column) -> tuple[pd.Series, pd.Series]:
    """Return the cells in their own type, and a mark for each that cannot be read."""
    if entry.dtype in ("str", "floats"):
        text = _clean_text(cells)
        if entry.dtype == "str":
            return text, pd.Series(False, cells.index)
        readable = text.map(_is_number_list)
        return text.where(readable, ""), ~readable.astype(bool)
    if entry.dtype == "bool":
        words = _clean_text(cells).str.lower()
        values = words.map({**TRUE_WORDS, **FALSE_WORDS})
        return values.eq(True), values.isna()
    text = _clean_text(cells)
    numbers = pd.to_numeric(text.where(text != "", np.nan), errors="coerce").astype(float)
    return numbers, numbers.isna() & (text != "") & (text.str.lower() != "nan")


def _is_number_list(text: str) -> bool:
    try:
        parse_positions(pd.Series([text]))
    except ValueError:
        return False
    return True


def _out_of_range(values: pd.Series, entry: Column) -> pd.Series:
    """Mark cells outside the range of their column; blank cells are not marked."""
    if entry.dtype == "floats":
        lists = parse_positions(values)
        low, high = entry.low or 0.0, np.inf if entry.high is None else entry.high
        outside = [bool(((v < low) | (v > high) | ~np.isfinite(v)).any()) for v in lists]
        return pd.Series(outside, values.index)
    if entry.choices:
        return ~values.isin([*entry.choices, ""])
    if entry.dtype not in ("int", "float"):
        return pd.Series(False, values.index)
    found = np.isinf(values)
    if entry.low is not None:
        found |= values <= entry.low if entry.above else values < entry.low
    if entry.high is not None:
        found |= values > entry.high
    if entry.dtype == "int":
        found |= values.notna() & (values != np.floor(values))
    return found


def _advice(entry: Column, value: object) -> str:
    if entry.choices:
        near = nearest_names(str(value), entry.choices, 1)
        return f" Did you mean '{near[0]}'?" if near else ""
    if entry.name in ("target_rate_rps", "request_rate_rps") and value == np.inf:
        return " A rate of inf is a burst: leave the rate blank and set is_throughput_test to True."
    if entry.high == 1.0 and entry.dtype == "float":
        return f' If these are percentages: frame["{entry.name}"] /= 100'
    if entry.unit == "s":
        return " Leave the cell blank where it was not measured."
    return ""


def _clean_column(frame: pd.DataFrame, entry: Column) -> tuple[pd.Series, list[Problem]]:
    """Return one column in its own type, and what is wrong with it."""
    if entry.name not in frame:
        blank = {"str": "", "floats": "", "bool": False}.get(entry.dtype, np.nan)
        dtype = {"str": object, "floats": object, "bool": bool}.get(entry.dtype, float)
        return pd.Series(blank, frame.index, dtype=dtype), []
    raw = frame[entry.name]
    values, unreadable = _parse(raw, entry)
    outside = _out_of_range(values, entry) & ~unreadable
    problems = []
    for found in (unreadable, outside):
        rows = list(frame.index[found.to_numpy(dtype=bool)])
        if rows:
            shown = raw[found.to_numpy(dtype=bool)].iloc[0]
            got = repr(shown) if isinstance(shown, str) else str(shown)
            problems.append(
                Problem(
                    f"column '{entry.name}' must be {entry.allowed()}. Got {got} instead "
                    f"({name_rows(rows)}).{_advice(entry, shown)}",
                    rows,
                )
            )
    if entry.required:
        blank = values.eq("") if entry.dtype == "str" else values.isna() & ~unreadable
        rows = list(frame.index[blank.to_numpy(dtype=bool)])
        if rows:
            drop = f": frame = frame.drop(index={rows!r})" if len(rows) <= 10 else ""
            text = f"column '{entry.name}' is blank in {name_rows(rows)}; it must be "
            problems.append(
                Problem(f"{text}{entry.allowed()}. Fill it, or drop the rows{drop}", rows)
            )
    if entry.required and entry.dtype == "int" and not problems:
        values = values.astype("int64")
    return values, problems


def check_runs(frame: pd.DataFrame) -> pd.DataFrame:
    """Check a table of runs and return a cleaned copy of it.

    Columns may come in any order. Everything that is wrong is reported in one error; nothing is
    corrected, guessed or dropped. The copy has all columns of the schema in its order: text
    without blanks around it and ``""`` where missing, numbers as floats with NaN where missing.

    Parameters
    ----------
    frame : pandas.DataFrame, one row per run
        Columns as in `bayes_sd.schema`; others are left out of the copy.

    Returns
    -------
    pandas.DataFrame
        The cleaned copy, with the same index.

    Raises
    ------
    SchemaError
        If required columns are missing, or cells are unreadable, out of range or contradict each
        other. ``error.problems`` has one entry for each thing, ``error.rows`` all row labels.
    UnitError
        If a column is in milliseconds instead of seconds.
    DataError
        If the table has no rows.

    Warns
    -----
    UnknownColumnWarning
        If there are columns that the schema does not know.
    AssumptionWarning
        If the arrivals of open-loop runs are not said and taken for Poisson.
    UnitWarning, LittlesLawWarning
        If columns disagree, but not by a factor of 1000.

    Examples
    --------
    >>> from bayes_sd.datasets import load_vllm_cpu
    >>> checked = check_runs(load_vllm_cpu())
    >>> checked["arrivals"].unique().tolist()
    ['poisson', 'bursty']
    """
    if not isinstance(frame, pd.DataFrame):
        raise ArgumentError(
            f"frame must be a pandas DataFrame. Got {type(frame).__name__} instead. "
            "Build one from a list of records with pd.DataFrame(records)."
        )
    if frame.empty:
        raise DataError("the table of runs has no rows; read at least one benchmark result.")
    _check_columns(frame)
    columns, problems = {}, []
    for entry in COLUMNS:
        columns[entry.name], found = _clean_column(frame, entry)
        problems += found
    clean = pd.DataFrame(columns, index=frame.index)
    if not problems:
        for check in (
            identity_problems,
            method_problems,
            load_problems,
            position_problems,
            percentile_problems,
        ):
            problems += check(clean)
    raise_problems(problems, SchemaError, "the table of runs")
    check_units(clean)
    blank = clean["arrivals"] == ""
    assumed = blank & (clean["load_kind"] == "open") & ~clean["is_throughput_test"]
    clean["arrivals"] = clean["arrivals"].mask(
        blank, clean["load_kind"].map({"open": "poisson", "closed": "closed"})
    )
    if assumed.any():
        rows = list(frame.index[assumed])
        warnings.warn(
            f"arrivals is blank for open-loop runs ({name_rows(rows)}) and is taken for poisson. "
            "Evenly spaced arrivals queue less; if these were: "
            'frame["arrivals"] = "constant"',
            AssumptionWarning,
            stacklevel=2,
        )
    return clean
