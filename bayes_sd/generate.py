"""Data that the model would generate: latencies and counts of a design, draw by draw.

The design (which runs, at which loads, of how many requests) stays as it is; the responses are
drawn anew. NumPy only, apart from the graph: simulation-based calibration compares the two, and
the same draws made from a posterior are its posterior predictive.
"""

from typing import Any

import numpy as np
import xarray as xr

from bayes_sd.generate_counts import generate_counts
from bayes_sd.physics.effective_batch import solve_effective_batch
from bayes_sd.run_law import RunLaw, draws_of_runs, flat_draws, run_law, steps_of_draws
from bayes_sd.run_load import MAX_LOG_ERROR, TTFT_TAIL_DOF
from bayes_sd.ttft_graph import has_ttft
from bayes_sd.validate import whole_number

NOT_GENERATED = (
    "e2e_quantile_s",
    "ttft_quantile_s",
    "tpot_quantile_s",
    "itl_quantile_s",
    "mean_tpot_s",
    "accepted_per_step",
    "mean_acceptance_length",
    "num_accepted_tokens",
    "mean_in_system_requests",
    "completed_rate_rps",
    "routed_load_cv",
)
MAX_BATCH = 1e5  # the density of latency at a rate knows no cap; requests in flight


def generate_latency(
    data: xr.Dataset,
    draws: xr.Dataset,
    rng: np.random.Generator,
    *,
    num_steps: np.ndarray | None = None,
) -> xr.Dataset:
    """Draw the latency of each run of a design, and its counts of accepted drafts.

    In a closed loop log L = log f(B) + boot + s z, with f the law, z a normal variable and s
    the scale of `bayes_sd.likelihoods.latency_scale`. In an open loop the rate is fixed, and the
    same equation holds at the batch that comes out: B = rate x L solves
    log L - log f(B) = boot + s(B) z. So the noise acts on the step time and load amplifies it.
    The density of that L is what the model scores, to first order in s.

    The time to first token follows from the batch that came out, with a noise of its own.

    Accepted drafts are drawn position after position, as `bayes_sd.acceptance_likelihoods` scores
    them; the trials at the first are the design's, and those at each later one what was accepted
    before it. Means per step, where no positions are known, are not drawn: they stay.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`; its latencies and accepted drafts are not read.
    draws : xarray.Dataset
        As in `run_law`, and ``acceptance_run_sd`` where acceptance was counted.
    rng : numpy.random.Generator
        Source of the noise.
    num_steps : array of float, (sample, run), optional
        Steps of a request; by default those that the draws imply. Another number makes the
        process another one than the model's.

    Returns
    -------
    xarray.Dataset
        Dims (sample, run): ``mean_e2e_s``, s, infinite where the rate is past capacity;
        ``effective_batch_observed``, requests, rate x latency in an open loop; ``mean_ttft_s``, s,
        NaN where the design has none, or the draws do not tell. Dims (sample, run, position):
        ``accepted_at_position``, ``trials_at_position``.

    Raises
    ------
    ArgumentError
        If a parameter is missing.

    Examples
    --------
    >>> generated = generate_latency(data, draws, rng)  # doctest: +SKIP
    """
    steps = steps_of_draws(data, draws) if num_steps is None else num_steps
    batch = np.broadcast_to(data["effective_batch_observed"].values, steps.shape).copy()
    latency = np.full(steps.shape, np.nan)
    is_open = data["control"].values == "open"
    for at in (np.flatnonzero(is_open), np.flatnonzero(~is_open)):
        if not len(at):
            continue
        part = data.isel(run=at)
        law = run_law(part, draws, steps[:, at])
        noise = rng.standard_normal((len(steps), len(at)))
        if is_open[at[0]]:
            rate = part["request_rate_rps"].values
            batch[:, at] = solve_effective_batch(rate, _noisy(law, noise), MAX_BATCH)
            latency[:, at] = batch[:, at] / rate
        else:
            latency[:, at] = _noisy(law, noise)(batch[:, at])
    accepted, trials = generate_counts(data, draws, rng)
    by_position = ("sample", "run", "position")
    first = _first_token(data, draws, steps, latency, rng)
    return xr.Dataset(
        {
            "mean_e2e_s": (("sample", "run"), latency, {"units": "s"}),
            "mean_ttft_s": (("sample", "run"), first, {"units": "s"}),
            "effective_batch_observed": (("sample", "run"), batch, {"units": "requests"}),
            "accepted_at_position": (by_position, accepted, {"units": "tokens"}),
            "trials_at_position": (by_position, trials, {"units": "tokens"}),
        },
        coords={"run": data["run"], "position": data["position"]},
    )


def _noisy(law: RunLaw, noise: np.ndarray) -> Any:
    """Return latency as a function of the batch, with the boot and one draw of the noise."""

    def latency(batch: np.ndarray) -> np.ndarray:
        error = law.log_boot + law.scale(law.elasticity(batch)) * noise
        return law.latency(batch) * np.exp(np.clip(error, -MAX_LOG_ERROR, MAX_LOG_ERROR))

    return latency


def typical_first_token(
    data: xr.Dataset, draws: xr.Dataset, steps: np.ndarray, latency: np.ndarray
) -> np.ndarray:
    """Return the time to first token without noise, (sample, run), s.

    `bayes_sd.ttft_graph`, in NumPy: its step is the latency over the steps.
    """
    names = ("first_wait_steps", "ttft_fixed_s", "ttft_per_token_s")
    wait, fixed, per_token = (draws_of_runs(draws, name, data) for name in names)
    prompt = data["input_len_tokens"].values
    return np.asarray(fixed + per_token * prompt + wait * latency / np.maximum(steps, 1.0))


def _first_token(
    data: xr.Dataset,
    draws: xr.Dataset,
    steps: np.ndarray,
    latency: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the mean time to first token of the runs that have one, (sample, run), s."""
    first = np.full(latency.shape, np.nan)
    at = np.flatnonzero(has_ttft(data))
    if not len(at) or "first_wait_steps" not in draws:
        return first
    part = data.isel(run=at)
    spread = draws_of_runs(draws, "ttft_discrepancy_sd", part)
    noise = spread * rng.standard_t(TTFT_TAIL_DOF, latency[:, at].shape)
    typical = typical_first_token(part, draws, steps[:, at], latency[:, at])
    first[:, at] = typical * np.exp(noise)
    return first


def with_responses(data: xr.Dataset, generated: xr.Dataset) -> xr.Dataset:
    """Return a design with generated responses in place of its own.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    generated : xarray.Dataset
        One sample of `generate_latency`: ``generated.isel(sample=0)``.

    Returns
    -------
    xarray.Dataset
        As `to_dataset` returns; responses that are not generated are left out (`design_of`). The
        attribute ``data_hash`` is ``"generated"``.
    """
    new = {n: (v.dims, v.values, data[n].attrs) for n, v in generated.data_vars.items()}
    return design_of(data).assign(new).assign_attrs(data_hash="generated")


def design_of(data: xr.Dataset) -> xr.Dataset:
    """Return a data set without the responses that are not generated.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.

    Returns
    -------
    xarray.Dataset
        Quantiles, times per token, means of accepted drafts, totals and routing are NaN.
    """
    blank = {n: xr.full_like(data[n], np.nan) for n in data.data_vars if str(n) in NOT_GENERATED}
    steps = {n: xr.zeros_like(data[n]) for n in data.data_vars if n == "steps_of_mean"}
    return data.assign({**blank, **steps})


def posterior_predictive(
    tree: xr.DataTree, *, num_samples: int = 400, random_seed: int = 0
) -> xr.Dataset:
    """Draw the runs that were fitted anew, from the posterior.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    num_samples : int
        Draws of the posterior, evenly spaced; all of them if there are fewer.
    random_seed : int
        Seed of the noise.

    Returns
    -------
    xarray.Dataset
        As `generate_latency`: the same runs, with the same boots.

    Raises
    ------
    ArgumentError
        If the number of samples or the seed is out of range.

    Examples
    --------
    >>> replicates = posterior_predictive(tree)  # doctest: +SKIP
    """
    whole_number(num_samples, "num_samples")
    whole_number(random_seed, "random_seed", minimum=0)
    draws = flat_draws(tree["posterior"].to_dataset(), num_samples)
    rng = np.random.default_rng(random_seed)
    return generate_latency(tree["constant_data"].to_dataset(), draws, rng)
