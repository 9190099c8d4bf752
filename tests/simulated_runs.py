"""Runs made from a known law, in the columns of `bayes_sd.schema`: truth for tests, no tests.

`KNOWN` holds two verifiers and three pairs. ``big`` was measured without speculation and has two
drafters: ``quick``, whose acceptance was counted, and ``sharp``, whose acceptance was forced to
`FORCED`. ``small`` was never measured without speculation. Under load speculation with ``sharp``
stops paying; with ``quick`` and k = 1 it pays up to capacity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pandas as pd

from bayes_sd.physics.acceptance import expected_steps
from bayes_sd.physics.arrivals import met_by_arrivals
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.physics.effective_batch import capacity_rps, solve_effective_batch
from bayes_sd.physics.latency import request_latency

MAX_NUM_SEQS = 256
FORCED = 0.8
NUM_POSITIONS = 5
Pair = tuple[str, str]  # verifier, drafter

BIG = {
    "prefill_fixed_s": 0.03,
    "prefill_per_token_s": 5e-5,
    "prefill_stall_per_token_s": 5e-5,
    "verify_fixed_s": 8e-3,
    "verify_per_request_s": 1e-4,
    "context_per_token_s": 1e-7,
    "mixed_step_s": 1e-3,
    "knee_s_per_token": 6e-5,
    "knee_tokens": 100.0,
    "knee_width_tokens": 30.0,
}
SMALL = BIG | {
    "prefill_per_token_s": 8e-6,
    "prefill_stall_per_token_s": 8e-6,
    "verify_fixed_s": 2e-3,
    "verify_per_request_s": 5e-5,
    "knee_s_per_token": 5e-6,
    "knee_tokens": 120.0,
}


@dataclass(frozen=True)
class Coefficients:
    """A known law: costs by verifier and by pair, and the conditional acceptance by position."""

    of_base: Mapping[str, Mapping[str, float]]
    of_pair: Mapping[Pair, Mapping[str, float]]
    acceptance: Mapping[Pair, Sequence[float]]
    measured_off: tuple[str, ...] = ("big",)
    forced: tuple[Pair, ...] = (("big", "sharp"),)
    params_b: Mapping[str, float] = field(
        default_factory=lambda: {"big": 8.0, "small": 1.0, "quick": 0.3, "sharp": 0.9, "tiny": 0.1}
    )

    def costs(self, verifier: str, drafter: str | None = None) -> CostCoefficients:
        """Return the coefficients of a base, or of a pair on it."""
        names = ("draft_fixed_s", "draft_per_request_s", "verify_growth_per_draft")
        drafting = dict.fromkeys(names, 0.0) if drafter is None else self.of_pair[verifier, drafter]
        return CostCoefficients(**self.of_base[verifier], **drafting)


KNOWN = Coefficients(
    of_base={"big": BIG, "small": SMALL},
    of_pair={
        ("big", "quick"): {
            "draft_fixed_s": 5e-4,
            "draft_per_request_s": 1e-5,
            "verify_growth_per_draft": 0.05,
        },
        ("big", "sharp"): {
            "draft_fixed_s": 1.5e-3,
            "draft_per_request_s": 1e-4,
            "verify_growth_per_draft": 0.3,
        },
        ("small", "tiny"): {
            "draft_fixed_s": 2e-4,
            "draft_per_request_s": 5e-6,
            "verify_growth_per_draft": 0.04,
        },
    },
    acceptance={
        ("big", "quick"): (0.7, 0.68, 0.66, 0.64, 0.62),
        ("big", "sharp"): (FORCED,) * NUM_POSITIONS,
        ("small", "tiny"): (0.75, 0.72, 0.7, 0.68, 0.66),
    },
)
IDENTITY = {
    "source_id": "simulated",
    "engine": "vllm",
    "engine_version": "0.32.0",
    "hardware": "Test GPU",
    "tensor_parallel_size": 1,
    "dtype": "bf16",
    "workload": "chat",
    "sampling": "temperature 0",
    "max_num_seqs": MAX_NUM_SEQS,
    "is_throughput_test": False,
}


@cache
def true_steps(rates: tuple[float, ...], output_len_tokens: int) -> float:
    """Return the exact number of steps of a request; as many drafts per step as rates."""
    return float(expected_steps(output_len_tokens - 1, list(rates), len(rates)))


def true_latency(
    costs: CostCoefficients,
    rates: Sequence[float],
    drafts: int,
    batch: np.ndarray | float,
    *,
    arrivals: str = "poisson",
    input_len_tokens: float = 512.0,
    output_len_tokens: int = 128,
) -> np.ndarray:
    """Return the law's latency at a batch, s, with the exact number of steps."""
    requests, others = met_by_arrivals(np.asarray(batch, dtype=float), arrivals)
    return np.asarray(
        request_latency(
            costs,
            requests_per_step=requests,
            others=others,
            num_speculative_tokens=drafts,
            input_len_tokens=input_len_tokens,
            output_len_tokens=output_len_tokens,
            num_steps=true_steps(tuple(rates)[:drafts], output_len_tokens),
        )
    )


def simulated_frame(
    coefficients: Coefficients = KNOWN,
    *,
    draft_lengths: Sequence[int] = (1, 3, 5),
    load_shares: Sequence[float] = (0.05, 0.2, 0.4, 0.6, 0.8),
    boots: int = 1,
    boot_sd: float = 0.0,
    misfit_sd: float = 0.0,
    request_cv: float = 0.0,
    num_requests: int = 200,
    lengths: Sequence[tuple[float, int]] = ((512.0, 128),),
    concurrency: int | None = None,
    random_seed: int = 0,
) -> pd.DataFrame:
    """Return runs of a known law, one row per run, in the columns of `bayes_sd.schema`.

    Parameters
    ----------
    coefficients : Coefficients
        The law.
    draft_lengths : sequence of int
        Draft lengths of each pair; k = 0 is added for the verifiers in ``measured_off``.
    load_shares : sequence of float
        Request rates of a sweep, as shares of its noise-free capacity.
    boots : int
        Sweeps of each arm and length pair.
    boot_sd, misfit_sd : float
        Log standard deviations of the step time, per sweep and per run; inside B = rate x L(B).
    request_cv : float
        Spread of one request's latency; above 0 the arrivals are also counted from a Poisson
        process, as in `bayes_sd.likelihoods.latency_scale`.
    num_requests : int
        Of each run.
    lengths : sequence of (float, int)
        Prompt and answer tokens.
    concurrency : int, optional
        Adds one closed-loop run to each sweep.
    random_seed : int
        Seed.
    """
    rng = np.random.default_rng(random_seed)
    rows = []
    for verifier, drafter, k in _arms(coefficients, draft_lengths):
        costs = coefficients.costs(verifier, drafter)
        rates = [] if drafter is None else coefficients.acceptance[verifier, drafter]
        for prompt, answer in lengths:

            def law(batch, arrivals="poisson", c=(costs, rates, k), size=(prompt, answer)):
                return true_latency(
                    *c,
                    batch,
                    arrivals=arrivals,
                    input_len_tokens=size[0],
                    output_len_tokens=size[1],
                )

            capacity = float(capacity_rps(law, MAX_NUM_SEQS)[0])
            loads = [("open", share * capacity) for share in load_shares]
            loads += [("closed", float(concurrency))] if concurrency else []
            for boot in range(boots):
                sweep = f"{verifier}-{drafter}-k{k}-{prompt:g}x{answer}-boot{boot}"
                shared = boot_sd * rng.standard_normal()
                for i, (kind, load) in enumerate(loads):
                    factor = np.exp(shared + misfit_sd * rng.standard_normal())
                    row = _run(law, kind, load, factor, request_cv, num_requests, rng)
                    row |= {"run_id": f"{sweep}-{i}", "sweep_id": sweep, "verifier": verifier}
                    row |= {"input_len_tokens": prompt, "output_len_tokens": answer}
                    row |= _acceptance(coefficients, verifier, drafter, k, answer, row, rng)
                    rows.append(row)
    return pd.DataFrame(rows).assign(**IDENTITY)


def _arms(
    coefficients: Coefficients, draft_lengths: Sequence[int]
) -> list[tuple[str, str | None, int]]:
    off = [(verifier, None, 0) for verifier in coefficients.measured_off]
    return off + [(v, d, k) for v, d in coefficients.of_pair for k in draft_lengths]


def _run(law, kind, load, factor, request_cv, num_requests, rng) -> dict[str, object]:
    noise = rng.standard_normal(2) / np.sqrt(num_requests)
    mean_factor = np.exp(request_cv * noise[0])
    if kind == "closed":
        latency = factor * law(load, "closed") * mean_factor
        control = {"arrivals": "closed", "concurrency": load, "request_rate_rps": np.nan}
    else:
        met = load * (np.exp(noise[1]) if request_cv else 1.0)
        batch = solve_effective_batch(met, lambda b: factor * law(b), MAX_NUM_SEQS)
        latency = factor * law(batch) * mean_factor
        control = {"arrivals": "poisson", "concurrency": np.nan, "request_rate_rps": load}
    return control | {
        "load_kind": kind,
        "num_requests": num_requests,
        "mean_e2e_s": float(latency),
    }


def _acceptance(coefficients, verifier, drafter, k, answer, row, rng) -> dict[str, object]:
    known = coefficients.params_b
    out: dict[str, object] = {
        "method": "none" if drafter is None else "draft_model",
        "drafter": drafter or "",
        "num_speculative_tokens": k,
        "verifier_params_b": known.get(verifier, np.nan),
        "drafter_params_b": known.get(drafter, np.nan),
        "forced_acceptance_rate": np.nan,
        "num_drafts": np.nan,
        "accepted_per_position": "",
    }
    if k == 0:
        return out
    rates = list(coefficients.acceptance[verifier, drafter])[:k]
    if (verifier, drafter) in coefficients.forced:
        return out | {"forced_acceptance_rate": rates[0]}
    drafted = round(true_steps(tuple(rates), answer) * row["num_requests"])
    left, counts = drafted, []
    for rate in rates:
        left = int(rng.binomial(left, rate))
        counts.append(left)
    return out | {"num_drafts": drafted, "accepted_per_position": ";".join(map(str, counts))}
