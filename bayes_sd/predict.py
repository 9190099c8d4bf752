"""Predictions: labelled draws for scenarios.

The contract. Three different things, never confused:

``mean``
    Expected latency of a configuration, over boots and requests. Its spread is what is not known:
    the coefficients, and the misfit of the law at this configuration.
``run``
    The mean that one fresh benchmark run would report: a new boot, a finite number of requests.
``request``
    Latency of one future request (not in this version).

Everything is computed draw by draw, and summarised at the very end. Misfit and boot act on the
step time at a given batch, inside B = rate x L(B), where load amplifies them. They belong to a
configuration: one draw of them is shared by all its loads, so a curve over load is one curve.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from bayes_sd.exceptions import ArgumentError
from bayes_sd.physics.effective_batch import solve_effective_batch
from bayes_sd.physics.latency import met_by_arrivals, request_latency
from bayes_sd.posterior import Cell, cell, num_steps
from bayes_sd.scenario import Scenario
from bayes_sd.support import support
from bayes_sd.validate import one_of, whole_number

KINDS = ("mean", "run")


@dataclass(frozen=True)
class Configuration:
    """A scenario resolved against a fit: the draws of its cell, its lengths and its steps."""

    scenario: Scenario
    cell: Cell
    input_len: float
    output_len: float
    steps: np.ndarray

    def latency(self, batch: np.ndarray) -> np.ndarray:
        """Return the law's latency at a batch, s: arrays of shape (draw,) or broadcastable."""
        closed = self.scenario.concurrency is not None
        arrivals = "closed" if closed else self.scenario.arrivals
        requests_per_step, others = met_by_arrivals(batch, arrivals)
        return request_latency(
            self.cell.costs,
            requests_per_step=requests_per_step,
            others=others,
            num_speculative_tokens=self.scenario.num_speculative_tokens,
            input_len_tokens=self.input_len,
            output_len_tokens=self.output_len,
            num_steps=self.steps,
        )


def resolve(tree: xr.DataTree, scenario: Scenario) -> Configuration:
    """Look a scenario up in a fit.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenario : Scenario
        What is asked. Lengths left open are the mean of the base's measured runs.

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
    found = cell(tree, scenario.pair, drafts=scenario.num_speculative_tokens > 0)
    constant = tree["constant_data"].dataset
    at = constant["base_of_run"].values == found.base
    input_len, output_len = (
        float(constant[name].values[at].mean()) if given is None else float(given)
        for name, given in (
            ("input_len_tokens", scenario.input_len_tokens),
            ("output_len_tokens", scenario.output_len_tokens),
        )
    )
    steps = num_steps(tree, scenario, found, output_len)
    return Configuration(scenario, found, input_len, output_len, steps)


def _resolve_all(tree: xr.DataTree, scenarios: Sequence[Scenario]) -> Iterator[Configuration]:
    """Look scenarios up, once for all that differ in load only."""
    known: dict[tuple[object, ...], Configuration] = {}
    for s in scenarios:
        if not isinstance(s, Scenario):
            raise ArgumentError(f"scenario must be a Scenario. Got {s!r} instead.")
        lengths = (s.input_len_tokens, s.output_len_tokens)
        key = (s.pair, s.num_speculative_tokens, s.acceptance, *lengths)
        if key not in known:
            known[key] = resolve(tree, s)
        yield replace(known[key], scenario=s)


def configuration_rng(configuration: Configuration, random_seed: int) -> np.random.Generator:
    """Return a generator that depends on the configuration and not on its load."""
    s = configuration.scenario
    key = f"{configuration.cell.label}|{s.num_speculative_tokens}|{configuration.input_len:.6g}"
    key += f"|{configuration.output_len:.6g}|{random_seed}"
    return np.random.default_rng(
        np.frombuffer(hashlib.sha256(key.encode()).digest()[:16], dtype=np.uint32)
    )


def misfit_of(configuration: Configuration, doublings: float, random_seed: int) -> np.ndarray:
    """Return draws of the factor by which a configuration's step time misses the law, (draw,).

    Parameters
    ----------
    configuration : Configuration
        Result of `resolve`.
    doublings : float
        Distance outside the measured range, see `bayes_sd.support`: the misfit grows with it.
    random_seed : int
        Seed; the same configuration gets the same draws at every load.

    Returns
    -------
    array of float
    """
    where = configuration.cell
    rng = configuration_rng(configuration, random_seed)
    inside = where.discrepancy_sd * rng.standard_t(where.tail_dof)
    beyond = where.extrapolation_sd * rng.standard_normal(inside.shape) * doublings
    return np.asarray(np.exp(inside + beyond))


def _batch_and_latency(
    configuration: Configuration, factor: np.ndarray, surplus: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return batch and latency of each draw; infinite where the rate is past capacity."""
    scenario = configuration.scenario
    cap = float(scenario.max_num_seqs)
    if scenario.concurrency is not None:
        batch = np.full(factor.shape, min(float(scenario.concurrency), cap))
        waiting = max(float(scenario.concurrency) / cap, 1.0)
        return batch, factor * configuration.latency(batch) * waiting
    rate = float(scenario.load) * surplus
    batch = solve_effective_batch(
        rate, lambda b: factor * configuration.latency(b), cap, relative_tolerance=1e-6
    )
    with np.errstate(invalid="ignore"):
        latency = factor * configuration.latency(np.where(np.isfinite(batch), batch, 1.0))
    return batch, np.where(np.isfinite(batch), latency, np.inf)


def _draw(
    tree: xr.DataTree, configuration: Configuration, kind: str, random_seed: int
) -> tuple[np.ndarray, np.ndarray, str, str]:
    """Return batch, latency, status and what is outside, for one scenario."""
    where, scenario = configuration.cell, configuration.scenario
    rng = configuration_rng(configuration, random_seed + 1)
    size = where.discrepancy_sd.shape
    one = np.ones(size)
    central, _ = _batch_and_latency(configuration, one, one)
    typical = float(np.median(central))
    lies = support(
        tree,
        scenario,
        base=where.base,
        pair=where.pair,
        batch=typical,
        lengths=(configuration.input_len, configuration.output_len),
    )
    misfit = misfit_of(configuration, lies.doublings, random_seed)
    boot = where.boot_sd * rng.standard_normal(size)
    n = scenario.num_requests
    bunching, sampling = rng.standard_normal((2, *size)) / np.sqrt(n)
    factor, surplus, after = misfit, one, one
    if kind == "run":
        factor = factor * np.exp(boot)
        after = np.exp(where.request_cv * sampling)
        if scenario.concurrency is None and scenario.arrivals != "constant":
            surplus = np.exp(bunching)
    batch, latency = _batch_and_latency(configuration, factor, surplus)
    status = "past capacity" if np.mean(np.isinf(latency)) > 0.5 else lies.status
    return batch, latency * after, status, ", ".join(lies.outside)


def predict_latency(
    tree: xr.DataTree,
    scenarios: Scenario | Sequence[Scenario],
    kind: str = "mean",
    *,
    random_seed: int = 0,
) -> xr.Dataset:
    """Draw the end-to-end latency of scenarios.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenarios : Scenario or sequence of Scenario
        What is asked.
    kind : {"mean", "run"}
        See the contract at the top of this module.
    random_seed : int
        Seed of misfit, boots and sampling.

    Returns
    -------
    xarray.Dataset
        ``e2e_s`` (sample, scenario), s, infinite in draws whose capacity is below the rate;
        ``effective_batch`` (sample, scenario), requests; ``status`` and ``outside`` (scenario);
        attribute ``kind``.

    Raises
    ------
    ArgumentError, UnknownPairError, DataError
        As `resolve`; or if the kind is not known.

    Examples
    --------
    >>> predict_latency(tree, Scenario("Qwen3-8B", request_rate_rps=4.0))  # doctest: +SKIP
    """
    one_of(kind, KINDS, "kind")
    whole_number(random_seed, "random_seed", minimum=0)
    listed = [scenarios] if isinstance(scenarios, Scenario) else list(scenarios)
    if not listed:
        raise ArgumentError("scenarios must hold at least one Scenario. Got none instead.")
    rows = [_draw(tree, found, kind, random_seed) for found in _resolve_all(tree, listed)]
    dims = ("sample", "scenario")
    return xr.Dataset(
        {
            "e2e_s": (dims, np.stack([r[1] for r in rows], axis=-1), {"units": "s"}),
            "effective_batch": (
                dims,
                np.stack([r[0] for r in rows], axis=-1),
                {"units": "requests"},
            ),
            "status": ("scenario", [r[2] for r in rows]),
            "outside": ("scenario", [r[3] for r in rows]),
        },
        coords={"scenario": [s.label for s in listed]},
        attrs={"kind": kind},
    )


def effective_batch(
    tree: xr.DataTree, scenarios: Scenario | Sequence[Scenario], *, random_seed: int = 0
) -> xr.DataArray:
    """Return draws of the mean number of requests in the system, (sample, scenario).

    Parameters
    ----------
    tree, scenarios, random_seed
        As `predict_latency`, whose errors it raises.

    Returns
    -------
    xarray.DataArray
        Requests; infinite in draws past capacity.
    """
    return predict_latency(tree, scenarios, random_seed=random_seed)["effective_batch"]
