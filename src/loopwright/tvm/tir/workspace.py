"""The memory that a function needs, and loops that only copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...arith import Analyzer
from ...base.errors import explain
from ...ir.literals import is_one
from ...ir.prim_expr import IntImm, PrimExpr, Range, Var
from ...ir.prim_op import const
from ...tir.buffer import Buffer, BufferRegion
from ...tir.expr import BufferLoad
from ...tir.function import PrimFunc
from ...tir.stmt import Allocate, AllocateConst, BufferStore, For, SeqStmt, Stmt
from ...tir.stmt_functor import substitute


def calculate_workspace_bytes(func: PrimFunc, workspace_byte_alignment: int = 1) -> int:
    """The most bytes that the allocations of a lowered function take at any time, each rounded up
    to the alignment. Raises ValueError for an allocation of unknown size."""
    return _held(func.body, max(int(workspace_byte_alignment), 1))


def _held(node: Stmt, alignment: int) -> int:
    if isinstance(node, Allocate):
        size = node.dtype.lane_bytes * node.dtype.lanes
        for extent in node.extents:
            if not isinstance(extent, IntImm):
                what = f"the size of allocation {node.buffer_var.name} is not known"
                raise ValueError(explain(what, got=extent, instead="constant extents"))
            size *= extent.value
        return -(-size // alignment) * alignment + _held(node.body, alignment)
    if isinstance(node, AllocateConst):
        return _held(node.body, alignment)
    children = node.children() if isinstance(node, Stmt) else ()
    return max((_held(c, alignment) for c in children if isinstance(c, Stmt)), default=0)


@dataclass(frozen=True)
class MemCpyDetails:
    """A copy of contiguous elements from a region to another."""

    source: BufferRegion
    dest: BufferRegion


def identify_memcpy(stmt: Stmt) -> MemCpyDetails | None:
    """The copy that loops make if they only copy contiguous memory; None for other loops."""
    loops: list[For] = []
    inner: Any = stmt
    while isinstance(inner, For) or (isinstance(inner, SeqStmt) and len(inner) == 1):
        if isinstance(inner, For):
            loops.append(inner)
        inner = inner.body if isinstance(inner, For) else inner[0]
    if not isinstance(inner, BufferStore) or not isinstance(inner.value, BufferLoad):
        return None
    load = inner.value
    if load.buffer.dtype != inner.buffer.dtype or load.predicate or inner.predicate:
        return None
    ana = Analyzer()
    moving = [loop for loop in loops if not is_one(loop.extent)]
    strides: list[dict[Var, int]] = []
    for access in (load, inner):
        walked = _strides(ana, _offset(access.buffer, access.indices), moving)
        if walked is None:
            return None
        strides.append(walked)
    if strides[0] != strides[1]:
        return None
    step = 1
    for loop in sorted(moving, key=lambda n: strides[0][n.loop_var]):
        if not isinstance(loop.extent, IntImm) or strides[0][loop.loop_var] != step:
            return None
        step *= loop.extent.value
    return MemCpyDetails(_region(ana, load, loops), _region(ana, inner, loops))


def _offset(buffer: Buffer, indices: Sequence[PrimExpr]) -> PrimExpr:
    total: PrimExpr = const(0, indices[0].dtype if indices else "int32")
    for n, index in enumerate(indices):
        if buffer.strides:
            total = total + index * buffer.strides[n]
        else:
            total = (total * buffer.shape[n] if n else total) + index
    return total


def _strides(ana: Analyzer, offset: PrimExpr, loops: list[For]) -> dict[Var, int] | None:
    """The stride of each loop; None where it varies."""
    strides: dict[Var, int] = {}
    for loop in loops:
        var = loop.loop_var
        moved = ana.simplify(substitute(offset, {var: var + 1}) - offset)
        if not isinstance(moved, IntImm):
            return None
        strides[var] = moved.value
    return strides


def _region(ana: Analyzer, access: BufferLoad | BufferStore, loops: list[For]) -> BufferRegion:
    first = {loop.loop_var: loop.min for loop in loops}
    last = {loop.loop_var: loop.range.last for loop in loops}
    ranges = []
    for index in access.indices:
        low = ana.simplify(substitute(index, first))
        high = ana.simplify(substitute(index, last))
        ranges.append(Range.from_min_extent(low, ana.simplify(high - low + 1)))
    return BufferRegion(access.buffer, tuple(ranges))
