"""What a prediction is asked about: one configuration at one load."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayes_sd.exceptions import ArgumentError
from bayes_sd.validate import not_negative, one_of, positive, probability, whole_number

ARRIVALS = ("poisson", "constant", "bursty")
DEFAULT_MAX_NUM_SEQS = 256
_UNITS = {
    "tokens": ("input_len_tokens", "output_len_tokens"),
    "1e9": ("verifier_params_b", "verifier_active_params_b", "drafter_params_b"),
}


@dataclass(frozen=True)
class Scenario:
    """One configuration of a pair at one load.

    Parameters
    ----------
    pair : str
        Label of a fitted pair (`bayes_sd.fitted_pairs(tree)` lists them), or a part of it that
        fits only one; for no speculation also the label of a base.
    request_rate_rps : float, optional
        Arrivals per second: an open loop. Give this or ``concurrency``.
    concurrency : float, optional
        Requests kept in flight: a closed loop.
    arrivals : {"poisson", "constant", "bursty"}
        How an open loop's requests arrive.
    input_len_tokens, output_len_tokens : float, optional
        Prompt and answer length; by default those of the pair's measured runs (their mean).
    num_speculative_tokens : int
        Draft length k; 0 is speculation off, the server started without it.
    drafter_loaded : bool
        With k = 0: whether the server was started with a drafter all the same, which costs a
        little at every step. With k above 0 it makes no difference.
    acceptance : float or sequence of float, optional
        Conditional acceptance rate: one for every position, or one per position. By default the
        pair's own, which must have been counted.
    mean_acceptance_length : float, optional
        In place of ``acceptance``: tokens per step, the verifier's own counted. It must be given
        for a tree or adaptive drafting, whose acceptance is not that of a chain.
    num_draft_steps, num_verified_tokens : float, optional
        Draft passes of a step, and tokens of a request that it verifies: a tree's depth, and its
        nodes and 1; or the means of adaptive drafting. By default a chain's, k and k + 1.
    num_requests : int, optional
        Requests of the fresh benchmark run that ``kind="run"`` predicts; 200 by default.
    max_num_seqs : int
        Limit of the engine on requests in flight; capacity is reached there at the latest.
    verifier, deployment : str, optional
        For a pair that was not fitted (``allow_new=True``): the label of a fitted base that it
        runs on, if it does, and of a fitted deployment. Left open, they are new, too.
    verifier_params_b, verifier_active_params_b, drafter_params_b : float, optional
        For a pair that was not fitted: sizes in 1e9 parameters. All parameters of the verifier,
        those used per token (by default all), and those of the drafter.

    Raises
    ------
    ArgumentError
        If a value is out of range, or rate and concurrency are both or neither given.

    Examples
    --------
    >>> Scenario("Qwen3-8B", request_rate_rps=4.0, num_speculative_tokens=3, acceptance=0.7).label
    'Qwen3-8B, k = 3, 4 rps, acceptance 0.7'
    """

    pair: str
    request_rate_rps: float | None = None
    concurrency: float | None = None
    arrivals: str = "poisson"
    input_len_tokens: float | None = None
    output_len_tokens: float | None = None
    num_speculative_tokens: int = 0
    drafter_loaded: bool = False
    acceptance: float | tuple[float, ...] | None = None
    mean_acceptance_length: float | None = None
    num_draft_steps: float | None = None
    num_verified_tokens: float | None = None
    num_requests: int = 200
    max_num_seqs: int = DEFAULT_MAX_NUM_SEQS
    verifier: str | None = None
    deployment: str | None = None
    verifier_params_b: float | None = None
    verifier_active_params_b: float | None = None
    drafter_params_b: float | None = None

    def __post_init__(self) -> None:
        """Check every field, and freeze a sequence of acceptance rates."""
        if not isinstance(self.pair, str) or not self.pair:
            raise ArgumentError(f"pair must be a label. Got {self.pair!r} instead.")
        if (self.request_rate_rps is None) == (self.concurrency is None):
            raise ArgumentError(
                "a scenario must have request_rate_rps (open loop) or concurrency (closed loop), "
                f"one of them. Got request_rate_rps={self.request_rate_rps!r} and "
                f"concurrency={self.concurrency!r} instead."
            )
        if self.request_rate_rps is not None:
            positive(self.request_rate_rps, "request_rate_rps", unit="1/s")
        if self.concurrency is not None and positive(self.concurrency, "concurrency") < 1:
            raise ArgumentError(
                f"concurrency must be at least 1 request. Got {self.concurrency!r} instead."
            )
        one_of(self.arrivals, ARRIVALS, "arrivals")
        for unit, names in _UNITS.items():
            for name in names:
                if getattr(self, name) is not None:
                    positive(getattr(self, name), name, unit=unit)
        for name, minimum in (
            ("num_speculative_tokens", 0),
            ("num_requests", 1),
            ("max_num_seqs", 1),
        ):
            number = whole_number(getattr(self, name), name, minimum=minimum)
            object.__setattr__(self, name, number)
        if isinstance(self.acceptance, Sequence | np.ndarray):
            rates = tuple(float(probability(float(a), "acceptance")) for a in self.acceptance)
            object.__setattr__(self, "acceptance", rates)
            if len(rates) < self.num_speculative_tokens:
                raise ArgumentError(
                    f"acceptance must have a rate for each of the {self.num_speculative_tokens} "
                    f"positions. Got {len(rates)} instead: add the missing ones."
                )
        elif self.acceptance is not None:
            probability(self.acceptance, "acceptance")
        self._check_drafts()

    def _check_drafts(self) -> None:
        """Check what is said of a step's drafts against the draft length."""
        k, length = self.num_speculative_tokens, self.mean_acceptance_length
        if length is not None and self.acceptance is not None:
            raise ArgumentError(
                "a scenario must have acceptance or mean_acceptance_length, not both. Got "
                f"{self.acceptance!r} and {length!r} instead."
            )
        passes = k if self.num_draft_steps is None else self.num_draft_steps
        for name, value, low, high in (
            ("num_draft_steps", self.num_draft_steps, 0.0, float(k)),
            ("num_verified_tokens", self.num_verified_tokens, 1.0, np.inf if k else 1.0),
            ("mean_acceptance_length", length, 1.0, float(passes) + 1),
        ):
            if value is not None and not low <= not_negative(value, name) <= high:
                raise ArgumentError(
                    f"{name} must be from {low:g} to {high:g} with num_speculative_tokens = {k}"
                    f"{'' if passes == k else f' and num_draft_steps = {passes:g}'}. "
                    f"Got {value!r} instead."
                )

    @property
    def is_chain(self) -> bool:
        """Whether every step drafts k tokens in k passes and verifies k + 1."""
        k = self.num_speculative_tokens
        return self.num_draft_steps in (None, k) and self.num_verified_tokens in (None, k + 1)

    def with_(self, **changes: object) -> "Scenario":
        """Return a copy with some fields changed."""
        if "request_rate_rps" in changes:
            changes.setdefault("concurrency", None)
        elif "concurrency" in changes:
            changes.setdefault("request_rate_rps", None)
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def load(self) -> float:
        """Request rate of an open loop, concurrency of a closed one."""
        if self.request_rate_rps is not None:
            return float(self.request_rate_rps)
        return float(not_negative(self.concurrency, "concurrency"))

    @property
    def label(self) -> str:
        """A short name for tables and plots."""
        load = f"{self.load:g} rps" if self.concurrency is None else f"{self.load:g} in flight"
        loaded = self.drafter_loaded and not self.num_speculative_tokens
        k = f"k = {self.num_speculative_tokens}{' (drafter loaded)' if loaded else ''}"
        parts = [self.pair, k, load]
        if self.acceptance is not None and self.num_speculative_tokens:
            given = self.acceptance
            rates = given if isinstance(given, tuple) else (given,)
            parts.append("acceptance " + "/".join(f"{a:g}" for a in rates))
        if self.mean_acceptance_length is not None:
            parts.append(f"{self.mean_acceptance_length:g} tokens per step")
        for value, unit in (
            (self.num_draft_steps, "draft passes"),
            (self.num_verified_tokens, "verified tokens"),
        ):
            if value is not None:
                parts.append(f"{value:g} {unit}")
        return ", ".join(parts)
