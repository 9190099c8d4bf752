"""The grid of runs that could be made, and fits to those of them that were.

Every run of a world is simulated once, so to make a run is to look at it. The model of the whole
grid is compiled once: a run that was not made has weight 0 and no trials, so that it tells nothing.
A drafter without any run is one more draw of the population of drafters. All loads and draft
lengths of the grid count as measured: predictions within it add no misfit of extrapolation.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayes_sd.data import to_dataset
from bayes_sd.generate import design_of, with_responses
from bayes_sd.model import build_model
from bayes_sd.predict import predict_latency
from bayes_sd.prior_simulation import simulate_from_prior
from bayes_sd.priors import Prior
from bayes_sd.sampling import CompiledModel, compile_model, sample
from bayes_sd.sbc import convergence_of, data_of_model
from bayes_sd.scenario import Scenario
from bayes_sd.start import starting_point
from benchmarks.decision_worlds import (
    MISFITS,
    STEPS_PER_REQUEST,
    TYPICAL_ACCEPTANCE,
    law_at_batches,
)
from benchmarks.world_fits import tree_of

type Floats = NDArray[np.float64]

DRAFTERS = {"a": 0.1, "b": 0.2, "c": 0.4, "d": 0.6, "e": 1.0}  # parameters, 1e9
DRAFT_LENGTHS = (0, 1, 3, 5)
RATES = (0.5, 1.5, 3.0, 5.0)
ASKED = RATES[1:]
NUM_REQUESTS = 200
DRAWS, TUNE, CHAINS = 250, 150, 2
MIN_ESS, MAX_R_HAT = 100.0, 1.05
MAX_REPEATS = 1


def grid_design() -> xr.Dataset:
    """Return the grid: each drafter's draft lengths and none, at each rate; each run a boot."""
    arms = [("", 0), *((name, k) for name in DRAFTERS for k in DRAFT_LENGTHS if k)]
    rows = []
    for drafter, k in arms:
        drafted = STEPS_PER_REQUEST * NUM_REQUESTS
        accepted = [round(drafted * TYPICAL_ACCEPTANCE ** (j + 1)) for j in range(k)]
        rows += [
            {
                "sweep_id": f"{drafter or 'none'} k{k} {rate:g}",
                "run_id": f"{drafter or 'none'} k{k} {rate:g}",
                "num_speculative_tokens": k,
                "drafter": drafter,
                "drafter_params_b": DRAFTERS.get(drafter, np.nan),
                "method": "draft_model" if k else "none",
                "num_drafts": drafted if k else np.nan,
                "accepted_per_position": ";".join(map(str, accepted)),
                "request_rate_rps": rate,
            }
            for rate in RATES
        ]
    return to_dataset(
        pd.DataFrame(rows).assign(
            source_id="few-runs",
            hardware="Test GPU",
            engine="vllm",
            engine_version="0.32.0",
            tensor_parallel_size=1,
            dtype="bf16",
            verifier="verifier",
            verifier_params_b=8.0,
            workload="chat",
            sampling="temperature 0",
            max_num_seqs=256,
            is_throughput_test=False,
            load_kind="open",
            arrivals="poisson",
            input_len_tokens=512.0,
            output_len_tokens=128.0,
            num_requests=NUM_REQUESTS,
            mean_e2e_s=1.0,
        )
    )


def run_scenarios(data: xr.Dataset) -> list[Scenario]:
    """Return each run of the grid as a scenario; one without drafts is asked of the first pair."""
    pair = np.maximum(data["pair_of_run"].values, 0)
    columns = (pair, data["request_rate_rps"].values, data["num_speculative_tokens"].values)
    return [
        Scenario(
            str(data["pair"].values[at]),
            request_rate_rps=float(rate),
            num_speculative_tokens=int(k),
            num_requests=NUM_REQUESTS,
        )
        for at, rate, k in zip(*columns, strict=True)
    ]


def decisions_of(data: xr.Dataset) -> list[Scenario]:
    """Return what is to be decided: each pair at each rate that is asked about."""
    return [Scenario(str(p), request_rate_rps=r) for p in data["pair"].values for r in ASKED]


@dataclass(frozen=True)
class Fit:
    """A fit to the runs that were made: what decisions ask, and how the sampling went."""

    tree: xr.DataTree
    how: dict[str, float]


class GridWorlds:
    """Truths drawn from the prior, the grid that each makes, and fits to some of its runs.

    Parameters
    ----------
    design : xarray.Dataset
        Result of `grid_design`.
    priors : dict of str to Prior
        Of the truths and of the fits.
    num_worlds, random_seed : int
        The truths hang on both.
    """

    def __init__(
        self, design: xr.Dataset, priors: dict[str, Prior], *, num_worlds: int, random_seed: int
    ) -> None:
        self.design, self.priors, self.seed = design_of(design), priors, random_seed
        self.model = build_model(self.design, priors, replaceable=True)
        rng = np.random.default_rng(random_seed)
        self.truths, self.generated, self.num_drawn = simulate_from_prior(
            self.design, self.model, num_worlds, rng
        )
        self.compiled: CompiledModel | None = None

    def data(self, world: int) -> xr.Dataset:
        """Return the whole grid of a world."""
        return with_responses(self.design, self.generated.isel(sample=world))

    def true_latency(self, world: int, random_seed: int) -> dict[str, Floats]:
        """Return the true latency, (decision, draft length), s: by the law, and with a misfit.

        The misfit is drawn anew for each draft length, as predictions have it, also where runs
        were measured: no rule can know it.
        """
        truth = self.truths.isel(sample=[world]).rename(sample="draw").expand_dims("chain")
        tree = tree_of(truth, self.data(world))
        exact = latency_of_arms(without_misfit(tree), self.design)[0]
        return {"true": exact, "with_misfit": latency_of_arms(tree, self.design, random_seed)[0]}

    def fit(self, data: xr.Dataset, made: Sequence[int], random_seed: int) -> Fit:
        """Fit the runs of a grid that were made; what the others measured is not looked at."""
        if self.compiled is None:
            self.compiled = compile_model(self.model, starting_point(data, self.priors))
        is_made = np.isin(np.arange(data.sizes["run"]), made)
        values = weighted_values(data_of_model(data, self.priors), data, is_made)
        compiled = replace(self.compiled, compiled=self.compiled.compiled.with_data(**values))
        begun = time.perf_counter()
        for repeat in range(MAX_REPEATS + 1):
            tree = sample(
                compiled,
                draws=DRAWS * 2**repeat,
                tune=TUNE * 2**repeat,
                chains=CHAINS,
                random_seed=random_seed + repeat * 10**6,
                progressbar=False,
            )
            posterior = tree["posterior"].to_dataset()
            r_hat, ess = convergence_of(law_at_batches(posterior, data), CHAINS)
            if np.nanmin(ess) >= MIN_ESS and np.nanmax(r_hat) <= MAX_R_HAT:
                break
        return Fit(
            tree_of(posterior, data),
            {
                "runs": len(made),
                "repeats": repeat,
                "max_r_hat": float(np.nanmax(r_hat)),
                "min_ess": float(np.nanmin(ess)),
                "divergences": int(tree["sample_stats"]["diverging"].sum()),
                "sampling_s": time.perf_counter() - begun,
            },
        )


def without_misfit(tree: xr.DataTree) -> xr.DataTree:
    """Return a fit whose law is exact."""
    posterior = tree["posterior"].to_dataset()
    exact = posterior.assign({name: 0 * posterior[name] for name in MISFITS})
    return tree_of(exact, tree["constant_data"].to_dataset())


def starting_runs(design: xr.Dataset, rng: np.random.Generator, number: int) -> list[int]:
    """Return runs drawn at random, some with drafts: else nothing is known of acceptance."""
    drafts = design["num_speculative_tokens"].values
    while True:
        runs = rng.choice(len(drafts), number, replace=False)
        if drafts[runs].any():
            return [int(i) for i in runs]


def regrets_in(latency: Floats) -> Floats:
    """Return 1 - lowest latency / latency along the last axis; 0 where all are past capacity.

    Examples
    --------
    >>> regrets_in(np.array([[1.0, 2.0], [np.inf, np.inf]])).tolist()
    [[0.0, 0.5], [0.0, 0.0]]
    """
    lowest = latency.min(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isfinite(lowest), 1 - lowest / latency, 0.0))


def weighted_values(
    values: dict[str, Any], data: xr.Dataset, is_made: NDArray[np.bool_]
) -> dict[str, Any]:
    """Return the model's data with weight 0 and no trial for the runs that were not made."""
    counted = is_made[data["trials_at_position"].values.any(axis=1)][:, None]
    trials = values["trials_counts"] * counted
    accepted = values["accepted_counts"] * counted
    return values | {
        "score_weight": is_made.astype(float),
        "trials_counts": trials.astype(values["trials_counts"].dtype),
        "accepted_counts": accepted.astype(values["accepted_counts"].dtype),
    }


def latency_of_arms(tree: xr.DataTree, data: xr.Dataset, random_seed: int = 0) -> Floats:
    """Return draws of the latency of each draft length, (draw, decision, draft length), s."""
    arms = [s.with_(num_speculative_tokens=k) for s in decisions_of(data) for k in DRAFT_LENGTHS]
    found = predict_latency(tree, arms, random_seed=random_seed)["e2e_s"].values
    return np.asarray(found).reshape(len(found), -1, len(DRAFT_LENGTHS))
