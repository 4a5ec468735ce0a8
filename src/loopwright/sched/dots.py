"""Products of which one instruction adds several terms: `tir.tensor_intrin.instructions` has them by target.

    for k in range(K // 4):
        for r, v in grid(rows, vectors):       # unrolled
            acc[r, v] = dot(acc[r, v], A[r, k * 4:k * 4 + 4], packed[k, v])      # tensorized

The right side is packed so that the terms of each lane are adjacent.
"""

from __future__ import annotations

from typing import Any

from ..ir.functor import nodes_of
from ..ir.prim_expr import Add, Cast, Mul
from ..ir.target import Target
from ..ir.variables import uses_any
from ..tir.expr import BufferLoad
from ..tir.function import PrimFunc
from ..tir.schedule import Schedule, ScheduleError
from ..tir.stmt import For
from ..tir.tensor_intrin.instructions import FACTS, DotProduct, dot_product
from .analysis import BlockInfo, constant
from .apply import give_reason


def dot_of(info: BlockInfo, target: Target) -> DotProduct | None:
    """The instruction for a product over one axis, whose extent it divides; None if there is none."""
    store, (axis, *others) = info.store, info.reduce
    if store is None or others or not isinstance(store.value, Add):
        return None
    factors = store.value.b
    loads = [_source(f) for f in (factors.a, factors.b)] if isinstance(factors, Mul) else []
    if len(loads) != 2 or None in loads or _moves(loads[0], info) or not _moves(loads[1], info):
        return None
    dtypes = [str(load.buffer.dtype) for load in (*loads, store)]
    facts = info.block.annotations.get(FACTS, ())
    lanes = target.vector_lanes(store.buffer.dtype)
    found = dot_product(target, tuple(dtypes), lanes, [str(f) for f in facts])
    extent = constant(axis.dom.extent)
    return found if found is not None and extent is not None and extent % found.depth == 0 else None


def _source(factor: Any) -> BufferLoad | None:
    """The element that is cast, or used as it is."""
    load = factor.value if isinstance(factor, Cast) else factor
    return load if isinstance(load, BufferLoad) else None


def _moves(load: Any, info: BlockInfo) -> bool:
    """Whether a factor differs from lane to lane."""
    return uses_any(tuple(load.indices), (info.spatial[-1].var,))


DOT = "dot_product"  # annotates the loop over lanes with the instruction


def split_terms(sch: Schedule, inner: list[Any], steps: Any, dot: DotProduct) -> None:
    """Put the terms of an instruction inside of a tile's loops, the last of which is over lanes."""
    _, terms = sch.split(steps, [None, dot.depth])
    sch.reorder(*inner, terms)
    sch.annotate(inner[-1], DOT, dot.intrin)


def use_dots(func: PrimFunc) -> PrimFunc:
    """Put the instructions in, once the ends of tiles are settled: descriptions have no predicate."""
    loops = [n for n in nodes_of(func.body, For) if DOT in n.annotations]
    if not loops:
        return func
    sch = Schedule(func, enable_check=False)
    for loop in loops:
        name = str(loop.annotations[DOT])
        try:
            sch.tensorize(loop, name)
        except ScheduleError as error:  # a term that is no longer two elements
            give_reason(lambda error=error, name=name: f"without {name}: {error}")
            sch.vectorize(loop)
    return sch.func
