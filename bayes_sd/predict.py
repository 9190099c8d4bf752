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

from bayes_sd.configuration import Configuration, resolve_all
from bayes_sd.configuration_draws import ConfigurationDraws, draw_configuration
from bayes_sd.exceptions import ArgumentError
from bayes_sd.request_latency import quantiles_about
from bayes_sd.scenario import Scenario
from bayes_sd.spread_priors import PREFIX
from bayes_sd.validate import one_of, whole_number

KINDS = ("mean", "run", "request")
LATENCIES = tuple(PREFIX)


def _draw_all(
    tree: xr.DataTree,
    found: Sequence[Configuration],
    kind: str,
    random_seed: int,
    first_token: bool = True,
) -> list[tuple[ConfigurationDraws, int]]:
    """Draw scenarios, those of one configuration together; return each with its number there."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for i, each in enumerate(found):
        same = each.scenario.with_(**{_load_name(each.scenario): 1.0})
        groups.setdefault((id(each.cell), id(each.steps), same), []).append(i)
    rows: dict[int, tuple[ConfigurationDraws, int]] = {}
    for members in groups.values():
        loads = [found[i].scenario.load for i in members]
        first = found[members[0]]
        drawn = draw_configuration(tree, first, loads, kind, random_seed, first_token=first_token)
        rows |= {i: (drawn, at) for at, i in enumerate(members)}
    return [rows[i] for i in range(len(found))]


def _load_name(scenario: Scenario) -> str:
    return "request_rate_rps" if scenario.concurrency is None else "concurrency"


def draw_scenarios(
    tree: xr.DataTree,
    scenarios: Sequence[Scenario],
    kind: str = "mean",
    *,
    allow_new: bool = False,
    random_seed: int = 0,
    first_token: bool = True,
) -> tuple[list[Configuration], list[tuple[ConfigurationDraws, int]]]:
    """Draw scenarios as plain arrays: what `predict_latency` labels.

    Parameters
    ----------
    tree, scenarios, kind, allow_new, random_seed
        As `predict_latency`, whose errors it raises.
    first_token : bool
        Whether the time to first token is wanted.

    Returns
    -------
    found : list of Configuration
        The scenarios looked up.
    rows : list of tuple
        For each its draws, and the number of its load among theirs.
    """
    one_of(kind, KINDS, "kind")
    whole_number(random_seed, "random_seed", minimum=0)
    if not scenarios:
        raise ArgumentError("scenarios must hold at least one Scenario. Got none instead.")
    found = list(resolve_all(tree, scenarios, allow_new=allow_new, random_seed=random_seed))
    return found, _draw_all(tree, found, kind, random_seed, first_token)


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
    listed = [scenarios] if isinstance(scenarios, Scenario) else list(scenarios)
    found, rows = draw_scenarios(tree, listed, kind, allow_new=allow_new, random_seed=random_seed)
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
    pairs = list(zip(found, rows, strict=True))
    means = {
        name: [mean_of(where, row, i, name) for where, (row, i) in pairs]
        for name in ("ttft", "tpot")
    }
    if any(values is None for values in means["ttft"]):
        return {}
    dims, units = ("sample", "scenario"), {"units": "s"}
    return {
        f"{name}_s": (dims, np.stack([np.asarray(v) for v in values], axis=-1), units)
        for name, values in means.items()
    }


def mean_of(
    configuration: Configuration, draws: ConfigurationDraws, load: int, latency: str
) -> np.ndarray | None:
    """Return draws of the mean of a latency at one load, s, (draw,); None if it is not known.

    Parameters
    ----------
    configuration : Configuration
        A scenario looked up in a fit.
    draws : ConfigurationDraws
        Its draws.
    load : int
        Number of the load.
    latency : {"e2e", "ttft", "tpot"}
        Time per token is (e2e - ttft) / (tokens - 1), infinite past capacity.
    """
    e2e = draws.e2e_s[load]
    if latency == "e2e":
        return e2e
    if draws.ttft_s is None:
        return None
    first = draws.ttft_s[load]
    if latency == "ttft":
        return first
    past = np.isinf(e2e)
    decoding = np.where(past, np.inf, e2e - np.where(past, 0.0, first))
    return np.asarray(np.maximum(decoding, 0.0) / max(configuration.output_len - 1, 1.0))


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

    Examples
    --------
    >>> here = Scenario("Qwen3-8B", request_rate_rps=4.0)
    >>> effective_batch(tree, here).median("sample")  # doctest: +SKIP
    """
    return predict_latency(tree, scenarios, random_seed=random_seed)["effective_batch"]


def predict_quantiles(
    tree: xr.DataTree,
    scenarios: Scenario | Sequence[Scenario],
    levels: Sequence[float] = (0.5, 0.9, 0.95, 0.99),
    kind: str = "mean",
    *,
    latency: str = "e2e",
    allow_new: bool = False,
    random_seed: int = 0,
) -> xr.DataArray:
    """Draw quantiles of the latency of requests.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`, of runs with percentiles of that latency.
    scenarios : Scenario or sequence of Scenario
        What is asked.
    levels : sequence of float
        Rising, above 0 and below 1.
    kind : {"mean", "run"}
        ``mean``: the quantile over all requests of the configuration. ``run``: the percentile that
        one fresh benchmark run would report, of its own requests and boot.
    latency : {"e2e", "ttft", "tpot"}
        End-to-end latency, time to first token, or time per token after the first.
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
    one_of(latency, LATENCIES, "latency")
    at = np.asarray(levels, dtype=float)
    if not len(at) or (np.diff(at) <= 0).any() or at[0] <= 0 or at[-1] >= 1:
        raise ArgumentError(f"levels must rise between 0 and 1. Got {list(levels)!r} instead.")
    listed = [scenarios] if isinstance(scenarios, Scenario) else list(scenarios)
    columns = []
    resolved = list(resolve_all(tree, listed, allow_new=allow_new, random_seed=random_seed))
    drawn = _draw_all(tree, resolved, kind, random_seed)
    for found, (arm, i) in zip(resolved, drawn, strict=True):
        mean = mean_of(found, arm, i, latency)
        columns.append(
            quantiles_about(found, arm.batch[i], mean, at, kind, random_seed, latency=latency)
        )
    return xr.DataArray(
        np.stack(columns, axis=1),
        dims=("sample", "scenario", "quantile"),
        coords={"scenario": [s.label for s in listed], "quantile": at},
        name=f"{latency}_s",
        attrs={"units": "s", "kind": kind},
    )
