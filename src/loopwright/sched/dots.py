"""Products of which one instruction adds several terms: `tir.tensor_intrin.instructions` has them by target.

    for k in range(K // 4):
        for r, v in grid(rows, vectors):       # unrolled
            acc[r, v] = dot(acc[r, v], A[r, k * 4:k * 4 + 4], packed[k, v])      # tensorized

The right side is packed so that the terms of each lane are adjacent.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ..ir.prim_expr import Add, Cast, Mul
from ..ir.structural import structural_equal
from ..ir.target import Target
from ..ir.variables import uses_any
from ..tir.expr import BufferLoad
from ..tir.schedule import Schedule, ScheduleError
from ..tir.tensor_intrin.instructions import FACTS, DotProduct, dot_product
from .analysis import BlockInfo, constant, loads_in, vectors_fit
from .apply import give_reason


def dot_of(info: BlockInfo, target: Target) -> DotProduct | None:
    """The instruction for a product whose last axis it divides, or None."""
    store, axis = info.store, info.reduce[-1]
    facts = [str(fact) for fact in info.block.annotations.get(FACTS, ())]
    if store is None or not info.spatial or not isinstance(store.value, Add):
        return None
    factors = store.value.b
    left, right = map(_source, (factors.a, factors.b)) if isinstance(factors, Mul) else (None, None)
    if left is None or right is None or not _moves(right, info):
        return None
    a, b, c = (str(access.buffer.dtype) for access in (left, right, store))
    each = _moves(left, info)
    dot = dot_product(target, (a, b, c), target.vector_lanes(c), facts, each)
    extent = constant(axis.dom.extent)
    if (
        dot is None
        or extent is None
        or extent % dot.depth
        or (each and not is_interleaved(info, dot))
    ):
        return None
    return dot


def is_interleaved(info: BlockInfo, dot: DotProduct | None) -> bool:
    """Whether the terms of each lane are adjacent in its right side: [..., lane, axis % depth]."""
    if dot is None:
        return False
    store, axis, lanes = info.store, info.reduce[-1].var, info.spatial[-1].var
    assert store is not None
    right = loads_in(store.value)[-1].indices
    terms = [axis % dot.depth]
    if constant(info.reduce[-1].dom.extent) == dot.depth:
        terms.append(axis)
    is_term = any(structural_equal(right[-1], term) for term in terms)
    return is_term and len(right) > 2 and right[-2] is lanes


def in_vectors(info: BlockInfo, target: Target) -> bool:
    """Whether the last spatial axis is computed in vectors: its elements, or those of each of its lanes, are adjacent."""
    return vectors_fit(info) or is_interleaved(info, dot_of(info, target))


def _source(factor: Any) -> BufferLoad | None:
    """The element that is cast, or used as it is."""
    load = factor.value if isinstance(factor, Cast) else factor
    return load if isinstance(load, BufferLoad) else None


def _moves(load: BufferLoad, info: BlockInfo) -> bool:
    """Whether a factor differs from lane to lane."""
    return uses_any(tuple(load.indices), (info.spatial[-1].var,))


UNROLLED = 4  # most steps that are unrolled: a block of 16 channels, four at a time
UNROLLED_ROWS = 9  # most rows of a window that are


def split_terms(sch: Schedule, inner: list[Any], steps: list[Any], dot: DotProduct) -> None:
    """Put the terms of an instruction inside of a tile's loops, the last of which is over lanes. steps: the loops
    that add."""
    *rows, last = steps
    extents = [constant(sch.get(loop).extent) for loop in rows]
    if dot.each and None not in extents and prod(e or 0 for e in extents) <= UNROLLED_ROWS:
        for loop in rows:  # of a window, whose pixels those of its neighbours share
            sch.unroll(loop)
        sch.reorder(*inner[:-2], *rows)  # the least pixels at a time: all of a tile's were spilled
    outer, terms = sch.split(last, [None, dot.depth])
    if (constant(sch.get(outer).extent) or UNROLLED + 1) <= UNROLLED:
        sch.unroll(outer)
    sch.reorder(*inner, terms)


def use_dot(sch: Schedule, loop: Any, dot: DotProduct) -> None:
    """Put the instruction in for a loop over lanes, once the ends of tiles are settled: descriptions have no
    predicate."""
    try:
        sch.tensorize(loop, dot.intrin)
    except ScheduleError as error:  # a guard is left on a term
        reason = f"without {dot.intrin}: {error}"
        give_reason(lambda: reason)
        sch.vectorize(loop)
