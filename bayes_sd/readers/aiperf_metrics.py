"""Metrics of AIPerf and GenAI-Perf: their units, their names, and counts of accepted drafts."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from bayes_sd.exceptions import FormatError
from bayes_sd.readers.reading import Cells, Fields, Reading, short

# Factors to the units of the schema, by the tools' names of units.
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1.0, "s": 1.0}
PER_SECOND = {"requests/sec": 1.0, "tokens/sec": 1.0}
COUNTS = {"requests": 1.0, "tokens": 1.0, "count": 1.0}
FRACTIONS = {"%": 1e-2, "ratio": 1.0}

# Kinds of latency by name of metric, the older name second. Time between tokens is per token, so
# it is our tpot; time between chunks is our itl.
LATENCIES = {
    "e2e": ("request_latency",),
    "ttft": ("time_to_first_token", "ttft"),
    "tpot": ("inter_token_latency",),
    "itl": ("inter_chunk_latency",),
}
STATISTICS = {"mean": "avg", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
MAX_DRAFTS = 1024
DRAFT_COUNTS = ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")


class Metrics:
    """The metrics of a summary: figures in units of the schema, or none.

    Parameters
    ----------
    fields : Fields
        An object for each metric, with ``unit`` and statistics.
    reading : Reading
        Takes the notes.
    """

    def __init__(self, fields: Fields, reading: Reading) -> None:
        self.fields = fields
        self.reading = reading

    def number(self, statistic: str, units: Mapping[str, float], *names: str) -> float:
        """Return a statistic of the first metric that is there; NaN without a known unit."""
        for name in names:
            if name not in self.fields:
                continue
            metric = self.fields.part(name)
            unit = metric.values.get("unit")
            scale = units.get(unit) if isinstance(unit, str) else None
            if scale is not None:
                return metric.number(statistic, scale=scale)
            self.reading.note(
                f"{metric.at('unit')} must be one of {', '.join(units)}. Got {short(unit)} "
                "instead; the metric is left out."
            )
            break
        return math.nan

    def positive(self, statistic: str, units: Mapping[str, float], *names: str) -> float:
        """Return a statistic that is above 0; a 0 is left out, with a note."""
        found = self.number(statistic, units, *names)
        if found == 0:
            self.reading.note(f"{statistic} of {names[0]} is 0, which cannot be; left out.")
            return math.nan
        return found


def acceptance(fields: Fields, metrics: Metrics, reading: Reading) -> Cells:
    """Return what the server told of its drafts, over all requests; AIPerf from 0.13 on.

    Parameters
    ----------
    fields : Fields
        The whole summary.
    metrics : Metrics
        Its metrics.
    reading : Reading
        Takes the notes.
    """
    steps = metrics.number("avg", COUNTS, "total_spec_decode_steps")
    drafted = metrics.number("avg", COUNTS, "total_draft_tokens")
    rate = metrics.number("avg", FRACTIONS, "spec_decode_overall_draft_acceptance_rate")
    length = metrics.number("avg", FRACTIONS, "spec_decode_token_weighted_acceptance_length")
    name = "pooled_spec_decode_acceptance_histogram"
    counts = length_counts(fields.part(name)) if name in fields else []
    cells: Cells = {
        "num_drafts": steps,
        "num_draft_tokens": drafted,
        "num_accepted_tokens": metrics.number("avg", COUNTS, "total_accepted_draft_tokens"),
        "mean_acceptance_length": length,
        "draft_acceptance_rate": rate,
        "accepted_length_counts": joined(counts),
    }
    per_step = drafted / steps if steps > 0 else math.nan
    is_possible = max(1, len(counts) - 1) <= per_step <= MAX_DRAFTS
    if is_possible and per_step == math.floor(per_step):
        cells["num_speculative_tokens"] = per_step
        reading.note(
            f"num_speculative_tokens is taken for {per_step:.0f}, the drafted tokens per step. "
            "Give it if drafts were of several lengths."
        )
    return cells


def length_counts(histogram: Fields, length: int = 0) -> list[float]:
    """Return the steps that accepted 0, 1, ..., k drafts, from counts by number accepted.

    Parameters
    ----------
    histogram : Fields
        Counts of steps; those of no steps may be missing.
    length : int, default 0
        Draft length k, where it is known. The list goes to the highest number accepted at least.

    Raises
    ------
    FormatError
        If a key or a count is no whole number.

    Examples
    --------
    >>> length_counts(Fields({"0": 5, "2": 1}), 3)
    [5.0, 0.0, 1.0, 0.0]
    """
    for key in histogram.values:
        if not (key.isascii() and key.isdigit() and len(key) < 5 and int(key) <= MAX_DRAFTS):
            raise FormatError(
                f"keys of {histogram.place or 'a histogram'} must be whole numbers up to "
                f"{MAX_DRAFTS}, of accepted drafts. Got {short(key)} instead."
            )
    if not histogram.values:
        return []
    highest = max(length, *map(int, histogram.values))
    found = [histogram.count(str(accepted)) for accepted in range(highest + 1)]
    return [0.0 if math.isnan(steps) else steps for steps in found]


class Drafts:
    """What records of requests tell of drafts, added up.

    Examples
    --------
    >>> drafts = Drafts()
    >>> drafts.add(
    ...     {
    ...         "num_spec_steps": 3,
    ...         "num_draft_tokens": 6,
    ...         "num_accepted_draft_tokens": 3,
    ...         "num_spec_tokens": 2,
    ...         "acceptance_histogram": {"0": 1, "1": 1, "2": 1},
    ...     }
    ... )
    >>> drafts.cells("", 1, Reading())["accepted_length_counts"]
    '1;1;1'
    """

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()
        self.lengths: set[float] = set()
        self.engines: set[str] = set()
        self.num_requests = 0

    def add(self, found: Any) -> None:
        """Add those of one request.

        Raises
        ------
        FormatError
            If it is not an object with counts; then nothing is added.
        """
        fields = Fields(found, "spec_decode_acceptance")
        counts = {name: fields.count(name) for name in DRAFT_COUNTS}
        steps = length_counts(fields.part("acceptance_histogram"))
        length = fields.count("num_spec_tokens")
        for name, count in [*counts.items(), ("acceptance_histogram", sum(steps))]:
            if not 0 <= count < 1 << 53:
                raise fields.wrong(name, "of whole numbers that can be")
        for name, count in counts.items():
            self.totals[name] += int(count)
        for accepted, count in enumerate(steps):
            self.steps[str(accepted)] += int(count)
        self.lengths.add(length if 0 < length <= MAX_DRAFTS else 0)  # 0 is not told
        self.engines.add(fields.text("engine"))
        self.num_requests += 1

    def cells(self, where: str, num_requests: int, reading: Reading) -> Cells:
        """Return them as cells of a run of so many requests, with notes."""
        if not self.num_requests:
            return {}
        if self.num_requests < num_requests:
            reading.note(
                f"{where}{self.num_requests} of {num_requests} requests tell of drafts; counts of "
                "drafts are over them."
            )
        length = int(max(self.lengths))
        if len(self.lengths) > 1 or not length:
            reading.note(
                f"{where}records do not tell one draft length. Give num_speculative_tokens, the "
                "largest that the server drafts."
            )
        steps, drafted, accepted = (self.totals[name] for name in DRAFT_COUNTS)
        return {
            "engine": next(iter(self.engines)) if len(self.engines) == 1 else "",
            "num_speculative_tokens": length if len(self.lengths) == 1 and length else None,
            "num_drafts": steps,
            "num_draft_tokens": drafted,
            "num_accepted_tokens": accepted,
            "accepted_length_counts": joined(length_counts(Fields(dict(self.steps)), length)),
            "mean_acceptance_length": 1 + accepted / steps if steps else math.nan,
            "draft_acceptance_rate": accepted / drafted if drafted else math.nan,
        }


def joined(counts: list[float]) -> str:
    """Return counts as a cell of the schema."""
    return ";".join(f"{count:.0f}" for count in counts)
