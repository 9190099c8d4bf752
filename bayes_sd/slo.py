"""Service-level objectives: limits on latency, written as text.

An objective is a set of upper limits. Each says what latency, which statistic of it over requests,
and the limit: ``"e2e_p95 <= 2.0"`` is met where 95 in 100 requests are answered within 2 s.
"""

import math
import re
from dataclasses import dataclass, field
from decimal import Decimal

from bayes_sd.exceptions import ArgumentError
from bayes_sd.nearest import nearest_first, nearest_names
from bayes_sd.validate import one_of, positive

LATENCIES = ("e2e", "ttft", "tpot")
OPERATORS = ("<=", "<")
LOWEST, HIGHEST = Decimal(50), Decimal("99.9")  # percentiles
EXAMPLE = "Write for example 'e2e_p95 <= 2.0' or 'tpot_mean <= 30 ms'."
_SECONDS = {"": 1, "s": 1, "ms": 1000}  # how many of the unit make a second
_TERM = re.compile(r"^\s*(?P<name>[^<>=≤≥]*?)\s*(?P<operator>[<>=≤≥]+)\s*(?P<limit>.*?)\s*$")
_LIMIT = re.compile(r"^(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>[^\d\s]*)$")
_PERCENTILE = re.compile(r"^p(\d+(?:\.\d+)?)$")


@dataclass(frozen=True, order=True)
class SloTerm:
    """One limit of an objective.

    Parameters
    ----------
    latency : {"e2e", "ttft", "tpot"}
        End-to-end latency, time to first token, or time per output token after the first.
    statistic : str
        ``mean``, or a percentile over requests from ``p50`` to ``p99.9``.
    operator : {"<=", "<"}
        Whether the limit itself is allowed.
    limit_s : float
        Limit, s.

    Raises
    ------
    ArgumentError
        If a part is not one of these.

    Examples
    --------
    >>> SloTerm("e2e", "p95", "<=", 2.0).level
    0.95
    """

    latency: str
    statistic: str
    operator: str
    limit_s: float

    def __post_init__(self) -> None:
        """Check every part, and write the percentile in one way."""
        one_of(self.latency, LATENCIES, "latency of an SLO")
        one_of(self.operator, OPERATORS, "operator of an SLO")
        object.__setattr__(self, "statistic", _statistic(self.statistic))
        object.__setattr__(self, "limit_s", positive(self.limit_s, "limit of an SLO", unit="s"))

    @property
    def level(self) -> float | None:
        """Share of requests that a percentile is about, 0 to 1; None for a mean."""
        if self.statistic == "mean":
            return None
        return float(Decimal(self.statistic[1:]) / 100)

    @property
    def name(self) -> str:
        """Latency and statistic, as they are written."""
        return f"{self.latency}_{self.statistic}"

    def __str__(self) -> str:
        """Return the text that reads back as this term, in seconds."""
        return f"{self.name} {self.operator} {self.limit_s!r}"


@dataclass(frozen=True, init=False, repr=False)
class Slo:
    """A service-level objective: upper limits on latency, all of which are to be met.

    Parameters
    ----------
    *terms : str or SloTerm
        Limits such as ``"e2e_p95 <= 2.0"``: a latency (``e2e``, ``ttft``, ``tpot``), a statistic
        (``mean``, or ``p50`` to ``p99.9``) in either order, ``<=`` or ``<``, and a limit in
        seconds, or with the unit ``s`` or ``ms``. One text may hold several, joined by commas.

    Attributes
    ----------
    terms : tuple of SloTerm
        Sorted, so that the order in which they are written makes no difference.

    Raises
    ------
    ArgumentError
        If there is no term, one cannot be read, or two are about the same statistic.

    Examples
    --------
    >>> slo = Slo("p95_e2e <= 2s", "tpot_mean<=30 ms")
    >>> str(slo)
    'e2e_p95 <= 2.0, tpot_mean <= 0.03'
    >>> Slo(str(slo)) == slo
    True
    """

    terms: tuple[SloTerm, ...] = field()

    def __init__(self, *terms: str | SloTerm) -> None:
        read: list[SloTerm] = []
        for term in terms:
            if isinstance(term, SloTerm):
                read.append(term)
            elif isinstance(term, str):
                read.extend(parse_term(part) for part in term.split(","))
            else:
                raise ArgumentError(f"an SLO must be text. Got {term!r} instead. {EXAMPLE}")
        if not read:
            raise ArgumentError(f"an SLO must have at least one term. Got none instead. {EXAMPLE}")
        names = [term.name for term in read]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            limits = " and ".join(str(term) for term in read if term.name == twice)
            raise ArgumentError(
                f"an SLO must have one limit for {twice}. Got {limits} instead. Keep the lower one."
            )
        object.__setattr__(self, "terms", tuple(sorted(read)))

    def __str__(self) -> str:
        """Return the text that reads back as this objective, in seconds."""
        return ", ".join(str(term) for term in self.terms)

    def __repr__(self) -> str:
        """Return the call that makes this objective."""
        return f"Slo({', '.join(repr(str(term)) for term in self.terms)})"


def as_slo(slo: Slo | str) -> Slo:
    """Return an objective, read from text if it is not one.

    Parameters
    ----------
    slo : Slo or str
        What the user gave.

    Raises
    ------
    ArgumentError
        If it is neither, or cannot be read.

    Examples
    --------
    >>> as_slo("e2e_p99 < 4").terms[0].limit_s
    4.0
    """
    return slo if isinstance(slo, Slo) else Slo(slo)


def parse_term(text: str) -> SloTerm:
    """Read one limit.

    Parameters
    ----------
    text : str
        Such as ``"e2e_p95 <= 2.0"``, see `Slo`.

    Raises
    ------
    ArgumentError
        If it cannot be read; the message names the part, and the nearest name.

    Examples
    --------
    >>> parse_term("P99.9 TTFT < 250ms")
    SloTerm(latency='ttft', statistic='p99.9', operator='<', limit_s=0.25)
    """
    found = _TERM.match(text)
    if found is None:
        raise ArgumentError(
            f"a term of an SLO must have a name, <= or <, and a limit. Got {text.strip()!r} "
            f"instead. {EXAMPLE}"
        )
    operator = found["operator"].replace("≤", "<=")
    if operator not in OPERATORS:
        raise ArgumentError(
            f"a term of an SLO must be an upper limit, with <= or <. Got {text.strip()!r} instead. "
            f"{EXAMPLE}"
        )
    latency, statistic = _names(found["name"], text.strip())
    return SloTerm(latency, statistic, operator, _limit_s(found["limit"], text.strip()))


def _names(name: str, text: str) -> tuple[str, str]:
    """Split a name into latency and statistic, whichever comes first."""
    words = [word for word in re.split(r"[\s_\-]+", name.lower()) if word]
    latencies = [word for word in words if word in LATENCIES]
    others = [word for word in words if word not in LATENCIES]
    if len(latencies) == 1 and len(others) == 1:
        return latencies[0], _statistic(others[0])
    if len(latencies) == 1 and not others:
        raise ArgumentError(
            f"a term of an SLO must say which statistic of {latencies[0]} is limited: "
            f"{latencies[0]}_mean, {latencies[0]}_p95. Got {text!r} instead."
        )
    near = [match for word in others for match in nearest_names(word, LATENCIES, 1)]
    listed = ", ".join(nearest_first(near[0] if near else "", LATENCIES))
    wanted = f"one of {listed} and mean or a percentile such as p95"
    advice = f"Did you mean '{near[0]}'?" if near and not latencies else EXAMPLE
    raise ArgumentError(f"a term of an SLO must name {wanted}. Got {text!r} instead. {advice}")


def _statistic(word: str) -> str:
    """Return a statistic in its one spelling."""
    found = _PERCENTILE.match(word) if isinstance(word, str) else None
    if word == "mean":
        return "mean"
    allowed = f"mean, or a percentile from p{LOWEST} to p{HIGHEST}"
    if found is None:
        near = nearest_names(word, ("mean", "p50", "p90", "p95", "p99", "p99.9"), 1)
        advice = f"Did you mean '{near[0]}'?" if near else EXAMPLE
        raise ArgumentError(
            f"statistic of an SLO must be {allowed}. Got {word!r} instead. {advice}"
        )
    percent = Decimal(found[1]).normalize()
    if not LOWEST <= percent <= HIGHEST:
        nearest = min(max(percent, LOWEST), HIGHEST)
        raise ArgumentError(
            f"statistic of an SLO must be {allowed}. Got {word!r} instead. The nearest is "
            f"'p{nearest:f}'."
        )
    return f"p{percent:f}"


def _limit_s(text: str, term: str) -> float:
    """Return a limit in seconds."""
    found = _LIMIT.match(text)
    if found is None or found["unit"].lower() not in _SECONDS:
        raise ArgumentError(
            "limit of an SLO must be a number of seconds, or one with the unit 's' or 'ms'. "
            f"Got {text!r} in {term!r} instead. {EXAMPLE}"
        )
    limit = float(Decimal(found["number"]) / _SECONDS[found["unit"].lower()])  # 6.1 ms is 0.0061
    if not 0 < limit < math.inf:
        raise ArgumentError(
            f"limit of an SLO must be above 0 and finite. Got {text!r} in {term!r} instead."
        )
    return limit
