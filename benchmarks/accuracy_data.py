"""The data sets of the accuracy table: measured ones, and worlds of the step simulator."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayes_sd.data import to_dataset
from bayes_sd.simulate import simulate_runs
from bayes_sd.simulate_arm import SimulatedArm
from bayes_sd.simulate_load import SimulatedLoad
from bayes_sd.simulate_settings import SimulatedDrafter, SimulatedExperts, SimulatedServer
from benchmarks.folds import DATA

type Mask = NDArray[np.bool_]

TITLES = {
    "scaling-study": "scaling study, five dense verifiers",
    "vllm-cpu": "vLLM on a CPU, dense",
    "vllm-cpu-moe": "vLLM on a CPU, mixture of experts",
    "atom": "ATOM pairs, six deployments",
    "h200": "Llama 70B on H200",
    "simulated": "simulated world, dense",
    "simulated-moe": "simulated world, mixture of experts",
}
LENGTHS = ((256, 64), (1024, 128), (2048, 256))
LOAD_SHARES = (0.1, 0.3, 0.5, 0.7, 0.85)  # of capacity
BOOTS, BOOT_SD = 2, 0.02
REQUESTS, WARMUP = 200, 200
SEED = 605


@dataclass(frozen=True)
class Case:
    """A data set as table and as arrays: row i of the table is run i of the arrays."""

    name: str
    frame: pd.DataFrame
    data: xr.Dataset

    def part(self, runs: Mask) -> "Case":
        """Return some runs as a data set of their own: what the others hold is not in it."""
        frame = self.frame[runs].reset_index(drop=True)
        return Case(self.name, frame, _arrays(frame))

    def first(self, verifiers: tuple[str, ...]) -> "Case":
        """Return the runs of some verifiers."""
        return self.part(self.frame["verifier"].isin(verifiers).to_numpy())


def _arrays(frame: pd.DataFrame) -> xr.Dataset:
    data = to_dataset(frame)
    if data.sizes["run"] != len(frame):
        raise ValueError(f"all {len(frame)} runs must be usable, but {data.sizes['run']} are.")
    return data


@cache
def load_case(name: str) -> Case:
    """Return a data set without throughput tests and without runs of changing draft length.

    Parameters
    ----------
    name : str
        A key of ``TITLES``.
    """
    frame = simulated_world(name) if name.startswith("simulated") else DATA[name]()
    if "is_throughput_test" in frame:
        frame = frame[~frame["is_throughput_test"].astype(bool)]
    if "num_speculative_tokens_schedule" in frame:
        schedule = frame["num_speculative_tokens_schedule"].replace("", None)
        frame = frame[schedule.isna()]
    if name == "atom":  # each night is another commit: taken as boots of one deployment
        frame = frame.assign(engine_version="")
    frame = frame.reset_index(drop=True)
    return Case(name, frame, _arrays(frame))


def simulated_world(name: str) -> pd.DataFrame:
    """Simulate a campaign: draft lengths, two levels of acceptance, three length pairs, two boots.

    The two drafters of the dense world differ in acceptance alone.
    """
    is_moe = name.endswith("moe")
    server = SimulatedServer(
        weights_s=9e-3,
        compute_per_token_s=2.5e-5 if is_moe else 7e-5,
        step_fixed_s=1e-3,
        request_in_step_s=5e-5,
        context_per_token_s=1e-7,
        mixed_step_s=1e-3,
        request_start_s=0.02,
        step_noise_cv=0.05,
        verifier="simulated-moe" if is_moe else "simulated-dense",
        verifier_params_b=30.0 if is_moe else 8.0,
        verifier_active_params_b=5.0 if is_moe else 8.0,
        experts=SimulatedExperts(
            num_experts=64, experts_per_token=6, weights_share=0.8, load_cv=0.6
        )
        if is_moe
        else None,
    )
    drafters = [
        SimulatedDrafter(
            acceptance=tuple(level - 0.02 * j for j in range(5)),
            acceptance_spread_logit=0.4,
            fixed_s=1e-3,
            per_request_s=2e-5,
            drafter=label,
            drafter_params_b=0.5,
        )
        for label, level in (("low", 0.6), ("high", 0.8))
    ]
    arms = [SimulatedArm(server=server)]
    for drafter in drafters[1:] if is_moe else drafters:
        arms += [
            SimulatedArm(server=server, drafter=drafter, num_speculative_tokens=k)
            for k in (1, 3, 5)
        ]
    tables = []
    for number, (prompt, answer) in enumerate(LENGTHS):
        load = SimulatedLoad(
            request_rate_rps=1.0,
            input_len_tokens=prompt,
            output_len_tokens=answer,
            num_requests=REQUESTS,
            warmup_requests=WARMUP,
        )
        world: dict[str, Any] = {"load_shares": LOAD_SHARES, "boots": BOOTS, "boot_sd": BOOT_SD}
        source = f"simulated {prompt} in {answer} out"
        seed = SEED + 10 * number + is_moe
        tables.append(simulate_runs(arms, [load], source_id=source, random_seed=seed, **world))
    frame = pd.concat(tables, ignore_index=True)
    return frame.assign(run_id=frame["source_id"] + " " + frame["run_id"])


def usable(data: xr.Dataset) -> Mask:
    """Mark runs whose latency is a response: those at a cap measure capacity instead."""
    return np.asarray(data["control"].values != "cap")


def load_of_runs(data: xr.Dataset) -> NDArray[np.float64]:
    """Return the control of each run: its rate, requests/s, or its requests in flight."""
    is_open = data["control"].values == "open"
    held = np.where(
        data["control"].values == "cap", data["cap_requests"].values, data["concurrency"].values
    )
    return np.asarray(np.where(is_open, data["request_rate_rps"].values, held), dtype=float)


def lawful_world(
    coefficients: dict[str, float], *, noise: float = 0.0, random_seed: int = 0
) -> Case:
    """Return runs of the linear law itself, with noise on latency: a world for tests.

    Parameters
    ----------
    coefficients : dict
        ``c1p, c1v, c1d, c2p, c2v, c2d``, s: `bayes_sd.baselines`.
    noise : float
        Standard deviation of the logarithm of latency.
    random_seed : int
        Seed of the noise.
    """
    rng, rows, c = np.random.default_rng(random_seed), [], coefficients
    for k in (0, 1, 2, 3, 4, 5):
        for boot in range(2):
            steps = 128 / ((1 - 0.7 ** (k + 1)) / 0.3)
            c1 = c["c1p"] + steps * (c["c1v"] + k * c["c1d"])
            c2 = c["c2p"] + steps * (c["c2v"] + k * c["c2d"])
            for share in (0.05, 0.2, 0.35, 0.5, 0.65, 0.8):
                rate = share / c2
                latency = c1 / (1 - share) * np.exp(noise * rng.standard_normal())
                rows.append(
                    {
                        "run_id": f"k{k} boot{boot} {share:g}",
                        "sweep_id": f"k{k} boot{boot}",
                        "num_speculative_tokens": k,
                        "method": "draft_model" if k else "none",
                        "drafter": "drafter" if k else "",
                        "forced_acceptance_rate": 0.7 if k else np.nan,
                        "request_rate_rps": rate,
                        "mean_e2e_s": latency,
                    }
                )
    frame = pd.DataFrame(rows).assign(
        source_id="lawful",
        hardware="Test GPU",
        engine="vllm",
        engine_version="0.32.0",
        tensor_parallel_size=1,
        dtype="bf16",
        verifier="verifier",
        workload="chat",
        sampling="temperature 0",
        max_num_seqs=4096,
        is_throughput_test=False,
        load_kind="open",
        arrivals="constant",
        input_len_tokens=512.0,
        output_len_tokens=128.0,
        num_requests=200,
    )
    return Case("lawful", frame, _arrays(frame))


def with_latency(case: Case, latency_s: NDArray[np.float64]) -> Case:
    """Return the same runs with other latencies: the batch of an open loop follows."""
    return replace(
        case.part(np.ones(len(case.frame), dtype=bool)),
        frame=case.frame.assign(mean_e2e_s=latency_s),
        data=_arrays(case.frame.assign(mean_e2e_s=latency_s)),
    )
