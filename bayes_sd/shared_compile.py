"""Blocks of a model compiled once per shape, and used again for other runs of that shape.

Two models whose graphs differ in their data alone (`bayes_sd.lifted_graph`) are the same function
of other arrays: the second takes what was compiled for the first, with its own arrays, labels and
starting point. The log density is that of the model itself; being put together in another order of
sums, it differs in the last digits, and so do draws from those of `bayes_sd.fit`.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import nutpie
import pandas as pd
import pymc as pm
import pytensor
from pymc.initial_point import make_initial_point_fn
from pytensor.graph.replace import graph_replace

from bayes_sd.blocks import LATENCY
from bayes_sd.lifted_graph import LiftedGraph, lift_data
from bayes_sd.sampling import CompiledModel

MOST_KEPT = 16  # shapes; what was compiled for one takes some ten megabytes
_COMPILED: OrderedDict[tuple[Any, ...], Any] = OrderedDict()


def compile_shared(
    model: pm.Model, start: dict[str, np.ndarray] | None = None, block: str = LATENCY
) -> CompiledModel:
    """Compile as `bayes_sd.sampling.compile_model`, or take what this process compiled before.

    Parameters
    ----------
    model : pymc.Model
        Result of `build_model`, or one of `build_blocks`; all runs count (``score_weight`` is no
        longer data that can be set).
    start : dict of str to array, optional
        Starting values by variable; the others start at their prior's centre with jitter.
    block : str
        Name of the block.

    Returns
    -------
    CompiledModel
    """
    graph = lift_data(model)
    starts = _starts(model, start or {})
    if graph.signature not in _COMPILED:
        shapes = {name: np.shape(value) for name, value in starts(0).items()}
        _COMPILED[graph.signature] = nutpie.compile_pymc_model(_flat_model(model, graph, shapes))
    _COMPILED.move_to_end(graph.signature)
    while len(_COMPILED) > MOST_KEPT:
        _COMPILED.popitem(last=False)
    return CompiledModel(model, _with_own(_COMPILED[graph.signature], model, graph, starts), block)


def num_compiled() -> int:
    """Return how many shapes this process holds compiled."""
    return len(_COMPILED)


def forget_compiled() -> None:
    """Forget what this process holds compiled."""
    _COMPILED.clear()


def _starts(model: pm.Model, start: dict[str, np.ndarray]) -> Callable[[Any], dict[str, Any]]:
    """Return a function of a seed that gives unconstrained starting values by name."""
    found: Callable[[Any], dict[str, Any]] = make_initial_point_fn(
        model=model,
        overrides={model[name]: value for name, value in start.items()},
        jitter_rvs={v for v in model.free_RVs if v.name not in start},
        return_transformed=True,
    )
    return found


def _flat_model(
    model: pm.Model, graph: LiftedGraph, shapes: dict[str, tuple[int, ...]]
) -> pm.Model:
    """Return a model of the unconstrained values whose log density is the lifted one."""
    with pm.Model(coords=model.coords) as flat:
        values = {v: pm.Flat(v.name, shape=shapes[v.name]) for v in graph.values}
        views = dict(zip(graph.inputs, _views(graph.data), strict=True))
        outputs = [graph.log_density, *graph.derived.values()]
        density, *derived = graph_replace(outputs, values | views, strict=False)
        pm.Potential("log_density", density)
        for name, variable in zip(graph.derived, derived, strict=True):
            pm.Deterministic(name, variable, dims=model.named_vars_to_dims.get(name))
    return flat


def _packed(data: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays end to end, one vector per type: few are quicker to compile than many."""
    kinds: dict[str, list[np.ndarray]] = {}
    for array in data:
        kinds.setdefault(f"data_{array.dtype}", []).append(array.ravel())
    return {name: np.concatenate(parts) for name, parts in kinds.items()}


def _views(data: Sequence[np.ndarray]) -> list[Any]:
    """Return what stands for each array in shared variables made of `_packed`."""
    shared = {n: pytensor.shared(v, name=n, shape=v.shape) for n, v in _packed(data).items()}
    ends = dict.fromkeys(shared, 0)
    views = []
    for array in data:
        name = f"data_{array.dtype}"
        begin, ends[name] = ends[name], ends[name] + array.size
        views.append(shared[name][begin : ends[name]].reshape(array.shape))
    return views


def _with_own(
    compiled: Any, model: pm.Model, graph: LiftedGraph, starts: Callable[[Any], dict[str, Any]]
) -> Any:
    """Return what was compiled with a model's own arrays, labels and starting values."""
    used = {variable.name for variable in compiled.shared_var_keys}  # the compiler drops some
    own = compiled.with_data(**{n: v for n, v in _packed(graph.data).items() if n in used})

    def start(seed: Any) -> np.ndarray:
        return np.concatenate([np.ravel(value) for value in starts(seed).values()]).astype(float)

    names = [str(variable.name) for variable in model.free_RVs]
    dims = model.named_vars_to_dims
    return replace(
        own,
        dims=own.dims | {name: dims[name] for name in names if name in dims},
        _coords=own._coords | {name: pd.Index(v) for name, v in model.coords.items()},
        initial_point_func=start,
        reparameterized_names=[str(v.name) for v in graph.values if str(v.name) not in names],
    )
