"""From a file's list of requests to cells of a run: latencies, the rate, how arrivals came."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayes_sd.exceptions import BayesSdError
from bayes_sd.readers.reading import Cells, is_blank, short
from bayes_sd.request_statistics import summarise_requests

# Columns of a table of requests, s and tokens; NaN where a source does not tell.
REQUEST_COLUMNS = ("start_s", "e2e_s", "ttft_s", "input_len_tokens", "output_len_tokens")
NUM_GAPS = 30  # fewer gaps say little of how arrivals come
POISSON_VARIATION = (0.7, 1.4)  # coefficients of variation that pass for a Poisson process
CONSTANT_VARIATION = 0.2
GAP_CORRELATION = 0.3
DISAGREEMENT = 0.01
MAX_TOKENS = 1e9


@dataclass(frozen=True)
class GapStatistics:
    """How requests arrived, from when they were sent.

    Attributes
    ----------
    rate_rps : float
        (requests - 1) / (last - first).
    variation : float
        Standard deviation of the gaps over their mean: 1 for a Poisson process, 0 for even gaps.
    lag1_correlation : float
        Correlation of neighbouring gaps; 0 for independent ones.
    num_gaps : int
    """

    rate_rps: float
    variation: float
    lag1_correlation: float
    num_gaps: int


@np.errstate(all="ignore")  # times that cannot be, such as 1e308
def gap_statistics(start_s: Any) -> GapStatistics:
    """Measure an arrival process from the times at which requests were sent.

    Parameters
    ----------
    start_s : array, (request,)
        Times, s, any zero, any order.

    Examples
    --------
    >>> found = gap_statistics([0.0, 0.5, 1.0, 1.5])
    >>> found.rate_rps, found.variation
    (2.0, 0.0)
    """
    gaps = np.diff(np.sort(np.asarray(start_s, dtype=float)))
    total = float(gaps.sum()) if len(gaps) else 0.0
    if not 0 < total < math.inf:
        return GapStatistics(math.nan, math.nan, math.nan, len(gaps))
    variation = float(gaps.std() / gaps.mean())
    lag1 = math.nan
    if len(gaps) > 2:
        now, after = gaps[:-1] - gaps[:-1].mean(), gaps[1:] - gaps[1:].mean()
        scale = float(np.sqrt((now**2).sum() * (after**2).sum()))
        lag1 = float((now * after).sum() / scale) if scale > 0 else math.nan
    return GapStatistics(len(gaps) / total, variation, lag1, len(gaps))


def arrival_notes(found: GapStatistics, arrivals: str, asked_rps: float, place: str) -> list[str]:
    """Say where an arrival process is not what was asked for.

    Parameters
    ----------
    found : GapStatistics
        As measured.
    arrivals : str
        What the load tool was asked for: ``poisson``, ``constant`` or ``bursty``.
    asked_rps : float
        Rate asked for; NaN if none.
    place : str
        Which run, for the message.
    """
    notes = []
    where = f"{place}: " if place else ""
    if math.isfinite(asked_rps) and math.isfinite(found.rate_rps):
        ratio = found.rate_rps / asked_rps
        if abs(ratio - 1) > max(0.1, 3 / math.sqrt(max(found.num_gaps, 1))):
            notes.append(
                f"{where}requests were sent at {found.rate_rps:.3g} per second, not at the "
                f"{asked_rps:.3g} asked for. The measured rate is used."
            )
    if found.num_gaps < NUM_GAPS:
        return notes
    low, high = POISSON_VARIATION
    slack = 3 / math.sqrt(found.num_gaps)
    if found.lag1_correlation > max(GAP_CORRELATION, slack):
        notes.append(
            f"{where}gaps between requests repeat (correlation of neighbours "
            f"{found.lag1_correlation:.2f}), as when several workers share one seed. Bursts of "
            "this kind queue more than the model of the arrivals expects."
        )
    if arrivals == "poisson" and not low - slack < found.variation < high + slack:
        notes.append(
            f"{where}gaps between requests vary by {found.variation:.2f} of their mean; a Poisson "
            "process has 1."
        )
    if arrivals == "constant" and found.variation > CONSTANT_VARIATION + slack:
        notes.append(
            f"{where}gaps between requests vary by {found.variation:.2f} of their mean; even "
            "arrivals have 0."
        )
    return notes


def measured_arrivals(found: GapStatistics, arrivals: str) -> str:
    """Name the arrivals as measured, where the gaps say clearly that the asked ones did not come.

    Examples
    --------
    >>> measured_arrivals(GapStatistics(2.0, 4.9, 0.0, 255), "poisson")
    'bursty'
    """
    if found.num_gaps < NUM_GAPS or not math.isfinite(found.variation):
        return arrivals
    slack = 3 / math.sqrt(found.num_gaps)
    if found.variation > POISSON_VARIATION[1] + slack:
        return "bursty"
    if arrivals == "constant" and found.variation > CONSTANT_VARIATION + slack:
        return "poisson"
    return arrivals


@np.errstate(all="ignore")
def requests_table(place: str = "", **columns: Any) -> tuple[pd.DataFrame | None, list[str]]:
    """Return a table of finished requests, and notes on those that were left out.

    Parameters
    ----------
    place : str
        Which run, for messages.
    **columns : array, (request,), or None
        By `REQUEST_COLUMNS`, and ``failed`` (true where a request did not finish). Lists of other
        lengths than ``e2e_s`` are left out.
    """
    where = f"{place}: " if place else ""
    e2e = columns.get("e2e_s")
    if e2e is None or columns.get("start_s") is None:
        return None, []
    notes = []
    kept = {}
    for name in REQUEST_COLUMNS:
        values = columns.get(name)
        if values is None:
            continue
        if len(values) != len(e2e):
            notes.append(
                f"{where}{name} has {len(values)} values for {len(e2e)} requests; not used."
            )
            continue
        kept[name] = np.asarray(values, dtype=float)
    if "start_s" not in kept:
        return None, notes
    frame = pd.DataFrame(kept)
    failed = columns.get("failed")
    known = failed is not None and len(failed) == len(frame)
    failed = np.asarray(failed, dtype=bool) if known else np.zeros(len(frame), dtype=bool)
    bad = ~np.isfinite(frame["start_s"]) | ~np.isfinite(frame["e2e_s"]) | (frame["e2e_s"] <= 0)
    if "ttft_s" in frame:
        bad |= frame["ttft_s"].lt(0) | frame["ttft_s"].gt(frame["e2e_s"] * (1 + 1e-6))
    bad &= ~failed
    if failed.any():
        notes.append(f"{where}{int(failed.sum())} of {len(frame)} requests failed; left out.")
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        shown = ", ".join(f"{n} {short(float(v))}" for n, v in frame.iloc[row].items())
        notes.append(
            f"{where}{int(bad.sum())} of {len(frame)} requests have times that cannot be (request "
            f"{row + 1}: {shown}); left out."
        )
    return frame[~(failed | bad)].reset_index(drop=True), notes


@np.errstate(all="ignore")
def cells_of_requests(requests: pd.DataFrame) -> Cells:
    """Reduce the table of a run's requests to cells of the run; empty below two requests.

    Returns
    -------
    dict
        As `RequestSummary.row`, without what is not known. Lengths of which one cannot be are not
        used.
    """
    usable = requests.dropna(axis="columns")
    for name, least in (("input_len_tokens", 0), ("output_len_tokens", 1)):
        if name in usable and not usable[name].between(least, MAX_TOKENS).all():
            usable = usable.drop(columns=name)  # an answer without a token has a latency too
    try:
        row = summarise_requests(usable).row
    except (BayesSdError, ArithmeticError):  # a run of no length on its clock
        return {}
    return {name: value for name, value in row.items() if not is_blank(value)}


def disagreements(printed: Cells, computed: Cells, place: str) -> list[str]:
    """Say which figures of a file are not those of its own list of requests."""
    where = f"{place}: " if place else ""
    notes = []
    for name, value in printed.items():
        other = computed.get(name, math.nan)
        if not name.startswith(("mean_", "p50_")) or not name.endswith("_s") or is_blank(other):
            continue
        if isinstance(value, float) and value > 0 and abs(other / value - 1) > DISAGREEMENT:
            notes.append(
                f"{where}{name} is {value:.4g} in the file and {other:.4g} by its own list of "
                "requests; the file's figure is used."
            )
    return notes
