"""What a request meets, given the mean number in the system and how requests arrive."""

from collections.abc import Callable
from typing import Any


def _poisson(batch: Any) -> tuple[Any, Any, Any]:
    return 1 + batch, batch, 1.0


def _constant(batch: Any) -> tuple[Any, Any, Any]:
    return (batch + 1 + abs(batch - 1)) / 2, batch, batch > 1


def _closed(batch: Any) -> tuple[Any, Any, Any]:
    return batch, batch - 1, 1.0


# Arrivals -> requests per step, others met, and the derivative of the first in B. The derivative
# of the second is 1 in every row.
_MET: dict[str, Callable[[Any], tuple[Any, Any, Any]]] = {
    "poisson": _poisson,
    "constant": _constant,
    "closed": _closed,
    "bursty": _poisson,
}


def met_by_arrivals(effective_batch: Any, arrivals: str) -> tuple[Any, Any]:
    """Return the requests in a step, and the others whose prefill a request sits through.

    ========== =================== ======== =====================================================
    arrivals   requests_per_step   others   why
    ========== =================== ======== =====================================================
    poisson    1 + B               B        an arrival sees the time average: B besides itself
    constant   max(B, 1)           B        evenly spaced: the step holds B, and never less than 1
    closed     B                   B - 1    B = N clients, of whom one is this request
    bursty     1 + B               B        taken as Poisson here, so too low: a burst meets itself
    ========== =================== ======== =====================================================

    Parameters
    ----------
    effective_batch : number or array
        Mean number of requests in the system, B; above 0, and at least 1 for a closed loop.
    arrivals : str
        One of the table.

    Returns
    -------
    requests_per_step, others : number or array
        In requests.

    Raises
    ------
    ValueError
        If the arrivals are not in the table.

    Examples
    --------
    >>> met_by_arrivals(8.0, "poisson")
    (9.0, 8.0)
    >>> met_by_arrivals(0.25, "constant")
    (1.0, 0.25)
    """
    requests_per_step, others, _ = _row(arrivals)(effective_batch)
    return requests_per_step, others


def met_slopes(effective_batch: Any, arrivals: str) -> tuple[Any, Any]:
    """Return the derivatives of `met_by_arrivals` in the batch.

    Parameters
    ----------
    effective_batch : number or array
        B, requests.
    arrivals : str
        As in `met_by_arrivals`.

    Returns
    -------
    requests_slope, others_slope : number or array
        Dimensionless.

    Raises
    ------
    ValueError
        If the arrivals are not known.

    Examples
    --------
    >>> met_slopes(0.5, "constant"), met_slopes(0.5, "poisson")
    ((False, 1.0), (1.0, 1.0))
    """
    return _row(arrivals)(effective_batch)[2], 1.0


def met_variance(effective_batch: Any, arrivals: str) -> Any:
    """Return the variance of the number in a step over time, requests squared.

    B for Poisson arrivals (the number in an M/G/inf system is a Poisson variable, [1]_), 0 for
    even arrivals and a closed loop.

    Parameters
    ----------
    effective_batch : number or array
        B, requests.
    arrivals : str
        As in `met_by_arrivals`.

    References
    ----------
    .. [1] Kleinrock (1975). Queueing Systems, volume 1: Theory. Wiley, section 3.2.

    Examples
    --------
    >>> met_variance(8.0, "poisson"), met_variance(8.0, "constant")
    (8.0, 0.0)
    """
    _row(arrivals)
    return effective_batch * float(arrivals in ("poisson", "bursty"))


def _row(arrivals: str) -> Callable[[Any], tuple[Any, Any, Any]]:
    if arrivals not in _MET:
        known = ", ".join(repr(name) for name in _MET)
        raise ValueError(f"arrivals must be one of {known}. Got {arrivals!r} instead.")
    return _MET[arrivals]
