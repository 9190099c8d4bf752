"""Draws of one configuration at all its loads: batch, latency, first token, what they rest on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayes_sd.configuration import Configuration, configuration_rng, misfit_draws
from bayes_sd.law_of_draws import LawOfDraws
from bayes_sd.request_latency import draw_requests, spread_of, steady, unknown_spread
from bayes_sd.smooth_curve import curve_of
from bayes_sd.support import Support, support_at_loads

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ConfigurationDraws:
    """Draws of one configuration at several loads.

    Attributes
    ----------
    batch : array, (load, draw)
        Requests in the system; infinite past capacity.
    e2e_s : array, (load, draw)
        Latency of the kind asked for, s; infinite past capacity.
    ttft_s : array, (load, draw), or None
        Mean time to first token, s; None if no fitted run had one, or it was not asked for.
    status : tuple of str
        Measured, interpolated, extrapolated or past capacity, per load.
    outside : tuple of str
        What lies outside the measured range, per load.
    """

    batch: Floats
    e2e_s: Floats
    ttft_s: Floats | None
    status: tuple[str, ...]
    outside: tuple[str, ...]


def draw_configuration(
    tree: xr.DataTree,
    configuration: Configuration,
    loads: Sequence[float],
    kind: str,
    random_seed: int,
    *,
    first_token: bool = True,
) -> ConfigurationDraws:
    """Draw one configuration at several loads: one draw of misfit and boot for all of them.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    configuration : Configuration
        Result of `resolve`; the value of its load is not used.
    loads : sequence of float
        Requests per second, or in flight, as in the configuration's scenario.
    kind : {"mean", "run", "request"}
        See the contract at the top of `bayes_sd.predict`.
    random_seed : int
        Seed of misfit, boots and sampling.
    first_token : bool
        Whether the time to first token is wanted.

    Returns
    -------
    ConfigurationDraws

    Raises
    ------
    DataError
        If the kind is ``request`` and the spread of requests is not known.
    """
    at = np.asarray(loads, dtype=float)
    run = None if kind == "mean" else _Run.draw(configuration, random_seed)
    solve = _open if configuration.scenario.concurrency is None else _closed
    batch, latency, lies = solve(tree, configuration, at, kind, run, random_seed)
    past = np.isinf(latency).mean(axis=1) > 0.5
    first = None
    if first_token and kind != "request":
        first = configuration.ttft(
            latency, random_seed
        )  # infinite past capacity, as the latency is
    if run is not None and kind == "run":
        latency = latency * run.sampling
    elif run is not None:
        latency = _requests(configuration, batch, latency, random_seed)
    return ConfigurationDraws(
        batch,
        latency,
        first,
        tuple("past capacity" if p else s.status for p, s in zip(past, lies, strict=True)),
        tuple(", ".join(s.outside) for s in lies),
    )


@dataclass(frozen=True)
class _Run:
    """What a fresh run adds to its configuration: factors, (draw,)."""

    boot: Floats
    arrivals: Floats
    sampling: Floats
    rng: np.random.Generator

    @classmethod
    def draw(cls, configuration: Configuration, random_seed: int) -> "_Run":
        where, scenario = configuration.cell, configuration.scenario
        rng = configuration_rng(configuration, random_seed + 1)
        size = where.discrepancy_sd.shape
        boot = where.boot_sd * rng.standard_normal(size)
        bunching, sampling = rng.standard_normal((2, *size)) / np.sqrt(scenario.num_requests)
        if scenario.concurrency is not None or scenario.arrivals == "constant":
            bunching = np.zeros(size)
        return cls(np.exp(boot), np.exp(bunching), np.exp(where.request_cv * sampling), rng)


def _closed(
    tree: xr.DataTree,
    configuration: Configuration,
    loads: Floats,
    kind: str,
    run: _Run | None,
    random_seed: int,
) -> tuple[Floats, Floats, list[Support]]:
    """Return batch, latency and support of a closed loop, which holds what it is asked for."""
    cap = float(configuration.scenario.max_num_seqs)
    held = np.minimum(loads, cap)
    lies = _support(tree, configuration, loads, held)
    batch = np.repeat(held[:, None], configuration.cell.discrepancy_sd.size, axis=1)
    law = LawOfDraws.of(configuration)
    doublings = np.array([[s.doublings] for s in lies])
    factor = misfit_draws(configuration, random_seed).factor(law.elasticity(batch), doublings)
    if run is not None:
        factor = factor * run.boot
    waiting = np.maximum(loads / cap, 1.0)[:, None]
    return batch, factor * law.latency(batch) * waiting, lies


def _open(
    tree: xr.DataTree,
    configuration: Configuration,
    loads: Floats,
    kind: str,
    run: _Run | None,
    random_seed: int,
) -> tuple[Floats, Floats, list[Support]]:
    """Return batch, latency and support of an open loop; infinite past capacity."""
    curve: Any = curve_of(configuration)  # each kind solves from points of its own
    points = curve.points(loads)
    lies = _support(tree, configuration, loads, medians(points.central))
    times_rate = run.arrivals if run is not None and kind == "run" else 1.0
    further = times_rate if run is None else times_rate * run.boot
    doublings = np.array([s.doublings for s in lies])
    misfit = misfit_draws(configuration, random_seed)
    batch = curve.solve(loads, points, misfit, doublings, further)
    return batch, batch / (loads[:, None] * times_rate), lies


def medians(values: Floats) -> Floats:
    """Return the median of each row: one pivot costs an eighth of what the two of NumPy's do."""
    half = values.shape[1] // 2
    parted = np.partition(values, half, axis=1)
    if values.shape[1] % 2:
        return parted[:, half]
    return (parted[:, half] + parted[:, :half].max(axis=1)) / 2


def _support(
    tree: xr.DataTree, configuration: Configuration, loads: Floats, typical: Floats
) -> list[Support]:
    where = configuration.cell
    return support_at_loads(
        tree,
        configuration.scenario,
        base=where.base,
        pair=where.pair,
        loads=loads,
        batches=typical,
        lengths=(configuration.input_len, configuration.output_len),
    )


def _requests(
    configuration: Configuration, batch: Floats, latency: Floats, random_seed: int
) -> Floats:
    """Draw one request for each draw of the mean, at each load."""
    drawn = np.empty_like(latency)
    for load in range(len(latency)):
        about = spread_of(configuration, batch[load], latency[load])
        if about is None:
            raise unknown_spread("e2e")
        rng = _Run.draw(configuration, random_seed).rng  # as if this load were the only one
        drawn[load] = draw_requests(latency[load], steady(about), rng)
    return drawn
