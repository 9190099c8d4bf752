"""Metrics pages of a vLLM server: from its own address, or from Prometheus's HTTP API [1]_.

Nothing but the standard library. Whatever goes wrong on the way (no server, a time-out, another
status, an answer that is no JSON or of the wrong shape) is one `LiveSourceError`.

References
----------
.. [1] https://prometheus.io/docs/prometheus/latest/querying/api/
"""

import http.client
import json
import math
import urllib.error
import urllib.parse
import urllib.request
import warnings
from collections.abc import Mapping
from typing import Any

from bayes_sd.exceptions import ArgumentError, AssumptionWarning, FormatError, LiveSourceError
from bayes_sd.readers.metrics_page import PROCESS_START, MetricsPage, parse_page

TIMEOUT_S = 10.0
MAX_BYTES = 64 * 2**20
NAMES = (
    "vllm:(spec_decode_.*_total|request_success_total|generation_tokens_total"
    "|e2e_request_latency_seconds_(sum|count)|num_requests_(running|waiting)"
    "|request_(prompt|generation)_tokens_(sum|count))"
)
RUNNING = "vllm:num_requests_running"
SCRAPE_LABELS = ("job", "instance")  # that Prometheus adds


class NoSeriesError(LiveSourceError):
    """A Prometheus server answered, and holds no series of the engine."""


def fetch(url: str, timeout_s: float = TIMEOUT_S) -> str:
    """Return the text at an address.

    Parameters
    ----------
    url : str
        Beginning with http:// or https://.
    timeout_s : float
        Longest wait for an answer, s.

    Raises
    ------
    ArgumentError
        If it is no such address.
    LiveSourceError
        If nothing, or an error, is answered.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ArgumentError(
            f"an address must begin with http:// or https:// and name a host. Got {url!r} instead."
        )
    where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:
            body = answer.read(MAX_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            said = _said(error.read(2000))
        raise LiveSourceError(f"{where} answered status {error.code}{said}.") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        text = f"no answer within {timeout_s:g} s" if isinstance(reason, TimeoutError) else reason
        raise LiveSourceError(
            f"{where} must be a server that answers. Got: {text or type(error).__name__}. Check "
            "the address, and that the server runs."
        ) from None
    if len(body) > MAX_BYTES:
        raise LiveSourceError(f"{where} must answer at most {MAX_BYTES >> 20} MiB. Got more.")
    return str(body.decode("utf-8", errors="replace"))


def _said(body: bytes) -> str:
    """Return the error that a Prometheus server names in its answer."""
    try:
        return f": {json.loads(body)['error']}"
    except (ValueError, KeyError, TypeError):
        return ""


def page_at(url: str, now_s: float, timeout_s: float = TIMEOUT_S) -> MetricsPage:
    """Return the metrics page of an engine, stamped with the time now.

    Parameters
    ----------
    url : str
        Of the page, or of the server: ``/metrics`` is then added.
    now_s : float
        Unix time, s.
    timeout_s : float
        As `fetch`, whose errors it raises.

    Raises
    ------
    FormatError
        If it is no page of vLLM.
    """
    bare = not urllib.parse.urlsplit(url).path.strip("/")
    page = parse_page(fetch(url.rstrip("/") + "/metrics" if bare else url, timeout_s), url)
    page.time_s = now_s
    return page


def pages_between(
    url: str,
    start_s: float,
    end_s: float,
    step_s: float,
    *,
    labels: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> list[MetricsPage]:
    """Return pages of one engine, as a Prometheus server stored it.

    They are asked for at even times, and stamped with the time at which they were scraped: a page
    that Prometheus shows a second time, since none came after it, is left out.

    Parameters
    ----------
    url : str
        Of the Prometheus server.
    start_s, end_s, step_s : float
        Unix times and their distance, s.
    labels : mapping of str to str, optional
        Labels that the series must have, such as ``job``.
    timeout_s : float
        As `fetch`, whose errors it raises.

    Returns
    -------
    list of MetricsPage
        In the order of time; times at which nothing was stored are left out.

    Raises
    ------
    LiveSourceError
        If the answer has no series, or those of several engines.

    Warns
    -----
    AssumptionWarning
        If the server says that its answer may not be whole.
    """
    wanted = "".join(f",{name}={json.dumps(value)}" for name, value in (labels or {}).items())
    query = f'{{__name__=~"{NAMES}"{wanted}}}'
    rows = _range(url, query, start_s, end_s, step_s, timeout_s)
    if not rows:
        raise NoSeriesError(
            f"{url} must hold series of vLLM{' with ' + wanted[1:] if wanted else ''} from "
            f"{start_s:.0f} to {end_s:.0f}. Got none: check the labels and the scrape."
        )
    targets = sorted({tuple(row["metric"].get(n, "") for n in SCRAPE_LABELS) for row in rows})
    if len(targets) > 1:
        named = ", ".join("/".join(target) for target in targets[:4])
        raise LiveSourceError(
            f"the series must be of one engine. Got those of {len(targets)} ({named}): give a "
            "label that only one has, such as instance."
        )
    pages: dict[float, MetricsPage] = {}
    for row in rows:
        metric = dict(row["metric"])
        name = metric.pop("__name__")
        inside = frozenset((k, v) for k, v in metric.items() if k not in SCRAPE_LABELS)
        for time_s, value in row["values"]:
            page = pages.setdefault(time_s, MetricsPage(url, time_s=time_s))
            page.series.setdefault(name, {})[inside] = value
    same = {n: v for n, v in zip(SCRAPE_LABELS, targets[0], strict=True) if v}
    chosen = ",".join(f"{name}={json.dumps(value)}" for name, value in same.items())
    for row in _range(url, f"{PROCESS_START}{{{chosen}}}", start_s, end_s, step_s, timeout_s):
        for time_s, value in row["values"]:
            if time_s in pages:
                pages[time_s].process_start_s = value
    query = f"timestamp({RUNNING}{{{chosen}}})"
    for row in _range(url, query, start_s, end_s, step_s, timeout_s):
        for time_s, scraped_s in row["values"]:
            if time_s in pages and scraped_s <= time_s:
                pages[time_s].time_s = scraped_s
    in_order = {pages[time_s].time_s: pages[time_s] for time_s in sorted(pages, reverse=True)}
    return [in_order[time_s] for time_s in sorted(in_order)]


def _range(
    url: str, query: str, start_s: float, end_s: float, step_s: float, timeout_s: float
) -> list[dict[str, Any]]:
    """Return the rows of a range query; values as numbers."""
    asked = {"query": query, "start": f"{start_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step_s}"}
    text = fetch(f"{url.rstrip('/')}/api/v1/query_range?{urllib.parse.urlencode(asked)}", timeout_s)
    try:
        answer = json.loads(text)
        if answer["status"] != "success" or answer["data"]["resultType"] != "matrix":
            raise FormatError(str(answer.get("error", "no matrix")))
        if answer.get("warnings"):  # of stores that did not answer: Thanos, and federations
            said = "; ".join(map(str, answer["warnings"]))[:200]
            warnings.warn(
                f"{url} says of its answer: {said}. Windows that lack series are left out.",
                AssumptionWarning,
                stacklevel=3,
            )
        return [
            {
                "metric": {str(k): str(v) for k, v in row["metric"].items()},
                "values": [(float(at), _number(value)) for at, value in row["values"]],
            }
            for row in answer["data"]["result"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LiveSourceError(
            f"{url} must answer as Prometheus's HTTP API does. Got {text[:60]!r} "
            f"({type(error).__name__}): is it the address of a Prometheus server?"
        ) from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
