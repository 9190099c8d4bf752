"""The servers and the runs of `recovery.py`: what is drawn, fitted and asked."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bayes_sd.simulate import simulate_runs, simulated_capacity_rps
from bayes_sd.simulate_arm import SimulatedArm
from bayes_sd.simulate_load import SimulatedLoad
from bayes_sd.simulate_settings import SimulatedDrafter, SimulatedExperts, SimulatedServer

FITTED_K, ASKED_K = (0, 1, 3, 5), (0, 1, 2, 3, 5)
FITTED_SHARES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)  # of capacity
ASKED_SHARES, MEAN_SHARE = (0.18, 0.48, 0.78), 0.62
LENGTHS = ((1024, 128), (256, 256))
BOOTS, BOOT_SD = 2, 0.01
REQUESTS, WARMUP, LONG_REQUESTS = 400, 600, 10_000


def draw_server(rng: np.random.Generator, is_moe: bool) -> tuple[SimulatedServer, SimulatedDrafter]:
    """Draw a server and a drafter: costs within a factor of about two of a data-centre GPU's."""

    def near(median: float, spread: float = 0.4) -> float:
        return float(median * np.exp(spread * rng.standard_normal()))

    experts, active = None, 1.0
    if is_moe:
        total, used = ((32, 4), (64, 8))[int(rng.integers(2))]
        share = float(rng.uniform(0.6, 0.9))
        experts = SimulatedExperts(
            num_experts=total,
            experts_per_token=used,
            weights_share=share,
            load_cv=float(rng.uniform(0.3, 1.5)),
        )
        active = 1 - share + share * used / total  # a token computes with its own experts only
    server = SimulatedServer(
        weights_s=near(8e-3),
        compute_per_token_s=active * near(6e-5),
        step_fixed_s=near(1e-3),
        request_in_step_s=near(5e-5),
        context_per_token_s=near(1e-7),
        mixed_step_s=near(1e-3),
        request_start_s=near(0.02),
        step_noise_cv=0.05,
        experts=experts,
        verifier_params_b=8.0,
        verifier_active_params_b=8.0 * active,
    )
    first, fall = rng.uniform(0.6, 0.85), rng.uniform(0.0, 0.05)
    drafter = SimulatedDrafter(
        acceptance=tuple(float(first - fall * j) for j in range(max(ASKED_K))),
        acceptance_spread_logit=float(rng.uniform(0.2, 0.8)),
        fixed_s=near(1e-3),
        per_request_s=near(2e-5),
        drafter_params_b=0.5,
    )
    return server, drafter


class Campaign:
    """A server with its drafter, and its loads as shares of its capacity."""

    def __init__(self, seed: int, is_moe: bool) -> None:
        rng = np.random.default_rng([seed, is_moe])
        self.server, self.drafter = draw_server(rng, is_moe)
        self.seed, self.is_moe = seed, is_moe
        self.load = {
            lengths: SimulatedLoad(
                request_rate_rps=1.0,
                input_len_tokens=lengths[0],
                output_len_tokens=lengths[1],
                num_requests=REQUESTS,
                warmup_requests=WARMUP,
            )
            for lengths in LENGTHS
        }
        self.capacity = {
            (k, lengths): simulated_capacity_rps(self.arm(k), self.load[lengths])
            for k in ASKED_K
            for lengths in LENGTHS
        }

    def arm(self, k: int) -> SimulatedArm:
        """Return the server start of a draft length; without speculation no drafter is loaded."""
        drafter = self.drafter if k else None
        return SimulatedArm(server=self.server, drafter=drafter, num_speculative_tokens=k)

    def at(self, k: int, lengths: tuple[int, int], share: float, **changes: Any) -> SimulatedLoad:
        """Return the load that is a share of an arm's capacity."""
        rate = share * self.capacity[k, lengths]
        return replace(self.load[lengths], request_rate_rps=rate, **changes)

    def fitted(self) -> pd.DataFrame:
        """Simulate the sweeps to fit; the two boots swap lengths, so no boot stands for one."""
        tables = []
        for boot in range(BOOTS):
            for k in FITTED_K:
                loads = [
                    self.at(k, LENGTHS[(i + boot) % 2], share)
                    for i, share in enumerate(FITTED_SHARES)
                ]
                tables.append(self.table(k, loads, f"fitted, boot {boot}", BOOT_SD))
        return pd.concat(tables, ignore_index=True)

    def asked(self, kind: str) -> pd.DataFrame:
        """Simulate what predictions are held against.

        ``run``: fresh boots at unseen loads. ``mean``: long runs at another load, whose boot is
        the average one.
        """
        shares = ASKED_SHARES if kind == "run" else (MEAN_SHARE,)
        spread, length = (BOOT_SD, REQUESTS) if kind == "run" else (0.0, LONG_REQUESTS)
        tables = []
        for i, k in enumerate(ASKED_K):
            for j, share in enumerate(shares):
                load = self.at(k, LENGTHS[(i + j) % 2], share, num_requests=length)
                tables.append(self.table(k, [load], f"{kind}, load {j}", spread))
        return pd.concat(tables, ignore_index=True)

    def table(self, k: int, loads: list[SimulatedLoad], name: str, boot_sd: float) -> pd.DataFrame:
        """Simulate one boot of a draft length; every name and draft length has its own seed."""
        seed = int.from_bytes(f"{self.seed} {self.is_moe} {name} {k}".encode(), "little")
        return simulate_runs(
            [self.arm(k)], loads, boot_sd=boot_sd, source_id=name, random_seed=seed
        )
