"""Loops of CPU kernels: vectors along the last axis, parallel outer loops, their estimated work."""

from __future__ import annotations

import math
from operator import is_
from typing import Any

from ..arith import Analyzer, ConstIntBound
from ..ir.dtype import DataType
from ..ir.functor import any_node, nodes_of
from ..ir.prim_expr import FloorDiv, FloorMod, IntImm, Var
from ..ir.target import Target
from ..ir.variables import uses_any, vars_in
from ..tir.expr import BufferLoad
from ..tir.stmt import Block, BufferStore
from .analysis import BlockInfo, constant, costly_calls, loads_in
from .decisions import decide
from .machine import RuleSchedule

SPARE = 1.07  # the largest accepted ratio of computed to needed elements
MANY_QUOTIENTS = 8
SYMBOLIC_EXTENT = 32  # assumed extent of a symbolic image axis


def vectorize_nest(sch: RuleSchedule, block: Any, target: Target, dtype: DataType) -> None:
    """Vectorize the last loop, run the others in parallel."""
    fuse_short(sch, block, target.vector_lanes(dtype))
    loops = list(sch.get_loops(block))
    if loops:
        lanes = lanes_of(sch, block, target, dtype)
        outer, work = vectorize_last(sch, loops, lanes, not divides_by_sizes(sch.get(block)))
        if outer:
            parallel_tiles(sch, outer, work)


def fuse_short(sch: RuleSchedule, block: Any, lanes: int) -> None:
    """Fuse the last loops, as far as elements along them are adjacent in memory, where the last alone is shorter
    than a vector: bytes in blocks of 8 channels were quantized at 5 a nanosecond, in vectors of 32 at 7."""
    node, loops = sch.get(block), list(sch.get_loops(block))
    extents = [constant(sch.get(loop).extent) for loop in loops]
    if not loops or (extents[-1] or lanes) >= lanes:
        return
    axes = [axis.var for axis in node.iter_vars]
    accesses = [*loads_in(node.body), *nodes_of(node.body, BufferStore)]
    count = 1
    while count < len(loops) and all(_are_rows(x, axes, extents, count + 1) for x in accesses):
        count += 1
    if count > 1 and math.prod(e or 0 for e in extents[-count:]) % lanes == 0:
        sch.fuse(*loops[-count:])


def _are_rows(
    access: BufferLoad | BufferStore, axes: list[Var], extents: list[int | None], count: int
) -> bool:
    """Whether elements along the last axes of a block are adjacent, or one."""
    last, shape = axes[-count:], [constant(d) for d in access.buffer.shape[1 - count :]]
    if not uses_any(tuple(access.indices), last):
        return True
    adjacent = not access.buffer.strides and shape == extents[1 - count :]
    return adjacent and all(map(is_, access.indices[-count:], last))


def lanes_of(sch: RuleSchedule, block: Any, target: Target, dtype: DataType) -> int:
    """The lanes that a block's last loop computes at once: for a math function, several vectors
    that share its constants and a call, if few lanes are beyond the loop's end."""
    lanes, calls = target.vector_lanes(dtype), costly_calls(sch.get(block))
    extent = constant(sch.get(list(sch.get_loops(block))[-1]).extent)
    if calls != 1 or extent is None:
        return lanes
    width = target.num_vector_registers // sch.machine.registers_per_value * lanes
    choices = [lanes * 2**n for n in range((width // lanes).bit_length())]
    while width > lanes and (extent < width or -(-extent // width) * width > SPARE * extent):
        width //= 2
    return decide(sch, "lanes", choices, width)


def divides_by_sizes(block: Block) -> bool:
    """Whether a block mostly divides indices of its last axis by sizes of the run: vectors have no such instruction,
    a dozen are as fast one by one, with a sixteenth of the code (a tile of two axes by counts of the run took
    LLVM 4 s; two such quotients in a transposition are twice as fast in a vector)."""
    last = {axis.var for axis in block.iter_vars[-1:]}
    loads = [x for x in loads_in(block.body) if any_node(x.indices, _divides)]
    ana = Analyzer()
    for axis in block.iter_vars if loads else ():
        for size in vars_in(axis.dom):  # an axis of no element divides nothing
            ana.update(size, ConstIntBound(1, ConstIntBound.POS_INF), override=True)
        ana.bind(axis.var, axis.dom)
    offsets = [ana.simplify(n) for load in loads for n in load.buffer.offsets(load.indices)]
    quotients = nodes_of(offsets, FloorDiv, FloorMod)
    return sum(_divides(q) and uses_any(q.a, last) for q in quotients) >= MANY_QUOTIENTS


def _divides(node: Any) -> bool:
    return isinstance(node, (FloorDiv, FloorMod)) and not isinstance(node.b, IntImm)


def vectorize_last(
    sch: RuleSchedule, loops: list[Any], lanes: int, in_vectors: bool = True
) -> tuple[list[Any], int]:
    """Vectorize the last loop; the loops outside of the vectors, and the elements that one iteration
    of them computes. in_vectors: False for a serial loop instead."""
    *outer, inner = loops
    last = constant(sch.get(inner).extent)
    if last == 1:
        return outer, 1
    if last is None or last > lanes:
        cut, inner = sch.split(inner, [None, lanes])
        outer, last = [*outer, cut], lanes
    if in_vectors:
        sch.vectorize(inner)
    return outer, last


def parallel(sch: RuleSchedule, loops: list[Any], work: int) -> Any:
    """Fuse loops and run them in parallel, with enough of `work` elements per task; return the
    fused loop, or None without loops."""
    if not loops:
        return None
    fused = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    extent = constant(sch.get(fused).extent)
    grain = sch.machine.grain
    if extent is None or extent * work > grain:
        grain = decide(sch, "grain", (grain * 2**n // 4 for n in range(6)), grain)
        sch.annotate(fused, "grain", max(grain // max(work, 1), 1))
        sch.parallel(fused)
    return fused


def parallel_tiles(sch: RuleSchedule, order: list[Any], work: int) -> None:
    """Parallelize tiles: only the loops outside the last one if they suffice, so that the
    last one's indices stay cheap, else all. (Loops of extent 1 do not count as last.)"""
    extents = [constant(sch.get(loop).extent) for loop in order]
    while len(order) > 1 and extents[-1] == 1:
        order, extents = order[:-1], extents[:-1]
    count = 1
    for k, extent in enumerate(extents[:-1]):
        count *= extent if extent is not None else 1 if k == 0 else SYMBOLIC_EXTENT
    if count >= 8:
        inner = extents[-1] if extents[-1] is not None else SYMBOLIC_EXTENT
        parallel(sch, order[:-1], work * inner)
    else:
        parallel(sch, order, work)


def taps(reduction: BlockInfo) -> int:
    """The number of terms per result."""
    count = 1
    for v in reduction.reduce:
        extent = constant(v.dom.extent) if v.dom is not None else None
        count *= extent if extent is not None else SYMBOLIC_EXTENT
    return count
