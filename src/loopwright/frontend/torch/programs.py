"""Programs of torch.export, and graphs, before their import: in which operators they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

import torch
from torch import fx
from torch._decomp import decomposition_table
from torch.export import ExportedProgram

from ..graph.registry import supported_operators
from . import converters as converters
from .converters.table import full_name
from .model import DOMAIN, overload_of

# Operators that torch's default decompositions leave whole, and whose other decomposition is as good as a converter. (Of many
# others it is in torch's primitives.)
_MORE_DECOMPOSITIONS = """
    linalg_vector_norm batch_norm_backward _native_batch_norm_legit _native_batch_norm_legit.no_stats
    _native_batch_norm_legit_functional _batch_norm_with_update_functional native_batch_norm
    rrelu_with_noise_backward
"""


def decompositions(more: Iterable[str] = ()) -> dict[Any, Callable[..., Any]]:
    """torch's default decompositions without those of operators that have a converter, and of `more`."""
    table = torch.export.default_decompositions()
    for name in _MORE_DECOMPOSITIONS.split():
        overload = overload_of(full_name(name))
        table[overload] = decomposition_table[overload]
    for name in (*supported_operators(DOMAIN), *more):
        overload = overload_of(name)
        if isinstance(overload, torch._ops.OpOverload):  # its library is loaded
            table.pop(overload, None)
    return table


def decomposed(program: ExportedProgram, more: Iterable[str] = ()) -> ExportedProgram:
    """A program in the operators that have converters, and `more`. Views by torch's primitives, which no
    program can be functionalized with, are those of ATen."""
    for node in program.graph.nodes:
        target = node.target
        if str(target).startswith("prims.") and any(r.alias_info for r in target._schema.returns):
            node.target = target.impl_aten
    return program.run_decompositions(decompositions(more))


def with_casts(program: ExportedProgram, moves: bool) -> ExportedProgram:
    """A program whose casts are operators where a tensor has the type already, too. Of one that writes tensors in
    place nothing changes, since a tensor and its cast may be the same memory. moves: a tensor that is moved to
    a device is cast, too."""
    casts = ["aten.to.dtype", *["aten.to.dtype_layout"] * moves]
    schemas = [getattr(n.target, "_schema", None) for n in program.graph.nodes]
    if any(schema is not None and schema.is_mutable for schema in schemas):
        return program
    program, module = copy(program), fx.GraphModule(program.graph_module, copied(program.graph))
    program._graph_module = module
    for node in module.graph.nodes:
        if str(node.target) in casts:
            node.kwargs = {"dtype": node.meta["val"].dtype}
            node.target, node.args = torch.ops.aten._to_copy.default, node.args[:1]
    return program


def copied(graph: fx.Graph) -> fx.Graph:
    """A copy of a graph without its module."""
    new = fx.Graph()
    new.output(new.graph_copy(graph, {}))
    return new
