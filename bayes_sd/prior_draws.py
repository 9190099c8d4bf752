"""Draws of the prior, compiled quickly and without a word."""

from collections.abc import Sequence

import pymc as pm
import xarray as xr

from bayes_sd.quiet import quiet_logger


def prior_draws(model: pm.Model, names: Sequence[str], draws: int, random_seed: int) -> xr.Dataset:
    """Draw variables of a model from its prior.

    Parameters
    ----------
    model : pymc.Model
        Result of `bayes_sd.model.build_model`.
    names : sequence of str
        Variables and deterministics.
    draws : int
        How many.
    random_seed : int
        Seed.

    Returns
    -------
    xarray.Dataset
        Dims (chain, draw, ...), with one chain.

    Examples
    --------
    >>> prior_draws(model, ["boot_sd"], 100, random_seed=0)  # doctest: +SKIP
    """
    with quiet_logger("pymc.sampling.forward"):
        drawn = pm.sample_prior_predictive(
            draws,
            model=model,
            var_names=list(names),
            random_seed=random_seed,
            compile_kwargs={"mode": "FAST_COMPILE"},  # a few hundred draws: compiling is the cost
        )
    return drawn["prior"].to_dataset()
