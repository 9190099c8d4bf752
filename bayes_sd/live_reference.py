"""What a fit expects of a live server, on a grid of batch and acceptance, as a few numbers.

The latency of a configuration at a batch B and E tokens per step is uncertain in a few directions
only: the posterior and the misfit, drawn at every point of the grid at once, are cut to their
leading principal components. So a window is compared with the posterior predictive in
microseconds, and what one load taught of the server is known at all others.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayes_sd.acceptance_levels import accepted_moments
from bayes_sd.acceptance_likelihoods import squared_slope
from bayes_sd.configuration import Configuration, misfit_draws, resolve
from bayes_sd.physics.acceptance import mean_acceptance_length
from bayes_sd.posterior import drawn
from bayes_sd.scenario import Scenario
from bayes_sd.support import support_at_loads

Floats = npt.NDArray[np.float64]

NUM_BATCHES = 40
NUM_LENGTHS = 13
NUM_FACTORS = 5
MAX_DRAWS = 1000


@dataclass(frozen=True)
class AcceptanceReference:
    """Tokens per step that the fit expects, log scale, and how a window spreads about it.

    Attributes
    ----------
    log_length, log_length_sd : float
        Mean and standard deviation of log E over the draws.
    step_variance : float
        Variance of log E of a window with one step.
    run_variance, request_variance : float
        Variance of log E of a whole window, and of a window with one request.
    """

    log_length: float
    log_length_sd: float
    step_variance: float
    run_variance: float
    request_variance: float


@dataclass(frozen=True)
class LiveReference:
    """The posterior predictive of one configuration's live metrics.

    Attributes
    ----------
    scenario : Scenario
        What was asked.
    log_batches, lengths : array
        Axes of the grid: log requests in flight, tokens per step.
    log_latency : array[draw, batch, length]
        Draws of the log mean latency, s, with misfit and without boot.
    mean, elasticity, rest : array[batch, length]
        Mean over draws, d log L / d log B, and variance that the factors leave out.
    factors : array[factor, batch, length]
        Loadings of independent standard normal factors.
    boot_sd, request_cv : float
        Root mean squares over draws of the boot's log standard deviation, and of the relative
        spread of requests: variances add up, so where either is hardly known it counts as large.
    acceptance : AcceptanceReference or None
        None without speculation.
    """

    scenario: Scenario
    log_batches: Floats
    lengths: Floats
    log_latency: Floats
    mean: Floats
    elasticity: Floats
    rest: Floats
    factors: Floats
    boot_sd: float
    request_cv: float
    acceptance: AcceptanceReference | None

    @classmethod
    def of(cls, tree: xr.DataTree, scenario: Scenario, random_seed: int = 0) -> "LiveReference":
        """Compute the grid of a configuration; raises what `bayes_sd.configuration.resolve` does.

        Parameters
        ----------
        tree : xarray.DataTree
            Result of `fit`.
        scenario : Scenario
            Configuration; of its load only the kind counts here.
        random_seed : int
            Seed of the misfit.
        """
        k = scenario.num_speculative_tokens
        lengths = np.linspace(1.0, k + 1.0, NUM_LENGTHS if k else 1)
        batches = np.geomspace(1.0, max(scenario.max_num_seqs, 2), NUM_BATCHES)
        own = resolve(tree, scenario)
        doublings = _doublings(tree, own, batches)
        misfit = misfit_draws(own, random_seed)
        grid = []
        for length in lengths:
            at = scenario.with_(acceptance=None, mean_acceptance_length=float(length))
            there = resolve(tree, at if k else scenario)
            shape = len(batches), there.cell.discrepancy_sd.size
            batch = np.broadcast_to(batches[:, None], shape)
            share = np.broadcast_to(there.elasticity(batch), shape)
            latency = np.broadcast_to(there.latency(batch), shape)
            grid.append(np.log(latency * misfit.factor(share, doublings[:, None])).T)
        draws = np.stack(grid, axis=-1)
        kept = np.linspace(0, len(draws) - 1, min(len(draws), MAX_DRAWS)).astype(int)
        draws = draws[kept]
        mean = draws.mean(axis=0)
        apart = (draws - mean).reshape(len(draws), -1) / np.sqrt(max(len(draws) - 1, 1))
        _, size, directions = np.linalg.svd(apart, full_matrices=False)
        factors = size[:NUM_FACTORS, None] * directions[:NUM_FACTORS]
        rest = np.maximum((apart**2).sum(axis=0) - (factors**2).sum(axis=0), 0.0)
        return cls(
            scenario,
            np.log(batches),
            lengths,
            draws,
            mean,
            np.gradient(mean, np.log(batches), axis=0),
            rest.reshape(mean.shape),
            factors.reshape(-1, *mean.shape),
            float(np.sqrt(np.mean(np.square(own.cell.boot_sd)))),
            float(np.sqrt(np.mean(np.square(own.cell.request_cv)))),
            _acceptance(tree, own),
        )

    def at(self, batch: Floats, length: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return mean, elasticity, rest and loadings (..., factor) at batches and lengths."""
        places = self._places(batch, length)
        mean, elasticity, rest = (
            _between(table, places) for table in (self.mean, self.elasticity, self.rest)
        )
        loadings = np.stack([_between(table, places) for table in self.factors], axis=-1)
        return mean, elasticity, rest, loadings

    def of_draws(self, draws: npt.NDArray[np.int_], batch: Floats, length: Floats) -> Floats:
        """Return the log latency of one draw for each batch and length, s."""
        (low, share), (left, part) = self._places(batch, length)
        corners = [
            self.log_latency[draws, low + i, np.minimum(left + j, len(self.lengths) - 1)]
            * (share if i else 1 - share)
            * (part if j else 1 - part)
            for i in (0, 1)
            for j in (0, 1)
        ]
        return np.asarray(sum(corners))

    def _places(
        self, batch: Floats, length: Floats
    ) -> tuple[tuple[npt.NDArray[np.int_], Floats], tuple[npt.NDArray[np.int_], Floats]]:
        rows = _place(np.log(np.maximum(batch, 1.0)), self.log_batches)
        return rows, _place(np.asarray(length, dtype=float), self.lengths)

    def covers(self, batch: float) -> bool:
        """Tell whether a batch is one that the engine can hold."""
        return 0 < batch <= float(np.exp(self.log_batches[-1])) * (1 + 1e-9)


def _place(value: Floats, axis: Floats) -> tuple[npt.NDArray[np.int_], Floats]:
    """Return number of the grid point below, and the share of the way to the next."""
    if len(axis) == 1:
        return np.zeros(np.shape(value), dtype=int), np.zeros(np.shape(value))
    at = np.clip((value - axis[0]) / (axis[1] - axis[0]), 0.0, len(axis) - 1)
    low = np.minimum(at.astype(int), len(axis) - 2)
    return low, at - low


def _between(
    table: Floats,
    places: tuple[tuple[npt.NDArray[np.int_], Floats], tuple[npt.NDArray[np.int_], Floats]],
) -> Floats:
    """Interpolate a table on the grid, linearly in both axes."""
    (low, share), (left, part) = places
    right = np.minimum(left + 1, table.shape[1] - 1)
    below = table[low, left] * (1 - part) + table[low, right] * part
    above = table[low + 1, left] * (1 - part) + table[low + 1, right] * part
    return np.asarray(below * (1 - share) + above * share)


def _doublings(tree: xr.DataTree, own: Configuration, batches: Floats) -> Floats:
    """Return how far each batch lies outside the measured range."""
    found = support_at_loads(
        tree,
        own.scenario.with_(concurrency=1.0),
        base=own.cell.base,
        pair=own.cell.pair,
        loads=batches,
        batches=batches,
        lengths=(own.input_len, own.output_len),
    )
    return np.array([each.doublings for each in found])


def _acceptance(tree: xr.DataTree, own: Configuration) -> AcceptanceReference | None:
    """Return what the fit expects of tokens per step, and how a window spreads."""
    scenario, k = own.scenario, own.scenario.num_speculative_tokens
    if not k:
        return None
    rates = [np.asarray(rate, dtype=float) for rate in own.rates[:k]]
    if scenario.mean_acceptance_length is not None or len(rates) < k:
        length = np.atleast_1d(float(scenario.mean_acceptance_length or 1.0))
        rates = [np.atleast_1d((length - 1) / k) for _ in range(k)]
    else:
        length = np.atleast_1d(mean_acceptance_length(rates, k))
    _, of_step, slopes = accepted_moments(rates, k)
    bracket = np.mean(squared_slope(slopes) / length**2)
    variables = tree["posterior"].variables

    def square(name: str) -> float:
        return float(np.mean(drawn(variables, name) ** 2)) if name in variables else 0.0

    return AcceptanceReference(
        float(np.log(length).mean()),
        float(np.log(length).std()),
        float(np.mean(of_step / length**2)),
        float(bracket) * square("acceptance_run_sd"),
        float(bracket) * square("acceptance_request_sd"),
    )
