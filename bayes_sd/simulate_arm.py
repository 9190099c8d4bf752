"""One configuration of a simulated server, and what it costs in the engine's terms."""

from dataclasses import dataclass, replace
from math import exp, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from bayes_sd.exceptions import ArgumentError
from bayes_sd.simulate_records import Costs, Limits
from bayes_sd.simulate_settings import SimulatedDrafter, SimulatedServer
from bayes_sd.validate import whole_number


@dataclass(frozen=True, kw_only=True)
class SimulatedArm:
    """A server, its drafter and the draft length: what one server start is.

    Attributes
    ----------
    server : SimulatedServer
        The verifier with its costs and limits.
    drafter : SimulatedDrafter or None
        None is a server without speculation.
    num_speculative_tokens : int
        Draft length k; with a schedule, its ceiling. 0 with a drafter is "loaded but off".
    draft_length_schedule : tuple of (int, int, int)
        Draft length by number of requests in the batch, as ``(first, last, k)`` with both ends
        counted; the first starts at 1, and gaps and the tail keep the k before (vLLM's
        ``num_speculative_tokens_per_batch_size``). Empty: k whatever the batch.

    Raises
    ------
    ArgumentError
        If there is no drafter for the drafts, or the schedule is not in order.

    Examples
    --------
    >>> server = SimulatedServer(weights_s=8e-3, compute_per_token_s=6e-5)
    >>> drafter = SimulatedDrafter(acceptance=0.7, fixed_s=5e-4)
    >>> SimulatedArm(server=server, drafter=drafter, num_speculative_tokens=3).label
    'verifier-drafter-k3'
    """

    server: SimulatedServer
    drafter: SimulatedDrafter | None = None
    num_speculative_tokens: int = 0
    draft_length_schedule: tuple[tuple[int, int, int], ...] = ()

    def __post_init__(self) -> None:
        """Check every field."""
        k = whole_number(self.num_speculative_tokens, "num_speculative_tokens", minimum=0)
        if self.drafter is None and k > 0:
            raise ArgumentError(
                f"num_speculative_tokens must be 0 without a drafter. Got {k} instead: give a "
                "SimulatedDrafter."
            )
        if self.drafter is not None:
            self.drafter.rates(k)
        previous = 0
        for first, last, length in self.draft_length_schedule:
            in_order = previous < first <= last and (previous > 0 or first == 1)
            if not in_order or not 0 <= length <= k:
                raise ArgumentError(
                    "draft_length_schedule must hold (first, last, k) in rising order from 1 "
                    f"requests on, with k from 0 to num_speculative_tokens = {k}. Got "
                    f"{(first, last, length)!r} instead."
                )
            previous = last

    @property
    def label(self) -> str:
        """Verifier, drafter and draft length."""
        name = "none" if self.drafter is None else self.drafter.drafter
        adaptive = "-schedule" if self.draft_length_schedule else ""
        return f"{self.server.verifier}-{name}-k{self.num_speculative_tokens}{adaptive}"

    def rates(self) -> tuple[float, ...]:
        """Return the median request's acceptance rate at each position."""
        return () if self.drafter is None else self.drafter.rates(self.num_speculative_tokens)

    def draft_of_batch(self) -> NDArray[np.int64]:
        """Return the draft length for each number of requests in the batch, from 0 on."""
        size = self.server.max_num_seqs + 1
        lengths = np.full(size, self.num_speculative_tokens, dtype=np.int64)
        for first, _, length in self.draft_length_schedule:
            lengths[first:] = length
        return lengths

    def costs(self) -> Costs:
        """Return all costs as the engine reads them."""
        server, drafter = self.server, self.drafter
        loaded = drafter or SimulatedDrafter(acceptance=0.0)
        experts = server.experts
        return Costs(
            weights_s=float(server.weights_s),
            compute_per_token_s=float(server.compute_per_token_s),
            step_fixed_s=float(server.step_fixed_s + loaded.loaded_s),
            roofline_sharpness=float(server.roofline_sharpness),
            request_in_step_s=float(server.request_in_step_s),
            context_per_token_s=float(server.context_per_token_s),
            mixed_step_s=float(server.mixed_step_s),
            request_start_s=float(server.request_start_s),
            expert_weights_share=float(experts.weights_share) if experts else 0.0,
            expert_compute_share=float(experts.compute_share) if experts else 0.0,
            draft_fixed_s=float(loaded.fixed_s),
            draft_per_request_s=float(loaded.per_request_s),
            verify_per_draft_s=float(loaded.verify_per_draft_s),
            prefill_per_token_s=float(loaded.prefill_per_token_s),
            noise_log_sd=sqrt(log1p(server.step_noise_cv**2)),
            boot_factor=float(server.boot_factor),
        )

    def limits(self, client_cap: int | None) -> Limits:
        """Return the limits of engine and load tool, -1 for none."""
        server = self.server
        return Limits(
            int(server.max_num_seqs),
            int(server.max_num_batched_tokens),
            -1 if server.kv_capacity_tokens is None else int(server.kv_capacity_tokens),
            -1 if client_cap is None else int(client_cap),
        )

    def booted(self, log_factor: float) -> "SimulatedArm":
        """Return the same arm after another server start, slower by exp(log_factor)."""
        factor = self.server.boot_factor * exp(log_factor)
        return replace(self, server=replace(self.server, boot_factor=factor))
