"""Bare lists of GuideLLM metrics: no strategies and no rates, only the order of a sweep.

A sweep runs one request at a time first, then as many as it may (throughput), then rates that rise
evenly to that of the throughput run [1]_. Whether a list is one is measured: nothing is derived
from the order of a list that does not look like a sweep.

References
----------
.. [1] https://github.com/vllm-project/guidellm/blob/main/src/guidellm/benchmark/profiles/sweep.py
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd

from bayes_sd.exceptions import BayesSdError
from bayes_sd.readers.guidellm_load import closed, note_cap, rate_of_totals, usual_in_flight
from bayes_sd.readers.guidellm_metrics import (
    Counts,
    check_latency,
    read_counts,
    read_figures,
)
from bayes_sd.readers.reading import Cells, Fields, Reading, is_blank

ONE_AT_A_TIME = (0.9, 1.02)  # mean requests in flight of the first run
SLACK = 0.05  # of rates and of numbers in flight
FLAT = 0.98  # lowest tenth over median of requests in flight, where a cap keeps them
EVEN = 0.5  # variance over mean of requests in flight: 1 for Poisson arrivals, near 0 for even ones


@dataclass(frozen=True)
class Entry:
    """What one entry of the list says of its load; NaN where it does not.

    Attributes
    ----------
    started_rps, completed_rps : float
        Requests sent, and finished, per second.
    duration_s : float
        Length of the run, s.
    mean, median, p10, p90, variance : float
        Of the number of requests in flight over time.
    """

    started_rps: float
    completed_rps: float
    duration_s: float
    mean: float
    median: float
    p10: float
    p90: float
    variance: float

    @property
    def is_one_at_a_time(self) -> bool:
        """Whether a new request was sent as soon as the one before was answered."""
        low, high = ONE_AT_A_TIME
        return low <= self.mean <= high and self.p90 <= 1

    @property
    def cap(self) -> float:
        """The number at which requests in flight were kept; NaN if they were not kept."""
        is_flat = self.p10 >= FLAT * self.median and self.median == round(self.median)
        return self.median if math.isfinite(self.median) and is_flat else math.nan


@dataclass(frozen=True)
class Sweep:
    """What a list is taken for.

    Attributes
    ----------
    is_sweep : bool
        Whether it has the order of a sweep.
    cap : float
        Limit of the tool on requests in flight; NaN if it was not met.
    arrivals : str
        constant or poisson, by how the number in flight varies at the lowest rate.
    """

    is_sweep: bool
    cap: float
    arrivals: str


def read(
    numbered: Iterable[tuple[str, Any]], reading: Reading, ended: list[tuple[str, Counts]]
) -> None:
    """Read a list of metrics into runs.

    Parameters
    ----------
    numbered : iterable of (str, object)
        Place and metrics of each entry.
    reading : Reading
        Gets the runs and the notes.
    ended : list of (str, Counts)
        Gets place and counts of each run.
    """
    found = list(numbered)
    entries = [_entry(metrics, place) for place, metrics in found]
    sweep = find_sweep(entries)
    order = {place: number for number, (place, _) in enumerate(found)}

    def run(metrics: Fields) -> tuple[Cells, pd.DataFrame | None]:
        number = order[metrics.place]
        return _run(metrics, number, entries[number], sweep, reading, ended), None

    reading.each(found, run)
    if reading.runs:
        _note_sweep(sweep, any(is_blank(run.get("load_kind")) for run in reading.runs), reading)


def find_sweep(entries: Sequence[Entry]) -> Sweep:
    """Tell whether entries have the order of a sweep, by their measured load.

    Examples
    --------
    >>> one = Entry(1.1, 1.1, 90.0, 1.0, 1.0, 1.0, 1.0, 0.0)
    >>> full = Entry(16.0, 14.5, 90.0, 127.9, 128.0, 128.0, 128.0, 9.0)
    >>> rate = Entry(2.8, 2.8, 90.0, 2.8, 3.0, 2.0, 3.0, 0.2)
    >>> find_sweep([one, full, rate])
    Sweep(is_sweep=True, cap=128.0, arrivals='constant')
    >>> find_sweep([one, rate, full]).is_sweep
    False
    """
    rates = [entry for entry in entries[2:] if math.isfinite(entry.mean)]
    if not rates or not entries[0].is_one_at_a_time:
        return Sweep(False, math.nan, "")
    full, lowest = entries[1], rates[0]
    rises = all(
        after.started_rps >= (1 - SLACK) * before.started_rps for before, after in pairwise(rates)
    )
    is_full = all(
        full.mean >= (1 - SLACK) * entry.mean
        and full.completed_rps >= (1 - SLACK) * entry.completed_rps
        for entry in rates
    )
    if not (rises and is_full and full.mean > 2 and lowest.mean > entries[0].mean * (1 - SLACK)):
        return Sweep(False, math.nan, "")
    is_even = lowest.variance <= EVEN * lowest.mean
    return Sweep(True, full.cap, "constant" if is_even else "poisson")


def _entry(metrics: Any, place: str) -> Entry:
    """Return an entry's load; NaN throughout if it cannot be read, which is told elsewhere."""
    try:
        fields = Fields(metrics, place)
        counts = read_counts(fields, fields)
        flight = fields.part("request_concurrency", "total")
        percentiles = flight.part("percentiles")
        duration = _duration(fields, counts)
        return Entry(
            started_rps=counts.started / duration if duration > 0 else math.nan,
            completed_rps=fields.part("requests_per_second", "successful").number("mean"),
            duration_s=duration,
            mean=flight.number("mean"),
            median=flight.number("median"),
            p10=percentiles.number("p10"),
            p90=percentiles.number("p90"),
            variance=flight.number("variance"),
        )
    except BayesSdError:
        return Entry(*[math.nan] * 8)


def _duration(fields: Fields, counts: Counts) -> float:
    """Return the length of a run, s, from a number of requests and its rate.

    Up to 0.3 the rate of all requests is their number over the time from the first start to the
    last end, with those cut off. Later it counts ends, and those cut off have none.
    """
    group = "successful" if "request_totals" in fields else "total"
    found = fields.part("requests_per_second", group)
    rate = found.number("mean")
    number = found.count("count") if group == "successful" else counts.started
    return number / rate if rate > 0 else math.nan


def _run(
    metrics: Fields,
    number: int,
    entry: Entry,
    sweep: Sweep,
    reading: Reading,
    ended: list[tuple[str, Counts]],
) -> Cells:
    counts = read_counts(metrics, metrics)
    run = read_figures(metrics, counts, math.nan, reading)
    check_latency(run, metrics, reading)
    ended.append((metrics.place, counts))
    if number == 0 and entry.is_one_at_a_time:
        return run | closed(1.0)
    if not sweep.is_sweep:
        return run
    in_flight = metrics.part("request_concurrency", "total")
    if number == 1:
        return run | closed(usual_in_flight(in_flight), is_throughput_test=True)
    note_cap(in_flight, sweep.cap, reading, metrics.place)
    return run | {
        "load_kind": "open",
        "arrivals": sweep.arrivals,
        "request_rate_rps": rate_of_totals(counts, entry.duration_s, run["mean_e2e_s"], reading),
        "client_cap": sweep.cap,
    }


def _note_sweep(sweep: Sweep, any_unknown: bool, reading: Reading) -> None:
    if sweep.is_sweep:
        capped = math.isfinite(sweep.cap)
        cap = f"; client_cap is the {sweep.cap:.0f} requests kept in flight by it" if capped else ""
        reading.note(
            "the file is a bare list of metrics: loads are derived from the order of a sweep, "
            f"which the numbers in flight confirm. Entry 1 is one at a time, entry 2 throughput"
            f"{cap}, the others are rates. Rates asked for are not stored; arrivals are called "
            f"{sweep.arrivals} because the number in flight at the lowest rate varies so."
        )
    elif any_unknown:
        reading.note(
            "the file is a bare list of metrics that does not have the order of a sweep, so loads "
            "are not known. Give load_kind, and request_rate_rps or concurrency, as side "
            "information for each entry."
        )
