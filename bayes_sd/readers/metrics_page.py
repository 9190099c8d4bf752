"""One metrics page in the Prometheus text format [1]_, or in OpenMetrics [2]_, of a vLLM server.

Only series of the engine and the start of its process are kept; the rest of a page, such as the
interpreter's garbage collection, is passed over. Labels may hold any text, braces included.

References
----------
.. [1] https://prometheus.io/docs/instrumenting/exposition_formats/
.. [2] https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bayes_sd.exceptions import FormatError
from bayes_sd.readers.reading import short

type Labels = frozenset[tuple[str, str]]

ENGINE = "vllm:"
OTHER_ENGINE = "sglang:"
PROCESS_START = "process_start_time_seconds"
SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*"
    r'(?:\{(?P<labels>(?:[^"{}]|"(?:[^"\\]|\\.)*")*)\})?'
    r"[ \t]+(?P<value>[^\s#]+)(?:[ \t]+(?P<stamp>[-+0-9.eE]+))?[ \t]*(?:#.*)?"
)
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"')
ESCAPE = re.compile(r"\\(.)")
OPEN_METRICS_END = re.compile(r"^# EOF[ \t]*\r?$", re.MULTILINE)
POSSIBLE_TIMES_S = (1e9, 5e9)  # Unix time from 2001 to 2128


@dataclass
class MetricsPage:
    """What one page says of an engine.

    Attributes
    ----------
    place : str
        Where the page stands, for messages.
    series : dict of str to dict
        By name without its ``{...}``, then by labels: the value.
    process_start_s : float
        Unix time at which the server's process started; NaN if the page does not tell.
    time_s : float
        Unix time of the page, from the stamps of its samples; NaN if they have none.
    unread_lines : list of int
        Numbers of lines of the engine that are no samples, as where a file was cut off.
    """

    place: str
    series: dict[str, dict[Labels, float]] = field(default_factory=dict)
    process_start_s: float = math.nan
    time_s: float = math.nan
    unread_lines: list[int] = field(default_factory=list)


def parse_page(text: str, place: str) -> MetricsPage:
    """Parse one page.

    Parameters
    ----------
    text : str
        The page.
    place : str
        Where it stands, for messages.

    Raises
    ------
    FormatError
        If it has no series of vLLM, or one of them twice.

    Examples
    --------
    >>> page = parse_page('vllm:num_requests_running{engine="0"} 3.0', "page")
    >>> page.series
    {'vllm:num_requests_running': {frozenset({('engine', '0')}): 3.0}}
    """
    page = MetricsPage(place)
    is_other = False
    for number, line in enumerate(text.split("\n"), 1):
        start = line.lstrip()
        if start.startswith(ENGINE):
            _add(page, start.rstrip(), number)
        elif start.startswith(PROCESS_START):
            found = SAMPLE.fullmatch(start.rstrip())
            page.process_start_s = math.nan if found is None else _number(found["value"])
        elif start.startswith(OTHER_ENGINE):
            is_other = True
    if not page.series:
        raise FormatError(_why_empty(page, is_other))
    if not OPEN_METRICS_END.search(text):
        page.time_s *= 1e-3  # milliseconds in the older format
    if not POSSIBLE_TIMES_S[0] < page.time_s < POSSIBLE_TIMES_S[1]:
        page.time_s = math.nan
    return page


def _why_empty(page: MetricsPage, is_other: bool) -> str:
    where = f"{page.place}: " if page.place else ""
    if is_other:  # sglang:spec_accept_length and sglang:spec_accept_rate
        return (
            f"{where}the page is of SGLang, whose acceptance figures are gauges of the moment and "
            "not counters that add up over a run: two pages do not make one. Give the result file "
            "of bench_serving, which has accept_length, or acceptance as side information."
        )
    return (
        f"{where}the page must have series of vLLM, whose names begin with {ENGINE!r}. Got none. "
        "Take it from the /metrics address of the server itself, not of a proxy or exporter."
    )


def _add(page: MetricsPage, line: str, number: int) -> None:
    found = SAMPLE.fullmatch(line)
    value = math.nan if found is None else _number(found["value"])
    if found is None or (math.isnan(value) and found["value"].lower() != "nan"):
        page.unread_lines.append(number)
        return
    labels = frozenset(_labels(found["labels"] or ""))
    values = page.series.setdefault(found["name"], {})
    if labels in values:
        where = f"{page.place}: " if page.place else ""
        raise FormatError(
            f"{where}{short(line)} stands a second time in one page (line {number}). If the file "
            "holds the pages before and after a run, put a line '# before' above the first and "
            "'# after' above the second."
        )
    values[labels] = value
    if found["stamp"]:
        stamp = _number(found["stamp"])
        page.time_s = stamp if math.isnan(page.time_s) else max(page.time_s, stamp)


def _number(text: str) -> float:
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


def _labels(text: str) -> Iterator[tuple[str, str]]:
    for name, value in LABEL.findall(text):
        yield name, ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], value)
