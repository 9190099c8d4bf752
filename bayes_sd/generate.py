"""Data that the model would generate: latencies and counts of a design, draw by draw.

The design (which runs, at which loads, of how many requests) stays as it is; the responses are
drawn anew. NumPy only, apart from the graph: simulation-based calibration compares the two, and
the same draws made from a posterior are its posterior predictive.
"""

from typing import Any

import numpy as np
import xarray as xr

from bayes_sd.acceptance_likelihoods import SHARED, deviation_variance
from bayes_sd.physics.effective_batch import solve_effective_batch
from bayes_sd.run_law import (
    RunLaw,
    acceptance_of_runs,
    draws_of,
    flat_draws,
    run_law,
    steps_of_draws,
)
from bayes_sd.validate import whole_number

MAX_BATCH = 1e5  # the density of latency at a rate knows no cap; requests in flight


def generate_latency(
    data: xr.Dataset,
    draws: xr.Dataset,
    rng: np.random.Generator,
    *,
    num_steps: np.ndarray | None = None,
) -> xr.Dataset:
    """Draw the latency of each run of a design, and its counts of accepted drafts.

    In a closed loop log L = log f(B) + boot + s z, with f the law, z a Student-t variable and s
    the scale of `bayes_sd.likelihoods.latency_scale`. In an open loop the rate is fixed, and the
    same equation holds at the batch that comes out: B = rate x L solves
    log L - log f(B) = boot + s(B) z. So the noise acts on the step time and load amplifies it.
    The density of that L is what the model scores, to first order in s.

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
        ``effective_batch_observed``, requests, rate x latency in an open loop. Dims (sample, run,
        position): ``accepted_at_position``, ``trials_at_position``.

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
        noise = rng.standard_t(np.broadcast_to(law.tail_dof, (len(steps), len(at))))
        if is_open[at[0]]:
            rate = part["request_rate_rps"].values
            batch[:, at] = solve_effective_batch(rate, _noisy(law, noise), MAX_BATCH)
            latency[:, at] = batch[:, at] / rate
        else:
            latency[:, at] = _noisy(law, noise)(batch[:, at])
    accepted, trials = _generate_counts(data, draws, rng)
    by_position = ("sample", "run", "position")
    return xr.Dataset(
        {
            "mean_e2e_s": (("sample", "run"), latency, {"units": "s"}),
            "effective_batch_observed": (("sample", "run"), batch, {"units": "requests"}),
            "accepted_at_position": (by_position, accepted, {"units": "tokens"}),
            "trials_at_position": (by_position, trials, {"units": "tokens"}),
        },
        coords={"run": data["run"], "position": data["position"]},
    )


def _noisy(law: RunLaw, noise: np.ndarray) -> Any:
    """Return latency as a function of the batch, with the boot and one draw of the noise."""

    def latency(batch: np.ndarray) -> np.ndarray:
        return law.latency(batch) * np.exp(law.log_boot + law.scale(law.elasticity(batch)) * noise)

    return latency


def _generate_counts(
    data: xr.Dataset, draws: xr.Dataset, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return accepted drafts and trials, (sample, run, position); 0 where none were counted."""
    at = np.flatnonzero(data["trials_at_position"].values.any(axis=1))
    shape = (draws.sizes["sample"], data.sizes["run"], data.sizes["position"])
    accepted, trials = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    if not len(at):
        return accepted, trials
    drafts = data["num_speculative_tokens"].values[at]
    rates = acceptance_of_runs(data, draws, at)
    left = np.broadcast_to(data["trials_at_position"].values[at, 0], rates[0].shape)
    run = _RunDeviation.of(draws, data["num_requests"].values[at])
    for position in range(shape[2]):
        rate = np.clip(rates[position], 1e-12, 1 - 1e-12)
        left = trials[:, at, position] = np.where(drafts > position, left, 0)
        left = accepted[:, at, position] = rng.binomial(left, rng.beta(*run.beta(rate)))
        run.see(rate, left, trials[:, at, position])
    return accepted, trials


class _RunDeviation:
    """What is known, position after position, of how far a run's rates lie from its group's.

    In NumPy what `bayes_sd.acceptance_likelihoods.conditional_logits` does in the graph.
    """

    def __init__(self, variance: np.ndarray) -> None:
        self.alone, self.shared = (1 - SHARED) * variance, SHARED * variance
        self.score, self.known = np.zeros(variance.shape), np.zeros(variance.shape)

    @classmethod
    def of(cls, draws: xr.Dataset, num_requests: np.ndarray) -> "_RunDeviation":
        request_sd = draws_of(draws, "acceptance_request_sd")[:, None]
        run_sd = draws_of(draws, "acceptance_run_sd")[:, None]
        return cls(deviation_variance(request_sd, run_sd, num_requests))

    def beta(self, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the parameters of the beta variable that the next position's rate is."""
        left = self.shared / (1 + self.shared * self.known)
        odds = rate / (1 - rate) * np.exp(left * self.score)
        variance = left + self.alone
        return (1 + odds) / variance, (1 + 1 / odds) / variance

    def see(self, rate: np.ndarray, accepted: np.ndarray, trials: np.ndarray) -> None:
        """Take in the counts of a position."""
        bits = trials * rate * (1 - rate)
        weight = 1 / (1 + bits * self.alone)
        self.score = self.score + weight * (accepted - trials * rate)
        self.known = self.known + weight * bits


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
        As `to_dataset` returns. Responses that are not generated, and totals that went with the
        old counts, are left out. The attribute ``data_hash`` is ``"generated"``.
    """
    old = [n for n in data.data_vars if str(n).endswith("_quantile_s")]
    old += ["mean_ttft_s", "mean_tpot_s", "mean_acceptance_length", "num_accepted_tokens"]
    old += ["mean_in_system_requests", "completed_rate_rps"]
    blank = {n: xr.full_like(data[n], np.nan) for n in old if n in data}
    new = {n: (v.dims, v.values, data[n].attrs) for n, v in generated.data_vars.items()}
    return data.assign({**blank, **new}).assign_attrs(data_hash="generated")


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
