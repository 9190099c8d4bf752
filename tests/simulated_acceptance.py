"""Acceptance simulated token by token, of requests that differ, and its model: no tests.

`run_of` decodes each request of a run until it has its answer; `true_length` is what infinitely
many such requests would give. `acceptance_data` and `build` make the acceptance part of the model
from a table of runs.
"""

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from bayes_sd.acceptance_counts import (
    acceptance_totals,
    counts_by_position,
    figures_in_group,
    needs_acceptance,
)
from bayes_sd.acceptance_graph import add_acceptance
from bayes_sd.acceptance_priors import acceptance_priors
from bayes_sd.frames import check_runs
from bayes_sd.labels import acceptance_labels, number_groups
from bayes_sd.priors import Prior

KEY = ("verifier", "method", "drafter", "workload", "sampling")
REQUEST_SD, ANSWER = 0.7, 128


def acceptance_data(frame: pd.DataFrame) -> xr.Dataset:
    """Return what the acceptance part of the model reads of a table of runs."""
    runs = check_runs(frame)
    accepted, trials, is_counted = counts_by_position(runs)
    per_step, steps, is_total = acceptance_totals(runs, is_counted)
    keys, group = number_groups(runs, KEY, needs_acceptance(runs))
    assert figures_in_group(group, is_counted | is_total).all()
    columns = ("num_requests", "num_speculative_tokens", "output_len_tokens")
    return xr.Dataset(
        {
            "group_of_run": ("run", group),
            "accepted_at_position": (("run", "position"), accepted),
            "trials_at_position": (("run", "position"), trials),
            "accepted_per_step": ("run", per_step),
            "steps_of_mean": ("run", steps),
            "known_acceptance_rate": ("run", np.full(len(runs), np.nan)),
            **{name: ("run", runs[name].to_numpy()) for name in columns},
            **{
                f"{name}_of_group": ("acceptance_group", np.array([k[i] for k in keys]))
                for i, name in enumerate(KEY)
            },
        },
        coords={
            "run": runs["run_id"].to_numpy(str),
            "acceptance_group": acceptance_labels(keys),
            "position": np.arange(1, trials.shape[1] + 1),
        },
    )


def build(data: xr.Dataset, **changes: Prior) -> pm.Model:
    coords = {dim: data[dim].values for dim in ("acceptance_group", "position")}
    with pm.Model(coords=coords) as model:
        add_acceptance(data, acceptance_priors() | changes)
    return model


def request_rates(logit: float, decay: float, k: int, deviations: np.ndarray) -> np.ndarray:
    """Rates of requests that differ, (request, position)."""
    return 1 / (1 + np.exp(-(logit + deviations[:, None] - decay * np.arange(k))))


def true_length(logit: float, decay: float, k: int) -> float:
    """Tokens over steps of infinitely many requests: the harmonic mean of theirs."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    survival = np.cumprod(request_rates(logit, decay, k, REQUEST_SD * nodes), axis=1)
    return weights.sum() / (weights / (1 + survival.sum(axis=1))).sum()


def run_of(rng, name, workload, k, requests, logit, decay) -> dict[str, object]:
    """Decode token by token: each request until it has its answer."""
    rates = request_rates(logit, decay, k, REQUEST_SD * rng.standard_normal(requests))
    left, lengths = np.full(requests, ANSWER - 1), np.zeros(k + 1, dtype=int)
    while (at := np.flatnonzero(left > 0)).size:
        accepted = np.cumprod(rng.random((at.size, k)) < rates[at], axis=1).sum(axis=1)
        lengths += np.bincount(accepted, minlength=k + 1)
        left[at] -= accepted + 1
    counts = np.cumsum(lengths[::-1])[::-1]
    return {
        "run_id": f"{name}-{workload}-k{k}", "sweep_id": f"{name}-{workload}-k{k}",
        "verifier": "V", "method": "eagle", "drafter": name, "workload": workload,
        "sampling": "temperature 0", "num_speculative_tokens": k, "load_kind": "closed",
        "concurrency": 4, "input_len_tokens": 100.0, "output_len_tokens": float(ANSWER),
        "num_requests": requests, "mean_e2e_s": 1.0, "num_drafts": counts[0],
        "num_accepted_tokens": counts[1:].sum(),
        "accepted_per_position": ";".join(map(str, counts[1:])),
    }  # fmt: skip
