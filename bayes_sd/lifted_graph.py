"""A model's log density with its data lifted out, so that others of the same shape can step in.

A model holds its data as constants, from which the compiler computes what it can; so each model
is compiled for its own data. Here what hangs on data alone is computed beforehand, and every array
that is left becomes an input. Nothing that is compiled afterwards can hang on the values of those
arrays: two models with the same `LiftedGraph.signature` differ in them alone.

Nothing may hang on arrays that are equal by chance, to the last digit in one model and not quite in
the next. So the model's own constants are hidden from PyMC's rewrites, which would merge and fold
them, and two arrays become one input only if they were computed alike from the same arrays of the
model's data, in the same place of memory.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.model.fgraph import fgraph_from_model, model_from_fgraph
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
)
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorConstant

# Operations whose inputs are numbers or places, never a shape: a shape must stay a constant.
TAKES_DATA = (
    Elemwise,
    CAReduce,
    DimShuffle,
    Dot,
    AdvancedSubtensor,
    AdvancedIncSubtensor,
)


@dataclass(frozen=True)
class LiftedGraph:
    """The graph of a model in terms of its unconstrained values and of its data.

    Attributes
    ----------
    log_density : pytensor variable
        Log density of the unconstrained values, a scalar.
    values : list of pytensor variable
        The unconstrained values, in the order of the model's free variables.
    derived : dict of str to pytensor variable
        What else a trace holds, by name.
    inputs : list of pytensor variable
        What stands for the arrays of data.
    data : list of array
        Their values.
    signature : tuple
        Equal for two models whose graphs differ in ``data`` alone.
    """

    log_density: Any
    values: list[Any]
    derived: dict[str, Any]
    inputs: list[Any]
    data: list[np.ndarray]
    signature: tuple[Any, ...]


class _Lifter:
    """Walks a graph from its inputs up: folds constants, and lifts what is left of them."""

    def __init__(self, values: list[Variable]) -> None:
        self.folded: dict[Variable, Any] = {}
        self.built: dict[Variable, Variable] = {value: value for value in values}
        self.label: dict[Variable, tuple[Any, ...]] = {
            value: ("value", i, value.type) for i, value in enumerate(values)
        }
        self.inputs: dict[int, tuple[int, Variable]] = {}
        self.origins: dict[tuple[Any, ...], int] = {}
        self.origin: dict[Variable, int] = {}
        self.data: list[np.ndarray] = []
        self.lines: list[tuple[Any, ...]] = []

    def known(self, variable: Variable) -> Any:
        """Return the value of a variable that hangs on data alone; None for others."""
        if isinstance(variable, Constant):
            return variable.data
        if isinstance(variable, SharedVariable):
            return variable.get_value(borrow=True)
        return self.folded.get(variable)

    def add(self, node: Apply) -> None:
        """Fold a node, or build it anew over lifted data."""
        inputs = [self.known(variable) for variable in node.inputs]
        if all(value is not None for value in inputs):
            stores: list[list[Any]] = [[None] for _ in node.outputs]
            node.op.perform(node, inputs, stores)
            made_of = (node.op, *(self.origin_of(variable) for variable in node.inputs))
            for i, (output, (value,)) in enumerate(zip(node.outputs, stores, strict=True)):
                self.folded[output] = value
                self.origin[output] = self.numbered((*made_of, i))
            return
        lift = isinstance(node.op, TAKES_DATA)
        new, labels = zip(
            *(self.place(variable, lift=lift) for variable in node.inputs), strict=True
        )
        fresh: Apply = node.clone_with_new_inputs(list(new), strict=False)
        for i, (old, output) in enumerate(zip(node.outputs, fresh.outputs, strict=True)):
            self.built[old] = output
            self.label[old] = ("node", len(self.lines), i)
        self.lines.append((node.op, labels, tuple(output.type for output in fresh.outputs)))

    def numbered(self, origin: tuple[Any, ...]) -> int:
        """Return the number of an origin: of a constant, or of what was computed of others."""
        return self.origins.setdefault(origin, len(self.origins))

    def origin_of(self, variable: Variable) -> int:
        """Return the number of where a known value comes from."""
        if variable not in self.origin:
            value = self.known(variable)
            at: Any = repr(value)
            if isinstance(value, np.ndarray):
                at = value.ctypes.data if _is_data(value) else value.tobytes()
                at = (value.shape, value.strides, at)
            self.origin[variable] = self.numbered((variable.type, at))
        return self.origin[variable]

    def place(self, variable: Variable, *, lift: bool) -> tuple[Variable, tuple[Any, ...]]:
        """Return what stands for a variable in the new graph, and what the signature says of it."""
        if variable in self.built:
            return self.built[variable], self.label[variable]
        value = self.known(variable)
        if not isinstance(variable.type, TensorType):
            return variable, ("constant", variable.type, value)
        array = np.asarray(value, dtype=variable.type.dtype)
        about = (array.dtype.str, array.shape)
        content = array.tobytes()
        if not lift or not _is_data(array):
            return pt.constant(array, dtype=variable.type.dtype), ("constant", *about, content)
        origin = self.origin_of(variable)
        if origin not in self.inputs:
            made = TensorType(array.dtype, shape=array.shape)()
            self.inputs[origin] = len(self.data), made
            self.data.append(array)
        number, found = self.inputs[origin]
        return found, ("data", number, *about)


def lift_data(model: pm.Model) -> LiftedGraph:
    """Return a model's graph with its data as inputs.

    Parameters
    ----------
    model : pymc.Model
        Result of `build_model`, or one of `build_blocks`.

    Returns
    -------
    LiftedGraph
    """
    names_of_values = [str(variable.name) for variable in model.free_RVs]
    model = _with_constants_hidden(model)  # which lists its variables in another order
    values = [model.rvs_to_values[model[name]] for name in names_of_values]
    derived = [v for v in model.unobserved_value_vars if v not in set(values)]
    outputs = [model.logp(), *derived]
    lifter = _Lifter(values)
    for node in toposort(outputs):
        lifter.add(node)
    new, labels = zip(*(lifter.place(output, lift=True) for output in outputs), strict=True)
    names = [str(variable.name) for variable in derived]
    about = tuple((str(value.name), value.type) for value in values)
    return LiftedGraph(
        log_density=new[0],
        values=values,
        derived=dict(zip(names, new[1:], strict=True)),
        inputs=[variable for _, variable in lifter.inputs.values()],
        data=lifter.data,
        signature=(about, tuple(names), tuple(lifter.lines), labels),
    )


def _with_constants_hidden(model: pm.Model) -> pm.Model:
    """Return a copy of a model that has shared variables in the place of its arrays."""
    graph, _ = fgraph_from_model(model)
    for variable in list(graph.variables):
        if isinstance(variable, TensorConstant) and _is_data(variable.data):
            hidden = pytensor.shared(variable.data, shape=variable.type.shape, borrow=True)
            graph.replace(variable, hidden, import_missing=True)
    copy: pm.Model = model_from_fgraph(graph, mutate_fgraph=True)
    return copy


def _is_data(array: np.ndarray) -> bool:
    """Tell whether an array is lifted: one of zeros or ones alone simplifies a graph, and stays."""
    return array.ndim > 0 and not ((array == 0).all() or (array == 1).all())
