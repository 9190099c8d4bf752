"""One run of the simulator: requests are drawn, served, and put in tables."""

import numpy as np
import pandas as pd

from bayes_sd.exceptions import ArgumentError
from bayes_sd.simulate_arm import SimulatedArm
from bayes_sd.simulate_engine import run_engine
from bayes_sd.simulate_load import SimulatedLoad, draw_requests
from bayes_sd.simulate_records import LOG_COLUMNS, Records, Requests, new_batch, new_records
from bayes_sd.simulate_routing import build_router
from bayes_sd.simulate_table import SimulatedRun
from bayes_sd.validate import whole_number

MAX_DOUBLINGS = 8
Seed = int | np.random.SeedSequence


def simulate_run(arm: SimulatedArm, load: SimulatedLoad, *, random_seed: Seed = 0) -> SimulatedRun:
    """Simulate one run, request by request and step by step.

    Parameters
    ----------
    arm : SimulatedArm
        Server, drafter and draft length.
    load : SimulatedLoad
        What is sent to it.
    random_seed : int or numpy.random.SeedSequence
        The same seed gives the same run.

    Returns
    -------
    SimulatedRun
        Every request and every step; ``.summary()`` is the row of a table of runs.

    Raises
    ------
    ArgumentError
        If a request cannot fit the KV cache, or the load is so far above capacity that the
        measured requests never end.

    Examples
    --------
    >>> from bayes_sd.simulate_settings import SimulatedServer
    >>> server = SimulatedServer(weights_s=0.01, compute_per_token_s=0.0)
    >>> alone = SimulatedLoad(concurrency=1, input_len_tokens=100, output_len_tokens=11)
    >>> run = simulate_run(SimulatedArm(server=server), alone)
    >>> print(f"{run.summary()['mean_e2e_s']:.3f}")  # one prefill and ten steps
    0.110
    """
    seed = random_seed
    if not isinstance(seed, np.random.SeedSequence):
        seed = np.random.SeedSequence(whole_number(seed, "random_seed", minimum=0))
    rates, spread = arm.rates(), arm.drafter.acceptance_spread_logit if arm.drafter else 0.0
    wanted, count = load.num_warmup + (load.num_measured or 0), 0
    for doubling in range(MAX_DOUBLINGS):
        if load.duration_s is not None:
            wanted = _count_in_duration(load, seed)
        count = wanted
        if load.keeps_arriving:
            count += 2**doubling * (wanted + (load.cap or 0))
        requests = draw_requests(load, rates, spread, count, seed)
        _check_fit(arm, requests)
        records, log, is_complete = _serve(arm, load, requests, wanted, seed)
        if is_complete:
            return _as_run(arm, load, requests, records, log, wanted)
    raise ArgumentError(
        f"request_rate_rps must be within {2**MAX_DOUBLINGS} times what the server can do. Got "
        f"{load.request_rate_rps} instead: lower it, or set client_cap or keeps_arriving=False."
    )


def _count_in_duration(load: SimulatedLoad, seed: np.random.SeedSequence) -> int:
    """Return how many requests arrive up to the end of the duration, warm-up included."""
    assert load.duration_s is not None
    assert load.request_rate_rps is not None
    count = load.num_warmup + 1
    while True:
        arrival_s = draw_requests(load, (), 0.0, count, seed).arrival_s
        start = arrival_s[load.num_warmup - 1] if load.num_warmup else 0.0
        found = int(np.searchsorted(arrival_s, start + load.duration_s, side="right"))
        if found < count:
            return max(found, load.num_warmup + 2)
        count *= 2


def _check_fit(arm: SimulatedArm, requests: Requests) -> None:
    """Refuse requests that the KV cache cannot hold even alone."""
    capacity = arm.server.kv_capacity_tokens
    longest = int((requests.input_len_tokens + requests.output_len_tokens).max())
    needed = longest + arm.num_speculative_tokens
    if capacity is not None and needed > capacity:
        raise ArgumentError(
            f"kv_capacity_tokens must be at least {needed} tokens, for the longest prompt, answer "
            f"and drafts. Got {capacity} instead."
        )


def _serve(
    arm: SimulatedArm,
    load: SimulatedLoad,
    requests: Requests,
    wanted: int,
    seed: np.random.SeedSequence,
) -> tuple[Records, np.ndarray, bool]:
    streams = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 1)).spawn(3)
    records = new_records(len(requests.arrival_s), arm.num_speculative_tokens)
    log, is_complete = run_engine(
        arm.costs(),
        arm.limits(load.cap),
        build_router(arm.server.experts),
        requests,
        arm.draft_of_batch(),
        wanted,
        load.keeps_arriving,
        records,
        new_batch(arm.server.max_num_seqs),
        tuple(np.random.default_rng(stream) for stream in streams),
    )
    return records, log, is_complete


def _as_run(
    arm: SimulatedArm,
    load: SimulatedLoad,
    requests: Requests,
    records: Records,
    log: np.ndarray,
    wanted: int,
) -> SimulatedRun:
    sent = int(np.isfinite(records.sent_s).sum())
    names = {
        "sent_s": records.sent_s,
        "admitted_s": records.admitted_s,
        "first_token_s": records.first_token_s,
        "end_s": records.end_s,
        "input_len_tokens": requests.input_len_tokens,
        "output_len_tokens": requests.output_len_tokens,
        "emitted_tokens": records.emitted,
        "num_prefills": records.prefills,
        "num_steps": records.steps,
        "num_drafts": records.drafting_steps,
        "num_draft_tokens": records.drafted,
        "num_accepted_tokens": records.accepted,
        "num_discarded_tokens": records.discarded,
        "num_preemptions": records.preemptions,
    }
    table = pd.DataFrame({name: values[:sent] for name, values in names.items()})
    table["is_measured"] = (table.index >= load.num_warmup) & (table.index < wanted)
    steps = pd.DataFrame(log, columns=list(LOG_COLUMNS))
    run = SimulatedRun(arm, load, table, records.accepted_at[:sent], steps)
    if run.window_s[0] >= run.window_s[1]:
        raise ArgumentError(
            "the measured requests must not all be sent at once. Got a window of 0 s instead: "
            "give more num_requests than concurrency, or warmup_requests."
        )
    return run
