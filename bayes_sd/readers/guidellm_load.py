"""How a GuideLLM run was loaded: by its strategy, and by when requests were really sent."""

import math

from bayes_sd.readers.guidellm_metrics import Counts, Listed
from bayes_sd.readers.reading import Cells, Fields, Reading
from bayes_sd.readers.requests import (
    CONSTANT_VARIATION,
    GAP_CORRELATION,
    NUM_GAPS,
    GapStatistics,
    arrival_notes,
    gap_statistics,
    measured_arrivals,
)

OPEN = ("constant", "poisson", "trace")
NEAR_CAP = 0.9  # share of the cap above which it, and not the rate, sets the load
HELD = 0.9  # share of the streams that must have been in flight
BURST = 0.5  # share of requests sent at once above which a run is a burst
SHORTEST = 0.2  # share of a run in which requests were sent, for its rate to be known from totals
RATE_TOLERANCE = 0.1


def read_load(
    fields: Fields, run: Cells, counts: Counts, listed: Listed | None, reading: Reading
) -> Cells:
    """Return the cells that say how a run was loaded.

    Parameters
    ----------
    fields : Fields
        The entry of the run; its strategy and its requests in flight are read.
    run : dict
        Cells so far; ``mean_e2e_s`` and ``_duration_s`` are read.
    counts : Counts
        Requests by how they ended.
    listed : Listed or None
        Requests of the run, where the file lists them.
    reading : Reading
        Gets the notes.

    Raises
    ------
    FormatError
        If a setting of the strategy cannot be.
    """
    strategy = _strategy(fields)
    in_flight = fields.part("metrics", "request_concurrency", "total")
    kind = strategy.text("type_", "kind")
    if kind == "synchronous":
        return closed(1.0)
    if kind == "concurrent":
        streams = strategy.count("streams")
        if not streams >= 1:
            raise strategy.wrong("streams", "at least 1")
        if in_flight.number("mean") < HELD * streams:
            reading.note(
                f"{fields.place}: {in_flight.number('mean'):.3g} of {streams:.0f} requests were in "
                "flight on average: the client did not keep them there."
            )
        return closed(streams)
    if kind == "throughput":
        cap = strategy.count("max_concurrency")
        is_met = 1 <= cap <= counts.started  # one never met says nothing of the load
        return closed(cap if is_met else usual_in_flight(in_flight), is_throughput_test=True)
    if kind not in OPEN:
        shown = f"strategy {kind!r} is not known here" if kind else "no strategy is named"
        reading.note(
            f"{fields.place}: {shown}, so the load is not known. Give load_kind, and "
            "request_rate_rps or concurrency, as side information."
        )
        return {}
    cells = _open(kind, strategy, run, counts, listed, reading, fields.place)
    note_cap(in_flight, cells["client_cap"], reading, fields.place)
    return cells


def _strategy(fields: Fields) -> Fields:
    """Return what was run; its place is another one from 0.5 on, up to 0.3, and in 0.4."""
    for name in ("config", "args", "scheduler"):
        found = fields.part(name, "strategy")
        if found.values:
            return found
    return fields.part("config", "strategy")


def usual_in_flight(in_flight: Fields) -> float:
    """Return the usual number of requests in flight, at least 1; NaN if it is not told."""
    found = in_flight.number("median")
    found = in_flight.number("mean") if math.isnan(found) else found
    return float(max(1, round(found))) if math.isfinite(found) else math.nan


def closed(concurrency: float, *, is_throughput_test: bool = False) -> Cells:
    """Return the cells of a run that kept a number of requests in flight."""
    cells: Cells = {"load_kind": "closed", "arrivals": "closed", "concurrency": concurrency}
    return cells | {"is_throughput_test": True} if is_throughput_test else cells


def _open(
    kind: str,
    strategy: Fields,
    run: Cells,
    counts: Counts,
    listed: Listed | None,
    reading: Reading,
    place: str,
) -> Cells:
    asked = strategy.number("rate")
    if asked == 0:
        raise strategy.wrong("rate", "above 0")
    cells: Cells = {
        "load_kind": "open",
        "arrivals": "" if kind == "trace" else kind,
        "target_rate_rps": asked,
        "client_cap": strategy.count("max_concurrency"),
    }
    gaps = None if listed is None or listed.start_s is None else gap_statistics(listed.start_s)
    if gaps is not None and math.isfinite(gaps.rate_rps):
        cells["request_rate_rps"] = gaps.rate_rps
        cells["arrivals"] = _arrivals(gaps, kind, asked, reading, place)
    else:
        cells["request_rate_rps"] = rate_of_totals(
            counts, run["_duration_s"], run["mean_e2e_s"], reading
        )
        _compare(cells["request_rate_rps"], asked, counts, reading, place)
    cells |= _early(listed, counts, reading, place)
    ramp = strategy.number("rampup_duration", "startup_duration")
    if ramp > 0:
        reading.note(f"{place}: the rate rose over the first {ramp:.3g} s of the run.")
    return cells


def _arrivals(gaps: GapStatistics, kind: str, asked: float, reading: Reading, place: str) -> str:
    """Name the arrivals as they came, and say where they are not those asked for."""
    expected = "poisson" if kind == "trace" else kind
    if kind != "trace":
        for message in arrival_notes(gaps, expected, asked, place):
            reading.note(message)
    found = measured_arrivals(gaps, expected)
    if gaps.num_gaps < NUM_GAPS:
        return "" if kind == "trace" else found
    if gaps.lag1_correlation > max(GAP_CORRELATION, 3 / math.sqrt(gaps.num_gaps)):
        return "bursty" if found == "poisson" else found  # short gaps that repeat are a burst
    is_even = kind == "trace" and gaps.variation < CONSTANT_VARIATION
    return "constant" if is_even else found


def rate_of_totals(counts: Counts, duration_s: float, latency_s: float, reading: Reading) -> float:
    """Return requests sent per second from their number; NaN if too little is known.

    Parameters
    ----------
    counts : Counts
        Requests by how they ended.
    duration_s : float
        From the first one sent to the end of the run, s.
    latency_s : float
        Mean latency, s: if none was cut off, the run lasted until the last one was answered, and
        sending had ended about so long before.
    reading : Reading
        Gets a note of what was done.

    Examples
    --------
    >>> rate_of_totals(Counts(251.0, 2.0, 0.0), 90.0, 1.01, Reading())
    2.811
    """
    if counts.incomplete > 0 and duration_s > 0:
        reading.note(
            "request_rate_rps is (finished + cut off + failed) / duration, where the file does not "
            "list when all requests were sent."
        )
        return counts.started / duration_s
    sending = duration_s - latency_s
    if not (sending > SHORTEST * duration_s > 0 and counts.started > 1):
        reading.note(
            "request_rate_rps of an open run cannot be derived: the file does not list when all "
            "requests were sent, and has no duration, or one of hardly more than a latency. Give "
            "it as side information."
        )
        return math.nan
    reading.note(
        "request_rate_rps is (requests - 1) / (duration - mean latency), where the file does not "
        "list when all requests were sent and none was cut off."
    )
    return (counts.started - 1) / sending


def _compare(rate: float, asked: float, counts: Counts, reading: Reading, place: str) -> None:
    tolerance = max(RATE_TOLERANCE, 3 / math.sqrt(counts.started))
    if math.isfinite(rate) and math.isfinite(asked) and abs(rate / asked - 1) > tolerance:
        reading.note(
            f"{place}: about {rate:.3g} requests were sent per second, not the {asked:.3g} asked "
            "for. The former is used."
        )


def _early(listed: Listed | None, counts: Counts, reading: Reading, place: str) -> Cells:
    """Return what a burst at the start of a run changes: a fault of 0.8's start of workers."""
    if listed is None or listed.num_early < 2:
        return {}
    share = listed.num_early / counts.started
    is_burst = share > BURST
    ending = (
        ": a burst, not a steady load (is_throughput_test)." if is_burst else ", before others."
    )
    reading.note(
        f"{place}: {listed.num_early} of {counts.started:.0f} requests had a planned start that is "
        f"no date (a fault of GuideLLM's start) and were sent at once{ending}"
    )
    return {"arrivals": "bursty"} | ({"is_throughput_test": True} if is_burst else {})


def note_cap(in_flight: Fields, cap: float, reading: Reading, place: str) -> None:
    """Say where a cap on requests in flight, and not the rate, set the load."""
    mean = in_flight.number("mean")
    if mean >= NEAR_CAP * cap:
        reading.note(
            f"{place}: {mean:.3g} requests were in flight on average, of at most {cap:.0f}: the "
            "cap held arrivals back, so the load was closed in fact."
        )
