"""Predictions: labelled draws for scenarios.

The contract. Three different things, never confused:

``mean``
    Expected latency of a configuration, over boots and requests. Its spread is what is not known:
    the coefficients, and the misfit of the law at this configuration.
``run``
    The mean that one fresh benchmark run would report: a new boot, a finite number of requests.
``request``
    Latency of one future request, on a server that starts anew; `predict_quantiles` gives its
    quantiles draw by draw.

Everything is computed draw by draw, and summarised at the very end. Misfit and boot act on the
step time at a given batch, inside B = rate x L(B), where load amplifies them. They belong to a
configuration: one draw of them is shared by all its loads, so a curve over load is one curve.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from bayes_sd.configuration import Configuration, configuration_rng, misfit_of, resolve_all
from bayes_sd.exceptions import ArgumentError, DataError
from bayes_sd.physics.effective_batch import solve_effective_batch
from bayes_sd.request_latency import (
    draw_requests,
    quantiles_of_run,
    request_quantile,
    spread_of,
    steady,
)
from bayes_sd.scenario import Scenario
from bayes_sd.support import support
from bayes_sd.validate import one_of, whole_number

KINDS = ("mean", "run", "request")


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
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, str, str]:
    """Return batch, latency, time to first token, status and what is outside, for a scenario."""
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
    misfit = misfit_of(configuration, lies.doublings, random_seed, central)
    boot = where.boot_sd * rng.standard_normal(size)
    n = scenario.num_requests
    bunching, sampling = rng.standard_normal((2, *size)) / np.sqrt(n)
    factor, surplus, after = misfit, one, one
    if kind != "mean":
        factor = factor * np.exp(boot)
    if kind == "run":
        after = np.exp(where.request_cv * sampling)
        if scenario.concurrency is None and scenario.arrivals != "constant":
            surplus = np.exp(bunching)
    batch, latency = _batch_and_latency(configuration, factor, surplus)
    status = "past capacity" if np.mean(np.isinf(latency)) > 0.5 else lies.status
    first = configuration.ttft(latency, random_seed)  # infinite past capacity, as the latency is
    if kind == "request":
        about = spread_of(configuration, batch, latency)
        if about is None:
            raise DataError(
                "kind='request' needs the spread of requests, and no fitted run had percentiles of "
                "e2e. Fit runs with p50_e2e_s, p90_e2e_s, p95_e2e_s or p99_e2e_s."
            )
        return (
            batch,
            draw_requests(latency, steady(about), rng),
            None,
            status,
            ", ".join(lies.outside),
        )
    return batch, latency * after, first, status, ", ".join(lies.outside)


def predict_latency(
    tree: xr.DataTree,
    scenarios: Scenario | Sequence[Scenario],
    kind: str = "mean",
    *,
    allow_new: bool = False,
    random_seed: int = 0,
) -> xr.Dataset:
    """Draw the end-to-end latency of scenarios.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenarios : Scenario or sequence of Scenario
        What is asked.
    kind : {"mean", "run", "request"}
        See the contract at the top of this module.
    allow_new : bool
        Whether a pair that was not fitted is drawn from the population of those that were, by the
        sizes that its scenario gives; its status is then ``extrapolated`` (outside: ``pair``).
    random_seed : int
        Seed of misfit, boots and sampling.

    Returns
    -------
    xarray.Dataset
        ``e2e_s`` (sample, scenario), s, infinite in draws whose capacity is below the rate;
        ``effective_batch`` (sample, scenario), requests; where fitted runs had them ``ttft_s``
        and ``tpot_s`` = (e2e - ttft) / (tokens - 1), (sample, scenario), s; ``status`` and
        ``outside`` (scenario); attribute ``kind``.

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
    found = list(resolve_all(tree, listed, allow_new=allow_new, random_seed=random_seed))
    rows = [_draw(tree, configuration, kind, random_seed) for configuration in found]
    dims = ("sample", "scenario")
    return xr.Dataset(
        {
            "e2e_s": (dims, np.stack([r[1] for r in rows], axis=-1), {"units": "s"}),
            "effective_batch": (
                dims,
                np.stack([r[0] for r in rows], axis=-1),
                {"units": "requests"},
            ),
            **_token_times(found, rows),
            "status": ("scenario", [r[3] for r in rows]),
            "outside": ("scenario", [r[4] for r in rows]),
        },
        coords={"scenario": [s.label for s in listed]},
        attrs={"kind": kind},
    )


def _token_times(
    found: Sequence[Configuration],
    rows: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray | None, str, str]],
) -> dict[str, tuple[tuple[str, str], np.ndarray, dict[str, str]]]:
    """Return ttft and tpot of all scenarios, or nothing if one of them has none."""
    first = [row[2] for row in rows]
    if any(values is None for values in first):
        return {}
    ttft = np.stack([np.asarray(values) for values in first], axis=-1)
    e2e = np.stack([row[1] for row in rows], axis=-1)
    after = np.maximum([configuration.output_len - 1 for configuration in found], 1.0)
    decoding = np.where(np.isinf(e2e), np.inf, e2e - np.where(np.isinf(e2e), 0.0, ttft))
    dims, units = ("sample", "scenario"), {"units": "s"}
    return {
        "ttft_s": (dims, ttft, units),
        "tpot_s": (dims, np.maximum(decoding, 0.0) / after, units),
    }


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


def predict_quantiles(
    tree: xr.DataTree,
    scenarios: Scenario | Sequence[Scenario],
    levels: Sequence[float] = (0.5, 0.9, 0.95, 0.99),
    kind: str = "mean",
    *,
    allow_new: bool = False,
    random_seed: int = 0,
) -> xr.DataArray:
    """Draw quantiles of the end-to-end latency of requests.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`, of runs with percentiles of e2e.
    scenarios : Scenario or sequence of Scenario
        What is asked.
    levels : sequence of float
        Rising, above 0 and below 1.
    kind : {"mean", "run"}
        ``mean``: the quantile over all requests of the configuration. ``run``: the percentile that
        one fresh benchmark run would report, of its own requests and boot.
    allow_new, random_seed
        As in `predict_latency`.

    Returns
    -------
    xarray.DataArray
        Seconds, dims (sample, scenario, quantile); infinite in draws past capacity.

    Raises
    ------
    ArgumentError, UnknownPairError, DataError
        As `predict_latency`; or if the fit has no percentiles, or the levels do not rise.

    Examples
    --------
    >>> predict_quantiles(tree, scenario, [0.95])  # doctest: +SKIP
    """
    one_of(kind, KINDS[:2], "kind")
    at = np.asarray(levels, dtype=float)
    if not len(at) or (np.diff(at) <= 0).any() or at[0] <= 0 or at[-1] >= 1:
        raise ArgumentError(f"levels must rise between 0 and 1. Got {list(levels)!r} instead.")
    listed = [scenarios] if isinstance(scenarios, Scenario) else list(scenarios)
    columns = []
    for found in resolve_all(tree, listed, allow_new=allow_new, random_seed=random_seed):
        batch, mean, *_ = _draw(tree, found, kind, random_seed)
        about = spread_of(found, batch, mean)
        if about is None:
            raise DataError(
                "no fitted run had percentiles of e2e, so nothing is known of the spread of "
                "requests. Fit runs with p50_e2e_s, p90_e2e_s, p95_e2e_s or p99_e2e_s."
            )
        if kind == "run":
            rng = configuration_rng(found, random_seed + 3)
            columns.append(quantiles_of_run(found, mean, about, at, rng))
        else:
            finite = np.isfinite(mean)
            drawn = request_quantile(at, np.where(finite, mean, 1.0), **vars(steady(about)))
            columns.append(np.where(finite[:, None], drawn, np.inf))
    return xr.DataArray(
        np.stack(columns, axis=1),
        dims=("sample", "scenario", "quantile"),
        coords={"scenario": [s.label for s in listed], "quantile": at},
        name="e2e_s",
        attrs={"units": "s", "kind": kind},
    )
