"""Records of AIPerf, ``profile_export.jsonl``: one request a line, read as a stream.

A line has ``metadata`` (times, phase), ``metrics`` (a value and a unit each), ``error`` where the
request failed and, from AIPerf 0.13 on, ``spec_decode_acceptance`` where the server told what it
drafted. The phase is ``credit_phase`` in the first version and ``benchmark_phase`` since, the start
``timestamp_ns`` and ``request_start_ns``. How the run was loaded is not in it, but in the summary
beside it. Field names and meanings: AIPerf 0.1.1 to 0.13.0 [1]_, Apache-2.0.

References
----------
.. [1] https://github.com/ai-dynamo/aiperf
"""

import math
from array import array
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pandas as pd

from bayes_sd.exceptions import FormatError
from bayes_sd.readers.aiperf_chunks import ChunkGaps
from bayes_sd.readers.aiperf_metrics import COUNTS, LATENCIES, SECONDS, Drafts
from bayes_sd.readers.content import Content, parse_json
from bayes_sd.readers.reading import Cells, Reading, short
from bayes_sd.readers.requests import (
    NUM_GAPS,
    cells_of_requests,
    gap_statistics,
    requests_table,
)

LOAD_NOT_TOLD = (
    "records do not tell how the run was loaded: the summary beside them does. Otherwise give "
    "load_kind='open', or load_kind='closed' and concurrency."
)
PROGRESS_BYTES = 16 << 20
SHOWN = 5
MAX_INT = 1 << 63
UNIX_NS = (10**18, 10**20)  # other clocks have another zero
MARKS = ("benchmark_phase", "credit_phase", "request_start_ns", "timestamp_ns")
LOWEST = {"ttft_s": 0.0, "input_len_tokens": 0.0, "output_len_tokens": 1.0}
COLUMNS = {
    "e2e_s": (LATENCIES["e2e"], SECONDS),
    "ttft_s": (LATENCIES["ttft"], SECONDS),
    "input_len_tokens": (("input_sequence_length",), COUNTS),
    "output_len_tokens": (("output_sequence_length",), COUNTS),
}


def recognises(sample: Any) -> bool:
    """Tell whether a parsed object is such a record."""
    if not isinstance(sample, dict):
        return False
    metadata, metrics = sample.get("metadata"), sample.get("metrics")
    if not isinstance(metadata, dict) or not isinstance(metrics, dict):
        return False
    return any(mark in metadata for mark in MARKS)


def read(content: Content, progress: Callable[[int], None] | None = None) -> Reading:
    """Read one file with the requests of one run; of several, if phases have several names.

    Parameters
    ----------
    content : Content
        The file. It is not held in memory: 2 GB take some hundred MB.
    progress : callable, optional
        Called now and then with the bytes read so far, unpacked.

    Raises
    ------
    FormatError
        If no line of it is a record.
    """
    reading = Reading()
    records = _Records()
    done = told = 0
    try:
        for number, line in content.lines():
            records.add_line(number, line)
            done += len(line)
            if progress is not None and done - told >= PROGRESS_BYTES:
                told = done
                progress(done)
    except FormatError as error:  # a packed file that ends early: what came before it is kept
        if not records.phases:
            raise
        reading.skipped.append(str(error))
    if progress is not None:
        progress(done)
    if not records.num_records:
        raise FormatError(
            f"{content.path} has no line that is a record of AIPerf: an object with metadata and "
            "metrics. Give the profile_export.jsonl of a run."
        )
    records.report(reading)
    for name, phase in records.phases.items():
        place = f"phase {name}" if len(records.phases) > 1 else ""
        try:
            run, requests = phase.run(place, reading)
        except FormatError as error:
            reading.skipped.append(str(error))
        else:
            reading.add({"_entry": place, **run}, requests)
    return reading


class _Records:
    """The records of a file, sorted by phase, and a count of what was left out."""

    def __init__(self) -> None:
        self.phases: dict[str, _Phase] = {}
        self.num_records = 0
        self.left_out: Counter[str] = Counter()
        self.broken: list[int] = []
        self.num_broken = 0
        self.without_phase = 0

    def add_line(self, number: int, line: bytes) -> None:
        """Add the record of a line, if it is of a finished request of the measured phase."""
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            try:
                record = parse_json(line, "")  # NaN and Infinity
            except FormatError:
                record = None
        metadata = record.get("metadata") if type(record) is dict else None
        metrics = record.get("metrics") if type(record) is dict else None
        if type(metadata) is not dict or type(metrics) is not dict:
            self.num_broken += 1
            if len(self.broken) < SHOWN:
                self.broken.append(number)
            return
        self.num_records += 1
        kind = metadata.get("benchmark_phase") or metadata.get("credit_phase")
        if kind is None:
            self.without_phase += 1
        elif kind != "profiling":
            self.left_out[f"of the phase {short(kind)}"] += 1
            return
        if metadata.get("was_cancelled") is True:
            self.left_out["cancelled"] += 1
            return
        if record.get("error") is not None:
            self.left_out["failed"] += 1
            return
        name = metadata.get("phase_name")
        name = name if isinstance(name, str) else ""
        if name not in self.phases:
            self.phases[name] = _Phase()
        self.phases[name].add(metadata, metrics, record.get("spec_decode_acceptance"))

    def report(self, reading: Reading) -> None:
        """Say what was left out."""
        if self.num_broken:
            shown = ", ".join(map(str, self.broken))
            more = ", ..." if self.num_broken > len(self.broken) else ""
            reading.skipped.append(
                f"{self.num_broken} lines are no records ({shown}{more}); the others are read. If "
                "the run was stopped while it wrote the file, the last line is cut."
            )
        if self.left_out:
            parts = ", ".join(f"{count} {why}" for why, count in self.left_out.most_common(SHOWN))
            reading.note(f"of {self.num_records} records were left out: {parts}.")
        if self.without_phase:
            reading.note(
                f"{self.without_phase} of {self.num_records} records do not tell their phase; they "
                "are taken for measured ones. A warm-up must not be among them."
            )


class _Phase:
    """The finished requests of one phase, in arrays that grow."""

    def __init__(self) -> None:
        self.first_ns: int | None = None
        self.start_s = array("d")  # since the first record
        self.columns = {name: array("d") for name in COLUMNS}
        self.gaps = ChunkGaps()
        self.refused: Counter[str] = Counter()
        self.drafts = Drafts()

    def add(self, metadata: dict[str, Any], metrics: dict[str, Any], drafts: Any) -> None:
        """Add a finished request."""
        start = metadata.get("request_start_ns", metadata.get("timestamp_ns"))
        if type(start) is int and abs(start) < MAX_INT:
            if self.first_ns is None:
                self.first_ns = start
            self.start_s.append((start - self.first_ns) * 1e-9)
        else:
            self.start_s.append(math.nan)
        for name, (metric_names, units) in COLUMNS.items():
            self.columns[name].append(self._value(metrics, metric_names, units))
        gaps = metrics.get("inter_chunk_latency")
        if gaps is not None:
            self._add_gaps(gaps)
        if drafts is not None:
            try:
                self.drafts.add(drafts)
            except FormatError as error:
                self.refused[str(error)] += 1

    def _value(
        self, metrics: dict[str, Any], names: tuple[str, ...], units: dict[str, float]
    ) -> float:
        for name in names:
            found = metrics.get(name)
            if found is None:
                continue
            if type(found) is dict:
                value, unit = found.get("value"), found.get("unit")
                scale = units.get(unit) if type(unit) is str else None
                if scale is None:
                    self.refused[f"{name} in the unit {short(unit)}"] += 1
                    return math.nan
                if type(value) is float or (type(value) is int and abs(value) < MAX_INT):
                    return value * scale
            self.refused[f"{name} without a number"] += 1
            return math.nan
        return math.nan

    def _add_gaps(self, found: Any) -> None:
        values = found.get("value") if type(found) is dict else None
        unit = found.get("unit") if type(found) is dict else None
        scale = SECONDS.get(unit) if type(unit) is str else None
        if scale is None:
            self.refused[f"inter_chunk_latency in the unit {short(unit)}"] += 1
        elif type(values) is not list or not self.gaps.add(values, scale):
            self.refused["inter_chunk_latency without a list of numbers"] += 1

    def run(self, place: str, reading: Reading) -> tuple[Cells, pd.DataFrame]:
        """Return the cells of the run, and its requests."""
        where = f"{place}: " if place else ""
        for what, count in self.refused.most_common(SHOWN):
            reading.note(f"{where}in {count} of {len(self.start_s)} records: {what}; not used.")
        table, notes = requests_table(
            place,
            start_s=np.frombuffer(self.start_s),
            **{name: np.frombuffer(column) for name, column in self.columns.items()},
        )
        table, more = _without_unknown(table, where)
        for message in [*notes, *more]:
            reading.note(message)
        if table is None or len(table) < 2:
            raise FormatError(
                f"{where}a run must have at least 2 finished requests with their times. Got "
                f"{0 if table is None else len(table)} of {len(self.start_s)} records instead."
            )
        run = {**cells_of_requests(table.dropna()), **cells_of_requests(table)}
        run |= self.gaps.cells()
        run = {name: value for name, value in run.items() if value != 0}
        run |= self.drafts.cells(where, len(table), reading)
        last = float((table["start_s"] + table["e2e_s"]).max())
        run["_duration_s"] = last - float(table["start_s"].min())
        if self.first_ns is not None and UNIX_NS[0] < self.first_ns < UNIX_NS[1]:
            run["_end_s"] = self.first_ns * 1e-9 + last
        self._note_arrivals(where, table, reading)
        return run, table

    def _note_arrivals(self, where: str, table: pd.DataFrame, reading: Reading) -> None:
        gaps = gap_statistics(table["start_s"])
        message = f"{where}{LOAD_NOT_TOLD}"
        if gaps.num_gaps >= NUM_GAPS:
            message += (
                f" Gaps between requests vary by {gaps.variation:.2f} of their mean; a Poisson "
                "process has 1, even arrivals 0."
            )
        reading.note(message)


def _without_unknown(
    table: pd.DataFrame | None, where: str
) -> tuple[pd.DataFrame | None, list[str]]:
    """Blank figures that cannot be, and drop columns without any; say how many."""
    if table is None or table.empty:
        return None, []
    notes, kept = [], {}
    for name, values in table.items():
        lowest = LOWEST.get(str(name), -math.inf)
        known = values.where(np.isfinite(values) & (values >= lowest))
        missing = int(known.isna().sum())
        if missing < len(known):
            kept[name] = known
        if missing:
            notes.append(
                f"{where}{name} is not known of {missing} of {len(known)} requests; its figures "
                "are over those that have all of them."
            )
    return pd.DataFrame(kept), notes
