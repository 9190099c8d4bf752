"""What the engine of the simulator reads and fills in: settings as tuples, records as arrays."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np

LOG_COLUMNS = (
    "start_s",
    "end_s",
    "running_requests",
    "scheduled_requests",
    "decoding_requests",
    "drafted_tokens",
    "prefill_tokens",
    "context_tokens",
    "expert_coverage",
    "shard_imbalance",
)
LOG_SIZE = len(LOG_COLUMNS)
START, END, RUNNING_AT, SCHEDULED, DECODING = range(5)
DRAFTED, PREFILL, CONTEXT, COVERAGE, IMBALANCE = range(5, LOG_SIZE)
# Places in the counts of a batch.
RUNNING, RETURNED, ENTERED, SENT, DONE, WANTED_DONE, KV_TOKENS = range(7)


class Costs(NamedTuple):
    """Settings of `bayes_sd.simulate_settings`, as the engine reads them."""

    weights_s: float
    compute_per_token_s: float
    step_fixed_s: float
    roofline_sharpness: float
    request_in_step_s: float
    context_per_token_s: float
    mixed_step_s: float
    request_start_s: float
    expert_weights_share: float
    expert_compute_share: float
    draft_fixed_s: float
    draft_per_request_s: float
    verify_per_draft_s: float
    prefill_per_token_s: float
    noise_log_sd: float
    boot_factor: float


class Limits(NamedTuple):
    """Limits of engine and load tool; a negative one is none."""

    max_num_seqs: int
    max_num_batched_tokens: int
    kv_capacity_tokens: int
    client_cap: int


class Requests(NamedTuple):
    """Requests in the order in which they are sent.

    ``arrival_s`` is when the load tool would send a request if it had no cap; ``rates`` has the
    conditional acceptance rate of each draft position.
    """

    arrival_s: Any
    input_len_tokens: Any
    output_len_tokens: Any
    rates: Any


class Batch(NamedTuple):
    """State of the scheduler: requests in the batch and their tokens of this step.

    ``returned`` is a stack of requests that were taken out; ``counts`` holds the numbers that the
    places above name.
    """

    running: Any
    returned: Any
    chunk: Any
    drafts: Any
    counts: Any


class Records(NamedTuple):
    """What happened to each request; arrays along requests, ``accepted_at`` by position too."""

    sent_s: Any
    admitted_s: Any
    first_token_s: Any
    end_s: Any
    emitted: Any
    computed: Any
    prefills: Any
    steps: Any
    drafting_steps: Any
    drafted: Any
    accepted: Any
    discarded: Any
    preemptions: Any
    decodes: Any
    accepted_at: Any


def new_records(count: int, positions: int) -> Records:
    """Return empty records: times NaN, counts 0."""
    times: list[Any] = [np.full(count, np.nan) for _ in range(4)]
    counts: list[Any] = [np.zeros(count, dtype=np.int64) for _ in range(9)]
    decodes = np.zeros(count, dtype=np.bool_)
    accepted_at = np.zeros((count, positions), dtype=np.int32)
    return Records._make([*times, *counts, decodes, accepted_at])


def new_batch(max_num_seqs: int) -> Batch:
    """Return an empty batch."""
    running, returned, chunk, drafts = np.zeros((4, max_num_seqs + 1), dtype=np.int64)
    return Batch(running, returned, chunk, drafts, np.zeros(7, dtype=np.int64))


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function, and cache the machine code where there is a folder for it."""
    try:
        return numba.njit(function, cache=True)
    except RuntimeError:  # no folder that could hold the cache: compile in every process
        return numba.njit(function)
