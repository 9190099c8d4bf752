"""Command ``drift``: a live server against a fit, on an interval."""

import math
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_sd.cli_drift_show import Screen, WindowLog, table_of
from bayes_sd.cli_options import (
    MAX_NUM_SEQS,
    FitFile,
    InputLen,
    Json,
    MaxNumSeqs,
    OutputLen,
    Pair,
    Quiet,
    pair_or_only,
)
from bayes_sd.cli_output import heading, show, spoken_warnings, tell, working, write_json
from bayes_sd.exceptions import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bayes_sd.drift_report import DriftReport
    from bayes_sd.live_figures import LiveFigures
    from bayes_sd.live_source import Poll


def drift(
    fit_file: FitFile,
    prometheus: Annotated[
        str | None, typer.Option(help="Address of a Prometheus server.", metavar="URL")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Address of the engine's own metrics page.", metavar="URL")
    ] = None,
    pair: Pair = None,
    draft_length: Annotated[
        int, typer.Option("--draft-length", "-k", help="Draft length that the server runs.")
    ] = 0,
    rate: Annotated[
        float | None,
        typer.Option(help="Rate that is expected, requests/s; without it load is not watched."),
    ] = None,
    slo: Annotated[
        str | None,
        typer.Option(help="Objective whose P(SLO met) is told, as 'e2e_p95 <= 2'.", metavar="TERM"),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="Label of the engine's series, as job=vllm. Repeatable.", metavar="N=V"),
    ] = None,
    window: Annotated[float, typer.Option(help="Length of a window, s.")] = 300.0,
    since: Annotated[
        float, typer.Option(help="With --prometheus: how far to look back at the start, s.")
    ] = 3600.0,
    false_alarm: Annotated[
        float, typer.Option(help="Probability of any false alarm within a day, at most.")
    ] = 0.01,
    timeout: Annotated[float, typer.Option(help="Longest wait for an answer, s.")] = 10.0,
    input_len: InputLen = None,
    output_len: OutputLen = None,
    max_num_seqs: MaxNumSeqs = MAX_NUM_SEQS,
    log: Annotated[
        Path | None, typer.Option(help="Append one JSON object per window to this file.")
    ] = None,
    serve_metrics: Annotated[
        str | None,
        typer.Option(
            help="Serve own metrics for scraping; of this machine alone unless HOST is given.",
            metavar="[HOST:]PORT",
        ),
    ] = None,
    windows: Annotated[
        int | None, typer.Option(help="Stop after so many windows.", metavar="N")
    ] = None,
    once: Annotated[bool, typer.Option(help="Stop after what is there, or one window.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Watch a live server against a fit: which part moved.

    Says which draft length fits the load of now, too. Runs until Ctrl-C unless --once or
    --windows is given; with --quiet the answer is shown at the end alone.
    """
    if (prometheus is None) == (metrics is None):
        raise ArgumentError("drift needs --prometheus URL or --metrics URL, one of them.")
    _positive(window=window, since=since, timeout=timeout)
    if windows is not None and windows < 1:
        raise ArgumentError(f"--windows must be at least 1. Got {windows} instead.")
    labels = _labels(label)
    if json and not (once or windows):
        raise ArgumentError("--json must come with --once; --log writes a line for each window.")
    with spoken_warnings() as said, ExitStack() as opened:
        from bayes_sd.drift import DriftMonitor
        from bayes_sd.live_source import page_windows, stored_windows
        from bayes_sd.render import render_convergence
        from bayes_sd.scenario import Scenario
        from bayes_sd.storage import load

        tree = load(fit_file)
        scenario = Scenario(
            pair_or_only(tree, pair),
            request_rate_rps=1.0 if rate is None else rate,
            num_speculative_tokens=draft_length,
            input_len_tokens=input_len,
            output_len_tokens=output_len,
            max_num_seqs=max_num_seqs,
        )
        monitor = DriftMonitor(
            tree,
            scenario,
            false_alarm=false_alarm,
            watch_load=rate is not None,
            window_s=window,
        )
        if not json:
            show(render_convergence(monitor.note))
        watch = _Watch(tree, monitor, slo, windows, is_shown=not (once or json or quiet))
        watch.open(opened, log, serve_metrics, draft_length, quiet=quiet)
        opened.enter_context(working("Reading windows.", quiet=quiet or not once))
        found = (
            stored_windows(prometheus, window, since, labels=labels, timeout_s=timeout)
            if prometheus is not None
            else page_windows(str(metrics), window, timeout_s=timeout)
        )
        is_stopped = False
        try:
            watch.follow(found, is_stored=prometheus is not None, once=once)
        except KeyboardInterrupt:
            is_stopped = True
    report, figures = watch.report, watch.figures
    if is_stopped:  # by Ctrl-C, which is how an endless watch ends: what was found stays last
        if not quiet:
            tell(f"bayes-sd: stopped after {watch.count} window{'s' * (watch.count != 1)}.")
        if report is not None and not json:
            typer.echo(report.statement())
        raise KeyboardInterrupt
    if report is None or figures is None:
        raise ArgumentError("no whole window was found: give a longer --since or shorter --window.")
    if json:
        document = heading("drift", report.convergence) | report.to_dict() | figures.to_dict()
        write_json(document | {"warnings": said})
    elif once or quiet:
        show(table_of(report, figures))
        show(report.statement())


class _Watch:
    """The loop of the command: looks, windows, and what goes where."""

    def __init__(
        self, tree: Any, monitor: Any, slo: str | None, most: int | None, *, is_shown: bool
    ) -> None:
        from bayes_sd.live_figures import LATEST
        from bayes_sd.slo import as_slo

        self._tree, self._monitor, self._most = tree, monitor, most
        self._slo = None if slo is None else as_slo(slo)
        self._latest: deque[Any] = deque(maxlen=LATEST)
        self._screen = Screen(is_live=is_shown)
        self._export: Any = None
        self.count = 0
        self.report: DriftReport | None = None
        self.figures: LiveFigures | None = None

    def open(
        self,
        opened: ExitStack,
        log: Path | None,
        serve_metrics: str | None,
        draft_length: int,
        *,
        quiet: bool,
    ) -> None:
        """Open the log, the own metrics page and the screen."""
        self._log = opened.enter_context(WindowLog(log))
        if serve_metrics is not None:
            from bayes_sd.live_export import LiveExport

            self._export = opened.enter_context(LiveExport(serve_metrics, draft_length))
            if not quiet:
                tell(f"bayes-sd: own metrics at {self._export.url}")
        opened.enter_context(self._screen)

    def follow(self, found: "Iterator[Poll]", *, is_stored: bool, once: bool) -> None:
        """Take in looks until there is to be no other."""
        for look in found:
            for note in look.notes:
                self._screen.note(note)
            if self._export is not None:
                self._export.looked(is_failed=look.is_failed)
            left = None if self._most is None else self._most - self.count
            if new := look.windows[:left]:
                self._take(new)
            is_done = once and (is_stored or bool(new))
            if is_done or self.count == self._most:
                return

    def _take(self, new: list[Any]) -> None:
        from bayes_sd.live_figures import live_figures

        for i, each in enumerate(new):
            report = self.report = self._monitor.see(each)
            self.count += 1
            self._latest.append(each)
            told = None
            if i == len(new) - 1:
                self.figures = live_figures(
                    self._tree,
                    list(self._latest),
                    self._monitor.scenario,
                    slo=self._slo,
                    use_counts="acceptance" in report.moved,
                )
                told = report.to_dict() | self.figures.to_dict()
            self._log.add(each, report.rows[-1], told)
        assert self.report is not None
        assert self.figures is not None
        self._screen.update(self.report, self.figures)
        if self._export is not None:
            self._export.saw(self.report, len(new))
            self._export.figured(self.figures)


def _labels(listed: list[str] | None) -> dict[str, str]:
    found = {}
    for text in listed or []:
        name, equals, value = text.partition("=")
        if not equals or not name.replace("_", "a").isalnum():
            raise ArgumentError(f"--label must be as job=vllm. Got {text!r} instead.")
        found[name] = value
    return found


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise ArgumentError(f"--{name} must be above 0 s. Got {value!r} instead.")
