r"""Streams of residuals watched for a change, with a bound on false alarms.

A residual is :math:`r_t = a_t \cdot x + \epsilon_t`: x are what the posterior leaves open (and the
boot), standard normal before the first window. A Kalman filter learns x as windows come; under the
posterior predictive its innovations, divided by their standard deviations, are independent
standard normal. An e-detector [1]_ of Shiryaev and Roberts' form watches them,

.. math:: M_t = (1 + M_{t-1}) \, e_t, \qquad e_t = \exp(\lambda_t z_t - \lambda_t^2 / 2),

where :math:`\lambda_t`, a size of change over the innovation's standard deviation, is fixed before
the window is seen. :math:`M_t - t` is then a martingale, as is that of the mean over several sizes,
and by Doob's inequality

.. math:: P(\max_{t \le n} M_t \ge n / \alpha) \le \alpha :

with the threshold n / alpha, a day of n windows has a false alarm with probability alpha at most.

References
----------
.. [1] Shin, Ramdas and Rinaldo (2024). E-detectors: a nonparametric framework for sequential change
   detection. New England Journal of Statistics in Data Science 2, 229-260.
.. [2] Pollak (1985). Optimal detection of a change in distribution. Annals of Statistics 13,
   206-227.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

CHANGES = tuple(sign * size for size in (0.03, 0.05, 0.1, 0.2) for sign in (-1, 1))  # log ratio


class ResidualFilter:
    """What is known of the hidden part of a stream's residuals; several streams side by side.

    Parameters
    ----------
    variances : sequence of float
        Of the hidden variables before the first window. Of those of latency the last is the boot,
        and the one before it the boot before.
    num_streams : int
        Streams, such as days.
    """

    def __init__(self, variances: Floats, num_streams: int = 1) -> None:
        self._first = np.asarray(variances, dtype=float)
        size = len(self._first)
        self.mean = np.zeros((num_streams, size))
        self.cov = np.broadcast_to(np.diag(self._first), (num_streams, size, size)).copy()

    def restart(self, which: npt.NDArray[np.bool_]) -> None:
        """Draw the boot of some streams anew; the hidden variable before it keeps the old one."""
        self.mean[which, -2] = self.mean[which, -1]
        self.cov[which, -2, :] = self.cov[which, -1, :]
        self.cov[which, :, -2] = self.cov[which, :, -1]
        self.cov[which, -2, -2] = self.cov[which, -1, -1]
        self.mean[which, -1] = 0.0
        self.cov[which, -1, :] = 0.0
        self.cov[which, :, -1] = 0.0
        self.cov[which, -1, -1] = self._first[-1]

    def see(
        self, residual: Floats, loadings: Floats, noise_variance: Floats
    ) -> tuple[Floats, Floats]:
        """Take in one residual of each stream; return innovations and their variances, (stream,).

        Parameters
        ----------
        residual : array, (stream,)
            NaN where nothing was seen.
        loadings : array, (stream, hidden)
            Of the hidden variables.
        noise_variance : array, (stream,)
            Of the window itself.
        """
        spread = np.einsum("sij,sj->si", self.cov, loadings)
        variance = np.einsum("si,si->s", spread, loadings) + noise_variance
        innovation = residual - np.einsum("si,si->s", self.mean, loadings)
        known = np.isfinite(innovation)
        gain = np.where(known, 1 / variance, 0.0)[:, None] * spread
        self.mean = self.mean + gain * np.where(known, innovation, 0.0)[:, None]
        self.cov = self.cov - gain[:, :, None] * spread[:, None, :]
        return innovation, variance


class Detector:
    """Shiryaev and Roberts' statistic, averaged over sizes of change; several streams at once.

    Parameters
    ----------
    num_streams : int
        Streams, such as days.
    changes : sequence of float
        Sizes of change, log ratio, that are looked for.
    """

    def __init__(self, num_streams: int = 1, changes: tuple[float, ...] = CHANGES) -> None:
        self._changes = np.array(changes)
        self._log = np.full((num_streams, len(changes)), -np.inf)

    def see(self, innovation: Floats, variance: Floats) -> Floats:
        """Take in an innovation of each stream, NaN for none; return log M, (stream,)."""
        sd = np.sqrt(variance)[:, None]
        tilt = self._changes / sd
        return self.add(tilt * innovation[:, None] / sd - tilt**2 / 2)

    def add(self, log_increments: Floats) -> Floats:
        """Take in log e-values, (stream, change), NaN for none; return log M, (stream,)."""
        known = np.isfinite(log_increments)
        grown = np.logaddexp(0.0, self._log) + np.where(known, log_increments, 0.0)
        self._log = np.where(known, grown, self._log)
        return self.log_statistic

    @property
    def log_statistic(self) -> Floats:
        """Log M of each stream, (stream,)."""
        return np.asarray(np.logaddexp.reduce(self._log, axis=-1) - np.log(len(self._changes)))


def log_threshold(windows: float, false_alarm: float) -> float:
    """Return the log of what M must reach, for so many windows and that probability.

    Examples
    --------
    >>> round(log_threshold(288, 0.01), 2)
    10.27
    """
    return float(np.log(windows / false_alarm))


def windows_to_detect(change: float, variance: float, threshold: float) -> float:
    """Return in about how many windows a lasting change is told.

    The first n at which the statistic of the nearest size, fed with its expected growth, passes
    the threshold.

    Parameters
    ----------
    change : float
        Log ratio.
    variance : float
        Of an innovation.
    threshold : float
        Of `log_threshold`.

    Examples
    --------
    >>> windows_to_detect(0.1, 0.05**2, 10.27)
    7.0
    """
    sizes = np.array([abs(size) for size in CHANGES])
    growth = float(np.max(sizes * abs(change) - sizes**2 / 2) / variance)
    if not growth > 0:
        return float("inf")
    return float(np.ceil(max(threshold + np.log(len(sizes)), growth) / growth))


def load_increments(
    arrivals: Floats, expected: Floats, tolerance: float, factor: float = 2.0
) -> Floats:
    r"""Return log e-values of "the load left its band" from a count of arrivals, (stream, 2).

    The rate may lie anywhere from the reference over ``tolerance`` to the reference times it.
    The likelihood ratio of Poisson counts, of ``factor`` times the reference against the end of the
    band, has mean 1 at that end and less inside: an e-value for the whole band.

    Parameters
    ----------
    arrivals, expected : array, (stream,)
        Arrivals in a window, and their mean at the reference rate.
    tolerance : float
        Half width of the band, a factor above 1.
    factor : float
        Size of the change looked for, above the tolerance.
    """
    found = []
    for sign in (1, -1):
        ratio = sign * np.log(factor / tolerance)
        growth = expected * (factor**sign - tolerance**sign)
        found.append(arrivals * ratio - growth)
    return np.stack(found, axis=-1)
