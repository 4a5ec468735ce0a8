"""How much a kernel computes and moves, by its loops."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..arith import Analyzer
from ..ir.functor import nodes_of, pre_order_visit
from ..ir.module import IRModule
from ..ir.op import Op
from ..ir.prim_expr import ConstExpr, IntImm, PrimExpr, Var
from ..ir.prim_op import const
from ..ir.variables import substitute
from ..relax.expr import Function
from ..relax.struct_info import TensorStructInfo
from ..tir import stmt as st
from ..tir.analysis import estimate_tir_flops
from ..tir.expr import BufferLoad
from ..tir.function import PrimFunc
from ..tir.transform.lower.unpack_signatures import symbolic_dims
from .origins import inner

# The fields of statements that have expressions.
_EXPRESSIONS = ("value", "indices", "condition", "predicate", "iter_values")


def work_of(func: PrimFunc, sizes: Mapping[str, int]) -> dict[str, float]:
    """ "flops" and "bytes" of a call of a kernel that is not lowered yet, with these symbolic sizes (1
    where they are not given), as far as the loops determine them."""
    bindings = {v: const(sizes.get(v.name, 1), v.dtype) for v in symbolic_dims(func)}
    fixed = substitute(func, bindings) if bindings else func
    try:
        flops = {"flops": float(estimate_tir_flops(fixed.body))}
    except ValueError:  # loops whose extent depends on data have no rate
        flops = {}
    moved, times = 0, _accesses(fixed) if flops else {}
    for buffer in fixed.buffer_map.values():
        extents: list[Any] = [getattr(d, "value", None) for d in buffer.shape]
        if None in extents:
            return {}
        # A lookup in a table reads rows of it, not the table.
        elements = min(math.prod(extents), times.get(buffer.data, math.inf))
        moved += int(elements) * buffer.dtype.bits * buffer.dtype.lanes // 8
    return {**flops, "bytes": moved}


@dataclass(frozen=True)
class Trip:
    """Where a statement is: the innermost loop around it, how many times it runs in a call, and that
    count times its operations; 0 for a statement around others."""

    loop: st.For | None
    runs: float
    work: float


def trips_of(func: PrimFunc, sizes: Mapping[str, int]) -> dict[int, Trip]:
    """The trip of each statement of a lowered kernel, by `id`, with these symbolic sizes. A loop that
    only data bound counts once."""
    return {
        id(node): Trip(loop, runs, 0.0 if inner(node) else runs * _operations(node))
        for node, loop, runs in _statements(func, sizes)
    }


def _statements(
    func: PrimFunc, sizes: Mapping[str, int]
) -> Iterator[tuple[st.Stmt, st.For | None, float]]:
    """Each statement, the innermost loop around it, and how many times it runs in a call."""
    todo: list[tuple[Any, st.For | None, float]] = [(func.body, None, 1.0)]
    lets: dict[Var, PrimExpr] = {
        v: const(sizes.get(v.name, 1), v.dtype) for v in func.params if not v.dtype.is_handle
    }
    while todo:  # no recursion: native graph functions nest as deep as the model is long
        node, loop, runs = todo.pop()
        yield node, loop, runs
        if isinstance(node, st.LetStmt):
            lets[node.var] = substitute(node.value, lets)
        if isinstance(node, st.For):
            loop, runs = node, runs * (integer(node.extent, lets) or 1)
        todo += [(part, loop, runs) for part in reversed(inner(node))]


def _accesses(func: PrimFunc) -> dict[Var, float]:
    """How many elements a call loads from and stores to each buffer; nothing where other calls get
    buffers, too."""
    times: dict[Var, float] = {}
    for node, _, runs in _statements(func, {}):
        if isinstance(node, (st.Evaluate, st.While)):
            return {}
        own = [getattr(node, name, None) for name in _EXPRESSIONS]
        parts = [part for part in own if part is not None]
        loads = [load.buffer for part in parts for load in nodes_of(part, BufferLoad)]
        stored = [node.buffer] if isinstance(node, st.BufferStore) else []
        for buffer in (*loads, *stored):
            times[buffer.data] = times.get(buffer.data, 0.0) + runs
    return times


def integer(expr: PrimExpr, values: Mapping[Var, PrimExpr]) -> int | None:
    """An expression as a number, with these values of variables; None where they do not determine it."""
    value = Analyzer().simplify(substitute(expr, values)) if values else expr
    return int(value.value) if isinstance(value, IntImm) else None


def calls_of(mod: IRModule, sizes: Mapping[str, int]) -> dict[str, list[dict[str, int]]]:
    """The symbolic sizes of each call of a kernel in a module's graph functions, by kernel: those of
    its buffers, from the shapes that its arguments and results have with these sizes."""
    calls: dict[str, list[dict[str, int]]] = {}
    for graph in mod.functions.values():
        for block in graph.body.blocks if isinstance(graph, Function) else ():
            for binding in block.bindings:
                args: Any = getattr(binding.value, "args", ())
                func = mod.functions.get(args[0]) if args else None
                if isinstance(func, PrimFunc):
                    infos = (args[1].struct_info, binding.var.struct_info) if args[1:] else ()
                    tensors = [t for info in infos for t in getattr(info, "fields", (info,))]
                    matched = _matched(func, tensors, sizes)
                    calls.setdefault(args[0].name_hint, []).append(matched)
    return calls


def _matched(func: PrimFunc, tensors: list[Any], sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes that a kernel's buffers have where its arguments are these tensors."""
    matched = dict(sizes)
    buffers = [func.buffer_map[p] for p in func.params if p in func.buffer_map]
    for buffer, info in zip(buffers, tensors, strict=False):
        shape = info.get_shape() if isinstance(info, TensorStructInfo) else None
        for own, dim in zip(buffer.shape, shape or (), strict=False):
            if isinstance(own, Var):
                values = {v: const(sizes.get(v.name, 1), v.dtype) for v in nodes_of(dim, Var)}
                matched[own.name] = integer(dim, values) or 1
    return matched


def _operations(statement: Any) -> int:
    """Its loads, stores, calls and arithmetic, without that of indices."""
    count = 1

    def visit(node: Op | PrimExpr) -> bool:
        nonlocal count
        count += isinstance(node, PrimExpr) and not isinstance(node, (Var, ConstExpr))
        return not isinstance(node, BufferLoad)

    for part in (getattr(statement, "value", None),):
        if isinstance(part, PrimExpr):
            pre_order_visit(part, visit)
    return count
