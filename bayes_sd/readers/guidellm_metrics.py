"""Figures of one GuideLLM run: counts, latencies, lengths, rates, and its lists of requests.

Names and meanings of the fields: GuideLLM [1]_, Apache-2.0. ``request_latency`` is in seconds,
what ends in ``_ms`` in milliseconds. ``inter_token_latency_ms`` is (last - first token) / (tokens
- 1) of a request in every version, which others call time per output token; up to 0.3 its mean is
over requests, later over tokens. ``time_per_output_token_ms`` changed its meaning: it is not read.

References
----------
.. [1] https://github.com/vllm-project/guidellm/tree/main/src/guidellm/benchmark/schemas
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayes_sd.exceptions import FormatError
from bayes_sd.readers.reading import Cells, Fields, Reading, is_blank, short
from bayes_sd.readers.requests import requests_table

GROUPS = ("successful", "incomplete", "errored")
LATENCIES = {
    "e2e": ("request_latency", 1.0),
    "ttft": ("time_to_first_token_ms", 1e-3),
    "tpot": ("inter_token_latency_ms", 1e-3),
}
PERCENTILES = ("p50", "p90", "p95", "p99")
THROUGHPUT_TOLERANCE = 0.1
REAL_TIME_S = 1e9  # a Unix time below this is no time of a benchmark, it is a number near 0
LARGEST_S = 1e12
LIST_SLACK = 0.05

type Keys = tuple[str, ...]

# Where versions keep a request's times: from 0.5 on, 0.4, and 0.2 to 0.3.
START: tuple[Keys, ...] = (
    ("info", "timings", "request_start"),
    ("request_start_time",),
    ("scheduler_info", "request_timings", "request_start"),
    ("start_time",),
)
PLANNED: tuple[Keys, ...] = (("info", "timings", "targeted_start"),)
DELIVERIES: tuple[Keys, ...] = (("info", "timings", "token_iterations"),)


@dataclass(frozen=True)
class Counts:
    """Requests of a run by how they ended.

    Attributes
    ----------
    successful, incomplete, errored : float
        Finished, cut off at the end of the run, failed.
    """

    successful: float
    incomplete: float
    errored: float

    @property
    def started(self) -> float:
        """All that were sent."""
        return self.successful + self.incomplete + self.errored


@dataclass(frozen=True)
class Listed:
    """The requests that a file lists one by one.

    Attributes
    ----------
    finished : pandas.DataFrame or None
        Columns of `bayes_sd.readers.requests`; None unless every finished request is listed.
    start_s : array, (request,), or None
        When each request was sent, Unix time, s; None unless all that were sent are listed.
    num_early : int
        Requests whose planned start is no date, which the tool then sends at once.
    mean_itl_s : float
        Mean time between two deliveries of an answer, s; NaN if not listed.
    """

    finished: pd.DataFrame | None
    start_s: np.ndarray | None
    num_early: int
    mean_itl_s: float


def read_counts(fields: Fields, metrics: Fields) -> Counts:
    """Return how many requests finished, were cut off and failed.

    Raises
    ------
    FormatError
        If none finished, or the counts are no counts.
    """
    for totals in (fields.part("request_totals"), metrics.part("request_totals")):
        if "successful" in totals:
            found = [totals.count(group) for group in GROUPS]
            break
    else:
        latency = {group: metrics.part("request_latency", group) for group in GROUPS}
        found = [latency[group].count("count") for group in GROUPS]
    counts = Counts(*(0.0 if math.isnan(number) else number for number in found))
    if not counts.successful > 0:
        raise FormatError(
            f"{fields.at('request_totals.successful')} must be at least 1. Got "
            f"{counts.successful:.0f} instead: no request of this run was answered, so it says "
            "nothing of latency."
        )
    return counts


def read_figures(metrics: Fields, counts: Counts, duration_s: float, reading: Reading) -> Cells:
    """Return the cells that a run's metrics fill; latencies are over finished requests only."""
    run: Cells = {
        "num_requests": counts.successful,
        "input_len_tokens": _mean(metrics, "prompt_token_count"),
        "output_len_tokens": _mean(metrics, "output_token_count"),
        "completed_rate_rps": _mean(metrics, "requests_per_second"),
        "output_tokens_per_s": _mean(metrics, "output_tokens_per_second"),
        "mean_in_system_requests": metrics.part("request_concurrency", "total").number("mean"),
    }
    for kind, (name, scale) in LATENCIES.items():
        run |= _statistics(metrics.part(name, "successful"), kind, scale)
    if duration_s > 0:
        if is_blank(run["completed_rate_rps"]):
            run["completed_rate_rps"] = counts.successful / duration_s
        run["output_tokens_per_s"] = _output_rate(run, counts, duration_s, reading)
    return run


def _mean(metrics: Fields, name: str) -> float:
    found = metrics.part(name, "successful").number("mean")
    return found if found > 0 else math.nan  # the tool writes 0 for what it does not know


def _statistics(found: Fields, kind: str, scale: float) -> Cells:
    """Return mean and percentiles; 0 stands for requests without that time, so it says nothing."""
    percentiles = found.part("percentiles")
    values = {name: percentiles.number(name, scale=scale) for name in PERCENTILES}
    if math.isnan(values["p50"]):
        values["p50"] = found.number("median", scale=scale)
    values["mean"] = found.number("mean", scale=scale)
    return {f"{name}_{kind}_s": value for name, value in values.items() if value > 0}


def _output_rate(run: Cells, counts: Counts, duration_s: float, reading: Reading) -> float:
    """Return output tokens per second of the run; one version prints the mean over requests."""
    printed: float = run["output_tokens_per_s"]
    tokens: float = run["output_len_tokens"] * counts.successful / duration_s
    if not 0 < tokens < math.inf or abs(printed / tokens - 1) <= THROUGHPUT_TOLERANCE:
        return printed
    if math.isfinite(printed):
        reading.note(
            "output_tokens_per_second of the file is not tokens / duration (version 0.4 prints a "
            "mean over requests): output_tokens_per_s is tokens / duration."
        )
    return tokens


def check_latency(run: Cells, metrics: Fields, reading: Reading) -> None:
    """Refuse a run without latency; say where answers were not streamed."""
    if is_blank(run.get("mean_e2e_s")):
        got = short(metrics.part("request_latency", "successful").values.get("mean"))
        raise FormatError(
            f"{metrics.at('request_latency.successful.mean')} must be above 0 s. Got {got} "
            "instead: the run has no latency."
        )
    if is_blank(run.get("mean_ttft_s")):
        reading.note("the file has no time to first token: its answers were not streamed.")


def read_requests(fields: Fields, counts: Counts, reading: Reading) -> Listed | None:
    """Return the requests that a run lists; None if it lists none, or too few to be of use."""
    lists = {group: fields.part("requests").items(group) for group in GROUPS}
    num_listed = sum(len(entries) for entries in lists.values())
    if not num_listed:
        return None
    finished, start, mean_itl = None, None, math.nan
    if len(lists["successful"]) == counts.successful:
        finished = _finished(fields, lists["successful"], reading)
        mean_itl = _mean_itl(lists["successful"])
    sent = [entry for group in GROUPS for entry in lists[group]]
    if all(_is_whole(len(lists[group]), getattr(counts, group)) for group in GROUPS):
        start = _column(sent, *START)
        start = start[np.isfinite(start)]
    else:
        reading.note(
            f"{fields.place}: {num_listed} of {counts.started:.0f} requests are listed, a sample: "
            "what needs all of them is taken from the totals."
        )
    planned = _column(sent, *PLANNED)
    is_early = (planned < REAL_TIME_S) & (_column(sent, *START) > REAL_TIME_S)
    return Listed(finished, start, int(is_early.sum()), mean_itl)


def _is_whole(num_listed: int, total: float) -> bool:
    """Tell a list of all requests, which may hold a few from before the measured time, too."""
    return total <= num_listed <= (1 + LIST_SLACK) * total + 1


def _finished(fields: Fields, entries: list[Any], reading: Reading) -> pd.DataFrame | None:
    columns = {
        "start_s": _column(entries, *START),
        "e2e_s": _column(entries, ("request_latency",)),
        "ttft_s": 1e-3 * _column(entries, ("time_to_first_token_ms",)),
        "input_len_tokens": _column(entries, ("prompt_tokens",)),
        "output_len_tokens": _column(entries, ("output_tokens",)),
    }
    told = {name: values for name, values in columns.items() if np.isfinite(values).any()}
    frame, notes = requests_table(fields.place, **told)
    for message in notes:
        reading.note(message)
    return frame


def _mean_itl(entries: list[Any]) -> float:
    """Return the time between first and last token over the deliveries after the first."""
    gaps = _column(entries, *DELIVERIES) - 1
    tokens = _column(entries, ("output_tokens",)) - 1
    span = 1e-3 * _column(entries, ("inter_token_latency_ms",)) * tokens
    several = (gaps > 0) & (span > 0)
    if not several.any() or np.isnan(gaps).any():
        return math.nan
    return float(span[several].sum() / gaps[several].sum())


def _column(entries: list[Any], *paths: Keys) -> np.ndarray:
    """Return one number of each request, from the first place that has it; NaN where none has."""
    return np.array([_number(entry, paths) for entry in entries], dtype=float)


def _number(entry: Any, paths: tuple[Keys, ...]) -> float:
    for path in paths:
        found = entry
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        if is_number and -LARGEST_S < found < LARGEST_S:
            return float(found)
    return math.nan
