"""A traffic: request rates, and how long each of them lasts."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from bayes_sd.exceptions import ArgumentError
from bayes_sd.validate import name_rows, positive

Floats = npt.NDArray[np.float64]


def read_traffic(
    rates_rps: float | Sequence[float] | Floats | pd.Series, hours: float | None = None
) -> tuple[pd.Index, Floats, Floats]:
    """Return labels, rates and hours of a traffic.

    Parameters
    ----------
    rates_rps : float, array or pandas.Series
        Requests per second: one rate, or several. The times of a Series with a DatetimeIndex or a
        TimedeltaIndex say how long each rate lasts: until the next, and the last as long as the
        one before it.
    hours : float, optional
        How long each rate lasts, where no times say so; by default 1.

    Returns
    -------
    index : pandas.Index
        Labels of the rates.
    rates_rps, hours : array, (rate,)
        Requests per second, and hours.

    Raises
    ------
    ArgumentError
        If a rate is no number of at least 0, there is none, times do not rise, or both times and
        ``hours`` are given.

    Examples
    --------
    >>> at = pd.to_datetime(["2026-01-01 00:00", "2026-01-01 06:00", "2026-01-01 18:00"])
    >>> read_traffic(pd.Series([2.0, 9.0, 4.0], index=at))[2]
    array([ 6., 12., 12.])
    """
    if hours is not None:
        positive(hours, "hours")
    given = rates_rps if isinstance(rates_rps, pd.Series) else pd.Series(np.atleast_1d(rates_rps))
    if given.dtype == bool or not pd.api.types.is_numeric_dtype(given) or not len(given):
        raise ArgumentError(
            f"rates_rps must be numbers of requests per second, one or more. Got {rates_rps!r} "
            "instead."
        )
    rates = given.to_numpy(dtype=float, na_value=np.nan)
    wrong = ~np.isfinite(rates) | (rates < 0)
    if wrong.any():
        labels = list(given.index[wrong])
        raise ArgumentError(
            f"rates_rps must be finite and at least 0. Got {rates[wrong][0]:g} instead in "
            f"{name_rows(labels)}. Fill or drop them.",
            rows=labels,
        )
    if not isinstance(given.index, pd.DatetimeIndex | pd.TimedeltaIndex) or len(rates) == 1:
        return given.index, rates, np.full(len(rates), 1.0 if hours is None else float(hours))
    if hours is not None:
        raise ArgumentError(
            "hours must be left out where rates_rps has times, which say how long each rate "
            f"lasts. Got hours = {hours:g} and times instead."
        )
    lasting = pd.Series(given.index).diff().dt.total_seconds().to_numpy(dtype=float)[1:] / 3600
    if not (lasting > 0).all():  # also where a time is missing
        raise ArgumentError(
            "times of rates_rps must rise. Got them in another order instead. Sort."
        )
    return given.index, rates, np.append(lasting, lasting[-1])
