"""A fit without sampling: draws about a known law, for the tests of what comes after a fit."""

import numpy as np
import pandas as pd
import xarray as xr

from bayes_sd.data import to_dataset
from bayes_sd.physics.acceptance import expected_steps, expected_steps_renewal
from bayes_sd.spread_priors import PREFIX
from bayes_sd.storage import FORMAT
from tests.simulated_runs import (
    BIG,
    FORCED,
    KNOWN,
    MAX_NUM_SEQS,
    NUM_POSITIONS,
    Coefficients,
    simulated_frame,
    true_latency,
)

__all__ = [
    "BIG",
    "FORCED",
    "KNOWN",
    "MAX_NUM_SEQS",
    "Coefficients",
    "fake_fit",
    "simulated_frame",
    "true_latency",
]


def fake_fit(
    draws: int = 200,
    chains: int = 2,
    spread: float = 0.0,
    *,
    coefficients: Coefficients = KNOWN,
    frame: pd.DataFrame | None = None,
    boot_sd: float = 0.01,
    discrepancy_sd: float = 0.005,
    load_discrepancy_sd: float = 0.0,
    request_cv: float = 0.15,
    extrapolation_sd: float = 0.05,
    percentiles: bool = True,
    passed: bool = True,
    random_seed: int = 0,
) -> xr.DataTree:
    """Return what `bayes_sd.fit` would, with draws about a known law and no sampling.

    Parameters
    ----------
    draws, chains : int
        Size of the posterior.
    spread : float
        Log standard deviation of each cost's draws about its known value, and standard deviation
        of each acceptance rate's logit. 0: every draw is the truth.
    coefficients : Coefficients
        The law.
    frame : pandas.DataFrame, optional
        The runs; by default `simulated_frame` of the law without noise.
    boot_sd, discrepancy_sd, load_discrepancy_sd, request_cv, extrapolation_sd : float
        Error scales, the same in every draw.
    percentiles : bool
        Whether the runs had percentiles, so that the spread of requests is known.
    passed : bool
        The convergence verdict to stamp.
    random_seed : int
        Seed of the draws.

    Notes
    -----
    Groups and variables are those of a fit, save the variables of the model's population and its
    coordinates, which only the model itself reads.
    """
    rng = np.random.default_rng(random_seed)
    data = to_dataset(simulated_frame(coefficients) if frame is None else frame)
    shape = (chains, draws)
    posterior = xr.Dataset(
        {
            **_cost_draws(data, coefficients, spread, shape, rng),
            "boot_sd": _same(boot_sd, "deployment", data, shape),
            "discrepancy_sd": _same(discrepancy_sd, "base", data, shape),
            "load_discrepancy_sd": _same(load_discrepancy_sd, "base", data, shape),
            "request_cv": _same(request_cv, "base", data, shape),
            **(_spread(data, shape) if percentiles else {}),
            "acceptance_request_sd": (("chain", "draw"), np.full(shape, 1e-6)),
            "extrapolation_sd": (("chain", "draw"), np.full(shape, extrapolation_sd)),
            "log_boot": _same(0.0, "sweep", data, shape),
        },
        coords={"chain": np.arange(chains), "draw": np.arange(draws)},
    ).assign_coords(
        {d: data[d] for d in ("base", "pair", "deployment", "sweep", "acceptance_group")}
        | {"position": data["position"]}
    )
    stats = {
        "diverging": (("chain", "draw"), np.zeros(shape, dtype=bool)),
        "energy": (("chain", "draw"), rng.standard_normal(shape)),
        "depth": (("chain", "draw"), np.full(shape, 3)),
    }
    density = np.log(100.0) + 0.1 * rng.standard_normal((*shape, data.sizes["sweep"]))
    text = "Converged. The worst of all parameters: none, this is a fake."
    return xr.DataTree.from_dict(
        {
            "posterior": posterior,
            "sample_stats": xr.Dataset(stats, coords=dict(posterior[["chain", "draw"]].coords)),
            "log_likelihood": xr.Dataset(
                {"log_latency": (("chain", "draw", "sweep"), density.astype("float32"))},
                coords={"sweep": data["sweep"], **posterior[["chain", "draw"]].coords},
            ),
            "observed_data": xr.Dataset(
                {"log_latency": np.log(data["mean_e2e_s"])}, coords={"run": data["run"]}
            ),
            "constant_data": _with_references(data),
            "/": xr.Dataset(
                attrs={
                    "format": FORMAT,
                    "random_seed": random_seed,
                    "data_hash": data.attrs["data_hash"],
                    "passed": int(passed),
                    "verdict": text if passed else "NOT CONVERGED, do not decide on this fit.",
                    "version_bayes_sd": "0",
                }
            ),
        }
    )


def _spread(data, shape):
    """Return what a fit of runs with percentiles has besides."""
    of_bases = {
        "spread_heterogeneity": 0.05,
        "spread_skew": 0.0,
        "backlog_s": 1e-6,
        "percentile_misfit_sd": 0.005,
    }
    shared = {
        "load_factor": 1.0,
        "excess_misfit": 0.2,
        "percentile_dof": 4.0,
        "percentile_top_dof": 3.0,
    }
    variables = {}
    for prefix in PREFIX.values():
        variables |= {prefix + n: _same(v, "base", data, shape) for n, v in of_bases.items()}
        variables |= {prefix + n: (("chain", "draw"), np.full(shape, v)) for n, v in shared.items()}
    return variables


def _same(value, dim, data, shape):
    return ("chain", "draw", dim), np.full((*shape, data.sizes[dim]), value)


def _cost_draws(data, coefficients, spread, shape, rng) -> dict[str, object]:
    pairs = list(zip(_verifiers(data, "base_of_pair"), data["drafter"].values, strict=True))
    tables = {
        "base": [coefficients.of_base[str(v)] for v in _verifiers(data)],
        "pair": [coefficients.of_pair[v, str(d)] for v, d in pairs],
    }
    variables: dict[str, object] = {}
    for dim, rows in tables.items():
        for name in rows[0] if rows else ():
            known = np.array([row[name] for row in rows])
            noise = np.exp(spread * rng.standard_normal((*shape, len(rows))))
            variables[name] = ("chain", "draw", dim), known * noise
    groups = zip(data["acceptance_group"].values, data["drafter_of_group"].values, strict=True)
    of_drafter = {d: rates for (_, d), rates in coefficients.acceptance.items()}
    rates = np.array([of_drafter[str(d)] for _, d in groups]).reshape(-1, NUM_POSITIONS)
    rates = rates[:, : data.sizes["position"]]
    noise = spread * rng.standard_normal((*shape, len(rates), 1))
    variables["conditional_acceptance_rate"] = (
        ("chain", "draw", "acceptance_group", "position"),
        1 / (1 + np.exp(-np.log(rates / (1 - rates)) - noise)),
    )
    return variables


def _verifiers(data: xr.Dataset, at: str | None = None) -> list[str]:
    labels = [str(b).split(" on ")[0] for b in data["base"].values]
    return labels if at is None else [labels[i] for i in data[at].values]


def _with_references(data: xr.Dataset) -> xr.Dataset:
    """Add what `fit` keeps of each run's steps and of each base's mean run."""
    drafts = data["num_speculative_tokens"].values
    emitted = data["output_len_tokens"].values.astype(int) - 1
    forced = data["forced_acceptance_rate"].values
    known = np.full(len(drafts), np.nan)
    for i in np.flatnonzero((drafts == 0) | ~np.isnan(forced)):
        k = int(drafts[i])
        known[i] = expected_steps(int(emitted[i]), [forced[i]] * k, k) if k else emitted[i]
    guess = expected_steps_renewal(emitted, [0.7] * int(drafts.max()), drafts)
    context = data["input_len_tokens"] + data["output_len_tokens"] / 2
    per_run = {
        "input_len_tokens": data["input_len_tokens"].values,
        "context_tokens": context.values,
        "num_steps": np.maximum(np.where(np.isnan(known), guess, known), 1),
        "num_speculative_tokens": np.maximum(drafts, 1),
    }
    base = data["base_of_run"].values
    return data.assign(
        {
            f"reference_{name}": ("base", np.bincount(base, values) / np.bincount(base))
            for name, values in per_run.items()
        }
    ).assign(known_num_steps=("run", known))
