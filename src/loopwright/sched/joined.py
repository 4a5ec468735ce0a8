"""Joins adjacent axes of a reduction that are contiguous in memory.

The mean of an image of 7 x 7 is a sum over 49 adjacent elements, which fill vectors; the 7 of a
line do not.
"""

from __future__ import annotations

import math
from typing import Any

from ..ir.literals import is_true
from ..ir.prim_expr import IntImm, IterVar, PrimExpr, Range, Var
from ..ir.prim_op import const, floordiv, floormod
from ..ir.target import Target
from ..ir.variables import substitute, uses_any
from ..tir import stmt as st
from ..tir.analysis.access import get_block_read_write_region
from ..tir.expr import BufferLoad
from ..tir.function import PrimFunc
from ..tir.stmt_functor import ExprKeeper, LeafKeeper
from .analysis import REDUCE, constant, loads_in


def join_reduced_axes(func: PrimFunc, target: Target) -> PrimFunc:
    """Make one of the last axes of a reduction whose innermost is too short for vectors, if all loads
    have them as their last indices, over whole dimensions."""
    return func.replace(body=_Join(target).visit(func.body))


class _Join(ExprKeeper, LeafKeeper):
    def __init__(self, target: Target) -> None:
        self.target = target

    def visit_For(self, node: st.For) -> Any:
        inner: Any = node
        loops = []
        while isinstance(inner, st.For):
            loops.append(inner)
            inner = inner.body
        if not isinstance(inner, st.BlockRealize) or inner.block.init is None:
            return self.visit_default(node)
        count = _axes_in_memory(loops, inner)
        axes, dtype = inner.block.iter_vars[-count:], inner.block.writes[0].buffer.dtype
        sizes = [constant(axis.dom.extent) or 0 for axis in axes]
        if count < 2 or not sizes[-1] < 2 * self.target.vector_lanes(dtype) <= math.prod(sizes):
            return node
        nest: Any = _joined(inner, loops[-1].loop_var, axes, sizes)
        nest = loops[-1].replace(body=nest, extent=const(math.prod(sizes), loops[-1].extent.dtype))
        for loop in reversed(loops[:-count]):
            nest = loop.replace(body=nest)
        return nest


def _axes_in_memory(loops: list[st.For], realize: st.BlockRealize) -> int:
    """How many of a reduction's last axes all loads have as their last indices, over whole dimensions."""
    axes = realize.block.iter_vars
    count = 0
    for axis, value, loop in zip(
        reversed(axes), reversed(realize.iter_values), reversed(loops), strict=False
    ):
        plain = loop.kind == st.ForKind.SERIAL and value is loop.loop_var
        if axis.iter_type != REDUCE or not plain or not isinstance(axis.dom.extent, IntImm):
            break
        count += 1
    if not is_true(realize.predicate):
        return 0
    loads = loads_in(realize.block.body)
    while count > 1 and not all(_ends_in(load, axes[-count:]) for load in loads):
        count -= 1
    return count


def _ends_in(load: BufferLoad, axes: tuple[IterVar, ...]) -> bool:
    """Whether the last indices of a load are these axes, all but the first over their whole dimensions,
    and no others use them; or none uses them."""
    count = len(axes)
    own = tuple(axis.var for axis in axes)
    if not uses_any(load.indices, own):
        return True
    last = load.indices[-count:]
    if len(last) < count or uses_any(load.indices[:-count], own):
        return False
    whole = zip(load.buffer.shape[-count:], axes, strict=True)
    return all(i is v for i, v in zip(last, own, strict=True)) and all(
        constant(d) == constant(axis.dom.extent) for d, axis in list(whole)[1:]
    )


def _joined(
    realize: st.BlockRealize, loop: Var, axes: tuple[IterVar, ...], sizes: list[int]
) -> st.BlockRealize:
    """The block with one axis, of that loop, in place of its last ones."""
    block, last = realize.block, axes[-1]
    size = const(math.prod(sizes), last.var.dtype)
    axis = last.replace(dom=Range.from_min_extent(last.dom.min, size), var=Var("k", last.var.dtype))
    values: dict[Var, PrimExpr] = {}
    rest: PrimExpr = axis.var
    for old, count in reversed(list(zip(axes, sizes, strict=True))):
        values[old.var] = rest if old is axes[0] else floormod(rest, count)
        rest = floordiv(rest, count)
    block = block.replace(
        iter_vars=(*block.iter_vars[: -len(axes)], axis), body=substitute(block.body, values)
    )
    reads, writes = get_block_read_write_region(block, {})
    block = block.replace(reads=tuple(reads), writes=tuple(writes))
    return realize.replace(iter_values=(*realize.iter_values[: -len(axes)], loop), block=block)
