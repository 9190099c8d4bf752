"""A scenario looked up in a fit: the law of its cell, draw by draw, and how far it may miss."""

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from bayes_sd.exceptions import ArgumentError, UnknownPairError
from bayes_sd.new_pairs import new_cell
from bayes_sd.physics.arrivals import met_by_arrivals, met_variance
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.physics.latency import latency_elasticity, request_latency
from bayes_sd.posterior import Cell, cell, find_cell, steps_and_rates
from bayes_sd.run_load import MAX_LOG_ERROR, TTFT_TAIL_DOF
from bayes_sd.scenario import Scenario

SIZES = ("verifier_params_b", "verifier_active_params_b", "drafter_params_b")


@dataclass(frozen=True)
class Configuration:
    """A scenario resolved against a fit: the draws of its cell, its lengths and its steps."""

    scenario: Scenario
    cell: Cell
    input_len: float
    output_len: float
    steps: np.ndarray
    rates: tuple[Any, ...] = ()

    def latency(self, batch: np.ndarray) -> np.ndarray:
        """Return the law's latency at a batch, s: arrays of shape (draw,) or broadcastable."""
        requests_per_step, others = met_by_arrivals(batch, self.arrivals)
        return request_latency(
            self.costs,
            requests_per_step=requests_per_step,
            others=others,
            requests_variance=met_variance(batch, self.arrivals),
            **self._request(),
        )

    def elasticity(self, batch: np.ndarray) -> np.ndarray:
        """Return d log L / d log B at a batch, dimensionless; the share that load has in L."""
        return np.asarray(
            latency_elasticity(
                self.costs, effective_batch=batch, arrivals=self.arrivals, **self._request()
            )
        )

    @property
    def arrivals(self) -> str:
        """How the others arrive."""
        return "closed" if self.scenario.concurrency is not None else self.scenario.arrivals

    @property
    def costs(self) -> CostCoefficients:
        """The cell's coefficients; an idle drafter costs nothing where none is loaded."""
        if self.scenario.drafter_loaded:
            return self.cell.costs
        return replace(self.cell.costs, idle_drafter_s=0.0)

    def typical_first_token(self, latency: np.ndarray) -> np.ndarray | None:
        """Return the time to first token, given the mean latency, s: `bayes_sd.ttft_graph`.

        None if no fitted run had one.
        """
        where = self.cell
        told = (where.first_wait_steps, where.ttft_fixed_s, where.ttft_per_token_s)
        if any(part is None for part in told):
            return None
        wait, fixed, per_token = (np.asarray(part) for part in told)
        step = latency / np.maximum(self.steps, 1.0)
        return np.asarray(fixed + per_token * self.input_len + wait * step)

    def ttft(self, latency: np.ndarray, random_seed: int) -> np.ndarray | None:
        """Return draws of the time to first token given the mean latency, s, with misfit; or None.

        The misfit belongs to the configuration: it is the same at every load.
        """
        typical, spread = self.typical_first_token(latency), self.cell.ttft_discrepancy_sd
        if typical is None or spread is None:
            return None
        rng = configuration_rng(self, random_seed + 2)
        return np.asarray(typical * np.exp(spread * rng.standard_t(TTFT_TAIL_DOF, spread.shape)))

    def _request(self) -> dict[str, Any]:
        return {
            "num_speculative_tokens": self.scenario.num_speculative_tokens,
            "num_draft_steps": self.scenario.num_draft_steps,
            "num_verified_tokens": self.scenario.num_verified_tokens,
            "input_len_tokens": self.input_len,
            "output_len_tokens": self.output_len,
            "num_steps": self.steps,
        }


def resolve(
    tree: xr.DataTree,
    scenario: Scenario,
    *,
    allow_new: bool = False,
    random_seed: int = 0,
    known: dict[tuple[object, ...], Cell] | None = None,
) -> Configuration:
    """Look a scenario up in a fit.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenario : Scenario
        What is asked. Lengths left open are the mean of the base's measured runs.
    allow_new : bool
        Whether a pair that was not fitted is drawn from the population (`bayes_sd.new_pairs`).
    random_seed : int
        Seed of such draws.
    known : dict, optional
        Cells found before, added to: scenarios that differ in draft length alone share one.

    Returns
    -------
    Configuration

    Raises
    ------
    ArgumentError
        If the scenario is not a `Scenario`.
    UnknownPairError
        If the pair was not fitted.
    DataError
        If acceptance is needed and neither given nor counted.
    """
    if not isinstance(scenario, Scenario):
        raise ArgumentError(f"scenario must be a Scenario. Got {scenario!r} instead.")
    found = _cell_of(tree, scenario, allow_new, random_seed, {} if known is None else known)
    constant = tree["constant_data"].variables
    at = constant["base_of_run"].values == found.base
    if not at.any():  # a new verifier: lengths of all runs
        at = np.ones_like(at)
    input_len, output_len = (
        float(constant[name].values[at].mean()) if given is None else float(given)
        for name, given in (
            ("input_len_tokens", scenario.input_len_tokens),
            ("output_len_tokens", scenario.output_len_tokens),
        )
    )
    steps, rates = steps_and_rates(tree, scenario, found, output_len)
    return Configuration(scenario, found, input_len, output_len, steps, tuple(rates))


def base_and_pair(tree: xr.DataTree, scenario: Scenario) -> tuple[int, int | None]:
    """Return the numbers of a scenario's base and pair: `bayes_sd.posterior.find_cell`."""
    return find_cell(tree, scenario.pair, drafts=scenario.num_speculative_tokens > 0)


def _cell_of(
    tree: xr.DataTree,
    scenario: Scenario,
    allow_new: bool,
    random_seed: int,
    known: dict[tuple[object, ...], Cell],
) -> Cell:
    """Return the draws of a scenario's cell, or of a new one drawn from the population."""
    drafts = scenario.num_speculative_tokens > 0
    new = (scenario.verifier, scenario.deployment, *(getattr(scenario, n) for n in SIZES))
    key, other = ((scenario.pair, which, *new) for which in (drafts, not drafts))
    if other in known and known[other].pair is not None:
        return known[other]  # a fitted pair is the same with and without drafts
    if key not in known:
        try:
            known[key] = cell(tree, scenario.pair, drafts=drafts)
        except UnknownPairError:
            if not allow_new:
                raise
            # One seed per pair: all its loads and draft lengths are those of one drawn model.
            text = f"{scenario.pair}|{scenario.verifier}|{scenario.deployment}"
            rng = np.random.default_rng([zlib.crc32(text.encode()), random_seed])
            known[key] = new_cell(tree, scenario, rng)
    return known[key]


def resolve_all(
    tree: xr.DataTree,
    scenarios: Sequence[Scenario],
    *,
    allow_new: bool = False,
    random_seed: int = 0,
) -> Iterator[Configuration]:
    """Look scenarios up, once for all that differ in load only."""
    known: dict[tuple[object, ...], Configuration] = {}
    cells: dict[tuple[object, ...], Cell] = {}
    for s in scenarios:
        if not isinstance(s, Scenario):
            raise ArgumentError(f"scenario must be a Scenario. Got {s!r} instead.")
        lengths = (s.input_len_tokens, s.output_len_tokens)
        new = (s.verifier, s.deployment, *(getattr(s, name) for name in SIZES))
        arm = (s.pair, s.num_speculative_tokens, s.drafter_loaded, s.acceptance)
        shape = (s.mean_acceptance_length, s.num_draft_steps, s.num_verified_tokens)
        key = (*arm, *shape, *lengths, *new)
        if key not in known:
            known[key] = resolve(tree, s, allow_new=allow_new, random_seed=random_seed, known=cells)
        yield replace(known[key], scenario=s)


def configuration_rng(configuration: Configuration, random_seed: int) -> np.random.Generator:
    """Return a generator that depends on the configuration and not on its load."""
    s = configuration.scenario
    key = f"{configuration.cell.label}|{s.num_speculative_tokens}|{configuration.input_len:.6g}"
    key += f"|{configuration.output_len:.6g}|{random_seed}"
    if not s.is_chain:
        key += f"|{s.num_draft_steps}|{s.num_verified_tokens}"
    return np.random.default_rng(
        np.frombuffer(hashlib.sha256(key.encode()).digest()[:16], dtype=np.uint32)
    )


@dataclass(frozen=True)
class MisfitDraws:
    """Errors of the law that belong to a configuration, log scale; arrays of shape (draw,)."""

    whole: np.ndarray
    of_load: np.ndarray
    beyond: np.ndarray

    def factor(self, load_share: np.ndarray, doublings: np.ndarray | float) -> np.ndarray:
        """Return the factor by which the latency misses the law.

        Parameters
        ----------
        load_share : array, (draw,) or (load, draw)
            Elasticity of the latency, the share that load has in it.
        doublings : number or array that broadcasts
            Distance outside the measured range.
        """
        log_factor = self.whole + load_share * self.of_load + doublings * self.beyond
        return np.asarray(np.exp(np.clip(log_factor, -MAX_LOG_ERROR, MAX_LOG_ERROR)))

    def take(self, draws: np.ndarray) -> "MisfitDraws":
        """Return the errors of some draws, in their order."""
        return MisfitDraws(self.whole[draws], self.of_load[draws], self.beyond[draws])


def misfit_draws(configuration: Configuration, random_seed: int) -> MisfitDraws:
    """Draw the errors of a configuration, the same at every load.

    Two that belong to the configuration, of the whole latency and of the part that load adds, as
    in `bayes_sd.likelihoods.latency_scale`; and one that grows outside the measured range.

    Parameters
    ----------
    configuration : Configuration
        Result of `resolve`.
    random_seed : int
        Seed; the same configuration gets the same draws at every load.
    """
    where = configuration.cell
    rng = configuration_rng(configuration, random_seed)
    whole, of_load, beyond = rng.standard_normal((3, *where.discrepancy_sd.shape))
    return MisfitDraws(
        where.discrepancy_sd * whole,
        where.load_discrepancy_sd * of_load,
        where.extrapolation_sd * beyond,
    )


def misfit_of(
    configuration: Configuration, doublings: float, random_seed: int, batch: np.ndarray
) -> np.ndarray:
    """Return draws of the factor by which a configuration's latency misses the law.

    Parameters
    ----------
    configuration : Configuration
        Result of `resolve`.
    doublings : float
        Distance outside the measured range, see `bayes_sd.support`: the misfit grows with it.
    random_seed : int
        Seed of `misfit_draws`.
    batch : array, (draw,) or (load, draw)
        Requests in the system; infinite past capacity, where the whole latency is load's.

    Returns
    -------
    array of float, of the shape of ``batch``
    """
    finite = np.isfinite(batch)
    share = np.where(finite, configuration.elasticity(np.where(finite, batch, 1.0)), 1.0)
    return misfit_draws(configuration, random_seed).factor(share, doublings)
