"""Settings of the simulator: what a server costs, and who drafts for it."""

from collections.abc import Sequence
from dataclasses import dataclass

from bayes_sd.exceptions import ArgumentError
from bayes_sd.schema import METHODS
from bayes_sd.validate import not_negative, one_of, positive, probability, whole_number

POPULARITIES = ("gamma", "zipf")


@dataclass(frozen=True, kw_only=True)
class SimulatedExperts:
    """The routed experts of a verifier.

    Each token picks `experts_per_token` different experts, one after another, with chances in
    proportion to their popularity (what top-m of Gumbel-perturbed router logits does [1]_).
    Tokens pick independently. One layer is drawn per step and stands for all of them, so one
    step's coverage varies more than a mean over layers would; its mean is the same.

    Attributes
    ----------
    num_experts, experts_per_token : int
        M and m.
    weights_share : float
        Part of ``weights_s`` that is expert weights, 0 to 1; only those touched are read.
    compute_share : float
        Part of ``compute_per_token_s`` spent in experts, 0 to 1. It is paid by the most loaded
        shard: multiplied by largest / mean load of a shard.
    load_cv : float
        Coefficient of variation of the popularity over experts.
    popularity : {"gamma", "zipf"} or sequence of float
        Shape of the popularity, see `bayes_sd.simulate_routing.expert_popularity`; or the
        popularity of each expert, up to a factor, and then `load_cv` does not count.
    num_shards : int
        Shards that the experts are dealt to in turn, most popular first. 1: all on one device,
        where load is never uneven; M: the hottest expert decides.

    References
    ----------
    .. [1] Kool, van Hoof and Welling (2019). Stochastic beams and where to find them: the
       Gumbel-top-k trick for sampling sequences without replacement. ICML.
    """

    num_experts: int
    experts_per_token: int
    weights_share: float = 0.9
    compute_share: float = 0.7
    load_cv: float = 0.0
    popularity: str | Sequence[float] = "gamma"
    num_shards: int = 1

    def __post_init__(self) -> None:
        """Check every field."""
        whole_number(self.num_experts, "num_experts", minimum=2)
        whole_number(self.experts_per_token, "experts_per_token", maximum=self.num_experts)
        probability(self.weights_share, "weights_share")
        probability(self.compute_share, "compute_share")
        not_negative(self.load_cv, "load_cv")
        if isinstance(self.popularity, str):
            one_of(self.popularity, POPULARITIES, "popularity")
        else:
            given = tuple(positive(float(weight), "popularity") for weight in self.popularity)
            object.__setattr__(self, "popularity", given)
            if len(given) != self.num_experts:
                raise ArgumentError(
                    f"popularity must have a number for each of the {self.num_experts} experts. "
                    f"Got {len(given)} instead."
                )
        whole_number(self.num_shards, "num_shards", maximum=self.num_experts)


@dataclass(frozen=True, kw_only=True)
class SimulatedServer:
    """A verifier on a server: costs of a step, and limits of the engine.

    A step that checks n requests with D drafts in all, and prefills P prompt tokens, has
    T = n + D + P tokens in it and takes

        boot_factor * (step_fixed_s + bend(weights_s, T * compute_per_token_s)
                       + requests in it * request_in_step_s
                       + their tokens in the KV cache * context_per_token_s
                       + mixed_step_s if n > 0 and P > 0
                       + the drafter's time)

    where bend(a, b) = (a^p + b^p)^(1/p) is a smooth roofline [1]_: the longer of the time to read
    the weights and the time to compute, for a large `roofline_sharpness` p.

    Attributes
    ----------
    weights_s, compute_per_token_s : float
        Reading all weights once; computing one token.
    step_fixed_s : float
        Launches and scheduling, hidden by nothing.
    roofline_sharpness : float
        p of the bend; 1 adds the two times, ``math.inf`` takes the longer.
    request_in_step_s, context_per_token_s : float
        Cost of a request in a step, and of each of its tokens in the KV cache.
    mixed_step_s : float
        Added to a step that holds prefill and decoding together.
    request_start_s : float
        Before the engine sees a request: network, tokenising. Delays nobody else.
    experts : SimulatedExperts or None
        None for a dense model.
    max_num_seqs, max_num_batched_tokens : int
        Limits on requests and on tokens in a step. A longer prefill is cut into chunks.
    kv_capacity_tokens : int or None
        Tokens that the KV cache holds; None for no limit. When it is full, the request that was
        admitted last loses its cache and waits, first in the queue, to be computed again.
    step_noise_cv : float
        Coefficient of variation of the time of a step about its mean (log-normal, independent).
    boot_factor : float
        Factor on the time of every step of this server start.
    verifier, hardware, engine : str
        Names for the table.
    verifier_params_b, verifier_active_params_b : float or None
        Sizes for the table; they cost nothing by themselves.

    References
    ----------
    .. [1] Williams, Waterman and Patterson (2009). Roofline: an insightful visual performance
       model for multicore architectures. Communications of the ACM 52(4).

    Examples
    --------
    >>> SimulatedServer(weights_s=8e-3, compute_per_token_s=6e-5).max_num_seqs
    256
    """

    weights_s: float
    compute_per_token_s: float
    step_fixed_s: float = 0.0
    roofline_sharpness: float = 4.0
    request_in_step_s: float = 0.0
    context_per_token_s: float = 0.0
    mixed_step_s: float = 0.0
    request_start_s: float = 0.0
    experts: SimulatedExperts | None = None
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    kv_capacity_tokens: int | None = None
    step_noise_cv: float = 0.0
    boot_factor: float = 1.0
    verifier: str = "verifier"
    hardware: str = "simulated"
    engine: str = "simulated"
    verifier_params_b: float | None = None
    verifier_active_params_b: float | None = None

    def __post_init__(self) -> None:
        """Check every field."""
        positive(self.weights_s + self.step_fixed_s, "weights_s + step_fixed_s", unit="seconds")
        for name in (
            "weights_s",
            "compute_per_token_s",
            "step_fixed_s",
            "request_in_step_s",
            "context_per_token_s",
            "mixed_step_s",
            "request_start_s",
            "step_noise_cv",
        ):
            not_negative(getattr(self, name), name)
        if not self.roofline_sharpness >= 1:
            raise ArgumentError(
                "roofline_sharpness must be at least 1. Got "
                f"{self.roofline_sharpness!r} instead. 1 adds the two times, math.inf takes the "
                "longer."
            )
        positive(self.boot_factor, "boot_factor")
        whole_number(self.max_num_seqs, "max_num_seqs")
        whole_number(self.max_num_batched_tokens, "max_num_batched_tokens")
        if self.kv_capacity_tokens is not None:
            whole_number(self.kv_capacity_tokens, "kv_capacity_tokens")
        if not self.verifier:
            raise ArgumentError("verifier must be a name. Got '' instead.")


@dataclass(frozen=True, kw_only=True)
class SimulatedDrafter:
    """A drafter: what it costs in a step, and how often its drafts are accepted.

    A step in which n requests draft k tokens each takes ``k * (fixed_s + n * per_request_s)`` for
    drafting, ``n * k * verify_per_draft_s`` for checking the drafts (beyond the verifier's
    compute), and ``prefill_per_token_s`` for each prompt token that is prefilled.

    Attributes
    ----------
    acceptance : float or tuple of float
        Chance that a draft is accepted given that all before it were, for the median request: one
        for every position, or one per position.
    acceptance_spread_logit : float
        Standard deviation over requests of an effect on the logit of every position. Then
        positions that are reached belong to easier requests, and counted rates rise along them.
    is_forced : bool
        Report the rate as forced at every position (needs one rate and no spread).
    fixed_s, per_request_s, verify_per_draft_s, prefill_per_token_s, loaded_s : float
        See above; `loaded_s` is added to every step, drafting or not.
    drafter, method : str
        Names for the table.
    drafter_params_b : float or None
        Size for the table.
    """

    acceptance: float | Sequence[float]
    acceptance_spread_logit: float = 0.0
    is_forced: bool = False
    fixed_s: float = 0.0
    per_request_s: float = 0.0
    verify_per_draft_s: float = 0.0
    prefill_per_token_s: float = 0.0
    loaded_s: float = 0.0
    drafter: str = "drafter"
    method: str = "draft_model"
    drafter_params_b: float | None = None

    def __post_init__(self) -> None:
        """Check every field, and freeze a sequence of rates."""
        if not isinstance(self.acceptance, int | float):
            rates = tuple(float(probability(float(a), "acceptance")) for a in self.acceptance)
            object.__setattr__(self, "acceptance", rates)
        else:
            probability(self.acceptance, "acceptance")
        not_negative(self.acceptance_spread_logit, "acceptance_spread_logit")
        one_rate = isinstance(self.acceptance, int | float)
        if self.is_forced and not (one_rate and self.acceptance_spread_logit == 0):
            raise ArgumentError(
                "is_forced must be False for several rates or with acceptance_spread_logit above "
                "0. Got True instead: a forced rate is one number for all positions and requests."
            )
        for name in ("fixed_s", "per_request_s", "verify_per_draft_s", "prefill_per_token_s"):
            not_negative(getattr(self, name), name)
        not_negative(self.loaded_s, "loaded_s")
        one_of(self.method, tuple(m for m in METHODS if m != "none"), "method")

    def rates(self, num_speculative_tokens: int) -> tuple[float, ...]:
        """Return the rate of each position of the median request.

        Raises
        ------
        ArgumentError
            If there are fewer rates than positions.
        """
        if isinstance(self.acceptance, int | float):
            return (float(self.acceptance),) * num_speculative_tokens
        if len(self.acceptance) < num_speculative_tokens:
            raise ArgumentError(
                f"acceptance must have a rate for each of the {num_speculative_tokens} positions. "
                f"Got {len(self.acceptance)} instead: add the missing ones."
            )
        return tuple(self.acceptance[:num_speculative_tokens])
