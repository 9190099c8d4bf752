"""Residuals of live windows against a fit, of several servers or days side by side."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayes_sd.drift_streams import Detector, ResidualFilter, load_increments, log_threshold
from bayes_sd.live_reference import LiveReference
from bayes_sd.live_window import LiveWindow

Floats = npt.NDArray[np.float64]

DAY_S = 86400.0
MIN_REQUESTS = 5
BOOT_TOLD_SD = 3.0  # standard deviations at which a new boot is told from the one before
BOOT_WINDOWS = 24  # it is looked at over so many windows after a restart
STREAMS = ("acceptance", "cost", "load")


@dataclass(frozen=True)
class Batch:
    """The same window of several servers, or days: arrays (stream,); NaN for not known."""

    duration_s: Floats
    num_requests: Floats
    num_arrivals: Floats
    mean_e2e_s: Floats
    mean_running_requests: Floats
    num_gauge_samples: Floats
    num_drafts: Floats
    acceptance_length: Floats
    is_new_boot: npt.NDArray[np.bool_]
    var_running_requests: Floats | None = None


class DriftWatch:
    """Several servers or days of one configuration, watched window by window.

    Parameters
    ----------
    reference : LiveReference
        What the fit expects.
    num_streams : int
        Servers, or days, each with its own boot and misfit.
    window_s : float
        Length of a window, s: it sets how many a day has.
    false_alarm : float
        Probability of any false alarm within a day.
    load_tolerance : float
        Factor by which the load may leave the scenario's rate.
    watch_load : bool
        Whether arrivals are compared with the scenario's rate at all.
    """

    def __init__(
        self,
        reference: LiveReference,
        num_streams: int,
        window_s: float,
        false_alarm: float,
        load_tolerance: float,
        *,
        watch_load: bool = True,
    ) -> None:
        self.reference = reference
        self.tolerance = load_tolerance
        self.threshold = log_threshold(max(DAY_S / window_s, 1.0), false_alarm / len(STREAMS))
        # the factors, the boot before a restart, the boot
        hidden = np.append(np.ones(len(reference.factors)), [0.0, reference.boot_sd**2])
        self.cost = ResidualFilter(hidden, num_streams)
        about = reference.acceptance
        self.length = ResidualFilter(
            np.array([about.log_length_sd**2 if about else 0.0]), num_streams
        )
        self.detectors = {
            "acceptance": Detector(num_streams),
            "cost": Detector(num_streams),
            "load": Detector(num_streams, (1.0, -1.0)),
        }
        self.boot_shift = np.full(num_streams, np.nan)
        self.boot_z = np.zeros(num_streams)
        self._since_restart = np.full(num_streams, BOOT_WINDOWS)
        self._rate = reference.scenario.request_rate_rps if watch_load else None
        self.variance = {"acceptance": math.nan, "cost": math.nan}

    def see(self, batch: Batch) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Take in one window of each stream; return log ratios to what was expected, and log M."""
        log_cost, loadings, noise = self._cost_residual(batch)
        if batch.is_new_boot.any():
            self.cost.restart(batch.is_new_boot)
            self._since_restart[batch.is_new_boot] = 0
        innovation, variance = self.cost.see(log_cost, loadings, noise)
        told = {"cost": self.detectors["cost"].see(innovation, variance)}
        moved = {"cost": innovation}
        self._keep_variance("cost", innovation, variance)
        self._watch_boot()
        residual, spread = self._length_residual(batch)
        innovation, variance = self.length.see(residual, np.ones((len(residual), 1)), spread)
        told["acceptance"] = self.detectors["acceptance"].see(innovation, variance)
        moved["acceptance"] = innovation
        self._keep_variance("acceptance", innovation, variance)
        expected = (math.nan if self._rate is None else self._rate) * batch.duration_s
        told["load"] = self.detectors["load"].add(
            load_increments(batch.num_arrivals, expected, self.tolerance)
        )
        with np.errstate(divide="ignore"):
            moved["load"] = np.log(batch.num_arrivals / expected)
        return moved, told

    def _keep_variance(self, part: str, innovation: Floats, variance: Floats) -> None:
        """Remember how well a part was last known, where it was seen at all."""
        seen = variance[np.isfinite(innovation)]
        if len(seen):
            self.variance[part] = float(np.median(seen))

    def _watch_boot(self) -> None:
        """Compare the boot since a restart with the one before."""
        is_young = self._since_restart < BOOT_WINDOWS
        self._since_restart += 1
        mean, cov = self.cost.mean, self.cost.cov
        shift = mean[:, -1] - mean[:, -2]
        variance = cov[:, -1, -1] + cov[:, -2, -2] - 2 * cov[:, -1, -2]
        told = is_young & (variance > 0)
        self.boot_shift = np.where(told, shift, self.boot_shift)
        z = np.abs(shift) / np.sqrt(np.where(told, variance, 1.0))
        self.boot_z = np.where(told, z, 0.0)

    def _cost_residual(self, batch: Batch) -> tuple[Floats, Floats, Floats]:
        length = np.where(
            np.isfinite(batch.acceptance_length),
            batch.acceptance_length,
            1.0 if self.reference.acceptance is None else np.nan,
        )
        usable = np.isfinite(length) & np.isfinite(batch.mean_e2e_s)
        usable &= (batch.num_requests >= MIN_REQUESTS) & (batch.mean_running_requests > 0)
        usable &= batch.mean_running_requests <= self.reference.scenario.max_num_seqs
        held = np.where(usable, batch.mean_running_requests, 1.0)
        mean, elasticity, rest, factors = self.reference.at(held, np.where(usable, length, 1.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            residual = np.where(usable, np.log(batch.mean_e2e_s) - mean, np.nan)
            noise = self.reference.request_cv**2 / batch.num_requests
        noise = np.where(usable, noise, 1.0) + rest
        noise = noise + elasticity**2 / (held * np.maximum(batch.num_gauge_samples, 1))
        swing = _swing(held, elasticity, batch.var_running_requests)
        loadings = np.column_stack([factors, np.zeros(len(held)), np.ones(len(held))])
        return residual - swing, loadings, noise + swing**2

    def _length_residual(self, batch: Batch) -> tuple[Floats, Floats]:
        about = self.reference.acceptance
        if about is None:
            return np.full(len(batch.num_drafts), np.nan), np.ones(len(batch.num_drafts))
        with np.errstate(divide="ignore", invalid="ignore"):
            residual = np.log(batch.acceptance_length) - about.log_length
            noise = about.step_variance / batch.num_drafts + about.run_variance
            noise = noise + about.request_variance / np.maximum(batch.num_requests, 1.0)
        known = np.isfinite(residual) & np.isfinite(noise) & (noise > 0)
        return np.where(known, residual, np.nan), np.where(known, noise, 1.0)


def _swing(held: Floats, elasticity: Floats, variance: Floats | None) -> Floats:
    r"""Return by how much load that swings within a window raises log latency, (stream,).

    More requests meet the high load than the low one. At a slowly changing batch b(t) they arrive
    at b / L(b), so their mean latency is that of the mean batch times
    :math:`\langle b \rangle / (L \langle b / L(b) \rangle)`: to second order
    :math:`\exp(e (1 - e) V / \langle b \rangle^2)`, with e = d log L / d log b and V the variance
    of the batch. A steady load has V = b / (1 - e) about (linear noise of a queue whose service
    slows with its length), and what that does is in the fit's law already. The order left out is
    taken to be as large: the square is added to the noise. 0 where the variance is not known.
    """
    if variance is None:
        return np.zeros(len(held))
    share = np.clip(elasticity, 0.0, 1.0)
    found = share * ((1 - share) * variance / held**2 - 1 / held)
    return np.where(np.isfinite(found), found, 0.0)


def batch_of(window: LiveWindow, *, is_new_boot: bool) -> Batch:
    """Return one window as arrays of one stream."""

    def one(value: float) -> Floats:
        return np.array([float(value)])

    return Batch(
        one(window.duration_s),
        one(window.num_requests),
        one(window.request_rate_rps * window.duration_s),
        one(window.mean_e2e_s),
        one(window.mean_running_requests),
        one(window.num_gauge_samples),
        one(window.num_drafts),
        one(window.acceptance_length),
        np.array([is_new_boot]),
        one(window.var_running_requests),
    )
