"""From metrics pages at successive times to windows: counters differenced, gauges averaged."""

import math
import statistics
from collections import deque
from collections.abc import Sequence

from bayes_sd.exceptions import ArgumentError, FormatError
from bayes_sd.live_window import LiveWindow
from bayes_sd.readers.metrics_page import MetricsPage
from bayes_sd.readers.scrapes import NEVER_FALL, difference

RUNNING = "vllm:num_requests_running"
GAP = 1.5  # a step between pages longer than so many ordinary ones is a gap
PAGES_IN_WINDOW = 3  # at least, or windows would differ too much in length
SAME_START_S = 1.0
REMEMBERED = 20  # steps between pages that tell what is ordinary


def window_between(
    pages: Sequence[MetricsPage],
    duration_s: float | None = None,
    process_start_s: float = math.nan,
) -> LiveWindow:
    """Return what an engine did from the first of some pages to the last.

    Parameters
    ----------
    pages : sequence of MetricsPage
        At least two, of one server process, with times. Those in between count for the gauge.
    duration_s : float, optional
        By default the time between the ends.
    process_start_s : float, optional
        Stands for the start of the process where pages do not tell it, s.

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
        process_start_s=process_start_s if math.isnan(told := after.process_start_s) else told,
        end_s=after.time_s,
        var_running_requests=statistics.variance(known) if len(known) > 1 else math.nan,
    )


class WindowCutter:
    """Cuts pages into windows as they come.

    A page taken twice is passed over. A gap and a restart end what was begun, which is left out,
    and a new window begins at the next page: so no window spans either. Where a restart shows
    only in counters that fell, the time of the first page after it stands for the process's start.

    Parameters
    ----------
    window_s : float
        Length of a window, s.
    step_s : float
        Ordinary distance of pages, s; where pages prove to be further apart, theirs.
    """

    def __init__(self, window_s: float, step_s: float) -> None:
        self._window_s, self._step_s = window_s, step_s
        self._held: list[MetricsPage] = []
        self._steps: deque[float] = deque(maxlen=REMEMBERED)
        self._boot_s = math.nan

    @property
    def last_s(self) -> float:
        """Time of the last page, Unix time, s; NaN before the first."""
        return self._held[-1].time_s if self._held else math.nan

    def add(self, page: MetricsPage) -> tuple[LiveWindow | None, str | None]:
        """Take in the next page; return the window that it ends, and what is to be told, if any.

        Raises
        ------
        ArgumentError
            If pages are too far apart for windows of this length.
        """
        if not self._held:
            self._held = [page]
            return None, None
        last = self._held[-1]
        step = page.time_s - last.time_s
        if not step > 0:
            return None, None
        ordinary = self._ordinary(step)
        note = self._break(last, page, step, ordinary)
        if note is not None:
            self._held = [page]
            return None, note
        self._held.append(page)
        if page.time_s - self._held[0].time_s < self._window_s - ordinary / 2:
            return None, None
        held, self._held = self._held, [page]
        try:
            return window_between(held, process_start_s=self._boot_s), None
        except FormatError as error:
            return None, f"window up to {page.time_s:.0f} left out: {error}"

    def _ordinary(self, step: float) -> float:
        """Return the distance of pages that is no gap, s, this one's step included."""
        self._steps.append(step)
        found = max(self._step_s, statistics.median(self._steps))
        if len(self._steps) > PAGES_IN_WINDOW and found * PAGES_IN_WINDOW > self._window_s:
            raise ArgumentError(
                f"a window must be at least {PAGES_IN_WINDOW} times as long as the distance of "
                f"metrics pages, {found:.3g} s. Got {self._window_s:g} s instead: make windows "
                "longer, or scrape more often."
            )
        return found

    def _break(
        self, last: MetricsPage, page: MetricsPage, step: float, ordinary: float
    ) -> str | None:
        """Return why no window can span two pages, or None."""
        if abs(page.process_start_s - last.process_start_s) > SAME_START_S:
            return f"the server was started again before {page.time_s:.0f}: a new window begins."
        if math.isnan(page.process_start_s) and _fell(last, page):
            self._boot_s = page.time_s
            return (
                f"counters fell before {page.time_s:.0f}, so the server was started again: a new "
                "window begins."
            )
        if step > min(GAP * ordinary, self._window_s):
            return f"no metrics for {step:.0f} s before {page.time_s:.0f}: window left out."
        return None


def windows_of_pages(
    pages: Sequence[MetricsPage], window_s: float, step_s: float
) -> tuple[list[LiveWindow], list[str]]:
    """Cut pages into windows, as `WindowCutter` does.

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
    cutter = WindowCutter(window_s, step_s)
    found = [cutter.add(page) for page in pages]
    return [w for w, _ in found if w is not None], [n for _, n in found if n is not None]


def _fell(before: MetricsPage, after: MetricsPage) -> bool:
    """Tell whether any counter of both pages is lower in the later one."""
    return any(
        after.series.get(name, {}).get(labels, value) < value
        for name, series in before.series.items()
        if name.endswith(NEVER_FALL)
        for labels, value in series.items()
    )


def _running(page: MetricsPage) -> float:
    values = page.series.get(RUNNING, {}).values()
    return sum(values) if values else math.nan
