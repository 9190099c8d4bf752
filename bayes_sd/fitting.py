"""Sampling the posterior: `fit`."""

import json
import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayes_sd.acceptance_graph import steps_of_runs
from bayes_sd.convergence import diagnose
from bayes_sd.data import to_dataset
from bayes_sd.exceptions import ArgumentError
from bayes_sd.least_squares import reference_lengths
from bayes_sd.model import RESPONSES
from bayes_sd.priors import Prior, check_priors, default_priors
from bayes_sd.sampling import TARGET_ACCEPT, compile_blocks, compile_model, sample
from bayes_sd.start import starting_point
from bayes_sd.storage import FORMAT
from bayes_sd.validate import one_of, probability, whole_number

STAMPED = ("bayes_sd", "pymc", "nutpie", "arviz", "xarray", "numpy")


def fit(
    model_or_data: Any,
    *,
    priors: dict[str, Prior] | None = None,
    responses: Sequence[str] | None = None,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    random_seed: int = 0,
    progressbar: bool = True,
    target_accept: float = TARGET_ACCEPT,
) -> xr.DataTree:
    """Fit the latency model: sample its posterior with nutpie's NUTS.

    Parameters
    ----------
    model_or_data : pymc.Model, xarray.Dataset or pandas.DataFrame
        A table of runs, the data set made of it, or a model built from one with `build_model`.
        Of runs, the model is sampled in blocks that share no parameter (`bayes_sd.blocks`), which
        is faster; a model is sampled whole, as it is given. The posterior is the same.
    priors : dict of str to Prior, optional
        By default `default_priors(data)`. With a model, the priors are the model's: give none.
    responses : sequence of {"ttft", "percentiles"}, optional
        What is fitted besides the mean latency, where the runs have it; all by default. Of the
        scaling study, the mean latency alone takes half the time. With a model, give none.
    draws, tune, chains : int
        Draws kept and discarded per chain, and chains. At least 2 chains are needed to tell
        whether they agree.
    random_seed : int
        Seed; the same seed, data and versions give the same draws.
    progressbar : bool
        Whether to show progress; False is silent.
    target_accept : float
        Acceptance of proposals that the step size aims at. Raise it, to 0.99, if transitions
        diverge: the steps are smaller then, and the fit takes longer.

    Returns
    -------
    xarray.DataTree
        Groups ``posterior``, ``sample_stats``, ``log_likelihood`` (per sweep), ``observed_data``
        and ``constant_data`` (the whole data set). Attributes: versions, seed, hash of the data,
        verdict of `diagnose`, seconds of compilation and sampling.

    Raises
    ------
    ArgumentError
        If draws, tune, chains or target_accept are out of range, a response is unknown, or
        priors or responses are given with a model.
    KeyboardInterrupt
        If it is interrupted: a shorter fit is never handed over as if it were whole.
    SchemaError, UnitError, DataError
        As `to_dataset`.

    Examples
    --------
    >>> from bayes_sd.datasets import load_vllm_cpu
    >>> tree = fit(load_vllm_cpu("dense"))  # doctest: +SKIP
    """
    whole_number(draws, "draws", minimum=2)
    whole_number(tune, "tune", minimum=1)
    whole_number(chains, "chains", minimum=2)
    whole_number(random_seed, "random_seed", minimum=0)
    probability(target_accept, "target_accept", ends=False)
    if isinstance(model_or_data, pm.Model):
        if priors is not None or responses is not None:
            given = "priors" if priors is not None else "responses"
            raise ArgumentError(
                f"{given} must be given where the model is built. Got a model and {given} instead: "
                f"call fit(build_model(data, {given}={given}))."
            )
        model = model_or_data
        data = getattr(model, "bayes_sd_data", None)
        if data is None:
            raise ArgumentError("fit takes models made by build_model. Got another model instead.")
        priors = model.bayes_sd_priors
    else:
        data = model_or_data
        if not isinstance(data, xr.Dataset):
            data = to_dataset(data)
        priors = check_priors(default_priors(data) if priors is None else priors)
        model = None
        for response in responses or ():
            one_of(response, RESPONSES, "responses")
    begun = time.perf_counter()
    if model is None:
        chosen = RESPONSES if responses is None else tuple(responses)
        compiled: Any = compile_blocks(data, priors, responses=chosen)
    else:
        compiled = compile_model(model, starting_point(data, priors))
    ready = time.perf_counter()
    tree = sample(
        compiled,
        draws=draws,
        tune=tune,
        chains=chains,
        random_seed=random_seed,
        progressbar=progressbar,
        target_accept=target_accept,
    )
    sampled = time.perf_counter()
    whole = complete_tree(tree, data, random_seed, priors)
    whole.attrs |= {"compile_s": round(ready - begun, 1), "sampling_s": round(sampled - ready, 1)}
    return whole


def complete_tree(
    tree: xr.DataTree,
    data: xr.Dataset,
    random_seed: int,
    priors: dict[str, Prior] | None = None,
) -> xr.DataTree:
    """Add the data and the stamp, and move the log likelihood to its own group.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `sample`.
    data : xarray.Dataset
        The data set of the model.
    random_seed : int
        Seed that the tree was sampled with.
    priors : dict of str to Prior, optional
        Table of priors; by default `default_priors(data)`.

    Returns
    -------
    xarray.DataTree
        As `fit` returns.
    """
    posterior = tree["posterior"].to_dataset()
    density = posterior["latency_log_density"].rename("log_latency")
    constant = data.assign(
        {f"reference_{name}": value for name, value in reference_lengths(data).items()}
    ).assign(known_num_steps=("run", steps_of_runs(data)))
    verdict = diagnose(tree)
    stamp = {f"version_{name}": version(name) for name in STAMPED}
    return xr.DataTree.from_dict(
        {
            "posterior": posterior.drop_vars("latency_log_density"),
            "sample_stats": _plain(tree["sample_stats"].to_dataset()),
            "log_likelihood": density.astype("float32").to_dataset(),
            "observed_data": xr.Dataset(
                {"log_latency": np.log(data["mean_e2e_s"])}, coords={"run": data["run"]}
            ),
            "constant_data": constant,
            "/": xr.Dataset(
                attrs={
                    "format": FORMAT,
                    "random_seed": random_seed,
                    "data_hash": data.attrs["data_hash"],
                    "passed": int(verdict.passed),
                    "verdict": verdict.sentence(),
                    "priors": json.dumps(
                        {
                            name: (prior.family, prior.center, prior.spread, prior.unit)
                            for name, prior in (priors or default_priors(data)).items()
                        }
                    ),
                    **stamp,
                }
            ),
        }
    )


def _plain(stats: xr.Dataset) -> xr.Dataset:
    """Keep the statistics that are one number per draw."""
    return stats.drop_vars(
        [n for n, v in stats.items() if v.dims != ("chain", "draw") or v.dtype.kind not in "bif"]
    )
