"""How much a kernel computes and moves, by its loops."""

from __future__ import annotations

import math
from collections.abc import Mapping
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


def work_of(func: PrimFunc, sizes: Mapping[str, int]) -> dict[str, float]:
    """ "flops" and "bytes" of a call of a kernel that is not lowered yet, with these symbolic sizes (1
    where they are not given), as far as the loops determine them."""
    bindings = {v: const(sizes.get(v.name, 1), v.dtype) for v in symbolic_dims(func)}
    fixed = substitute(func, bindings) if bindings else func
    moved = 0
    for buffer in fixed.buffer_map.values():
        extents: list[Any] = [getattr(d, "value", None) for d in buffer.shape]
        if None in extents:
            return {}
        moved += math.prod(extents) * buffer.dtype.bits * buffer.dtype.lanes // 8
    try:
        return {"flops": float(estimate_tir_flops(fixed.body)), "bytes": moved}
    except ValueError:  # loops whose extent depends on data have no rate
        return {"bytes": moved}


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
    trips: dict[int, Trip] = {}
    todo: list[tuple[Any, st.For | None, float]] = [(func.body, None, 1.0)]
    lets: dict[Var, PrimExpr] = {
        v: const(sizes.get(v.name, 1), v.dtype) for v in func.params if not v.dtype.is_handle
    }
    while todo:  # no recursion: native graph functions nest as deep as the model is long
        node, loop, runs = todo.pop()
        parts = inner(node)
        trips[id(node)] = Trip(loop, runs, 0.0 if parts else runs * _operations(node))
        if isinstance(node, st.LetStmt):
            lets[node.var] = substitute(node.value, lets)
        if isinstance(node, st.For):
            loop, runs = node, runs * (integer(node.extent, lets) or 1)
        todo += [(part, loop, runs) for part in reversed(parts)]
    return trips


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
