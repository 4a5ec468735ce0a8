"""Whether loops only reshape: every element is copied to the same place in row-major order."""

from __future__ import annotations

from typing import Any

from ...arith import Analyzer
from ...ir.prim_expr import PrimExpr
from ...ir.prim_op import add, const, multiply
from ..expr import BufferLoad
from ..function import PrimFunc
from ..stmt import BlockRealize, BufferStore, For
from ..stmt_functor import substitute


def has_reshape_pattern(func: PrimFunc) -> bool:
    """Whether `func` copies its one input to its one output, the elements in their order."""
    buffers = func.buffers
    if len(buffers) != 2 or len(func.params) != 2:
        return False
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
                return False
            for axis, value in zip(block.iter_vars, stmt.iter_values, strict=True):
                values[axis.var] = substitute(value, values)
            stmt = block.body
        else:
            return False
    load = stmt.value
    source, target = buffers
    if not isinstance(load, BufferLoad) or load.buffer is not source or stmt.buffer is not target:
        return False
    if any(b.strides or b.elem_offset is not None for b in buffers):
        return False
    read = _flat(source.shape, [substitute(i, values) for i in load.indices])
    write = _flat(target.shape, [substitute(i, values) for i in stmt.indices])
    return bool(analyzer.can_prove_equal(read, write)) and bool(
        analyzer.can_prove_equal(_size(source.shape), _size(target.shape))
    )


def _flat(shape: Any, indices: Any) -> PrimExpr:
    total: PrimExpr = const(0, "int64")
    for dim, index in zip(shape, indices, strict=True):
        total = add(multiply(total, dim), index)
    return total


def _size(shape: Any) -> PrimExpr:
    total: PrimExpr = const(1, "int64")
    for dim in shape:
        total = multiply(total, dim)
    return total


__all__ = ["has_reshape_pattern"]
