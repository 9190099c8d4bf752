"""One prior: a family, its centre and its spread, with a unit and a reason."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from bayes_sd.validate import one_of, positive

FAMILIES = ("lognormal", "normal", "gamma")


@dataclass(frozen=True)
class Prior:
    """One prior: a family with a centre and a spread.

    Parameters
    ----------
    family : {"lognormal", "normal", "gamma"}
        ``lognormal``: centre is the median, spread the standard deviation of the logarithm;
        ``normal``: mean and standard deviation; ``gamma``: mean and standard deviation.
    center : float
        In ``unit``.
    spread : float
        Positive; without unit for a log-normal, else in ``unit``.
    unit : str
        Unit of the quantity.
    reason : str
        Why this place and this width.

    Raises
    ------
    ArgumentError
        If the family is unknown, or a centre or spread is out of range.

    Examples
    --------
    >>> Prior("lognormal", 0.01, 0.7, "1", "boots differ by about a per cent").interval()
    (0.0032, 0.032)
    """

    family: str
    center: float
    spread: float
    unit: str
    reason: str

    def __post_init__(self) -> None:
        """Check family, centre and spread."""
        one_of(self.family, FAMILIES, "family")
        positive(self.spread, "spread")
        if self.family != "normal":
            positive(self.center, "center", unit=self.unit)

    @property
    def log_center(self) -> float:
        """Logarithm of the median, for a log-normal prior."""
        return float(np.log(self.center))

    def interval(self) -> tuple[float, float]:
        """Return the central 90 % interval, in the prior's unit, to two digits."""
        z = 1.6449
        if self.family == "gamma":
            shape = (self.center / self.spread) ** 2
            ends = stats.gamma(shape, scale=self.center / shape).ppf([0.05, 0.95])
        elif self.family == "lognormal":
            ends = (self.center * np.exp(-z * self.spread), self.center * np.exp(z * self.spread))
        else:
            ends = (self.center - z * self.spread, self.center + z * self.spread)
        low, high = (float(f"{end:.2g}") for end in ends)
        return low, high
