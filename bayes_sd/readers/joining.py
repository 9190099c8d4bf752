"""What the files beside a result add to its runs; figures of the result itself are kept."""

import datetime
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_sd.exceptions import BayesSdError
from bayes_sd.readers import gauges, prometheus, server_command, vllm_log
from bayes_sd.readers.content import Content
from bayes_sd.readers.joined_cells import (
    ACCEPTANCE,
    COUNTS,
    add_command,
    add_counters,
    add_shared_counters,
    fill,
)
from bayes_sd.readers.reading import Cells, is_blank

WARM_UP_SHARE = 0.15  # of the time over which requests arrive
SHORT_ARRIVALS_S = 5.0  # below it there is no steady part: the mean is over the whole run
SAME_LOAD = 0.5  # tokens per second of log and result may differ by this share of the larger one
ORDER = ("pages", "before", "after", "server", "gauges", "log")
MAX_DURATION_S = 1e8


@dataclass(frozen=True)
class Companion:
    """One file that adds to the runs of another one.

    Attributes
    ----------
    kind : str
        ``pages`` (metrics before and after), ``before``, ``after``, ``gauges``, ``server``,
        ``log``; ``read`` for a page that is read together with the result itself.
    path, result : Path
        The file, and the result that it adds to.
    target : str
        All results that it adds to, for people.
    sweep : str
        Name of the server start, for a server's command.
    """

    kind: str
    path: Path
    result: Path
    target: str
    sweep: str = ""


class Beside:
    """The files that stand beside results."""

    def __init__(self) -> None:
        self._of_result: dict[Path, list[Companion]] = {}
        self._targets: dict[Path, str] = {}
        self._read: dict[tuple[str, Path], Any] = {}

    def add(self, companion: Companion) -> None:
        """Add a file that was found beside a result."""
        self._of_result.setdefault(companion.result, []).append(companion)
        self._targets[companion.path] = companion.target

    def used(self) -> list[tuple[Path, str]]:
        """List the files that add to others, and what they add to."""
        return list(self._targets.items())

    def of(self, result: Path) -> list[Companion]:
        """List the files beside one result, in the order in which they are joined."""
        found = [c for c in self._of_result.get(result, []) if c.kind in ORDER]
        return sorted(found, key=lambda companion: ORDER.index(companion.kind))

    def join(
        self,
        result: Path,
        run: Cells,
        requests: pd.DataFrame | None = None,
        num_runs: int | None = None,
    ) -> tuple[Cells, list[str]]:
        """Add to a run what the files beside its result tell.

        Parameters
        ----------
        result : Path
            File of the run.
        run : dict
            What that file tells. ``_duration_s`` and ``_end_local`` (``YYYYMMDD-HHMMSS``, the
            client's clock) are needed to join a log.
        requests : pandas.DataFrame, optional
            Requests of the run; when they were sent says over which part gauges are averaged.
        num_runs : int, optional
            How many runs the file holds. By default one, or several if the run has an ``_entry``:
            counters and gauges over several runs cannot be told apart.

        Returns
        -------
        cells : dict
            The run's cells and what is added.
        notes : list of str
            Disagreements, and what was not joined.
        """
        single = "_entry" not in run if num_runs is None else num_runs == 1
        cells, notes = dict(run), list[str]()
        found = self.of(result)
        has_pages = any(companion.kind in ("pages", "before") for companion in found)
        for companion in found:
            try:
                if companion.kind in ("pages", "before"):
                    self._join_pages(companion, found, cells, notes, single)
                elif companion.kind == "server":
                    told, said = self._parsed(companion, server_command.read)
                    notes += [f"{companion.path.name}: {text}" for text in said]
                    cells["_server"] = companion.sweep
                    add_command(companion.path.name, cells, told, notes, is_measured=has_pages)
                elif companion.kind == "gauges":
                    self._join_gauges(companion, cells, requests, notes, single)
                elif companion.kind == "log":
                    self._join_log(companion, cells, notes)
                elif not any(c.kind in ("before", "pages") for c in found):
                    notes.append(f"{companion.path.name}: not joined. {prometheus.REMEDY}")
            except BayesSdError as error:
                notes.append(f"{companion.path.name} is not joined: {error}")
        return {n: v for n, v in cells.items() if not is_blank(v)}, notes

    def _parsed(self, companion: Companion, read: Any) -> Any:
        """Read a file once, whatever number of runs it adds to; an error is raised again."""
        key = (companion.kind, companion.path)
        if key not in self._read:
            try:
                self._read[key] = read(Content(companion.path))
            except BayesSdError as error:
                self._read[key] = error
        if isinstance(self._read[key], BayesSdError):
            raise self._read[key]
        return self._read[key]

    def _join_pages(
        self,
        companion: Companion,
        found: list[Companion],
        cells: Cells,
        notes: list[str],
        single: bool,
    ) -> None:
        after = next((c.path for c in found if c.kind == "after"), None)
        if companion.kind == "pages":
            after = None

        is_known = cells.get("method") == "none" or not is_blank(cells.get("num_drafts"))
        silent_on = ("latency", "acceptance") if is_known else ("latency",)

        def read(content: Content) -> tuple[Cells, list[str]]:
            other = None if after is None else Content(after)
            return prometheus.read_pair(content, other, silent_on=silent_on)

        told, said = self._parsed(companion, read)
        place = "its metrics pages"  # no name, so that equal notes of many results are one
        notes += [f"{place}: {text}" for text in said]
        if single:
            add_counters(place, cells, told, notes)
        else:
            add_shared_counters(place, cells, told, notes)

    def _join_gauges(
        self,
        companion: Companion,
        cells: Cells,
        requests: pd.DataFrame | None,
        notes: list[str],
        single: bool,
    ) -> None:
        if not is_blank(cells.get("mean_running_requests")):
            return
        place = "the file of gauges beside it"
        if not single:
            notes.append(
                f"{place} covers several runs: mean_running_requests is not taken from it."
            )
            return
        last = _last_arrival_s(cells, requests)
        if math.isnan(last):
            notes.append(
                f"{place} is not joined: when requests arrived is not known, nor then the steady "
                "part of the run."
            )
            return
        is_steady = last > SHORT_ARRIVALS_S
        part = (WARM_UP_SHARE * last, last) if is_steady else (0.0, math.inf)
        told = gauges.mean_over(Content(companion.path), *part)
        if not told:
            notes.append(
                f"{place} has fewer than {gauges.MIN_SAMPLES} samples in the steady part of the "
                "run: mean_running_requests is not taken from it."
            )
        cells |= told

    def _join_log(self, companion: Companion, cells: Cells, notes: list[str]) -> None:
        place = companion.path.name
        end, duration = _end_local(cells), cells.get("_duration_s", math.nan)
        if end is None or is_blank(duration) or not 0 < duration < MAX_DURATION_S:
            notes.append(f"{place} is not joined: the result does not tell when it ran.")
            return
        found = self._parsed(companion, vllm_log.intervals)
        start = end - datetime.timedelta(seconds=float(duration))
        told, said = vllm_log.cells_between(found, start, end)
        rate, expected = told.pop("_generation_tokens_per_s", 0.0), cells.get("output_tokens_per_s")
        if not told:
            notes.append(
                f"{place} is not joined: no interval of it lies within the run, {start:%m-%d %X} "
                f"to {end:%m-%d %X} by the client's clock."
            )
            return
        if not is_blank(expected) and abs(rate - expected) > SAME_LOAD * max(rate, expected):
            notes.append(
                f"{place} is not joined: it has {rate:.3g} tokens per second over the time of the "
                f"run, and the result {expected:.3g}. The clocks of client and server may be of "
                "two time zones."
            )
            return
        notes += [f"{place}: {text}" for text in said]
        fill(cells, told, ("mean_running_requests",))
        if all(is_blank(cells.get(name)) for name in COUNTS) and cells.get("method") != "none":
            fill(cells, told, ACCEPTANCE)


def _last_arrival_s(cells: Cells, requests: pd.DataFrame | None) -> float:
    """Return when the last request was sent, s after the first one."""
    if requests is not None and "start_s" in requests and len(requests) > 1:
        return float(requests["start_s"].max() - requests["start_s"].min())
    if cells.get("is_throughput_test"):
        return 0.0
    if cells.get("load_kind") == "open":
        rate = cells.get("request_rate_rps", math.nan)
        return (cells.get("num_requests", math.nan) - 1) / rate if rate > 0 else math.nan
    return float(cells.get("_duration_s", math.nan) - cells.get("mean_e2e_s", math.nan))


def _end_local(cells: Cells) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(str(cells.get("_end_local", "")), "%Y%m%d-%H%M%S")
    except ValueError:
        return None
