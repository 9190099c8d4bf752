"""The engine of the simulator: one pass of the loop is one step of continuous batching.

All that is compiled stands in this file: a compiled function is cached by the state of its own
file, so a callee elsewhere could go stale.

The scheduler follows vLLM's [1]_: requests in the batch first, in the order of their admission,
then waiting ones, first come first served, as long as the batch, the tokens of a step and the KV
cache have room; prompts that do not fit a step are cut into chunks. When the cache is full the
request admitted last is taken out, and its prompt and answer so far are computed again later.

References
----------
.. [1] Kwon et al. (2023). Efficient memory management for large language model serving with
   PagedAttention. SOSP. Scheduler of vLLM V1, ``vllm/v1/core/sched/scheduler.py``.
"""

from typing import Any

import numpy as np

from bayes_sd.simulate_records import (
    CONTEXT,
    COVERAGE,
    DECODING,
    DONE,
    DRAFTED,
    END,
    ENTERED,
    IMBALANCE,
    KV_TOKENS,
    LOG_SIZE,
    PREFILL,
    RETURNED,
    RUNNING,
    RUNNING_AT,
    SCHEDULED,
    SENT,
    START,
    WANTED_DONE,
    Batch,
    Costs,
    Limits,
    Records,
    Requests,
    compiled,
)
from bayes_sd.simulate_routing import Router

# A draw of an expert that the token already has is repeated so often, then all are scanned.
MAX_REPEATS = 16


@compiled
def _route(router: Router, num_tokens: int, load: Any, last_token: Any, rng: Any) -> Any:
    """Draw the experts of each token; return share touched and largest / mean load of a shard."""
    load[:] = 0
    last_token[:] = -1
    for token in range(num_tokens):
        for _ in range(router.experts_per_token):
            expert = -1
            for _ in range(MAX_REPEATS):
                place = rng.random() * router.num_experts
                expert = int(place)
                if place - expert >= router.threshold[expert]:
                    expert = router.alias[expert]
                if last_token[expert] != token:
                    break
            if last_token[expert] == token:  # the same chances, by a scan of those left
                left = 0.0
                for e in range(router.num_experts):
                    if last_token[e] != token:
                        left += router.popularity[e]
                left *= rng.random()
                for e in range(router.num_experts):
                    if last_token[e] != token:
                        expert = e
                        left -= router.popularity[e]
                        if left < 0:
                            break
            last_token[expert] = token
            load[expert] += 1
    touched = 0
    of_shard = np.zeros(router.num_shards)
    for expert in range(router.num_experts):
        touched += load[expert] > 0
        of_shard[expert % router.num_shards] += load[expert]
    return touched / router.num_experts, of_shard.max() / of_shard.mean()


@compiled
def _schedule(
    limits: Limits,
    requests: Requests,
    records: Records,
    batch: Batch,
    draft_length: int,
    ready: int,
    now_s: float,
) -> None:
    """Give each request in the batch its tokens of this step, then admit waiting ones."""
    counts, running, returned = batch.counts, batch.running, batch.returned
    budget = limits.max_num_batched_tokens
    place, has_preempted = 0, False
    while place < counts[RUNNING]:
        r = running[place]
        want = requests.input_len_tokens[r] + records.emitted[r] - records.computed[r]
        if records.decodes[r]:
            want += draft_length
        want = min(want, budget)
        while counts[RUNNING] > place and 0 <= limits.kv_capacity_tokens < counts[KV_TOKENS] + want:
            counts[RUNNING] -= 1
            victim = running[counts[RUNNING]]
            counts[KV_TOKENS] -= records.computed[victim]
            records.computed[victim] = 0
            records.decodes[victim] = False
            records.preemptions[victim] += 1
            returned[counts[RETURNED]] = victim
            counts[RETURNED] += 1
            has_preempted = True
        if place == counts[RUNNING]:
            break
        batch.chunk[place] = want
        batch.drafts[place] = max(want - 1, 0) if records.decodes[r] else 0
        counts[KV_TOKENS] += want
        budget -= want
        place += 1
    while not has_preempted and budget > 0 and counts[RUNNING] < limits.max_num_seqs:
        if counts[RETURNED] > 0:
            r = returned[counts[RETURNED] - 1]
        elif counts[ENTERED] < ready:
            r = counts[ENTERED]
        else:
            break
        left = requests.input_len_tokens[r] + records.emitted[r]
        if 0 <= limits.kv_capacity_tokens < counts[KV_TOKENS] + left:
            break
        if counts[RETURNED] > 0:
            counts[RETURNED] -= 1
        else:
            counts[ENTERED] += 1
            records.admitted_s[r] = now_s
        place = counts[RUNNING]
        running[place] = r
        batch.chunk[place] = min(left, budget)
        batch.drafts[place] = 0
        budget -= batch.chunk[place]
        counts[KV_TOKENS] += batch.chunk[place]
        counts[RUNNING] += 1


@compiled
def _step_time(costs: Costs, row: Any, longest: int) -> float:
    """Return the time of a step, s, without noise; see `SimulatedServer`."""
    share, part = costs.expert_weights_share, costs.expert_compute_share
    reading = costs.weights_s * (1 - share + share * row[COVERAGE])
    computing = costs.compute_per_token_s * (row[DECODING] + row[DRAFTED] + row[PREFILL])
    computing *= 1 - part + part * row[IMBALANCE]
    longer, shorter = max(reading, computing), min(reading, computing)
    sharpness = costs.roofline_sharpness
    bend = longer * (1 + (shorter / longer) ** sharpness) ** (1 / sharpness) if longer > 0 else 0.0
    mixed = costs.mixed_step_s if row[DECODING] > 0 and row[PREFILL] > 0 else 0.0
    drafting = longest * costs.draft_fixed_s + row[PREFILL] * costs.prefill_per_token_s
    drafting += row[DRAFTED] * (costs.draft_per_request_s + costs.verify_per_draft_s)
    cached = row[CONTEXT] * costs.context_per_token_s
    per_request = row[SCHEDULED] * costs.request_in_step_s
    return costs.boot_factor * (costs.step_fixed_s + bend + per_request + cached + mixed + drafting)


@compiled
def _send(
    limits: Limits,
    requests: Requests,
    records: Records,
    counts: Any,
    until_s: float,
    not_before_s: float,
) -> None:
    """Send requests that arrive up to a time, as the cap of the load tool allows."""
    arrival_s = requests.arrival_s
    while counts[SENT] < len(arrival_s) and arrival_s[counts[SENT]] <= until_s:
        if 0 <= limits.client_cap <= counts[SENT] - counts[DONE]:
            break
        records.sent_s[counts[SENT]] = max(arrival_s[counts[SENT]], not_before_s)
        counts[SENT] += 1


@compiled
def _finish_step(
    requests: Requests, records: Records, batch: Batch, end_s: float, num_wanted: int, rng: Any
) -> None:
    """Count what the step has computed, emit tokens, and take out requests that have ended."""
    counts, chunk, drafts = batch.counts, batch.chunk, batch.drafts
    kept = 0
    for place in range(counts[RUNNING]):
        r = batch.running[place]
        given = 0
        if chunk[place] > 0 and not records.decodes[r]:
            records.computed[r] += chunk[place]
            if records.computed[r] == requests.input_len_tokens[r] + records.emitted[r]:
                records.decodes[r] = True
                records.prefills[r] += 1
                given = 1
                if np.isnan(records.first_token_s[r]):
                    records.first_token_s[r] = end_s
        elif chunk[place] > 0:
            accepted = 0
            while accepted < drafts[place] and rng.random() < requests.rates[r, accepted]:
                records.accepted_at[r, accepted] += 1
                accepted += 1
            records.steps[r] += 1
            records.drafting_steps[r] += drafts[place] > 0
            records.drafted[r] += drafts[place]
            records.accepted[r] += accepted
            records.computed[r] += 1 + accepted
            counts[KV_TOKENS] -= drafts[place] - accepted
            given = 1 + accepted
        records.emitted[r] += given
        if records.emitted[r] < requests.output_len_tokens[r]:
            batch.running[kept] = r
            kept += 1
            continue
        records.discarded[r] = records.emitted[r] - requests.output_len_tokens[r]
        records.emitted[r] = requests.output_len_tokens[r]
        records.end_s[r] = end_s
        counts[KV_TOKENS] -= records.computed[r]
        counts[DONE] += 1
        counts[WANTED_DONE] += r < num_wanted
    counts[RUNNING] = kept


@compiled
def run_engine(
    costs: Costs,
    limits: Limits,
    router: Router,
    requests: Requests,
    draft_of_batch: Any,
    num_wanted: int,
    keeps_arriving: bool,
    records: Records,
    batch: Batch,
    rngs: Any,
) -> Any:
    """Serve requests until the first `num_wanted` have ended; `records` and `batch` are filled.

    Returns
    -------
    log : array[step, column of LOG_COLUMNS]
        What each step held.
    is_complete : bool
        False if requests should keep arriving and there were too few of them.
    """
    rng_acceptance, rng_routing, rng_noise = rngs
    counts = batch.counts
    load = np.zeros(max(router.num_experts, 1), dtype=np.int64)
    last_token = np.zeros(max(router.num_experts, 1), dtype=np.int64)
    log = np.zeros((1024, LOG_SIZE))
    num_steps, ready, now_s = 0, 0, 0.0
    while counts[WANTED_DONE] < num_wanted:
        if keeps_arriving and counts[SENT] == len(requests.arrival_s):
            return log[:num_steps], False
        while ready < counts[SENT] and records.sent_s[ready] + costs.request_start_s <= now_s:
            ready += 1
        draft_length = draft_of_batch[counts[RUNNING]]
        _schedule(limits, requests, records, batch, draft_length, ready, now_s)
        if counts[RUNNING] == 0:  # idle: on to the next request that reaches the engine
            if ready < counts[SENT]:
                now_s = records.sent_s[ready] + costs.request_start_s
            else:
                now_s = requests.arrival_s[counts[SENT]]
            _send(limits, requests, records, counts, now_s, 0.0)
            continue
        if num_steps == len(log):
            log = np.concatenate((log, np.zeros_like(log)))
        row, longest = log[num_steps], 0
        num_steps += 1
        for place in range(counts[RUNNING]):
            r, size = batch.running[place], batch.chunk[place]
            if size > 0:
                longest = max(longest, batch.drafts[place])
                row[SCHEDULED] += 1
                row[CONTEXT] += records.computed[r] + size
                row[DECODING] += records.decodes[r]
                row[DRAFTED] += batch.drafts[place]
                row[PREFILL] += 0 if records.decodes[r] else size
        row[COVERAGE], row[IMBALANCE] = 1.0, 1.0
        if router.num_experts > 0:
            tokens = int(row[DECODING] + row[DRAFTED] + row[PREFILL])
            row[COVERAGE], row[IMBALANCE] = _route(router, tokens, load, last_token, rng_routing)
        step_s = _step_time(costs, row, longest)
        if costs.noise_log_sd > 0:
            deviate = costs.noise_log_sd * rng_noise.standard_normal()
            step_s *= np.exp(deviate - costs.noise_log_sd**2 / 2)
        end_s = now_s + step_s
        row[START], row[END], row[RUNNING_AT] = now_s, end_s, counts[RUNNING]
        _send(limits, requests, records, counts, end_s, 0.0)
        _finish_step(requests, records, batch, end_s, num_wanted, rng_acceptance)
        _send(limits, requests, records, counts, end_s, end_s)
        now_s = end_s
    return log[:num_steps], True
