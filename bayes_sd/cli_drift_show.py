"""What command ``drift`` shows: a live table on a terminal, lines otherwise, and its log."""

import json
import math
import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer

from bayes_sd.cli_output import plain, tell
from bayes_sd.exceptions import ArgumentError

if TYPE_CHECKING:
    from bayes_sd.drift_report import DriftReport
    from bayes_sd.live_figures import LiveFigures
    from bayes_sd.live_window import LiveWindow


class WindowLog:
    """A file of one JSON object per window, to which whole lines are added.

    Each line is one write to the end of the file, so an interrupt leaves no half of one.

    Parameters
    ----------
    path : Path or None
        None writes nothing.

    Raises
    ------
    ArgumentError
        If it cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: int | None = None
        if path is None:
            return
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":  # as a full disk leaves it
                os.write(self._file, b"\n")
        except OSError as error:
            raise self._refused(error) from None

    def add(
        self, window: "LiveWindow", row: dict[str, float], report: dict[str, Any] | None
    ) -> None:
        """Add a window, with what was found if it is the latest."""
        if self._file is None:
            return
        names = ("request_rate_rps", "mean_e2e_s", "mean_running_requests", "acceptance_length")
        line = {name: getattr(window, name) for name in names} | row | (report or {})
        text = json.dumps(plain(line), allow_nan=False) + "\n"
        try:
            os.write(self._file, text.encode())
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> ArgumentError:
        return ArgumentError(f"--log must be a file that can be written. Got {self._path}: {error}")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)


class Screen:
    """A table that is drawn anew on a terminal; one line per look where output is a file or pipe.

    Parameters
    ----------
    is_live : bool
        Whether anything is shown before the end.
    """

    def __init__(self, *, is_live: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        self._is_live = is_live
        console = Console(highlight=False)
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def note(self, text: str) -> None:
        """Tell of a gap, a restart or no answer; above the table, on stderr."""
        tell(f"note: {text}")

    def update(self, report: "DriftReport", figures: "LiveFigures") -> None:
        """Show what the latest window says."""
        if not self._is_live:
            return
        if self._live is None:
            typer.echo(line_of(report, figures))  # one line, however long
        else:
            self._live.update(table_of(report, figures), refresh=True)

    def __enter__(self) -> Self:
        """Begin the table."""
        if self._is_live and self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the last table where it is, and the cursor below."""
        if self._is_live and self._live is not None:
            self._live.stop()


def line_of(report: "DriftReport", figures: "LiveFigures") -> str:
    """Return the latest window in one line."""
    last = report.rows[-1]
    parts = [f"window {len(report.rows)}"]
    for stream in report.streams:
        ratio = last[f"{stream.part}_ratio"]
        if math.isfinite(ratio):
            state = "MOVED" if stream.part in report.moved else f"score {stream.score:.2f}"
            parts.append(f"{stream.part} {ratio:.3f} ({state})")
    if math.isfinite(figures.p_slo_met):
        parts.append(f"P(SLO) {figures.p_slo_met:.2f}")
    parts.append(figures.reason)
    return "; ".join(parts)


def table_of(report: "DriftReport", figures: "LiveFigures") -> Any:
    """Return a table: what the last window says, how near an alarm is, and what to run."""
    from rich.table import Table

    table = Table(
        title=f"{report.label}: window {len(report.rows)}", caption=_caption(report, figures)
    )
    for name in ("part", "measured / expected", "score (alarm at 1)", "10 % is told in"):
        table.add_column(name)
    last = report.rows[-1]
    for stream in report.streams:
        ratio = last[f"{stream.part}_ratio"]
        told = stream.detects_10_percent_s
        state = "MOVED" if stream.part in report.moved else f"{stream.score:.2f}"
        table.add_row(
            stream.part,
            f"{ratio:.3f}" if math.isfinite(ratio) else "not known",
            state if math.isfinite(stream.score) else "not watched",
            f"{told:.0f} s" if math.isfinite(told) else "",
        )
    if math.isfinite(report.boot_ratio):
        table.add_row("boot", f"{report.boot_ratio:.3f}", "told" * ("boot" in report.moved), "")
    return table


def _caption(report: "DriftReport", figures: "LiveFigures") -> str:
    parts = [report.statement()] if report.moved else []
    if math.isfinite(figures.effective_batch_requests):
        shares = ", ".join(f"{part} {share:.0%}" for part, share in figures.shares.items())
        batch = f"{figures.effective_batch_requests:.1f}"
        parts.append(f"Expected in flight: {batch} requests. Latency goes to: {shares}.")
    if math.isfinite(figures.p_slo_met):
        parts.append(f"P(SLO met) is {figures.p_slo_met:.2f}.")
    return "\n".join([*parts, figures.reason])
