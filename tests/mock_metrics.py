"""A metrics page in the text format of Prometheus, as the client library of vLLM writes it."""

from collections.abc import Mapping, Sequence

BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 50.0, 100.0)  # s, or tokens


class MetricsText:
    """Lines of a metrics page."""

    def __init__(self, model: str, start_s: float) -> None:
        self.labels = {"engine": "0", "model_name": model}
        self.start_s = start_s
        self.lines = ["# TYPE process_start_time_seconds gauge"]
        self.lines.append(f"process_start_time_seconds {start_s!r}")

    def counter(self, name: str, values: Mapping[str, float], label: str = "") -> None:
        """Add a counter, by the values of one more label; all samples of a name stand together."""
        for whole, kind in ((f"{name}_total", "counter"), (f"{name}_created", "gauge")):
            self._head(whole, kind)
            for text, value in values.items():
                shown = value if kind == "counter" else self.start_s
                self._line(whole, shown, {label: text} if label else {})

    def gauge(self, name: str, value: float) -> None:
        self._head(name, "gauge")
        self._line(name, value, {})

    def histogram(self, name: str, values: Sequence[float]) -> None:
        self._head(name, "histogram")
        for end in BUCKETS:
            self._line(f"{name}_bucket", sum(v <= end for v in values), {"le": repr(end)})
        self._line(f"{name}_bucket", len(values), {"le": "+Inf"})
        self._line(f"{name}_count", len(values), {})
        self._line(f"{name}_sum", sum(values), {})

    def _head(self, name: str, kind: str) -> None:
        self.lines += [f"# HELP {name} As vLLM counts it.", f"# TYPE {name} {kind}"]

    def _line(self, name: str, value: float, labels: dict[str, str]) -> None:
        inside = ",".join(f'{key}="{text}"' for key, text in {**self.labels, **labels}.items())
        self.lines.append(f"{name}{{{inside}}} {float(value)!r}")
