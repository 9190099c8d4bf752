"""Draws to a table: the last step, after every transformation."""

import numpy as np
import pandas as pd
import xarray as xr

from bayes_sd.validate import probability


def summarise(draws: xr.Dataset, level: float = 0.9) -> pd.DataFrame:
    """Return one row per scenario: median, interval, chance to be past capacity, status.

    Parameters
    ----------
    draws : xarray.Dataset
        Result of `predict_latency`.
    level : float
        Probability of the central interval.

    Returns
    -------
    pandas.DataFrame
        Columns ``kind``, ``median_e2e_s``, ``low_e2e_s``, ``high_e2e_s``,
        ``effective_batch``, ``p_past_capacity``, ``status``, ``outside``. Latencies in seconds,
        the batch (its median) in requests.

    Raises
    ------
    ArgumentError
        If the level is not between 0 and 1.

    Examples
    --------
    >>> dims = ("sample", "scenario")
    >>> draws = xr.Dataset(
    ...     {
    ...         "e2e_s": (dims, [[1.0], [2.0], [3.0]]),
    ...         "effective_batch": (dims, [[4.0], [5.0], [6.0]]),
    ...         "status": ("scenario", ["measured"]),
    ...         "outside": ("scenario", [""]),
    ...     },
    ...     coords={"scenario": ["k = 3, 4 rps"]},
    ...     attrs={"kind": "mean"},
    ... )
    >>> row = summarise(draws).loc["k = 3, 4 rps"]
    >>> float(row["median_e2e_s"]), row["kind"]
    (2.0, 'mean')
    """
    probability(level, "level", ends=False)
    tail = (1 - level) / 2
    low, median, high = np.quantile(
        draws["e2e_s"].values, [tail, 0.5, 1 - tail], axis=0, method="inverted_cdf"
    )
    return pd.DataFrame(
        {
            "kind": draws.attrs["kind"],
            "median_e2e_s": median,
            "low_e2e_s": low,
            "high_e2e_s": high,
            "effective_batch": np.quantile(
                draws["effective_batch"].values, 0.5, axis=0, method="inverted_cdf"
            ),
            "p_past_capacity": np.isinf(draws["e2e_s"].values).mean(axis=0),
            "status": draws["status"].values,
            "outside": draws["outside"].values,
        },
        index=pd.Index(draws["scenario"].values, name="scenario"),
    )
