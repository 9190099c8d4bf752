"""Counts of accepted drafts that the model would generate, and how likely it finds counts.

In NumPy what `bayes_sd.acceptance_graph` and `bayes_sd.acceptance_likelihoods` score in the graph.
"""

import numpy as np
import xarray as xr
from scipy import stats

from bayes_sd.acceptance_likelihoods import SHARED, deviation_variance
from bayes_sd.run_law import acceptance_of_runs, draws_of


def generate_counts(
    data: xr.Dataset, draws: xr.Dataset, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the accepted drafts of each run, position after position.

    Parameters
    ----------
    data, draws : xarray.Dataset
        As in `bayes_sd.generate.generate_latency`.
    rng : numpy.random.Generator
        Source of the noise.

    Returns
    -------
    accepted, trials : array of int, (sample, run, position)
        0 where none were counted. The trials at the first position are the design's, those at
        each later one what was accepted before it.
    """
    at = np.flatnonzero(data["trials_at_position"].values.any(axis=1))
    shape = (draws.sizes["sample"], data.sizes["run"], data.sizes["position"])
    accepted, trials = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    if not len(at):
        return accepted, trials
    drafts = data["num_speculative_tokens"].values[at]
    rates = acceptance_of_runs(data, draws, at)
    left = np.broadcast_to(data["trials_at_position"].values[at, 0], rates[0].shape)
    run = _RunDeviation.of(draws, data["num_requests"].values[at])
    for position, rate in enumerate(rates):
        left = trials[:, at, position] = np.where(drafts > position, left, 0)
        left = accepted[:, at, position] = rng.binomial(left, rng.beta(*run.beta(rate)))
        run.see(rate, left, trials[:, at, position])
    return accepted, trials


def counts_log_density(data: xr.Dataset, draws: xr.Dataset) -> np.ndarray:
    """Return the log density of the accepted drafts of each run, (sample, run).

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    draws : xarray.Dataset
        As in `bayes_sd.generate.generate_latency`.

    Returns
    -------
    array of float, (sample, run)
        0 where no drafts were counted. What `bayes_sd.acceptance_likelihoods` scores in the graph.
    """
    at = np.flatnonzero(data["trials_at_position"].values.any(axis=1))
    density = np.zeros((draws.sizes["sample"], data.sizes["run"]))
    if not len(at):
        return density
    run = _RunDeviation.of(draws, data["num_requests"].values[at])
    for position, rate in enumerate(acceptance_of_runs(data, draws, at)):
        accepted = data["accepted_at_position"].values[at, position]
        trials = data["trials_at_position"].values[at, position]
        density[:, at] += stats.betabinom.logpmf(accepted, trials, *run.beta(rate))
        run.see(rate, accepted, trials)
    return density


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
        rate = np.clip(rate, 1e-12, 1 - 1e-12)
        odds = rate / (1 - rate) * np.exp(left * self.score)
        variance = left + self.alone
        return (1 + odds) / variance, (1 + 1 / odds) / variance

    def see(self, rate: np.ndarray, accepted: np.ndarray, trials: np.ndarray) -> None:
        """Take in the counts of a position."""
        bits = trials * rate * (1 - rate)
        weight = 1 / (1 + bits * self.alone)
        self.score = self.score + weight * (accepted - trials * rate)
        self.known = self.known + weight * bits
