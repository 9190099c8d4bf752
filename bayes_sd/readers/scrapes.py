"""From two metrics pages of a vLLM server to what it did between them.

Counters are differenced series by series, and then added up over engines and API processes.
Histograms give exact means (``_sum`` / ``_count``) and percentiles only to the width of a bucket.
Names and meanings: vLLM [1]_, Apache-2.0. ``vllm:inter_token_latency_seconds`` was called
``vllm:time_per_output_token_seconds`` before release 0.11; both time the gaps between deliveries,
while ``vllm:request_time_per_output_token_seconds`` is per token of a request.

References
----------
.. [1] https://github.com/vllm-project/vllm/blob/main/vllm/v1/metrics/loggers.py
"""

import datetime
import math
from collections.abc import Callable, Collection

from bayes_sd.exceptions import FormatError
from bayes_sd.readers.acceptance_counters import acceptance, is_old_engine
from bayes_sd.readers.histograms import bounds_of_percentiles, bucket_counts
from bayes_sd.readers.metrics_page import Labels, MetricsPage
from bayes_sd.readers.reading import Cells, is_blank

SUCCESS = "vllm:request_success_total"
LATENCIES = {
    "e2e": ("vllm:e2e_request_latency_seconds",),
    "ttft": ("vllm:time_to_first_token_seconds",),
    "tpot": ("vllm:request_time_per_output_token_seconds",),
    "itl": ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
}
LENGTHS = {
    "input_len_tokens": "vllm:request_prompt_tokens",
    "output_len_tokens": "vllm:request_generation_tokens",
}
IN_FLIGHT = ("vllm:num_requests_running", "vllm:num_requests_waiting")
NEVER_FALL = ("_total", "_count", "_bucket")
UNFINISHED = ("abort", "error")
SAME_TIME_S = 1.0
MAX_NAMED = 3


class Differences:
    """What each series of a server gained between two pages.

    Parameters
    ----------
    before, after : MetricsPage
        Of one server.

    Raises
    ------
    FormatError
        If a counter fell or is gone, a start time changed, or two models were served.
    """

    def __init__(self, before: MetricsPage, after: MetricsPage) -> None:
        _refuse_restart(before, after)
        self._before, self._after = before, after
        self.model = self._only_model()

    def __contains__(self, name: str) -> bool:
        """Tell whether the later page has a series of this name."""
        return name in self._after.series

    def by(self, name: str, key: Callable[[dict[str, str]], str]) -> dict[str, float]:
        """Add up what series of one name gained, in groups by their labels."""
        found: dict[str, float] = {}
        earlier = self._before.series.get(name, {})
        for labels, value in self._after.series.get(name, {}).items():
            words = dict(labels)
            if words.get("model_name", self.model) == self.model:
                group = key(words)
                found[group] = found.get(group, 0.0) + value - earlier.get(labels, 0.0)
        return found

    def total(self, name: str) -> float:
        """Return what all series of one name gained together; NaN if there is none."""
        return self.by(name, lambda labels: "").get("", math.nan)

    def mean(self, name: str) -> float:
        """Return the mean of what a histogram took in; NaN if nothing, or if lines are missing."""
        ends = f"{name}_sum", f"{name}_count"
        for page in (self._before, self._after):
            sums, counts = (page.series.get(end, {}).keys() for end in ends)
            if sums != counts:
                return math.nan
        total, count = (self.total(end) for end in ends)
        return total / count if count > 0 else math.nan

    def _only_model(self) -> str:
        gained: dict[str, float] = {}
        for name, series in self._after.series.items():
            for labels, value in series.items():
                model = dict(labels).get("model_name", "")
                earlier = self._before.series.get(name, {}).get(labels, 0.0)
                busy = value - earlier if name.endswith("_total") else 0.0
                gained[model] = gained.get(model, 0.0) + (busy if busy > 0 else 0.0)
        busy_models = sorted(model for model, tokens in gained.items() if tokens > 0)
        named = [model for model in busy_models if model]
        if len(named) > 1:
            raise FormatError(
                f"the pages must be of one model. Got {len(named)} that served requests between "
                f"them ({', '.join(named[:MAX_NAMED])}) instead. Keep the lines of one of them."
            )
        return (named or sorted(model for model in gained if model) or [""])[0]


def difference(
    before: MetricsPage,
    after: MetricsPage,
    place: str = "",
    duration_s: float = math.nan,
    *,
    silent_on: Collection[str] = (),
) -> tuple[Cells, list[str]]:
    """Return what a server did between two pages.

    Parameters
    ----------
    before, after : MetricsPage
        Pages at the two ends of a run.
    place : str
        Which run, for messages.
    duration_s : float, optional
        Time between the pages, s. By default it is taken from their time stamps, which few pages
        have; without it there are no rates, which `rate_cells` adds later.
    silent_on : collection of str
        Leave out notes on ``"latency"`` or ``"acceptance"``, for pages beside a result that has
        figures of its own.

    Returns
    -------
    cells : dict
        Acceptance counters; request count; mean lengths, tokens; mean latencies as the server
        times them, s, and a percentile where its bucket is narrower than a tenth;
        ``_num_arrivals`` and ``_num_output_tokens`` between the pages; rates, 1/s.
    notes : list of str
        What was assumed, the buckets of other percentiles, and what looks wrong.

    Raises
    ------
    FormatError
        If the pages are not of one server process, in this order, and one model.
    """
    where = f"{place}: " if place else ""
    try:
        found = Differences(before, after)
        cells: Cells = {"engine": "vllm", "verifier": " ".join(found.model.split())}
        notes = [_unread(page) for page in (before, after) if page.unread_lines]
        cells |= _requests(found, notes)
        cells |= _latencies(found, [] if "latency" in silent_on else notes)
        cells |= acceptance(found, [] if "acceptance" in silent_on else notes)
        span = after.time_s - before.time_s
        if span <= 0:
            raise FormatError(
                f"the page after must be later than the page before. Got {span:.6g} s between "
                "them instead. Swap them."
            )
    except FormatError as error:
        raise FormatError(f"{where}{error}") from None
    if math.isfinite(after.time_s):
        day = datetime.datetime.fromtimestamp(after.time_s, datetime.UTC)
        cells |= {"_end_s": after.time_s, "date": day.date().isoformat()}
    cells |= rate_cells({**cells, "_duration_s": duration_s if duration_s > 0 else span})
    return {n: v for n, v in cells.items() if not is_blank(v)}, [where + text for text in notes]


def rate_cells(run: Cells) -> Cells:
    """Return the rates of a run between two pages, once its duration is known.

    Parameters
    ----------
    run : dict
        Cells of `difference`, with ``_duration_s``.

    Returns
    -------
    dict
        ``request_rate_rps`` (requests that arrived, counted as finished ones and the change of
        those in flight), ``completed_rate_rps`` and ``output_tokens_per_s`` over the time between
        the pages; empty without a duration. They are of a steady load only if the pages were
        taken under it.

    Examples
    --------
    >>> cells = {"_duration_s": 30.0, "_num_arrivals": 60.0, "num_requests": 57.0}
    >>> rate_cells(cells)["request_rate_rps"]
    2.0
    """
    duration = run.get("_duration_s", math.nan)
    if is_blank(duration) or not duration > 0 or is_blank(run.get("_num_arrivals")):
        return {}
    cells = {
        "_duration_s": duration,
        "request_rate_rps": run["_num_arrivals"] / duration,
        "completed_rate_rps": run.get("num_requests", math.nan) / duration,
        "output_tokens_per_s": run.get("_num_output_tokens", math.nan) / duration,
    }
    return {name: value for name, value in cells.items() if not is_blank(value) and value > 0}


def _refuse_restart(before: MetricsPage, after: MetricsPage) -> None:
    """Raise if counters started anew between the pages, or cannot be compared."""
    started = after.process_start_s - before.process_start_s
    if abs(started) > SAME_TIME_S:
        raise FormatError(
            f"the server's process must be the same at both pages. Got starts {abs(started):.6g} s "
            "apart (process_start_time_seconds) instead: it was started again, and its counters "
            "with it. Take both pages from one server start."
        )
    for name, series in before.series.items():
        if not name.endswith((*NEVER_FALL, "_created")):
            continue
        later = after.series.get(name, {})
        for labels, value in series.items():
            now = later.get(labels)
            if now is None:
                raise _restarted(name, labels, "is there", "gone")
            if name.endswith("_created"):
                if abs(now - value) > SAME_TIME_S:
                    raise _restarted(name, labels, "is of one time", "of another")
            elif not (math.isfinite(value) and math.isfinite(now)):
                raise FormatError(f"{_named(name, labels)} must be a number in both pages.")
            elif now < value:
                raise _restarted(name, labels, f"is {value:.9g}", f"{now:.9g}")


def _restarted(name: str, labels: Labels, was: str, now: str) -> FormatError:
    return FormatError(
        f"{_named(name, labels)} {was} in the page before and {now} in the page after. Counters "
        "must stay and not fall: the server was started again in between, or the pages are swapped "
        "or of two servers. Take both pages from one server start."
    )


def _named(name: str, labels: Labels) -> str:
    words = ", ".join(f"{key}={' '.join(value.split())[:30]}" for key, value in sorted(labels))
    return f"{name} ({words[:120]})" if words else name


def _unread(page: MetricsPage) -> str:
    lines = page.unread_lines
    shown = ", ".join(map(str, lines[:MAX_NAMED])) + (", ..." if len(lines) > MAX_NAMED else "")
    return (
        f"page {page.place}: {len(lines)} lines are no samples and were not read (line {shown} of "
        "the page)."
    )


def _requests(found: Differences, notes: list[str]) -> Cells:
    """Return the number of finished requests and their mean lengths."""
    by_reason = found.by(SUCCESS, lambda labels: labels.get("finished_reason", ""))
    timed = found.total("vllm:e2e_request_latency_seconds_count")
    stopped = sum(n for reason, n in by_reason.items() if reason in UNFINISHED)
    finished = sum(by_reason.values()) - stopped if by_reason else timed
    if math.isfinite(finished) and finished != math.floor(finished):
        raise FormatError(f"{SUCCESS} must count whole requests. Got {finished:.9g} instead.")
    if stopped > 0:
        notes.append(
            f"{stopped:.0f} requests were aborted or failed; the server's means may contain them."
        )
    known = math.isfinite(timed) and math.isfinite(finished)
    if known and timed not in (finished, finished + stopped):
        notes.append(
            f"{finished:.0f} requests finished and {timed:.0f} were timed end to end: their means "
            "are over slightly different requests."
        )
    in_flight = [found.total(name) for name in IN_FLIGHT]
    change = sum(number for number in in_flight if math.isfinite(number))
    cells: Cells = {
        "num_requests": finished,
        "_num_arrivals": max(finished + stopped + change, 0.0),
        "_num_output_tokens": found.total("vllm:generation_tokens_total"),
    }
    for name, histogram in LENGTHS.items():
        cells[name] = found.mean(histogram)
    return cells


def _latencies(found: Differences, notes: list[str]) -> Cells:
    """Return mean latencies, and note between which bounds their percentiles lie."""
    cells: Cells = {}
    for kind, names in LATENCIES.items():
        name = next((n for n in names if f"{n}_count" in found), "")
        if not name or (name == "vllm:time_per_output_token_seconds" and is_old_engine(found)):
            continue
        mean = found.mean(name)
        if not 0 < mean < math.inf:
            continue
        cells[f"mean_{kind}_s"] = mean
        percentiles, message = bounds_of_percentiles(bucket_counts(found.by, name), kind)
        cells |= percentiles
        notes += [message] if message else []
    if cells:
        notes.append(
            "latencies are the server's own: without the network and the client, and over all "
            "requests between the pages, warm-up included."
        )
    return cells
