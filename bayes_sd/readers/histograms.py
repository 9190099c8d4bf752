"""What the buckets of a Prometheus histogram say of percentiles: bounds, seldom a figure."""

import itertools
import math
from collections.abc import Callable

from bayes_sd.readers.reading import Cells

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
NARROW = 1.1  # a bucket whose ends differ by less holds a percentile closely enough


def bucket_counts(
    by: Callable[[str, Callable[[dict[str, str]], str]], dict[str, float]], name: str
) -> dict[float, float]:
    """Return the cumulative counts of a histogram by the upper end of their buckets.

    Parameters
    ----------
    by : callable
        As `bayes_sd.readers.scrapes.Differences.by`.
    name : str
        Of the histogram, without ``_bucket``.

    Returns
    -------
    dict of float to float
        In the order of the ends; empty if the counts are none of a histogram.
    """
    found = {}
    for end, count in by(f"{name}_bucket", lambda labels: labels.get("le", "")).items():
        try:
            found[float(end)] = count
        except ValueError:
            return {}
    counts = dict(sorted(found.items()))
    rises = all(a <= b for a, b in itertools.pairwise(counts.values()))
    return counts if rises and all(map(math.isfinite, counts.values())) else {}


def bounds(counts: dict[float, float], share: float) -> tuple[float, float] | None:
    """Return the ends of the bucket that holds a percentile; None if nothing was counted.

    Examples
    --------
    >>> bounds({1.0: 20.0, 2.5: 90.0, 5.0: 100.0, math.inf: 100.0}, 0.95)
    (2.5, 5.0)
    """
    total = max(counts.values(), default=0.0)
    if not total > 0:
        return None
    lower = 0.0
    for upper, count in counts.items():
        if count >= share * total:
            return lower, upper
        lower = upper
    return None


def bounds_of_percentiles(counts: dict[float, float], kind: str) -> tuple[Cells, str]:
    """Return the percentiles that are known closely, and a sentence on the others.

    Parameters
    ----------
    counts : dict of float to float
        Of `bucket_counts`, s.
    kind : str
        Which latency: ``e2e``, ``ttft``, ``tpot`` or ``itl``.

    Returns
    -------
    cells : dict
        ``{p50,p90,p95,p99}_{kind}_s``: middle of the bucket where its ends differ by a tenth at
        most.
    message : str
        Empty if there is nothing to say.

    Examples
    --------
    >>> bounds_of_percentiles({1.0: 50.0, 1.05: 95.0, 2.0: 99.0}, "e2e")[0]
    {'p90_e2e_s': 1.025, 'p95_e2e_s': 1.025}
    """
    cells: Cells = {}
    wide = []
    for name, share in PERCENTILES.items():
        ends = bounds(counts, share)
        if ends is None:
            continue
        lower, upper = ends
        if 0 < lower and upper <= NARROW * lower:
            cells[f"{name}_{kind}_s"] = (lower + upper) / 2
        elif math.isinf(upper):
            wide.append(f"{name} above {lower:g}")
        else:
            wide.append(f"{name} from {lower:g} to {upper:g}")
    if not wide:
        return cells, ""
    return cells, f"the server's histogram has {kind} at {', '.join(wide)} s: bounds, not used."
