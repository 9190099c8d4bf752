"""What a server did in one window of time, as its metrics tell."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import pandas as pd

from bayes_sd.exceptions import ArgumentError
from bayes_sd.nearest import did_you_mean, nearest_first
from bayes_sd.validate import not_negative, positive


@dataclass(frozen=True)
class LiveWindow:
    """Live metrics of one server over one window; what is not known is NaN or empty.

    Parameters
    ----------
    duration_s : float
        Length of the window, s.
    num_requests : float
        Requests that finished in it.
    num_arrivals : float
        Requests that arrived in it; by default as many as finished.
    mean_e2e_s : float
        Mean end-to-end latency of those that finished, s; of a histogram, its sum over its count.
    mean_running_requests : float
        Mean of the gauge of running requests over the window.
    num_gauge_samples : int
        Samples that this mean is over: it is the better known the more there are.
    var_running_requests : float
        Variance of those samples: how far the load swung within the window.
    num_drafts : float
        Steps that drafted, of all requests together.
    accepted : sequence of float
        Drafts accepted at each position; or one number, their total over all positions.
    process_start_s : float
        When the server's process started, s, from any zero: a change of it is a new boot.
    end_s : float
        End of the window, s, Unix time.

    Raises
    ------
    ArgumentError
        If a value is negative, or more drafts are accepted than there were steps.

    Examples
    --------
    >>> window = LiveWindow(60.0, num_requests=120, num_drafts=9000, accepted=(6300, 4300, 2800))
    >>> round(window.acceptance_length, 3), window.request_rate_rps
    (2.489, 2.0)
    """

    duration_s: float
    num_requests: float = math.nan
    num_arrivals: float = math.nan
    mean_e2e_s: float = math.nan
    mean_running_requests: float = math.nan
    num_gauge_samples: int = 1
    num_drafts: float = math.nan
    accepted: tuple[float, ...] = ()
    process_start_s: float = math.nan
    end_s: float = math.nan
    var_running_requests: float = math.nan

    def __post_init__(self) -> None:
        """Check every field, and freeze the counts."""
        positive(self.duration_s, "duration_s", unit="s")
        names = ("num_requests", "num_arrivals", "mean_e2e_s", "mean_running_requests")
        for name in (*names, "num_drafts", "var_running_requests"):
            value = getattr(self, name)
            if not _is_missing(value):
                not_negative(value, name)
        if self.num_gauge_samples < 1:
            raise ArgumentError(
                f"num_gauge_samples must be at least 1. Got {self.num_gauge_samples!r} instead."
            )
        given = self.accepted
        listed = tuple(given) if isinstance(given, Sequence) else (given,)
        counts = tuple(float(not_negative(count, "accepted")) for count in listed)
        object.__setattr__(self, "accepted", counts)
        earlier = self.num_drafts
        for position, count in enumerate(counts if len(counts) > 1 else (), 1):
            if count > earlier:
                raise ArgumentError(
                    f"accepted must not rise, and start at num_drafts at most. Got {count:g} at "
                    f"position {position} after {earlier:g} instead."
                )
            earlier = count

    @property
    def request_rate_rps(self) -> float:
        """Arrivals per second; finished requests where arrivals are not known."""
        arrived = self.num_arrivals
        return (self.num_requests if _is_missing(arrived) else arrived) / self.duration_s

    @property
    def acceptance_length(self) -> float:
        """Tokens per step, the verifier's own counted; NaN where nothing was drafted."""
        if not self.accepted or not self.num_drafts > 0:
            return math.nan
        return 1.0 + sum(self.accepted) / self.num_drafts


def windows_of(live: object) -> list[LiveWindow]:
    """Return live metrics as a list of windows, in their order.

    Parameters
    ----------
    live : LiveWindow, sequence of LiveWindow, or pandas.DataFrame
        A table has one row per window, and columns named as the fields of `LiveWindow`.

    Raises
    ------
    ArgumentError
        If it is something else, holds nothing, or a table has a column that is no field.
    """
    if isinstance(live, LiveWindow):
        return [live]
    if isinstance(live, pd.DataFrame):
        allowed = [field.name for field in fields(LiveWindow)]
        unknown = [str(name) for name in live.columns if name not in allowed]
        if unknown:
            listed = ", ".join(nearest_first(unknown[0], allowed))
            advice = f"{did_you_mean(unknown[0], allowed)} Rename it, or take it out.".lstrip()
            raise ArgumentError(
                f"a column of live windows must be one of {listed}. Got {unknown[0]!r} instead. "
                f"{advice}"
            )
        if "duration_s" not in live.columns:
            raise ArgumentError(
                "a table of live windows must have the column duration_s. Got "
                f"{', '.join(map(str, live.columns)) or 'none'} instead."
            )
        rows = live.to_dict(orient="records")
        found = [LiveWindow(**{str(name): value for name, value in row.items()}) for row in rows]
    elif isinstance(live, Iterable) and not isinstance(live, str):
        found = list(live)
    else:
        found = []
    if not found or not all(isinstance(window, LiveWindow) for window in found):
        raise ArgumentError(
            "live must be a LiveWindow, several of them, or a table of them. "
            f"Got {type(live).__name__} instead."
        )
    return found


def _is_missing(value: float) -> bool:
    return isinstance(value, float) and math.isnan(value)
