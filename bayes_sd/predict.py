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

from bayes_sd.configuration import Configuration, configuration_rng, resolve_all
from bayes_sd.configuration_draws import ConfigurationDraws, draw_configuration
from bayes_sd.exceptions import ArgumentError, DataError
from bayes_sd.request_latency import quantiles_of_run, request_quantile, spread_of, steady
from bayes_sd.scenario import Scenario
from bayes_sd.validate import one_of, whole_number

KINDS = ("mean", "run", "request")


def _draw_all(
    tree: xr.DataTree, found: Sequence[Configuration], kind: str, random_seed: int
) -> list[tuple[ConfigurationDraws, int]]:
    """Draw scenarios, those of one configuration together; return each with its number there."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for i, each in enumerate(found):
        same = each.scenario.with_(**{_load_name(each.scenario): 1.0})
        groups.setdefault((id(each.cell), id(each.steps), same), []).append(i)
    rows: dict[int, tuple[ConfigurationDraws, int]] = {}
    for members in groups.values():
        loads = [found[i].scenario.load for i in members]
        drawn = draw_configuration(tree, found[members[0]], loads, kind, random_seed)
        rows |= {i: (drawn, at) for at, i in enumerate(members)}
    return [rows[i] for i in range(len(found))]


def _load_name(scenario: Scenario) -> str:
    return "request_rate_rps" if scenario.concurrency is None else "concurrency"


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
    rows = _draw_all(tree, found, kind, random_seed)
    dims = ("sample", "scenario")
    return xr.Dataset(
        {
            "e2e_s": (dims, np.stack([r.e2e_s[i] for r, i in rows], axis=-1), {"units": "s"}),
            "effective_batch": (
                dims,
                np.stack([r.batch[i] for r, i in rows], axis=-1),
                {"units": "requests"},
            ),
            **_token_times(found, rows),
            "status": ("scenario", [r.status[i] for r, i in rows]),
            "outside": ("scenario", [r.outside[i] for r, i in rows]),
        },
        coords={"scenario": [s.label for s in listed]},
        attrs={"kind": kind},
    )


def _token_times(
    found: Sequence[Configuration], rows: Sequence[tuple[ConfigurationDraws, int]]
) -> dict[str, tuple[tuple[str, str], np.ndarray, dict[str, str]]]:
    """Return ttft and tpot of all scenarios, or nothing if one of them has none."""
    first = [None if row.ttft_s is None else row.ttft_s[i] for row, i in rows]
    if any(values is None for values in first):
        return {}
    ttft = np.stack([np.asarray(values) for values in first], axis=-1)
    e2e = np.stack([row.e2e_s[i] for row, i in rows], axis=-1)
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
    resolved = list(resolve_all(tree, listed, allow_new=allow_new, random_seed=random_seed))
    drawn = _draw_all(tree, resolved, kind, random_seed)
    for found, (arm, i) in zip(resolved, drawn, strict=True):
        batch, mean = arm.batch[i], arm.e2e_s[i]
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
            quantiles = request_quantile(at, np.where(finite, mean, 1.0), **vars(steady(about)))
            columns.append(np.where(finite[:, None], quantiles, np.inf))
    return xr.DataArray(
        np.stack(columns, axis=1),
        dims=("sample", "scenario", "quantile"),
        coords={"scenario": [s.label for s in listed], "quantile": at},
        name="e2e_s",
        attrs={"units": "s", "kind": kind},
    )
