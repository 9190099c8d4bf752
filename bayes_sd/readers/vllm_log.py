"""Statistics in the log of a vLLM server: one line of load and one of acceptance per interval.

Every ten seconds (``VLLM_LOG_STATS_INTERVAL``) an engine that is not idle prints the requests that
run and wait at that moment, and what was drafted and accepted since the line before. The stamps,
``12-01 07:05:54``, have neither a year nor a time zone. Wording: vLLM [1]_ [2]_, Apache-2.0; the
releases of 2025 have the same figures in other orders.

References
----------
.. [1] https://github.com/vllm-project/vllm/blob/main/vllm/v1/metrics/loggers.py
.. [2] https://github.com/vllm-project/vllm/blob/main/vllm/v1/spec_decode/metrics.py
"""

import datetime
import math
import re
from typing import Any

import numpy as np
import pandas as pd

from bayes_sd.readers.content import Content
from bayes_sd.readers.log_acceptance import acceptance
from bayes_sd.readers.reading import Cells, Reading

STAMP = re.compile(
    r"(?:(?P<year>20\d\d)-)?(?P<month>[01]\d)-(?P<day>[0-3]\d)[ T]"
    r"(?P<hour>[0-2]\d):(?P<minute>[0-5]\d):(?P<second>[0-5]\d)(?!\d)"
)
LOG_LINE = re.compile(
    r"^.{0,80}?\b(?:INFO|WARNING|ERROR|DEBUG) (?:20\d\d-)?\d\d-\d\d \d\d:\d\d:\d\d"
    r"(?:\.\d+)? \[?[\w/.]+\.py:\d+\]",
    re.MULTILINE,
)
ENGINE = re.compile(r"(?P<name>Engine \d+|\d+ Engines? Aggregated): ")
FIGURES = {
    "running": re.compile(r"Running: (\d{1,9}) reqs"),
    "waiting": re.compile(r"(?:Waiting|Pending): (\d{1,9}) reqs"),
    "generation_tokens_per_s": re.compile(r"Avg generation throughput: (\d{1,12}(?:\.\d+)?) tok"),
}
DRAFTS = {
    "num_draft_tokens": re.compile(r"Drafted: (\d{1,15}) tokens"),
    "num_accepted_tokens": re.compile(r"Accepted: (\d{1,15}) tokens"),
    "mean_acceptance_length": re.compile(r"Mean acceptance length: (\d{1,6}(?:\.\d+)?)"),
}
POSITIONS = re.compile(r"Per-position acceptance rate: (\d\.\d+(?:, \d\.\d+)*)")
DRAFT_LINE = "SpecDecoding metrics:"
TIME_COLUMNS = ("year", "month", "day", "second_of_day_s")
COLUMNS = (*TIME_COLUMNS, *FIGURES, *DRAFTS, "acceptance_per_position", "num_draft_lines")
INTERVAL_S = 10.0
SAME_MOMENT_S = 1.0
MIN_SAMPLES = 5
LEAP_YEAR = 2000


def recognises_text(head: str) -> bool:
    """Tell whether a text begins as the log of a vLLM server does."""
    if DRAFT_LINE in head and FIGURES["running"].search(head):
        return True
    return LOG_LINE.search(head) is not None


def read(content: Content) -> Reading:
    """Read a log by itself: it holds no run, for it tells no latency.

    Parameters
    ----------
    content : Content
        The file.
    """
    reading = Reading()
    found = intervals(content)
    reading.skipped.append(
        f"a server log tells no latency, so it is no run ({len(found)} intervals with statistics "
        "in it). Keep it in the folder of the result files: what it says of the time of a run is "
        "joined to that run."
    )
    return reading


def intervals(content: Content) -> pd.DataFrame:
    """Return what the log says of each interval.

    Parameters
    ----------
    content : Content
        The file.

    Returns
    -------
    pandas.DataFrame, one row per interval
        The stamp at its end (``year``, 0 if it is not told, ``month``, ``day``,
        ``second_of_day_s``); requests ``running`` and ``waiting`` at its end and tokens generated
        per second, added up over engines; drafted and accepted tokens, mean acceptance length and
        rates by position joined by ``;`` within it; the number of lines of drafts. NaN where a
        line does not tell.
    """
    rows: list[dict[str, Any]] = []
    engines: set[str] = set()
    for _, raw in content.lines():
        if b" reqs" not in raw and DRAFT_LINE.encode() not in raw:
            continue
        line = raw.decode(errors="replace")
        of_drafts = DRAFT_LINE in line
        of_load = not of_drafts and FIGURES["running"].search(line) is not None
        time = _stamp(line)
        if time is None or not (of_drafts or of_load):
            continue
        engine = ENGINE.search(line)
        name = engine["name"] if engine else ""
        is_next = not rows or not _same_moment(rows[-1], time) or (of_load and name in engines)
        if is_next:
            rows.append(dict(zip(TIME_COLUMNS, time, strict=True)))
            engines = set()
        if of_load:
            engines.add(name)
            for column, pattern in FIGURES.items():
                _add(rows[-1], column, pattern.search(line))
        else:
            _add_drafts(rows[-1], line)
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    numbers = [name for name in COLUMNS if name != "acceptance_per_position"]
    return frame.astype(dict.fromkeys(numbers, float))


def cells_between(
    found: pd.DataFrame, start: datetime.datetime, end: datetime.datetime
) -> tuple[Cells, list[str]]:
    """Return what a log says of the intervals that lie wholly within a time.

    Parameters
    ----------
    found : pandas.DataFrame
        Of `intervals`.
    start, end : datetime.datetime
        In the clock and time zone of the log, without a zone; the year of stamps without one is
        the one that brings them nearest to the end.

    Returns
    -------
    cells : dict
        ``mean_running_requests`` from five intervals on, if none of them was idle; acceptance as
        of `bayes_sd.readers.log_acceptance`; ``_generation_tokens_per_s``. Empty if no interval
        lies within.
    notes : list of str
        What is rounded or left out.
    """
    ends = _seconds_after(found, end)
    found, ends = found[np.isfinite(ends)], ends[np.isfinite(ends)]
    if not len(found):
        return {}, []
    gaps = np.diff(ends)
    regular = gaps[(gaps > SAME_MOMENT_S) & (gaps < 60 * INTERVAL_S)]
    period = float(np.median(regular)) if len(regular) else INTERVAL_S
    lengths = np.append(period, gaps)  # an idle engine prints nothing: what it tells is of the last
    lengths = np.where((lengths > 0) & (lengths < 1.5 * period), lengths, period)
    length_s = (end - start).total_seconds()
    inside = (ends <= 0) & (ends - lengths >= -length_s)
    part = found[inside]
    if not len(part):
        return {}, []
    cells, notes = acceptance(part)
    rate = float(np.average(part["generation_tokens_per_s"].fillna(0.0), weights=lengths[inside]))
    cells["_generation_tokens_per_s"] = rate
    running = part["running"].dropna()
    is_gapless = bool((np.diff(ends[inside]) < 1.5 * period).all())
    if len(running) >= MIN_SAMPLES and is_gapless:
        cells["mean_running_requests"] = float(running.mean())
    elif len(running):
        notes.append(
            f"mean_running_requests is not taken from the log: {len(running)} samples of one "
            "moment each are too few, or the server was idle in between."
        )
    return cells, notes


def _stamp(line: str) -> tuple[int, int, int, float] | None:
    """Return year, month, day and second of the day of the log's own stamp: the last before text.

    A container engine may have put its own stamp before it.
    """
    text_at = min((at for at in (line.find(DRAFT_LINE), line.find("Avg ")) if at >= 0), default=0)
    stamps = list(STAMP.finditer(line[: min(text_at, 500)] if text_at else line[:500]))
    if not stamps:
        return None
    found = stamps[-1]
    year, month, day, hour, minute, second = (int(found[name] or 0) for name in STAMP.groupindex)
    try:
        datetime.datetime(year or LEAP_YEAR, month, day, hour)
    except ValueError:
        return None
    return year, month, day, float(hour * 3600 + minute * 60 + second)


def _same_moment(row: dict[str, Any], time: tuple[int, int, int, float]) -> bool:
    if tuple(row[name] for name in TIME_COLUMNS[:3]) != time[:3]:
        return False
    return abs(row["second_of_day_s"] - time[3]) <= SAME_MOMENT_S


def _add(row: dict[str, Any], column: str, found: re.Match[str] | None) -> None:
    if found is not None:
        row[column] = row.get(column, 0.0) + float(found[1])


def _add_drafts(row: dict[str, Any], line: str) -> None:
    """Add one line of drafts; means of several engines are kept as they are printed first."""
    row["num_draft_lines"] = row.get("num_draft_lines", 0) + 1
    found = {column: pattern.search(line) for column, pattern in DRAFTS.items()}
    for column in ("num_draft_tokens", "num_accepted_tokens"):
        _add(row, column, found[column])
    if row["num_draft_lines"] > 1:
        return
    length, positions = found["mean_acceptance_length"], POSITIONS.search(line)
    if length is not None:
        row["mean_acceptance_length"] = float(length[1])
    if positions is not None:
        row["acceptance_per_position"] = positions[1].replace(", ", ";")


def _seconds_after(found: pd.DataFrame, end: datetime.datetime) -> np.ndarray:
    """Return the time of each stamp in s after an end, in the year that brings it nearest."""
    seconds = []
    for year, month, day, second in found[list(TIME_COLUMNS)].itertuples(index=False):
        years = (int(year),) if year else (end.year - 1, end.year, end.year + 1)
        candidates = []
        for candidate in years:
            try:
                time = datetime.datetime(candidate, int(month), int(day))
            except ValueError:  # no such day in that year
                continue
            candidates.append((time - end).total_seconds() + float(second))
        seconds.append(min(candidates, key=abs, default=math.inf))
    return np.array(seconds, dtype=float)
