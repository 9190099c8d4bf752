"""The load on a simulated server: settings, and the requests that are drawn from them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayes_sd.exceptions import ArgumentError
from bayes_sd.simulate_records import Requests
from bayes_sd.validate import not_negative, one_of, positive, whole_number

OPEN_ARRIVALS = ("poisson", "constant", "bursty")
DEFAULT_NUM_REQUESTS = 200
MIN_WARMUP_REQUESTS = 50


@dataclass(frozen=True, kw_only=True)
class SimulatedLoad:
    """What is sent to the server: how requests arrive, how long they are, and how many count.

    Attributes
    ----------
    request_rate_rps : float or None
        Arrivals per second of an open loop. Give this or `concurrency`.
    concurrency : int or None
        Requests kept in flight by a closed loop.
    arrivals : {"poisson", "constant", "bursty"}
        How an open loop's requests arrive. bursty draws gamma gaps.
    arrivals_cv : float
        Coefficient of variation of the gaps of bursty arrivals; 1 would be poisson.
    input_len_tokens, output_len_tokens : float or sequence of int
        Mean length, or lengths to draw from; two sequences are drawn from in pairs.
    input_len_cv, output_len_cv : float
        Coefficient of variation of log-normal lengths about the mean; 0 is constant.
    num_requests : int or None
        Requests that are measured; 200 unless `duration_s` is given.
    duration_s : float or None
        In an open loop, measure the requests that arrive within this time instead.
    warmup_requests : int or None
        Requests before them, not measured. None: the larger of 50 and twice the concurrency.
    keeps_arriving : bool
        Whether requests keep coming until the last measured one has ended (a steady state), or
        stop with it, so that the run drains, as load tools do.
    client_cap : int or None
        Limit of the load tool on requests in flight; the next is sent when one ends.
    ramp_up_s : float
        A closed loop starts its first requests evenly over so long; 0 starts all at once.
    workload, sampling : str
        Names for the table.

    Raises
    ------
    ArgumentError
        If a value is out of range, or two are given where one belongs.

    Examples
    --------
    >>> SimulatedLoad(request_rate_rps=4.0).kind, SimulatedLoad(concurrency=8).kind
    ('open', 'closed')
    """

    request_rate_rps: float | None = None
    concurrency: int | None = None
    arrivals: str = "poisson"
    arrivals_cv: float = 2.0
    input_len_tokens: float | Sequence[int] = 512
    output_len_tokens: float | Sequence[int] = 128
    input_len_cv: float = 0.0
    output_len_cv: float = 0.0
    num_requests: int | None = None
    duration_s: float | None = None
    warmup_requests: int | None = None
    keeps_arriving: bool = True
    client_cap: int | None = None
    ramp_up_s: float = 0.0
    workload: str = ""
    sampling: str = ""

    def __post_init__(self) -> None:
        """Check every field, and freeze sequences of lengths."""
        if (self.request_rate_rps is None) == (self.concurrency is None):
            raise ArgumentError(
                "a load must have request_rate_rps (open loop) or concurrency (closed loop), one "
                f"of them. Got request_rate_rps={self.request_rate_rps!r} and "
                f"concurrency={self.concurrency!r} instead."
            )
        if self.request_rate_rps is not None:
            positive(self.request_rate_rps, "request_rate_rps", unit="1/s")
        one_of(self.arrivals, OPEN_ARRIVALS, "arrivals")
        positive(self.arrivals_cv, "arrivals_cv")
        for name, minimum in (
            ("concurrency", 1),
            ("num_requests", 2),
            ("warmup_requests", 0),
            ("client_cap", 1),
        ):
            if getattr(self, name) is not None:
                whole_number(getattr(self, name), name, minimum=minimum)
        not_negative(self.ramp_up_s, "ramp_up_s")
        if self.duration_s is not None:
            positive(self.duration_s, "duration_s", unit="seconds")
            if self.num_requests is not None or self.concurrency is not None:
                raise ArgumentError(
                    "duration_s must stand alone in an open loop. Got it with num_requests or "
                    "concurrency instead: give num_requests for a closed loop."
                )
        other = {
            "arrivals": self.kind == "closed" and self.arrivals != "poisson",
            "client_cap": self.kind == "closed" and self.client_cap is not None,
            "ramp_up_s": self.kind == "open" and self.ramp_up_s > 0,
        }
        for name in (name for name, is_given in other.items() if is_given):
            raise ArgumentError(
                f"{name} must be left alone in {'an' if self.kind == 'open' else 'a'} {self.kind} "
                f"loop, where it means nothing. Got {getattr(self, name)!r} instead."
            )
        for name in ("input_len", "output_len"):
            self._check_length(f"{name}_tokens", f"{name}_cv")
        given = (self.input_len_tokens, self.output_len_tokens)
        sizes = {len(lengths) for lengths in given if isinstance(lengths, tuple)}
        if len(sizes) > 1:
            raise ArgumentError(
                "sequences of input_len_tokens and output_len_tokens must be of one size, for "
                f"they are drawn from in pairs. Got sizes {sorted(sizes)} instead."
            )

    def _check_length(self, name: str, cv_name: str) -> None:
        given, spread = getattr(self, name), not_negative(getattr(self, cv_name), cv_name)
        if isinstance(given, Sequence | np.ndarray):
            lengths = tuple(whole_number(length, name) for length in given)
            if not lengths or spread > 0:
                raise ArgumentError(
                    f"{name} must be a sequence of at least one length without {cv_name}, or a "
                    f"mean. Got {len(lengths)} lengths and {cv_name}={spread:g} instead."
                )
            object.__setattr__(self, name, lengths)
        elif spread == 0:
            whole_number(given, name)
        else:
            positive(given, name, unit="tokens")

    @property
    def kind(self) -> str:
        """``open`` or ``closed``, as in the table of runs."""
        return "open" if self.concurrency is None else "closed"

    @property
    def num_warmup(self) -> int:
        """Requests before the measured ones."""
        if self.warmup_requests is not None:
            return int(self.warmup_requests)
        return max(MIN_WARMUP_REQUESTS, 2 * (self.concurrency or 0))

    @property
    def num_measured(self) -> int | None:
        """Requests that are measured; None if a duration says how many."""
        if self.duration_s is not None:
            return None
        return DEFAULT_NUM_REQUESTS if self.num_requests is None else int(self.num_requests)

    @property
    def cap(self) -> int | None:
        """Limit on requests in flight: the concurrency of a closed loop, else the client's."""
        return self.client_cap if self.concurrency is None else self.concurrency


def draw_requests(
    load: SimulatedLoad,
    rates: Sequence[float],
    spread_logit: float,
    count: int,
    seed: np.random.SeedSequence,
) -> Requests:
    """Draw the first requests of a load; a larger count continues a smaller one.

    Parameters
    ----------
    load : SimulatedLoad
        Settings.
    rates : sequence of float
        Conditional acceptance rate of each position, of the median request.
    spread_logit : float
        Standard deviation over requests of an effect on the logit of all positions.
    count : int
        How many requests.
    seed : numpy.random.SeedSequence
        Arrivals, lengths and effects each have a stream of their own.
    """
    # A seed built afresh, for spawn() would count on.
    streams = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key).spawn(4)
    arrivals, prompts, answers, effects = (np.random.default_rng(s) for s in streams)
    places = prompts.integers(0, 2**62, count)  # drawn from in pairs: both use these places
    prompt = (load.input_len_tokens, load.input_len_cv, count, places, prompts.spawn(1)[0])
    answer = (load.output_len_tokens, load.output_len_cv, count, places, answers)
    shift = np.exp(-spread_logit * effects.standard_normal(count))[:, None]
    a = np.array(rates, dtype=float)
    of_request = a / (a + (1 - a) * shift)  # its logit is that of a, plus the effect
    sizes = _draw_lengths(*prompt), _draw_lengths(*answer)
    return Requests(_draw_arrivals(load, count, arrivals), *sizes, of_request)


def _draw_arrivals(
    load: SimulatedLoad, count: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    if load.concurrency is not None:
        first = np.arange(count) / load.concurrency
        return load.ramp_up_s * np.minimum(first, 1.0)
    assert load.request_rate_rps is not None
    gap_s = 1.0 / load.request_rate_rps
    if load.arrivals == "constant":
        return gap_s * np.arange(1, count + 1, dtype=float)
    shape = 1.0 if load.arrivals == "poisson" else load.arrivals_cv**-2
    return np.cumsum(rng.gamma(shape, gap_s / shape, count))


def _draw_lengths(
    given: float | Sequence[int],
    cv: float,
    count: int,
    places: NDArray[np.int64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw whole lengths of at least one token; log-normal ones have the mean and cv given."""
    if isinstance(given, Sequence):
        return np.asarray(given, dtype=np.int64)[places % len(given)]
    if cv == 0:
        return np.full(count, int(given), dtype=np.int64)
    log_sd = np.sqrt(np.log1p(cv**2))
    drawn = given * np.exp(log_sd * rng.standard_normal(count) - log_sd**2 / 2)
    return np.maximum(np.rint(drawn), 1).astype(np.int64)
