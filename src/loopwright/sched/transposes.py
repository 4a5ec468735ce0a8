"""Copies that read along another axis than they write: in square tiles, transposed in registers.

    for outer tiles (parallel):
        for i in unrolled(16):
            out[..., i, 0:16] = f(x[..., 0:16, i])     # whose rows x[..., k, 0:16] are vectors

See `tir.TransposeInRegisters` for what becomes of such a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from ..arith import Analyzer, detect_linear_equation
from ..ir.functor import any_node
from ..ir.literals import int_value
from ..ir.prim_expr import IterVar, PrimExpr, Range, Var
from ..ir.prim_op import add, const, floordiv, floormod, multiply
from ..ir.target import Target
from ..ir.variables import substitute, uses_any
from ..tir.op import is_call_to
from ..tir.stmt import BufferStore
from .analysis import constant, is_costly, loads_in
from .loops import parallel_tiles
from .machine import RuleSchedule

if TYPE_CHECKING:
    from ..tir.expr import BufferLoad

# Of the largest tile: its rows and columns fill 32 vector registers. 1024 x 1024 took 186 us instead
# of 3079 with a load for each lane (docs/notebook.md).
SIDE = 16
# Of a vector: smaller tiles, as of blocks of 8 channels in bytes, are half of the largest at least.
LEAST_BYTES = 8


def transpose_tiles(sch: RuleSchedule, block: Any, target: Target) -> bool:
    """Schedule a block that reads transposed vectors in tiles; False if it does not read any."""
    node, loops = sch.get(block), list(sch.get_loops(block))
    store = node.body
    if not isinstance(store, BufferStore) or len(loops) != len(node.iter_vars) or not loops:
        return False
    loads, last = loads_in(store.value), (node.iter_vars[-1].var,)
    if not any(uses_any(load.indices[:-1], last) for load in loads):
        return False
    if is_costly(node) or any_node(store.value, lambda n: is_call_to(n, "if_then_else")):
        return False
    ana = Analyzer()
    for axis in node.iter_vars:
        ana.bind(axis.var, axis.dom)
    addresses = [ana.simplify(_address(access)) for access in (*loads, store)]
    axes, addresses = _joined(node.iter_vars, addresses)
    dtype = store.buffer.dtype
    lanes, size = min(target.vector_lanes(dtype), SIDE), dtype.lane_bytes
    for side in takewhile(lambda n: n * size >= LEAST_BYTES, (lanes, lanes // 2)):
        rows = [
            k
            for k in range(len(axes) - 1)
            if any(_is_transposed(address, axes[k], axes[-1], side) for address in addresses[:-1])
        ]
        if len(rows) == 1:
            break
    else:
        return False
    outer: list[Any] = []
    for axis in axes:
        tile_loops, loops = loops[: axis.loops], loops[axis.loops :]
        outer.append(sch.fuse(*tile_loops) if len(tile_loops) > 1 else tile_loops[0])
    column, j = sch.split(outer.pop(), [None, side])
    row, i = sch.split(outer.pop(rows[0]), [None, side])
    sch.reorder(*outer, row, column, i, j)
    sch.unroll(i)
    sch.vectorize(j)
    parallel_tiles(sch, [*outer, row, column], side * side)
    return True


class _Axis(NamedTuple):
    """An axis: its variable, its extent (None: symbolic), of how many loops it is made."""

    var: Var
    extent: int | None
    loops: int = 1


def _joined(
    iter_vars: Sequence[IterVar], addresses: list[PrimExpr]
) -> tuple[list[_Axis], list[PrimExpr]]:
    """Fuses adjacent axes where all addresses move along them as if they were one."""
    axes = [_Axis(v.var, constant(v.dom.extent)) for v in iter_vars]
    for at in range(len(axes) - 1, 0, -1):
        outer, inner = axes[at - 1 : at + 1]
        if inner.extent is None:
            continue
        one, size = Var("one", inner.var.dtype), const(inner.extent, inner.var.dtype)
        both = {outer.var: floordiv(one, size), inner.var: floormod(one, size)}
        moved = [substitute(address, both) for address in addresses]
        if all(_step(address, one, Analyzer()) is not None for address in moved):
            extent = None if outer.extent is None else outer.extent * inner.extent
            axes[at - 1 : at + 1] = [_Axis(one, extent, outer.loops + inner.loops)]
            addresses = moved
    return axes, addresses


def _address(access: BufferLoad | BufferStore) -> PrimExpr:
    """The element that a load or store accesses, counted in row-major order."""
    address: PrimExpr = const(0, "int64")
    for index, extent in zip(access.indices, access.buffer.shape, strict=True):
        address = add(multiply(address, extent), index)
    return address


def _is_transposed(address: PrimExpr, row: _Axis, column: _Axis, side: int) -> bool:
    """Whether the rows of a tile are contiguous in memory and its columns are not."""
    steps = [_step_within(address, axis, side) for axis in (row, column)]
    return int_value(steps[0]) == 1 and steps[1] is not None and int_value(steps[1]) not in (0, 1)


def _step_within(address: PrimExpr, axis: _Axis, side: int) -> PrimExpr | None:
    """The stride of an address along an axis, within a tile's side; None if it is not constant, or
    the axis is shorter."""
    if axis.extent is not None and axis.extent < side:
        return None
    kind = axis.var.dtype
    start, step = Var("start", kind), Var("step", kind)
    ana = Analyzer()
    ana.bind(step, Range(0, side))
    within = {axis.var: add(multiply(start, const(side, kind)), step)}
    return _step(substitute(address, within), step, ana)


def _step(address: PrimExpr, var: Var, ana: Analyzer) -> PrimExpr | None:
    """The stride of an address in a variable, or None if it is not constant."""
    equation = detect_linear_equation(ana.simplify(address), [var], ana)
    return ana.simplify(equation[0]) if equation else None
