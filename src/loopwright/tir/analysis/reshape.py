"""Whether loops only reshape: every element is copied to the same place in row-major order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arith import Analyzer
from ...ir.prim_expr import PrimExpr
from ...ir.prim_op import add, const, multiply
from ..expr import BufferLoad
from ..function import PrimFunc
from ..stmt import BlockRealize, BufferStore, For
from ..stmt_functor import substitute


def has_reshape_pattern(func: PrimFunc) -> bool:
    """Whether `func` copies one of its inputs, or a first part of it, to its one output, the elements
    in their order."""
    return reshaped_input(func) is not None


def reshaped_input(func: PrimFunc) -> int | None:
    """The number of the input that `func` copies, at least a first part of it, to its one output, the
    elements in their order; None if it does something else. The scalars are its last parameters."""
    buffers = func.buffers
    if len(buffers) < 2 or any(v not in func.buffer_map for v in func.params[: len(buffers)]):
        return None
    analyzer = Analyzer()
    values: dict[Any, PrimExpr] = {}
    stmt: Any = func.body
    while not isinstance(stmt, BufferStore):
        if isinstance(stmt, For):
            analyzer.bind(stmt.loop_var, stmt.range)
            stmt = stmt.body
        elif isinstance(stmt, BlockRealize):
            block = stmt.block
            if block.alloc_buffers or block.match_buffers or block.init is not None:
                return None
            for axis, value in zip(block.iter_vars, stmt.iter_values, strict=True):
                values[axis.var] = substitute(value, values)
            stmt = block.body
        else:
            return None
    load, target = stmt.value, buffers[-1]
    if not isinstance(load, BufferLoad) or stmt.buffer is not target:
        return None
    source = load.buffer
    if source not in buffers[:-1] or any(
        b.strides or b.elem_offset is not None for b in (source, target)
    ):
        return None
    read = _flat(source.shape, [substitute(i, values) for i in load.indices])
    write = _flat(target.shape, [substitute(i, values) for i in stmt.indices])
    return buffers.index(source) if analyzer.can_prove_equal(read, write) else None


def _flat(shape: Sequence[PrimExpr], indices: Sequence[PrimExpr]) -> PrimExpr:
    total: PrimExpr = const(0, "int64")
    for dim, index in zip(shape, indices, strict=True):
        total = add(multiply(total, dim), index)
    return total


def size_of(shape: Any) -> PrimExpr:
    """The number of elements of a shape."""
    total: PrimExpr = const(1, "int64")
    for dim in shape:
        total = multiply(total, dim)
    return total
