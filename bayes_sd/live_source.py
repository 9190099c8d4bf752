"""Windows of a live server as they come: out of Prometheus, or from the engine's own page."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from bayes_sd.exceptions import FormatError, LiveSourceError
from bayes_sd.live_window import LiveWindow
from bayes_sd.prometheus_api import TIMEOUT_S, NoSeriesError, page_at, pages_between
from bayes_sd.prometheus_windows import WindowCutter
from bayes_sd.readers.metrics_page import MetricsPage

SAMPLES = 12  # pages asked for within a window
LOOKS = 4  # at a Prometheus server within a window
MAX_POINTS = 2000  # of one range query; Prometheus answers at most 11,000


@dataclass
class Poll:
    """What one look at a server brought.

    Attributes
    ----------
    windows : list of LiveWindow
        Those that ended since the look before, in their order.
    notes : list of str
        What is to be told: gaps, restarts, no answer.
    is_failed : bool
        Whether the server gave no answer that could be used.
    """

    windows: list[LiveWindow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_failed: bool = False


def stored_windows(
    url: str,
    window_s: float,
    since_s: float,
    *,
    labels: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[Poll]:
    """Yield what a Prometheus server holds, and then what comes, for ever.

    Parameters
    ----------
    url : str
        Of the Prometheus server.
    window_s, since_s : float
        Length of a window, and how far to look back at the start, s.
    labels : mapping of str to str, optional
        Labels that the engine's series must have.
    timeout_s : float
        Longest wait for an answer, s.
    clock, sleep : callable
        Unix time, s, and a wait of so many seconds.

    Yields
    ------
    Poll
        The first holds all that is stored. After an error the same span is asked for again.

    Raises
    ------
    ArgumentError
        If the address is none, or pages are too far apart for the windows.
    LiveSourceError
        If the first look fails.
    """
    step_s, wait_s = window_s / SAMPLES, window_s / LOOKS
    cutter = WindowCutter(window_s, step_s)
    start_s, answered = clock() - since_s, False
    while True:
        now_s = clock()
        found = Poll()
        try:
            while start_s < now_s:
                end_s = min(now_s, start_s + MAX_POINTS * step_s)
                try:
                    pages = pages_between(
                        url, start_s, end_s, step_s, labels=labels, timeout_s=timeout_s
                    )
                except NoSeriesError:
                    if end_s >= now_s:
                        raise
                    pages = []  # from before the engine ran
                for page in pages:
                    _take(cutter, page, found)
                # from the last page on, which is passed over, for a step may hold a later scrape
                start_s = end_s if math.isnan(cutter.last_s) else max(cutter.last_s, end_s - step_s)
                answered = True
                if end_s >= now_s:
                    break
        except (LiveSourceError, FormatError) as error:
            if not answered:
                raise
            _fail(found, error, wait_s)
        yield found
        sleep(wait_s)


def page_windows(
    url: str,
    window_s: float,
    *,
    timeout_s: float = TIMEOUT_S,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[Poll]:
    """Yield windows of an engine's own metrics page, taken several times in each, for ever.

    Parameters
    ----------
    url : str
        Of the engine or of its page.
    window_s, timeout_s, clock, sleep
        As `stored_windows`, whose errors it raises.

    Yields
    ------
    Poll
        One for each page taken; most of them end no window.
    """
    step_s = window_s / SAMPLES
    cutter = WindowCutter(window_s, step_s)
    while True:
        found = Poll()
        try:
            _take(cutter, page_at(url, clock(), timeout_s), found)
        except (LiveSourceError, FormatError) as error:
            if math.isnan(cutter.last_s):
                raise
            _fail(found, error, step_s)
        yield found
        sleep(step_s)


def _take(cutter: WindowCutter, page: MetricsPage, found: Poll) -> None:
    window, note = cutter.add(page)
    if window is not None:
        found.windows.append(window)
    if note is not None:
        found.notes.append(note)


def _fail(found: Poll, error: Exception, wait_s: float) -> None:
    found.is_failed = True
    found.notes.append(f"{error} Trying again in {wait_s:g} s.")
