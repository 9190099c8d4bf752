"""What a competitor is given, and what it returns: one interface for all of them.

A competitor is a function from a `Task` to draws of the logarithm of latency, (draw, run asked
for), NaN in the columns of runs that it has no word on. It may look at the latency and the batch
of the training runs only; of a run that is asked for it knows the configuration, the control and
the acceptance.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayes_sd.measured_acceptance import tokens_per_step
from benchmarks.accuracy_data import load_of_runs, usable

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int_]
type Mask = NDArray[np.bool_]
type Method = Callable[["Task"], Floats]

NUM_DRAWS = 400


@dataclass(frozen=True)
class Task:
    """A fold as a competitor sees it.

    Attributes
    ----------
    data : xarray.Dataset
        All runs; latencies and batches of those that are not trained on are blanked.
    train : array of bool, (run,)
        Runs to learn from, none at a cap.
    asked : array of int, (asked,)
        Runs to predict.
    seed : int
        Of whatever is random.
    """

    data: xr.Dataset
    train: Mask
    asked: Ints
    seed: int = 0

    @property
    def features(self) -> pd.DataFrame:
        """Return `features` of all runs."""
        return features(self.data)

    def rng(self) -> np.random.Generator:
        """Return a generator of this fold."""
        return np.random.default_rng(self.seed)


def blind_task(data: xr.Dataset, train: Mask, asked: Ints, seed: int = 0) -> Task:
    """Return a fold in which what is asked for cannot be looked up.

    Examples
    --------
    >>> from benchmarks.accuracy_data import lawful_world
    >>> law = dict(zip(("c1p", "c1v", "c1d", "c2p", "c2v", "c2d"), [0.01] * 6, strict=True))
    >>> data = lawful_world(law).data
    >>> task = blind_task(data, np.arange(data.sizes["run"]) < 10, np.array([20]))
    >>> bool(task.data["mean_e2e_s"].isnull()[20])
    True
    """
    learnt = np.asarray(train) & usable(data)
    measured = ["mean_e2e_s", "effective_batch_observed", "completed_rate_rps"]
    measured += [n for n in data.data_vars if str(n).startswith(("mean_", "e2e_", "ttft_", "tpot"))]
    blank = {
        name: data[name].where(xr.DataArray(learnt, dims="run"))
        for name in dict.fromkeys(measured)
        if name in data and "run" in data[name].dims
    }
    return Task(data.assign(blank), learnt, np.asarray(asked), seed)


def features(data: xr.Dataset) -> pd.DataFrame:
    """Return what is known of each run before it starts, one row a run.

    ``rate_rps`` is 0 and ``held`` the requests in flight in a closed loop; ``held`` is 0 in an
    open one. ``steps`` are answer tokens over tokens per step, as in the published law. Sizes
    that are not known are 0 on the log scale.
    """
    is_open = data["control"].values == "open"
    base, pair = data["base_of_run"].values, data["pair_of_run"].values
    load = load_of_runs(data)
    per_step = tokens_per_step(data)
    answer = data["output_len_tokens"].values.astype(float)
    drafter = np.append(data["drafter_params_b"].values, np.nan)[pair]
    return pd.DataFrame(
        {
            "base": base,
            "pair": pair,
            "sweep": data["sweep_of_run"].values,
            "is_open": is_open,
            "rate_rps": np.where(is_open, load, 0.0),
            "held": np.where(is_open, 0.0, load),
            "log_load": np.log(load),
            "k": data["num_speculative_tokens"].values.astype(float),
            "draft_steps": data["num_draft_steps"].values.astype(float),
            "tokens_per_step": per_step,
            "steps": answer / per_step,
            "prompt": data["input_len_tokens"].values.astype(float),
            "answer": answer,
            "verifier_b": data["verifier_params_b"].values[base],
            "drafter_b": drafter,
            "experts": data["num_experts"].values[base].astype(float),
            "experts_used": data["experts_per_token"].values[base].astype(float),
        }
    )


def add_residuals(center: Floats, residuals: Floats, rng: np.random.Generator) -> Floats:
    """Return draws of centre plus a residual drawn with replacement; (draw, run)."""
    noise = rng.choice(residuals, (NUM_DRAWS, len(center)))
    return np.asarray(center[None] + noise)


def inflation(number: int, parameters: int) -> float:
    """Return the factor by which residuals of a least-squares fit are too small.

    The square root of n / (n - p), at most that of one degree of freedom.
    """
    return float(np.sqrt(number / max(number - parameters, 1)))
