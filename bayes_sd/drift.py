"""Live metrics against a fit: has anything moved, and which part.

Four parts. **Acceptance**: tokens per step. **Cost**: latency at the measured batch and the
measured tokens per step, so neither a higher load nor lower acceptance counts as cost. **Boot**: a
change of latency at a restart, of a size that boots have. **Load**: arrivals against the
scenario's rate. How false alarms are bounded: `bayes_sd.drift_streams`.
"""

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr

from bayes_sd.decide import warn_first
from bayes_sd.drift_report import DriftReport, StreamState
from bayes_sd.drift_streams import windows_to_detect
from bayes_sd.drift_watch import BOOT_TOLD_SD, STREAMS, DriftWatch, batch_of
from bayes_sd.exceptions import ArgumentError
from bayes_sd.live_reference import LiveReference
from bayes_sd.live_window import LiveWindow, windows_of
from bayes_sd.posterior import fitted_pairs
from bayes_sd.scenario import Scenario
from bayes_sd.validate import positive, probability

FALSE_ALARM = 0.01  # probability of any false alarm within a day
LOAD_TOLERANCE = 1.5
SAME_START_S = 1.0
SAME_LENGTH = 1.5  # windows longer or shorter by more than this factor are refused
TOLD_CHANGE = 0.1  # the change whose time to detect is told


class DriftMonitor:
    """One live server against a fit, window after window: what `check_drift` does, as they come.

    Parameters
    ----------
    tree, scenario, false_alarm, load_tolerance, random_seed
        As `check_drift`.
    watch_load : bool
        Whether arrivals are compared with the scenario's rate.
    window_s : float, optional
        Length that windows are to have, s; by default that of the first.

    Notes
    -----
    The threshold is that of a day of the shortest windows that are let through.
    """

    def __init__(
        self,
        tree: xr.DataTree,
        scenario: Scenario,
        *,
        false_alarm: float = FALSE_ALARM,
        load_tolerance: float = LOAD_TOLERANCE,
        watch_load: bool = True,
        window_s: float | None = None,
        random_seed: int = 0,
    ) -> None:
        probability(false_alarm, "false_alarm", ends=False)
        if positive(load_tolerance, "load_tolerance") <= 1 or load_tolerance >= 2:
            raise ArgumentError(
                f"load_tolerance must be above 1 and below 2. Got {load_tolerance!r} instead."
            )
        self.note = warn_first(tree)
        self.scenario, self.false_alarm = scenario, false_alarm
        self._tolerance, self._watch_load = load_tolerance, watch_load
        self.reference = LiveReference.of(tree, scenario, random_seed)
        self._watch: DriftWatch | None = None
        self._rows: list[dict[str, float]] = []
        self._alarms: dict[str, int] = {}
        self._start_s = math.nan
        self._window_s = math.nan if window_s is None else positive(window_s, "window_s", unit="s")

    def see(self, window: LiveWindow) -> DriftReport:
        """Take in the next window, and say what moved up to now."""
        if self._watch is None:
            if math.isnan(self._window_s):
                self._window_s = window.duration_s
            self._watch = DriftWatch(
                self.reference,
                1,
                self._window_s / SAME_LENGTH,
                self.false_alarm,
                self._tolerance,
                watch_load=self._watch_load,
            )
        self._check_drafts(window)
        ratio = window.duration_s / self._window_s
        if not 1 / SAME_LENGTH <= ratio <= SAME_LENGTH:
            raise ArgumentError(
                f"windows must be about as long as the first, or {self._window_s:g} s: the rate of "
                f"false alarms rests on it. Got {window.duration_s:g} s instead."
            )
        fresh = abs(window.process_start_s - self._start_s) > SAME_START_S
        if math.isfinite(window.process_start_s):
            self._start_s = window.process_start_s
        moved, told = self._watch.see(batch_of(window, is_new_boot=bool(fresh)))
        number = len(self._rows)
        row = {"end_s": window.end_s, "is_new_boot": float(fresh)}
        for part in STREAMS:
            row[f"{part}_ratio"] = float(np.exp(moved[part][0]))
            row[f"{part}_score"] = float(told[part][0] / self._watch.threshold)
            if part in self._watch.variance:
                row[f"{part}_z"] = float(moved[part][0]) / self._watch.variance[part] ** 0.5
            if row[f"{part}_score"] >= 1:
                self._alarms.setdefault(part, number)
        if self._watch.boot_z[0] >= BOOT_TOLD_SD and "cost" not in self._alarms:
            self._alarms.setdefault("boot", number)
        self._rows.append(row)
        return self._report(window.duration_s)

    def _check_drafts(self, window: LiveWindow) -> None:
        """Refuse a window of another draft length than the scenario's."""
        k, positions = self.scenario.num_speculative_tokens, len(window.accepted)
        if (positions not in (0, 1, k)) or (k == 0 and window.num_drafts > 0):
            raise ArgumentError(
                f"the server must run the draft length that was named, {k}. Got a window with "
                f"drafts at {max(positions, 1)} position{'s' if positions > 1 else ''}: name the "
                "draft length that it runs now."
            )

    def _report(self, window_s: float) -> DriftReport:
        watch = self._watch
        assert watch is not None
        states = tuple(
            StreamState(
                part,
                self._rows[-1][f"{part}_score"],
                windows_to_detect(
                    float(np.log1p(TOLD_CHANGE)), watch.variance[part], watch.threshold
                )
                * window_s
                if part in watch.variance and math.isfinite(watch.variance[part])
                else math.nan,
            )
            for part in STREAMS
        )
        return DriftReport(
            tuple(sorted(self._alarms, key=lambda part: self._alarms[part])),
            dict(self._alarms),
            states,
            float(np.exp(watch.boot_shift[0])),
            tuple(self._rows),
            self.false_alarm,
            self.scenario.label,
            self.note,
        )


def check_drift(
    tree: xr.DataTree,
    live: object,
    scenario: Scenario | None = None,
    *,
    false_alarm: float = FALSE_ALARM,
    load_tolerance: float = LOAD_TOLERANCE,
    random_seed: int = 0,
) -> DriftReport:
    """Compare windows of live metrics with a fit, and say which part moved.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    live : LiveWindow, sequence of LiveWindow, or pandas.DataFrame
        Windows in their order, of equal length.
    scenario : Scenario, optional
        What the server runs; its rate is what load is compared with. By default the fit's only
        pair, at the draft length of the windows' counts, and load is not watched.
    false_alarm : float
        Probability of any false alarm within a day, at most: under the posterior predictive as
        Gaussian, and Poisson arrivals. It is of all parts together, and of the first day; n days
        have one with probability n times as large at most.
    load_tolerance : float
        Factor, above 1 and below 2, by which the load may leave the scenario's rate unreported.
    random_seed : int
        Seed of the misfit.

    Returns
    -------
    DriftReport
        The parts that moved, in the order in which they were told, and by window of each part the
        ratio of measured to expected and its score: alarm at 1.

    Raises
    ------
    ArgumentError, UnknownPairError, DataError
        If the windows or the scenario cannot be used.

    Examples
    --------
    >>> check_drift(tree, windows, scenario).statement()  # doctest: +SKIP
    'Nothing moved in 288 windows.'
    """
    windows = windows_of(live)
    watch_load = scenario is not None
    if scenario is None:
        scenario = live_scenario(tree, windows)
    monitor = DriftMonitor(
        tree,
        scenario,
        false_alarm=false_alarm,
        load_tolerance=load_tolerance,
        watch_load=watch_load,
        random_seed=random_seed,
    )
    for window in windows:
        report = monitor.see(window)
    return report


def live_scenario(
    tree: xr.DataTree, windows: Sequence[LiveWindow], pair: str | None = None
) -> Scenario:
    """Return the scenario that windows are of, as far as they tell.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    windows : sequence of LiveWindow
        Their draft length is the number of positions that they count; their rate the mean of all.
    pair : str, optional
        Label; by default that of the fit's only pair.

    Raises
    ------
    ArgumentError
        If the pair is not named and the fit has several, or no window has a rate.
    """
    labels = fitted_pairs(tree)
    if pair is None and len(labels) != 1:
        raise ArgumentError(
            f"scenario must be given, for the fit has {len(labels)} pairs: "
            + "; ".join(map(repr, labels[:5]))
        )
    rates = [w.request_rate_rps for w in windows if w.request_rate_rps > 0]
    if not rates:
        raise ArgumentError("a window must have requests. Got none: give more windows.")
    length = max(len(window.accepted) for window in windows)
    return Scenario(
        pair or labels[0],
        request_rate_rps=float(np.mean(rates)),
        num_speculative_tokens=length,
    )
