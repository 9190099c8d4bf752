"""Which of several fits of the same runs predicts a boot that it has not seen: `compare_models`."""

import warnings
from collections.abc import Mapping

import arviz as az
import numpy as np
import pandas as pd
import xarray as xr

from bayes_sd.exceptions import ArgumentError, AssumptionWarning, ConvergenceWarning

MAX_PARETO_K = 0.7
COLUMNS = {
    "elpd": "elpd",
    "se": "elpd_se",
    "elpd_diff": "difference",
    "dse": "difference_se",
    "p_worse": "probability_worse",
    "weight": "weight",
    "p": "effective_parameters",
}


def compare_models(trees: Mapping[str, xr.DataTree]) -> pd.DataFrame:
    """Compare fits of the same runs by the log density of each sweep when it is left out.

    Sweeps are left out whole, boot included, by importance weights that are smoothed by a Pareto
    distribution [1]_: what is estimated is how well a model predicts the next server start. Loads
    that nobody measured are not judged by it; for those hold runs out.

    Parameters
    ----------
    trees : mapping of str to xarray.DataTree
        At least two results of `fit`, of the same runs, by name: other priors, other responses.

    Returns
    -------
    pandas.DataFrame
        One row a model, the best first. ``elpd``, expected log density summed over sweeps, with
        ``elpd_se``; ``difference`` to the best, at most 0, with ``difference_se``;
        ``probability_worse`` than the best, by the normal approximation; ``weight`` in a stacked
        prediction; ``effective_parameters``; ``bad_sweeps``, those whose Pareto k is above 0.7.

    Raises
    ------
    ArgumentError
        If there are fewer than two fits, one has no log likelihood (it was packed), or their runs
        differ.

    Warns
    -----
    ConvergenceWarning
        If a fit has not converged.
    AssumptionWarning
        If a sweep weighs so much that leaving it out cannot be told from the fit with it.

    References
    ----------
    .. [1] Vehtari, Gelman & Gabry (2017). Practical Bayesian model evaluation using leave-one-out
       cross-validation and WAIC. Statistics and Computing 27.

    Examples
    --------
    >>> compare_models({"default": tree, "wider boots": other})  # doctest: +SKIP
    """
    if len(trees) < 2:
        raise ArgumentError(
            f"trees must hold at least two fits by name. Got {sorted(trees)} instead."
        )
    _check_same_runs(trees)
    loos = {}
    for name, tree in trees.items():
        if not tree.attrs.get("passed", 0):
            warnings.warn(
                f"fit {name!r}: {tree.attrs.get('verdict', 'it holds no verdict.')}",
                ConvergenceWarning,
                stacklevel=2,
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said below, with the names of the sweeps
            loos[name] = az.loo(_double(tree), var_name="log_latency", pointwise=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = az.compare(loos, round_to="none")
    table = table[list(COLUMNS)].rename(columns=COLUMNS).rename_axis("model")
    bad = {name: _bad_sweeps(loo) for name, loo in loos.items()}
    table["bad_sweeps"] = [len(bad[str(name)]) for name in table.index]
    worst = {name: sweeps for name, sweeps in bad.items() if sweeps}
    if worst:
        told = "; ".join(f"{n}: {len(s)} ({', '.join(s[:3])}, ...)" for n, s in worst.items())
        warnings.warn(
            f"some sweeps weigh so much that the fit without them cannot be told from the fit with "
            f"them (Pareto k above {MAX_PARETO_K}): {told}. Hold these out and fit again before "
            "you trust a small difference.",
            AssumptionWarning,
            stacklevel=2,
        )
    return table


def _check_same_runs(trees: Mapping[str, xr.DataTree]) -> None:
    """Raise unless every fit has a log likelihood, of the same runs."""
    for name, tree in trees.items():
        if "log_likelihood" not in tree.children:
            raise ArgumentError(
                f"fit {name!r} has no log likelihood. Packed fits leave it out: give the whole fit."
            )
    hashes = {name: str(tree.attrs.get("data_hash")) for name, tree in trees.items()}
    if len(set(hashes.values())) > 1:
        raise ArgumentError(
            f"fits must be of the same runs. Got data {hashes} instead: fit all models to one data "
            "set."
        )


def _double(tree: xr.DataTree) -> xr.DataTree:
    """Return the log likelihood in 64 bits, as the smoothing of weights wants it."""
    density = tree["log_likelihood"].to_dataset().astype(float)
    posterior = tree["posterior"].to_dataset()
    return xr.DataTree.from_dict({"posterior": posterior, "log_likelihood": density})


def _bad_sweeps(loo: az.ELPDData) -> list[str]:
    """Return the names of the sweeps whose Pareto k is too large, the worst first."""
    k = loo.pareto_k
    order = np.argsort(-k.values)
    return [str(k["sweep"].values[i]) for i in order if k.values[i] > MAX_PARETO_K]
