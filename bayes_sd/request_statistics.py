"""From records of single requests to one row of the table of runs, in one pass over arrays.

A fit sees runs, not requests: its cost is the same for a thousand requests and for ten million.
What a run's requests say about the model is in its means, its percentiles, its rate and the mean
number in the system; this module reduces records to these.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayes_sd.exceptions import DataError, SchemaError
from bayes_sd.run_variables import QUANTILES
from bayes_sd.schema import LATENCIES
from bayes_sd.validate import name_rows, probability

type Floats = NDArray[np.float64]

REQUEST_COLUMNS = ("start_s", "e2e_s", "ttft_s", "input_len_tokens", "output_len_tokens")


@dataclass(frozen=True)
class RequestSummary:
    """One run's requests, reduced.

    Attributes
    ----------
    row : dict of str to float
        Columns as in `bayes_sd.schema`: means and p50, p90, p95, p99 of e2e, ttft and tpot,
        ``num_requests``, ``request_rate_rps``, ``completed_rate_rps``,
        ``mean_in_system_requests``, ``input_len_tokens``, ``output_len_tokens``,
        ``output_tokens_per_s``. What cannot be had is NaN.
    effective_requests : dict of str to float
        By kind of latency: the number of independent requests whose mean log latency would be as
        uncertain as this run's, for requests that share a batch resemble each other.
    spread : dict of str to float
        By kind of latency: standard deviation of its logarithm.
    """

    row: dict[str, float]
    effective_requests: dict[str, float]
    spread: dict[str, float]


def effective_number(values: Any) -> float:
    """Return the number of independent values whose mean varies as much as that of a series.

    By batch means [1]_: n Var(x) / (b Var(mean of b neighbours)), b the square root of n. Linear
    in n. At most n; the estimate itself is good to about (2 / b)^0.5 of its size.

    Parameters
    ----------
    values : array, (request,)
        In the order of arrival; at least 2.

    References
    ----------
    .. [1] Flegal and Jones (2010). Batch means and spectral variance estimators in Markov chain
       Monte Carlo. Annals of Statistics 38(2).

    Examples
    --------
    >>> x = np.random.default_rng(0).standard_normal(40_000)
    >>> effective_number(x) > 30_000, 8_000 < effective_number(np.repeat(x[:10_000], 4)) < 12_000
    (True, True)
    """
    x = np.asarray(values, dtype=float)
    size = int(np.sqrt(len(x)))
    batches = x[: len(x) // size * size].reshape(-1, size).mean(axis=1)
    total, between = float(x.var(ddof=1)), 0.0
    if len(batches) > 1:
        between = float(batches.var(ddof=1))
    if total == 0 or between == 0:
        return float(len(x))
    return float(min(len(x), len(x) * total / (size * between)))


def mean_in_system(start_s: Any, end_s: Any, window_s: tuple[float, float]) -> float:
    """Return the time average of the number of requests in the system over a window.

    Parameters
    ----------
    start_s, end_s : array, (request,)
        When each request was sent and was finished, s, on one clock.
    window_s : tuple of float
        Begin and end of the window, s.

    Returns
    -------
    float
        Requests; NaN if the window is empty.

    Examples
    --------
    >>> mean_in_system([0.0, 1.0], [2.0, 5.0], (0.0, 4.0))
    1.25
    """
    low, high = window_s
    if high <= low:
        return float("nan")
    start, end = np.asarray(start_s, dtype=float), np.asarray(end_s, dtype=float)
    inside = np.minimum(end, high) - np.maximum(start, low)
    return float(np.maximum(inside, 0).sum() / (high - low))


def summarise_requests(frame: pd.DataFrame, *, skip_share: float = 0.15) -> RequestSummary:
    """Reduce the records of one run's finished requests to what a fit needs.

    Parameters
    ----------
    frame : pandas.DataFrame, one row per finished request
        ``start_s`` (time sent, s, any zero) and ``e2e_s``; ``ttft_s``, ``input_len_tokens`` and
        ``output_len_tokens`` where known. Other columns are not used. Leave failed requests out.
    skip_share : float, default 0.15
        Share of the time of arrivals that the mean number in the system leaves out at the start,
        while the system fills. The latencies are over all requests.

    Returns
    -------
    RequestSummary
        ``pandas.DataFrame([summary.row])`` is a row for the table of runs, to which the
        deployment, the models and the load are added.

    Raises
    ------
    SchemaError
        If a needed column is missing, or holds values that cannot be right; ``rows`` names them.
    DataError
        If there are fewer than two requests.

    Notes
    -----
    Linear in the number of requests if they are in the order of arrival; else they are sorted.
    The rate is (n - 1) / (last start - first start). Time per token is (e2e - ttft) / (tokens - 1)
    over requests of two tokens and more.

    Examples
    --------
    >>> frame = pd.DataFrame({"start_s": [0.0, 1.0, 2.0], "e2e_s": [1.5, 1.0, 2.0]})
    >>> row = summarise_requests(frame, skip_share=0.0).row
    >>> row["request_rate_rps"], row["mean_e2e_s"], row["mean_in_system_requests"]
    (1.0, 1.5, 1.25)
    """
    skip = probability(skip_share, "skip_share")
    columns = _checked(frame)
    start, e2e = columns["start_s"], columns["e2e_s"]
    if (np.diff(start) < 0).any():
        order = np.argsort(start, kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
        start, e2e = columns["start_s"], columns["e2e_s"]
    span, end = float(start[-1] - start[0]), start + e2e
    duration = float(end.max() - start[0])
    row = {
        "num_requests": float(len(start)),
        "request_rate_rps": (len(start) - 1) / span if span > 0 else float("nan"),
        "completed_rate_rps": len(start) / duration,
        "mean_in_system_requests": mean_in_system(
            start, end, (float(start[0]) + skip * span, float(start[-1]))
        ),
    }
    for name in ("input_len_tokens", "output_len_tokens"):
        row[name] = float(columns[name].mean()) if name in columns else float("nan")
    row["output_tokens_per_s"] = row["output_len_tokens"] * row["completed_rate_rps"]
    effective, spread = {}, {}
    for kind, values in _latencies(columns).items():
        row[f"mean_{kind}_s"] = float(values.mean())
        found = np.quantile(values, list(QUANTILES.values()))
        row |= {f"{p}_{kind}_s": float(q) for p, q in zip(QUANTILES, found, strict=True)}
        if len(values) > 1 and (values > 0).all():
            logs = np.log(values)
            effective[kind], spread[kind] = effective_number(logs), float(logs.std(ddof=1))
    return RequestSummary(row, effective, spread)


def _latencies(columns: dict[str, Floats]) -> dict[str, Floats]:
    """Return what can be had of e2e, ttft and tpot, in the order of arrival."""
    found = {"e2e": columns["e2e_s"]}
    if "ttft_s" in columns:
        found["ttft"] = columns["ttft_s"]
        if "output_len_tokens" in columns:
            later = columns["output_len_tokens"] - 1
            several = later > 0
            if several.any():
                decode = columns["e2e_s"] - columns["ttft_s"]
                found["tpot"] = decode[several] / later[several]
    return {kind: found[kind] for kind in LATENCIES if kind in found}


def _checked(frame: pd.DataFrame) -> dict[str, Floats]:
    """Return the known columns as floats, or say which cells cannot be right."""
    missing = [name for name in ("start_s", "e2e_s") if name not in frame]
    if missing:
        raise SchemaError(
            f"the table of requests must have columns start_s and e2e_s. Got "
            f"{list(frame.columns)} instead: {missing} missing. Rename yours, in seconds."
        )
    if len(frame) < 2:
        raise DataError(f"a run must have at least 2 finished requests. Got {len(frame)} instead.")
    columns = {}
    for name in REQUEST_COLUMNS:
        if name not in frame:
            continue
        values = frame[name].to_numpy(dtype=float)
        lowest = {"start_s": -np.inf, "e2e_s": 0.0, "output_len_tokens": 1.0}.get(name, 0.0)
        wrong = ~np.isfinite(values) | (values < lowest)
        if name == "e2e_s":
            wrong |= values == 0
        if name == "ttft_s":
            wrong |= values > frame["e2e_s"].to_numpy(dtype=float) * (1 + 1e-6)
        if wrong.any():
            rows = list(frame.index[wrong])
            allowed = {
                "start_s": "finite",
                "e2e_s": "above 0",
                "ttft_s": "from 0 to e2e_s",
                "output_len_tokens": "at least 1",
            }.get(name, "at least 0")
            raise SchemaError(
                f"{name} must be {allowed} in every row. Got {values[wrong][0]} instead in "
                f"{name_rows(rows)}. Leave failed requests out, and use seconds.",
                rows=rows,
            )
        columns[name] = values
    return columns
