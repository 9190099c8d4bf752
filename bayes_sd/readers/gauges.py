"""Gauges of a server, sampled during a run: one JSON object a line.

Each has ``t`` (s, from any zero), ``running`` and ``waiting`` (requests). A gauge is a value of one
moment: only the mean of many says how many requests were in the batch.
"""

import math
from typing import Any

import numpy as np

from bayes_sd.exceptions import BayesSdError, FormatError
from bayes_sd.readers.content import Content
from bayes_sd.readers.reading import Cells, Fields, Reading, short

KEYS = ("t", "running", "waiting")
MIN_SAMPLES = 5


def recognises(sample: Any) -> bool:
    """Tell whether a parsed object is one sample of gauges."""
    if not isinstance(sample, dict) or any(key not in sample for key in KEYS):
        return False
    return all(
        sample[key] is None or (isinstance(sample[key], int | float) and sample[key] is not True)
        for key in KEYS
    )


def read(content: Content) -> Reading:
    """Read a file by itself: it holds no run, for it tells no latency.

    Parameters
    ----------
    content : Content
        The file.
    """
    samples(content)  # whatever is wrong with it is told
    reading = Reading()
    reading.skipped.append(
        "sampled gauges tell no latency, so they are no run. Keep them beside the result file of "
        "their run, as NAME.gauges.jsonl beside NAME.json."
    )
    return reading


def samples(content: Content) -> np.ndarray:
    """Return the samples that have all three figures: array[sample, (t, running, waiting)].

    Raises
    ------
    FormatError
        If a figure is no number or negative, times go backwards, or there is no sample.
    """
    rows: list[list[float]] = []
    for place, entry in content.entries():
        if isinstance(entry, BayesSdError):
            raise entry
        fields = Fields(entry, place)
        row = [fields.number("t", low=-math.inf), fields.number("running")]
        waiting = fields.number("waiting")
        row.append(0.0 if math.isnan(waiting) else waiting)
        if all(map(math.isfinite, row)):
            if rows and row[0] < rows[-1][0]:
                raise FormatError(
                    f"{fields.at('t')} must not go backwards. Got {short(row[0])} after "
                    f"{short(rows[-1][0])} instead: two runs in one file, or a clock that was set."
                )
            rows.append(row)
    if not rows:
        raise FormatError("the file has no sample with t and running.")
    return np.array(rows, dtype=float)


def mean_over(content: Content, lo_s: float, hi_s: float) -> Cells:
    """Return the mean of the running requests over a part of a run.

    The sampler starts before the load does: time zero is the first sample with a request in the
    system, at most one step of the sampler after the first request was sent.

    Parameters
    ----------
    content : Content
        The file.
    lo_s, hi_s : float
        Part of the run, s since its first request; an infinite end is the last sample with a
        request in the system.

    Returns
    -------
    dict
        ``mean_running_requests``; empty if fewer than `MIN_SAMPLES` samples lie in that part. The
        mean of all requests in the system is not given: the gauges leave out those that are with
        the client or the web server.

    Raises
    ------
    FormatError
        As of `samples`.
    """
    found = samples(content)
    active = np.flatnonzero(found[:, 1] + found[:, 2] > 0)
    if not len(active):
        return {}
    time_s = found[:, 0] - found[active[0], 0]
    end_s = time_s[active[-1]] if math.isinf(hi_s) else hi_s
    inside = found[(time_s >= lo_s) & (time_s <= end_s)]
    if len(inside) < MIN_SAMPLES:
        return {}
    with np.errstate(over="ignore"):
        return {"mean_running_requests": float(inside[:, 1].mean())}
