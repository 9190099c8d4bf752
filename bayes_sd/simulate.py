"""Continuous batching with speculative decoding, simulated step by step: a ground truth.

The simulator knows requests, steps and tokens, and none of the formulas of `bayes_sd.physics`:
Little's law, the number of others that a request meets, the steps that it takes, the coverage of
experts and queueing at the limits all come out of it, they are not put in. A model that is right
about them must recover what is simulated here.

The parts: settings in `simulate_settings`, `simulate_arm` and `simulate_load`; the compiled engine
in `simulate_engine`; one run in `simulate_serving`; what comes out of it in `simulate_table`.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import track

from bayes_sd.exceptions import ArgumentError
from bayes_sd.schema import column_names
from bayes_sd.simulate_arm import SimulatedArm
from bayes_sd.simulate_load import SimulatedLoad
from bayes_sd.simulate_serving import Seed, simulate_run
from bayes_sd.simulate_settings import SimulatedDrafter, SimulatedExperts, SimulatedServer
from bayes_sd.simulate_table import SimulatedRun
from bayes_sd.validate import not_negative, positive, whole_number

__all__ = [
    "SimulatedArm",
    "SimulatedDrafter",
    "SimulatedExperts",
    "SimulatedLoad",
    "SimulatedRun",
    "SimulatedServer",
    "simulate_run",
    "simulate_runs",
    "simulated_capacity_rps",
]


def simulate_runs(
    arms: Sequence[SimulatedArm],
    loads: Sequence[SimulatedLoad],
    *,
    load_shares: Sequence[float] = (),
    boots: int = 1,
    boot_sd: float = 0.0,
    source_id: str = "simulated",
    random_seed: int = 0,
    progressbar: bool = False,
) -> pd.DataFrame:
    """Simulate every arm at every load: a table of runs, as a benchmark campaign gives.

    Parameters
    ----------
    arms : sequence of SimulatedArm
        Server starts; each is a sweep of its own.
    loads : sequence of SimulatedLoad
        The loads of every sweep.
    load_shares : sequence of float
        If given, each open load is run at these shares of the arm's own capacity
        (`simulated_capacity_rps`), and its own rate does not count.
    boots : int
        Server starts of each arm.
    boot_sd : float
        Standard deviation of the logarithm of the step time's factor between server starts.
    source_id : str
        Name of the campaign.
    random_seed : int
        The same seed gives the same table.
    progressbar : bool
        Show how many runs are done.

    Returns
    -------
    pandas.DataFrame, one row per run
        Columns as in `bayes_sd.schema`, accepted by `bayes_sd.check_runs` and `to_dataset`.

    Raises
    ------
    ArgumentError
        As `simulate_run`, or if there are no arms or no loads.

    Examples
    --------
    >>> server = SimulatedServer(weights_s=8e-3, compute_per_token_s=6e-5)
    >>> drafter = SimulatedDrafter(acceptance=(0.8, 0.7, 0.6), fixed_s=5e-4)
    >>> arms = [
    ...     SimulatedArm(server=server),
    ...     SimulatedArm(server=server, drafter=drafter, num_speculative_tokens=3),
    ... ]
    >>> load = SimulatedLoad(request_rate_rps=1.0, num_requests=50)
    >>> runs = simulate_runs(arms, [load], load_shares=(0.1, 0.5))
    >>> runs[["sweep_id", "method"]].drop_duplicates().to_numpy().tolist()
    [['0-verifier-none-k0-boot0', 'none'], ['1-verifier-drafter-k3-boot0', 'draft_model']]
    """
    if not arms or not loads:
        raise ArgumentError(
            f"arms and loads must hold at least one each. Got {len(arms)} arms and {len(loads)} "
            "loads instead."
        )
    whole_number(boots, "boots")
    not_negative(boot_sd, "boot_sd")
    for share in load_shares:
        positive(share, "load_shares")
    seed = whole_number(random_seed, "random_seed", minimum=0)
    sweeps: Iterable[tuple[int, int]] = itertools.product(range(len(arms)), range(boots))
    if progressbar:
        sweeps = track(list(sweeps), description="Simulating sweeps")
    rows = []
    for place, boot in sweeps:
        root = np.random.SeedSequence(seed, spawn_key=(place, boot))
        log_factor = boot_sd * float(np.random.default_rng(root).standard_normal())
        arm = arms[place].booted(log_factor)
        sweep = f"{place}-{arm.label}-boot{boot}"
        names = {"source_id": source_id, "sweep_id": sweep, **_names(arm)}
        for i, load in enumerate(_loads_of(arms[place], loads, load_shares, seed)):
            own = np.random.SeedSequence(seed, spawn_key=(place, boot, i))
            run = simulate_run(arm, load, random_seed=own)
            texts = {"workload": load.workload, "sampling": load.sampling}
            rows.append({"run_id": f"{sweep}-{i}"} | names | texts | run.summary())
    frame = pd.DataFrame(rows)
    return frame[[name for name in column_names() if name in frame]]


def simulated_capacity_rps(
    arm: SimulatedArm, load: SimulatedLoad, *, random_seed: Seed = 0
) -> float:
    """Return the rate at which a server completes requests when its batch is kept full.

    A closed loop as large as the batch may be, or as the client's cap, with the load's lengths.

    Parameters
    ----------
    arm : SimulatedArm
        Server, drafter and draft length.
    load : SimulatedLoad
        Lengths, client cap and warm-up; its rate does not count.
    random_seed : int or numpy.random.SeedSequence
        The same seed gives the same figure.

    Returns
    -------
    float
        Completed requests per second.

    Examples
    --------
    >>> server = SimulatedServer(weights_s=0.01, compute_per_token_s=0.0, max_num_seqs=4)
    >>> load = SimulatedLoad(request_rate_rps=1.0, output_len_tokens=10)
    >>> print(f"{simulated_capacity_rps(SimulatedArm(server=server), load):.0f}")
    40
    """
    full = min(arm.server.max_num_seqs, load.client_cap or arm.server.max_num_seqs)
    closed = dataclasses.replace(
        load,
        request_rate_rps=None,
        concurrency=full,
        arrivals="poisson",
        client_cap=None,
        num_requests=max(4 * full, 200),
        duration_s=None,
        warmup_requests=2 * full,
        keeps_arriving=True,
    )
    return float(simulate_run(arm, closed, random_seed=random_seed).summary()["completed_rate_rps"])


def _loads_of(
    arm: SimulatedArm, loads: Sequence[SimulatedLoad], shares: Sequence[float], seed: int
) -> list[SimulatedLoad]:
    """Return the loads of an arm, with rates that are shares of its capacity."""
    found = []
    for load in loads:
        if load.kind == "closed" or not shares:
            found.append(load)
            continue
        capacity = simulated_capacity_rps(arm, load, random_seed=seed)
        found += [dataclasses.replace(load, request_rate_rps=share * capacity) for share in shares]
    return found


def _names(arm: SimulatedArm) -> dict[str, Any]:
    server, drafter, experts = arm.server, arm.drafter, arm.server.experts
    schedule = [list(part) for part in arm.draft_length_schedule]
    return {
        "verifier": server.verifier,
        "method": "none" if drafter is None else drafter.method,
        "family_id": f"{server.verifier} on {server.hardware}",
        "engine": server.engine,
        "hardware": server.hardware,
        "verifier_params_b": server.verifier_params_b,
        "verifier_active_params_b": server.verifier_active_params_b,
        "num_experts": np.nan if experts is None else experts.num_experts,
        "experts_per_token": np.nan if experts is None else experts.experts_per_token,
        "drafter": "" if drafter is None else drafter.drafter,
        "drafter_params_b": None if drafter is None else drafter.drafter_params_b,
        "num_speculative_tokens_schedule": str(schedule) if schedule else "",
    }
