"""How much a kernel computes and moves, by its loops."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..arith import Analyzer
from ..ir.functor import pre_order_visit
from ..ir.op import Op
from ..ir.prim_expr import Call, ConstExpr, IntImm, PrimExpr, Var
from ..ir.prim_op import const
from ..ir.variables import substitute
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


def sizes_of_calls(
    graph: PrimFunc, kernels: Mapping[str, PrimFunc], sizes: Mapping[str, int]
) -> dict[str, list[dict[str, int]]]:
    """The sizes that a native graph function passes to each kernel, call by call: numbers that it
    computes from its own ones."""
    values: dict[Var, Any] = {
        v: const(sizes[v.name], v.dtype) for v in graph.params if v.name in sizes
    }
    calls: list[Call] = []

    def visit(node: Any) -> bool:
        if isinstance(node, st.LetStmt):
            value = Analyzer().simplify(substitute(node.value, values))
            if isinstance(value, IntImm):
                values[node.var] = value
        elif isinstance(node, Call) and getattr(node.op, "name_hint", "") in kernels:
            calls.append(node)
        return True

    pre_order_visit(graph.body, visit)
    passed: dict[str, list[dict[str, int]]] = {}
    for call in calls:
        name = call.op.name_hint
        pairs = zip(kernels[name].params, call.args, strict=False)
        numbers = [(v.name, a) for v, a in pairs if not v.dtype.is_handle]
        args = {n: Analyzer().simplify(substitute(a, values)) for n, a in numbers}
        fixed = {n: a.value for n, a in args.items() if isinstance(a, IntImm)}
        passed.setdefault(name, []).append({**sizes, **fixed})
    return passed


def weights_of(func: PrimFunc, sizes: Mapping[str, int]) -> dict[int, float]:
    """The work of each leaf statement of a lowered kernel, by `id`: the trip count of the loops around
    it, with these symbolic sizes, times its operations. A loop that only data bound counts once."""
    weights: dict[int, float] = {}
    todo: list[tuple[Any, float]] = [(func.body, 1.0)]
    while todo:
        node, times = todo.pop()
        parts = inner(node)
        if isinstance(node, st.For):
            factors = {
                v: const(sizes.get(v.name, 1), v.dtype)
                for v in func.params
                if not v.dtype.is_handle
            }
            extent = Analyzer().simplify(substitute(node.extent, factors))
            times *= getattr(extent, "value", 1)
        todo += [(part, times) for part in parts]
        if not parts:
            weights[id(node)] = times * _operations(node)
    return weights


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
