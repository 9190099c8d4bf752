"""From metrics pages at successive times to windows: counters differenced, gauges averaged."""

import math
from collections.abc import Sequence

from bayes_sd.exceptions import FormatError
from bayes_sd.live_window import LiveWindow
from bayes_sd.readers.metrics_page import MetricsPage
from bayes_sd.readers.scrapes import difference

RUNNING = "vllm:num_requests_running"
GAP = 1.5  # a step between pages longer than so many ordinary ones is a gap


def window_between(pages: Sequence[MetricsPage], duration_s: float | None = None) -> LiveWindow:
    """Return what an engine did from the first of some pages to the last.

    Parameters
    ----------
    pages : sequence of MetricsPage
        At least two, of one server process, with times. Those in between count for the gauge.
    duration_s : float, optional
        By default the time between the ends.

    Raises
    ------
    FormatError
        If counters fell or are gone (a restart), or the pages are of several models.

    Examples
    --------
    >>> window_between([page_before, page_after]).request_rate_rps  # doctest: +SKIP
    2.0
    """
    before, after = pages[0], pages[-1]
    span = after.time_s - before.time_s if duration_s is None else duration_s
    cells, _ = difference(before, after, duration_s=span)
    running = [_running(page) for page in pages[1:]]
    known = [value for value in running if math.isfinite(value)]
    text = str(cells.get("accepted_per_position", ""))
    by_position = tuple(float(count) for count in text.split(";") if count)
    total = float(cells.get("num_accepted_tokens", math.nan))
    accepted = by_position or (() if math.isnan(total) else (total,))
    return LiveWindow(
        span,
        num_requests=float(cells.get("num_requests", math.nan)),
        num_arrivals=float(cells.get("_num_arrivals", math.nan)),
        mean_e2e_s=float(cells.get("mean_e2e_s", math.nan)),
        mean_running_requests=sum(known) / len(known) if known else math.nan,
        num_gauge_samples=max(len(known), 1),
        num_drafts=float(cells.get("num_drafts", math.nan)),
        accepted=accepted,
        process_start_s=after.process_start_s,
        end_s=after.time_s,
    )


def windows_of_pages(
    pages: Sequence[MetricsPage], window_s: float, step_s: float
) -> tuple[list[LiveWindow], list[str]]:
    """Cut pages at even times into windows.

    Parameters
    ----------
    pages : sequence of MetricsPage
        In the order of time.
    window_s, step_s : float
        Length of a window, and ordinary distance of pages, s.

    Returns
    -------
    windows : list of LiveWindow
    notes : list of str
        One for each gap and restart, whose windows are left out.
    """
    windows: list[LiveWindow] = []
    notes: list[str] = []
    held = [pages[0]] if pages else []
    for page in pages[1:]:
        step = page.time_s - held[-1].time_s
        if step > GAP * step_s:
            notes.append(f"no metrics for {step:.0f} s before {page.time_s:.0f}: window left out.")
            held = [page]
            continue
        held.append(page)
        if page.time_s - held[0].time_s < window_s - step_s / 2:
            continue
        try:
            windows.append(window_between(held))
        except FormatError as error:
            notes.append(f"window up to {page.time_s:.0f} left out: {error}")
        held = [page]
    return windows, notes


def _running(page: MetricsPage) -> float:
    values = page.series.get(RUNNING, {}).values()
    return sum(values) if values else math.nan
