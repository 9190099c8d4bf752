"""Truths drawn from the prior, and the data that they make: the worlds in which a fit is tested."""

import warnings

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.graph.traversal import ancestors

from bayes_sd.exceptions import ArgumentError, AssumptionWarning, DataError
from bayes_sd.generate import generate_latency
from bayes_sd.prior_draws import prior_draws
from bayes_sd.sbc_mistakes import Mistake

MAX_REJECTED = 0.02
NOT_DRAWN = ("latency_log_density", "boot_mean", "boot_scale")  # they hang on the data


def simulate_from_prior(
    data: xr.Dataset,
    model: pm.Model,
    num_simulations: int,
    rng: np.random.Generator,
    *,
    mistake: Mistake | None = None,
) -> tuple[xr.Dataset, xr.Dataset, int]:
    """Draw truths from the prior, and from each of them the responses of a design.

    Draws of the prior whose open loops are past capacity at the design's rates give no data: the
    next ones take their place.

    Parameters
    ----------
    data : xarray.Dataset
        The design: result of `to_dataset`.
    model : pymc.Model
        Result of ``build_model(data, priors, replaceable=True)``.
    num_simulations : int
        How many truths.
    rng : numpy.random.Generator
        Source of randomness. Another number of truths gives others.
    mistake : Mistake, optional
        Of `bayes_sd.sbc_mistakes`: data that the model would not make.

    Returns
    -------
    truths : xarray.Dataset
        Parameters of the model and what follows from them, dim ``sample``.
    generated : xarray.Dataset
        As `generate_latency` returns.
    num_drawn : int
        Draws of the prior that were looked at.

    Raises
    ------
    DataError
        If too many draws of the prior give no data.

    Warns
    -----
    AssumptionWarning
        If more than 2 % of them gave none.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truths, generated, _ = simulate_from_prior(data, model, 20, rng)  # doctest: +SKIP
    """
    mistake = Mistake() if mistake is None else mistake
    names = [v.name for v in (*model.free_RVs, *model.deterministics) if v.name not in NOT_DRAWN]
    tried = num_simulations + 10 + num_simulations // 10
    prior = prior_draws(model, names, tried, int(rng.integers(2**31)))
    truths = with_prior_boots(prior, data, rng).isel(chain=0, drop=True).rename(draw="sample")
    steps = None if mistake.steps is None else mistake.steps(data, truths)
    generated = generate_latency(data, truths, rng, num_steps=steps)
    usable = np.isfinite(generated["mean_e2e_s"].values).all(axis=1)
    kept = np.flatnonzero(usable)[:num_simulations]
    if len(kept) < num_simulations:
        raise DataError(
            f"{tried - usable.sum()} of {tried} draws of the prior are past capacity at the "
            "design's rates. Lower the rates, or give narrower priors."
        )
    num_drawn = int(kept[-1]) + 1
    if num_drawn - num_simulations > MAX_REJECTED * num_drawn:
        warnings.warn(
            f"{num_drawn - num_simulations} of {num_drawn} draws of the prior are past capacity "
            "at the design's rates and were drawn again: the ranks are those of another prior. "
            "Lower the rates, or give narrower priors.",
            AssumptionWarning,
            stacklevel=3,
        )
    return truths.isel(sample=kept), generated.isel(sample=kept), num_drawn


def with_prior_boots(prior: xr.Dataset, data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """Return draws of the prior with boot effects, which the model integrates out.

    Parameters
    ----------
    prior : xarray.Dataset
        Draws of ``boot_sd`` (deployment).
    data : xarray.Dataset
        Result of `to_dataset`.
    rng : numpy.random.Generator
        Source of randomness.
    """
    of_sweep = data["deployment_of_base"].values[data["base_of_sweep"].values]
    scale = (
        prior["boot_sd"]
        .isel(deployment=xr.DataArray(of_sweep, dims="sweep"))
        .drop_vars("deployment")
        .assign_coords(sweep=data["sweep"])
    )
    return prior.assign(log_boot=scale * rng.standard_normal(scale.shape))


def check_replaceable(model: pm.Model) -> None:
    """Raise if a response of a model is a constant, so that every simulation would keep it.

    Parameters
    ----------
    model : pymc.Model
        Result of ``build_model(data, replaceable=True)``.

    Raises
    ------
    ArgumentError
        If an observed variable does not hang on any data variable.
    """
    known = set(model.data_vars)
    fixed = [
        v.name for v in model.observed_RVs if not known & set(ancestors([model.rvs_to_values[v]]))
    ]
    if fixed:
        raise ArgumentError(
            f"the responses of the model must all be data. Got constants for {fixed} instead: "
            "leave these responses out of the design, or make them pm.Data in build_model."
        )
