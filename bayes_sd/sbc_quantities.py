"""What simulation-based calibration ranks: parameters, and functions of parameters and data."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from bayes_sd.break_even import break_even_rate
from bayes_sd.configuration import resolve
from bayes_sd.generate_counts import counts_log_density
from bayes_sd.physics.linear_law import load_dependent_demand_s
from bayes_sd.predict import predict_latency
from bayes_sd.run_law import flat_draws, latency_log_density
from bayes_sd.scenario import Scenario

# From a fit and a seed to one number per draw. A seed is for noise of the quantity's own, such as
# that of a fresh run: it must differ between draws and not hang on them.
type Quantity = Callable[[xr.DataTree, int], np.ndarray]

MAX_ELEMENTS = 3  # of each vector


def default_quantities(design: xr.Dataset) -> dict[str, Quantity]:
    """Return derived quantities that decisions hang on, of the first pair of a design.

    Parameters
    ----------
    design : xarray.Dataset
        Result of `to_dataset`.

    Returns
    -------
    dict of str to callable
        ``log_likelihood`` of all latencies; where drafts were counted,
        ``log_likelihood_of_counts``; ``load_dependent_demand_s``, C2 of the linear law;
        ``run_e2e_s``, the mean latency of one fresh run; where there is a pair,
        ``break_even_rps``, 0 where speculation never pays and infinite where it always does. The
        last three are at the pair's longest draft and the median rate of its open loops.
    """
    scenario = _scenario(design)

    def demand(tree: xr.DataTree, random_seed: int) -> np.ndarray:
        found = resolve(tree, scenario)
        return np.asarray(
            load_dependent_demand_s(
                found.cell.costs,
                num_speculative_tokens=scenario.num_speculative_tokens,
                input_len_tokens=found.input_len,
                output_len_tokens=found.output_len,
                num_steps=found.steps,
            )
        )

    def fresh_run(tree: xr.DataTree, random_seed: int) -> np.ndarray:
        drawn = predict_latency(tree, scenario, "run", random_seed=random_seed)
        return np.asarray(drawn["e2e_s"].values[:, 0])

    def break_even(tree: xr.DataTree, random_seed: int) -> np.ndarray:
        return turn_of_draws(tree, scenario, random_seed)

    quantities: dict[str, Quantity] = {
        "log_likelihood": log_likelihood,
        "load_dependent_demand_s": demand,
        "run_e2e_s": fresh_run,
    }
    if design["trials_at_position"].values.any():
        quantities["log_likelihood_of_counts"] = log_likelihood_of_counts
    if scenario.num_speculative_tokens:
        quantities["break_even_rps"] = break_even
    return quantities


def log_likelihood(tree: xr.DataTree, random_seed: int = 0) -> np.ndarray:
    """Return the log density of all latencies at each draw, (draw,); the seed is not used."""
    return latency_log_density(*_data_and_draws(tree)).sum(axis=1)


def log_likelihood_of_counts(tree: xr.DataTree, random_seed: int = 0) -> np.ndarray:
    """Return the log density of all accepted drafts at each draw, (draw,)."""
    return counts_log_density(*_data_and_draws(tree)).sum(axis=1)


def _data_and_draws(tree: xr.DataTree) -> tuple[xr.Dataset, xr.Dataset]:
    posterior = tree["posterior"].to_dataset()
    draws = flat_draws(posterior, posterior.sizes["chain"] * posterior.sizes["draw"])
    return tree["constant_data"].to_dataset(), draws


def turn_of_draws(tree: xr.DataTree, scenario: Scenario, random_seed: int) -> np.ndarray:
    """Return the rate up to which speculation pays at each draw: 0 never, infinite always.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenario : Scenario
        Pair, draft length, lengths and acceptance.
    random_seed : int
        Seed of the misfit.
    """
    drafts = scenario.num_speculative_tokens
    rate = break_even_rate(
        tree,
        scenario.pair,
        num_speculative_tokens=drafts,
        scenario=scenario,
        random_seed=random_seed,
    ).rate
    alone = [scenario.with_(num_speculative_tokens=k, request_rate_rps=1e-3) for k in (drafts, 0)]
    pays = np.subtract(*predict_latency(tree, alone, random_seed=random_seed)["e2e_s"].values.T) < 0
    return np.where(np.isnan(rate), np.where(pays, np.inf, 0.0), rate)


def parameter_draws(
    posterior: xr.Dataset,
    truth: xr.Dataset,
    data: xr.Dataset,
    quantities: Mapping[str, Quantity],
    random_seed: int,
) -> xr.DataArray:
    """Return truth and posterior draws of all that is ranked.

    Parameters
    ----------
    posterior : xarray.Dataset
        Dims chain and draw.
    truth : xarray.Dataset
        The parameters that made the data, dim ``sample`` of size 1.
    data : xarray.Dataset
        The data that were fitted.
    quantities : mapping of str to callable
        Derived quantities by name.
    random_seed : int
        Seed of their own noise: another one for each simulation, or the truth's would not vary.

    Returns
    -------
    xarray.DataArray
        Dims (row, quantity); row 0 is the truth, then the draws, chain after chain.
    """
    tree = tree_with_truth(posterior, truth, data)
    together = tree["posterior"].to_dataset().isel(chain=0)
    columns: dict[str, np.ndarray] = {}
    for name in map(str, truth.data_vars):
        columns |= _elements(name, together[name].values)
    columns |= {name: function(tree, random_seed) for name, function in quantities.items()}
    return xr.DataArray(
        np.stack(list(columns.values()), axis=-1),
        dims=("row", "quantity"),
        coords={"quantity": list(columns)},
    )


def tree_with_truth(posterior: xr.Dataset, truth: xr.Dataset, data: xr.Dataset) -> xr.DataTree:
    """Return a fit of one chain whose first draw is the truth.

    Any function of a fit then gives its value for the truth as the first draw, and its posterior
    as the others.

    Parameters
    ----------
    posterior, truth, data
        As in `parameter_draws`.

    Returns
    -------
    xarray.DataTree
        Groups ``posterior`` and ``constant_data``; marked as converged.
    """
    whole: dict[str, Any] = {}
    for name in map(str, truth.data_vars):
        first = truth[name].transpose("sample", ...)
        drawn = posterior[name].transpose("chain", "draw", ...).values
        rows = np.concatenate([first.values, drawn.reshape(-1, *first.shape[1:])])
        whole[name] = (("draw", *first.dims[1:]), rows)
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(whole, coords=_labels(truth)).expand_dims("chain"),
            "constant_data": data,
            "/": xr.Dataset(attrs={"passed": 1, "verdict": ""}),
        }
    )


def with_fixed(posterior: xr.Dataset, like: xr.Dataset, fixed: Mapping[str, float]) -> xr.Dataset:
    """Return a posterior with parameters that the fitted model held at a number."""
    size = (posterior.sizes["chain"], posterior.sizes["draw"])
    held = {}
    for name, value in fixed.items():
        known = like[name].transpose("sample", ...)
        held[name] = (
            ("chain", "draw", *known.dims[1:]),
            np.full((*size, *known.shape[1:]), value),
        )
    return posterior.assign(held)


def _elements(name: str, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return a few elements of a variable, evenly spaced, if the draws differ."""
    flat = rows.reshape(len(rows), -1)
    chosen = np.unique(np.linspace(0, flat.shape[1] - 1, MAX_ELEMENTS).round().astype(int))
    places = [", ".join(map(str, np.unravel_index(i, rows.shape[1:]))) for i in chosen]
    return {
        f"{name}[{place}]" if place else name: flat[:, i]
        for i, place in zip(chosen, places, strict=True)
        if np.ptp(flat[1:, i]) > 0
    }


def _labels(truth: xr.Dataset) -> dict[str, Any]:
    return {str(n): c for n, c in truth.coords.items() if n != "sample" and "sample" not in c.dims}


def _scenario(design: xr.Dataset) -> Scenario:
    """Return the longest draft of the first pair at the median rate of its open loops."""
    drafts = design["num_speculative_tokens"].values
    of_pair = design["pair_of_run"].values == 0
    if design.sizes["pair"]:
        arm = of_pair & (drafts == drafts[of_pair].max())
        label = str(design["pair"].values[0])
    else:
        arm, label = drafts == 0, str(design["base"].values[0])
    rates = design["request_rate_rps"].values[arm]
    forced = design["forced_acceptance_rate"].values[arm][0]
    return Scenario(
        label,
        request_rate_rps=float(np.nanmedian(rates)) if np.isfinite(rates).any() else 1.0,
        num_speculative_tokens=int(drafts[arm][0]),
        acceptance=None if np.isnan(forced) or not drafts[arm][0] else float(forced),
    )
