"""Own metrics for scraping, through prometheus-client [1]_: what `bayes-sd drift` last found.

References
----------
.. [1] https://prometheus.github.io/client_python/
"""

import math
from types import TracebackType
from typing import Any, Self

from bayes_sd.drift_report import DriftReport
from bayes_sd.exceptions import ArgumentError
from bayes_sd.live_figures import LiveFigures

PREFIX = "bayes_sd_"
HOST = "127.0.0.1"
MAX_PORT = 65535
GAUGES = {  # name without prefix: what it says, and the label if it has one
    "effective_batch_requests": ("Mean requests in flight that the fit expects at this load", ""),
    "latency_share": ("Share of the mean latency that a part takes", "part"),
    "slo_probability": ("P(SLO met) at this load; NaN without an objective", ""),
    "recommended_draft_tokens": ("Draft length for this load; NaN for none", ""),
    "draft_tokens": ("Draft length that the server is said to run", ""),
    "drift_score": ("Log of the drift statistic over that of its threshold: alarm at 1", "part"),
    "drift_ratio": ("Measured in the last window over expected", "part"),
    "drift_alarm": ("1 if this part was told to have moved, else 0", "part"),
    "window_end_seconds": ("End of the last window, Unix time", ""),
    "source_up": ("1 if the last look at the server was answered, else 0", ""),
}


def parse_address(text: str) -> tuple[str, int]:
    """Read PORT or HOST:PORT; the host is by default this machine alone.

    Raises
    ------
    ArgumentError
        If the port is no whole number from 0 (any free one) to 65535.

    Examples
    --------
    >>> parse_address("9105"), parse_address("0.0.0.0:9105")
    (('127.0.0.1', 9105), ('0.0.0.0', 9105))
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > MAX_PORT:
        raise ArgumentError(
            f"--serve-metrics must be PORT or HOST:PORT, as 9105. Got {text!r} instead."
        )
    return host or HOST, int(port)


class LiveExport:
    """A metrics page of its own, served until it is closed; a context manager.

    Parameters
    ----------
    address : str
        PORT or HOST:PORT; port 0 takes a free one.
    draft_length : int
        That the server is said to run.

    Raises
    ------
    ArgumentError
        If the address is none or taken, or prometheus-client is not installed.
    """

    def __init__(self, address: str, draft_length: int) -> None:
        host, port = parse_address(address)
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
        except ImportError:
            raise ArgumentError(
                "--serve-metrics needs prometheus-client, which is not installed. Install it "
                "with: pip install 'bayes-sd[live]'"
            ) from None
        registry = CollectorRegistry()
        self._gauges: dict[str, Any] = {
            name: Gauge(PREFIX + name, text, [label] if label else [], registry=registry)
            for name, (text, label) in GAUGES.items()
        }
        self._windows = Counter(PREFIX + "windows", "Windows looked at", registry=registry)
        self._failures = Counter(
            PREFIX + "source_failures", "Looks at the server without an answer", registry=registry
        )
        for name, (_, label) in GAUGES.items():
            if not label:
                self._gauges[name].set(math.nan)
        self._gauges["draft_tokens"].set(draft_length)
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            raise ArgumentError(
                f"--serve-metrics must be an address that is free. Got {address!r}: {error}."
            ) from None
        self.url = f"http://{host}:{self._server.server_port}/metrics"

    def looked(self, *, is_failed: bool) -> None:
        """Tell of one look at the server."""
        self._gauges["source_up"].set(0 if is_failed else 1)
        if is_failed:
            self._failures.inc()

    def saw(self, report: DriftReport, num_windows: int) -> None:
        """Tell what the last of some new windows said."""
        self._windows.inc(num_windows)
        last = report.rows[-1]
        self._gauges["window_end_seconds"].set(last["end_s"])
        for stream in report.streams:
            part = stream.part
            self._gauges["drift_score"].labels(part).set(stream.score)
            self._gauges["drift_ratio"].labels(part).set(last[f"{part}_ratio"])
            self._gauges["drift_alarm"].labels(part).set(part in report.moved)
        self._gauges["drift_ratio"].labels("boot").set(report.boot_ratio)
        self._gauges["drift_alarm"].labels("boot").set("boot" in report.moved)

    def figured(self, figures: LiveFigures) -> None:
        """Tell what the fit says of the load of now."""
        self._gauges["effective_batch_requests"].set(figures.effective_batch_requests)
        self._gauges["slo_probability"].set(figures.p_slo_met)
        k = figures.draft_length
        self._gauges["recommended_draft_tokens"].set(math.nan if k is None else k)
        self._gauges["latency_share"].clear()
        for part, share in figures.shares.items():
            self._gauges["latency_share"].labels(part).set(share)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop serving."""
        self.close()
