"""Command ``drift``: a live server against a fit, on an interval."""

import json as json_module
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_sd.cli_ask import MAX_NUM_SEQS
from bayes_sd.cli_options import FitFile, InputLen, Json, MaxNumSeqs, OutputLen, Pair, pair_or_only
from bayes_sd.cli_output import plain, show, spoken_warnings, tell, write_json
from bayes_sd.exceptions import ArgumentError, BayesSdError

if TYPE_CHECKING:
    from bayes_sd.drift_report import DriftReport
    from bayes_sd.live_window import LiveWindow

SAMPLES = 12  # of the gauge within a window


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
    once: Annotated[bool, typer.Option(help="Stop after what is there, or one window.")] = False,
    json: Json = False,
) -> None:
    """Compare a live server with a fit, and say which part moved.

    Example: bayes-sd drift fit.nc --prometheus http://localhost:9090 --pair quick -k 3 --once
    """
    if (prometheus is None) == (metrics is None):
        raise ArgumentError("drift needs --prometheus URL or --metrics URL, one of them.")
    _positive(window=window, since=since, timeout=timeout)
    labels = _labels(label)
    if json and not once:
        raise ArgumentError("--json must come with --once; --log writes a line for each window.")
    with spoken_warnings() as said:
        from bayes_sd.drift import DriftMonitor
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
        monitor = DriftMonitor(tree, scenario, false_alarm=false_alarm, watch_load=rate is not None)
        if prometheus is not None:
            found = _from_prometheus(prometheus, window, since, timeout, labels, once=once)
        else:
            found = _from_page(str(metrics), window, timeout, once=once)
        report = None
        for each in found:
            report = monitor.see(each)
            _write_log(log, each, report)
            if not once:
                show(_table(report))
    if report is None:
        raise ArgumentError("no whole window was found: give a longer --since or shorter --window.")
    if json:
        write_json({"command": "drift", **report.to_dict(), "warnings": said})
    elif once:
        show(_table(report))
        show(report.statement())


def _from_prometheus(
    url: str,
    window_s: float,
    since_s: float,
    timeout_s: float,
    labels: dict[str, str],
    *,
    once: bool,
) -> Iterator["LiveWindow"]:
    """Yield windows that a Prometheus server holds, and wait for more unless ``once``."""
    from bayes_sd.prometheus_api import pages_between
    from bayes_sd.prometheus_windows import windows_of_pages

    step_s = window_s / SAMPLES
    start_s = time.time() - since_s
    while True:
        end_s = time.time()
        try:
            pages = pages_between(url, start_s, end_s, step_s, labels=labels, timeout_s=timeout_s)
        except BayesSdError as error:
            if once:
                raise
            tell(f"bayes-sd: {error} Trying again in {window_s:g} s.")
            time.sleep(window_s)
            continue
        windows, notes = windows_of_pages(pages, window_s, step_s)
        for note in notes:
            tell(f"note: {note}")
        yield from windows
        if once:
            return
        if windows:
            start_s = windows[-1].end_s
        elif notes:
            start_s = pages[-1].time_s
        time.sleep(window_s)


def _from_page(
    url: str, window_s: float, timeout_s: float, *, once: bool
) -> Iterator["LiveWindow"]:
    """Yield windows of an engine's own page, taken several times in each."""
    from bayes_sd.prometheus_api import page_at
    from bayes_sd.prometheus_windows import windows_of_pages

    step_s = window_s / SAMPLES
    pages: list[Any] = []
    while True:
        try:
            pages.append(page_at(url, time.time(), timeout_s))
        except BayesSdError as error:
            if once or not pages:
                raise
            tell(f"bayes-sd: {error} Trying again in {step_s:g} s.")
        windows, notes = windows_of_pages(pages, window_s, step_s)
        for note in notes:
            tell(f"note: {note}")
        yield from windows
        if windows and once:
            return
        if windows or notes:
            pages = pages[-1:]
        time.sleep(step_s)


def _write_log(path: Path | None, window: "LiveWindow", report: "DriftReport") -> None:
    if path is None:
        return
    line = {"request_rate_rps": window.request_rate_rps, "mean_e2e_s": window.mean_e2e_s}
    line |= {"mean_running_requests": window.mean_running_requests}
    line |= {"acceptance_length": window.acceptance_length}
    text = json_module.dumps(plain(line | report.to_dict()), allow_nan=False)
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise ArgumentError(f"--log must be a file that can be written. Got: {error}") from None


def _table(report: "DriftReport") -> Any:
    """Return the parts as a table: what the last window says, and how near an alarm is."""
    from rich.table import Table

    table = Table(title=f"{report.label}: window {len(report.rows)}")
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
