"""Compiling a model for nutpie, and drawing from it; a model in blocks is drawn block by block."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import nutpie
import pymc as pm
import xarray as xr

from bayes_sd.blocks import LATENCY, build_blocks
from bayes_sd.model import RESPONSES
from bayes_sd.prior import Prior
from bayes_sd.start import starting_point

# At 0.9 a few draws in several thousand diverge where runs are few; an effective one costs alike.
TARGET_ACCEPT = 0.95
OF_BLOCK = "_of_"  # joins a statistic of the sampler and the block it is about


@dataclass(frozen=True)
class CompiledModel:
    """A model compiled once, to be sampled for several choices of held-out runs.

    Attributes
    ----------
    model : pymc.Model
        What was compiled.
    compiled : nutpie compiled model
    block : str
        Which block of the whole it is, see `bayes_sd.blocks`; the whole model and the block of
        the mean latency are both ``latency``.
    """

    model: pm.Model
    compiled: Any
    block: str = LATENCY


def compile_model(
    model: pm.Model, start: dict[str, np.ndarray] | None = None, block: str = LATENCY
) -> CompiledModel:
    """Compile a model for nutpie.

    Parameters
    ----------
    model : pymc.Model
        Result of `build_model`, or one of `build_blocks`.
    start : dict of str to array, optional
        Starting values by variable; the others start at their prior's centre with jitter.
    block : str
        Name of the block.

    Returns
    -------
    CompiledModel
    """
    start = start or {}
    jittered = {v for v in model.free_RVs if v.name not in start}
    known = {model[name]: value for name, value in start.items()}
    compiled = nutpie.compile_pymc_model(model, initial_points=known, jitter_rvs=jittered)
    return CompiledModel(model, compiled, block)


def compile_blocks(
    data: xr.Dataset,
    priors: dict[str, Prior],
    *,
    responses: Sequence[str] = RESPONSES,
    compile_one: Callable[..., CompiledModel] = compile_model,
) -> list[CompiledModel]:
    """Compile the model of some runs in blocks that share no parameter.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    priors : dict of str to Prior
        Table of priors.
    responses : sequence of str
        As in `build_model`.
    compile_one : callable
        `compile_model`, or one that takes the same.

    Returns
    -------
    list of CompiledModel
        The block of the mean latency first.
    """
    return [
        compile_one(model, starting_point(data, priors) if name == LATENCY else None, name)
        for name, model in build_blocks(data, priors, responses=responses).items()
    ]


def sample(
    compiled: CompiledModel | Sequence[CompiledModel],
    *,
    score_weight: np.ndarray | None = None,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    random_seed: int = 0,
    progressbar: bool = True,
    target_accept: float = TARGET_ACCEPT,
    cores: int | None = None,
) -> xr.DataTree:
    """Draw from the posterior of a compiled model.

    Parameters
    ----------
    compiled : CompiledModel or sequence of CompiledModel
        Result of `compile_model` or `compile_blocks`.
    score_weight : array of float, (run,), optional
        1 for runs to learn from, 0 for runs to hold out. All by default.
    draws, tune, chains, random_seed, progressbar, target_accept
        As in `fit`.
    cores : int, optional
        Chains sampled at the same time; by default one on each core of the machine.

    Returns
    -------
    xarray.DataTree
        Groups ``posterior`` and ``sample_stats``. Blocks that share no parameter are independent
        given the data, so their draws stand side by side. The statistics of the first keep their
        names, those of another block end in ``_of_`` and its name; ``diverging`` tells of any.
        Boot effects, which the density integrates out, are drawn given each draw: ``log_boot``.
    """
    blocks = [compiled] if isinstance(compiled, CompiledModel) else list(compiled)
    at_once = min(chains, cores or os.cpu_count() or 1)
    settings: dict[str, Any] = {"draws": draws, "tune": tune, "chains": chains, "cores": at_once}
    settings |= {"target_accept": target_accept, "progress_bar": progressbar}
    trees = [
        _sample_one(block, score_weight, seed, **settings)
        for seed, block in enumerate(blocks, start=random_seed)
    ]
    posterior = xr.merge([t["posterior"].to_dataset() for t in trees], compat="identical")
    posterior = with_boots(posterior, np.random.default_rng([random_seed, len(trees)]))
    stats = trees[0]["sample_stats"].to_dataset()
    for block, tree in zip(blocks[1:], trees[1:], strict=True):
        own = tree["sample_stats"].to_dataset()
        named = {n: f"{n}{OF_BLOCK}{block.block}" for n, v in own.items() if _is_plain(v)}
        stats = stats.assign({new: own[old] for old, new in named.items()})
        stats["diverging"] = stats["diverging"] | own["diverging"]
    return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats})


def with_boots(posterior: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """Return a posterior with draws of the boot effects in place of their mean and scale.

    Parameters
    ----------
    posterior : xarray.Dataset
        Draws of ``boot_mean`` and ``boot_scale`` (sweep), as `build_model` has them; one without
        them is returned as it is.
    rng : numpy.random.Generator
        Source of randomness.
    """
    if "boot_mean" not in posterior:
        return posterior
    mean, scale = posterior["boot_mean"], posterior["boot_scale"]
    boots = mean + scale * rng.standard_normal(mean.shape)
    return posterior.drop_vars(["boot_mean", "boot_scale"]).assign(log_boot=boots)


def _sample_one(
    block: CompiledModel,
    score_weight: np.ndarray | None,
    random_seed: int,
    **settings: Any,
) -> xr.DataTree:
    target = block.compiled
    if score_weight is not None:
        target = target.with_data(score_weight=np.asarray(score_weight, dtype=float))
    tree = nutpie.sample(
        target,
        seed=random_seed,
        save_warmup=False,
        # Most directions are short (boot effects, scales that are well known); without a further
        # doubling they end a trajectory before the few long ones have moved: sums that the data
        # split loosely, a backlog and its misfit.
        extra_doublings=1,
        **settings,
    )
    done, asked = tree["posterior"].sizes["draw"], settings["draws"]
    if done < asked:  # nutpie hands over what it has when it is interrupted
        raise KeyboardInterrupt(f"sampling was stopped after {done} of {asked} draws")
    return tree


def _is_plain(statistic: xr.DataArray) -> bool:
    """Tell whether a statistic is one number per draw."""
    return statistic.dims == ("chain", "draw") and statistic.dtype.kind in "bif"
