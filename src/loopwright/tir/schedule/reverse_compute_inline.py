"""`reverse_compute_inline`: a consumer's expression in the place of its producer's store."""

from __future__ import annotations

from typing import Any

from ...ir.prim_expr import IntImm, PrimExpr, Var
from ...ir.prim_op import add, less, logical_and
from ..stmt import Block, BufferStore
from .accesses import (
    MapLoads,
    check_no_pointer,
    index_axes,
    loads_of,
    single_store,
    with_found_regions,
)
from .compute_at import check_runs_everywhere
from .compute_inline import check_allocated, drop_buffer
from .error import ScheduleError
from .primitive import primitive
from .region import axis_values
from .rewrite import substitute, vars_in
from .rv import BlockRV
from .scope import check_complete, read_buffers, siblings, write_buffers
from .state import Ref


@primitive("ReverseComputeInline", inputs="block")
def reverse_compute_inline(sch: Any, block: BlockRV) -> None:
    """Do a block's work where the element it reads is made, and take the block away.

    Raises ScheduleError unless the block is complete, one store that reads one producer's buffer
    at an index of distinct axes, the producer is complete and one store, and nothing else reads
    that buffer.

    Before::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
            B = T.alloc_buffer((8,))
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)
            for i in range(8):
                with T.block("C"):
                    v = T.axis.spatial(8, i)
                    C[v] = B[v] + T.float32(1)

    After ``sch.reverse_compute_inline(sch.get_block("C"))``::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    C[v] = A[v] * T.float32(2) + T.float32(1)
    """
    ref = sch.block(block)
    scope = ref.scope()
    store = single_store(ref)
    check_complete(ref)
    if sch.enable_check:
        check_runs_everywhere(sch, ref)
    producer = sole_producer(ref, scope)
    made_by = single_store(producer)
    buffer = made_by.buffer
    check_allocated(producer, scope, buffer)
    check_complete(producer)
    check_no_pointer(ref.stmt, buffer, ref)
    check_others(ref, producer, buffer)
    values, tests = solve(sch, ref, producer, made_by)
    value = MapLoads(buffer, lambda load: made_by.value).visit(substitute(store.value, values))
    indices = tuple(
        sch.state.analyzer(producer).simplify(substitute(i, values)) for i in store.indices
    )
    body = BufferStore._make(store.buffer, value, indices, None, span=store.span)
    made: Block = with_found_regions(producer.stmt.replace(body=body))
    predicate = producer.realize.predicate
    bound = axis_values(producer)
    for test in tests:
        predicate = logical_and(predicate, substitute(test, bound))
    realize = producer.realize.replace(block=made, predicate=predicate)
    sch.state.update(
        ref.func,
        {ref: None, producer: realize},
        {producer.stmt: made},
        {scope: drop_buffer(buffer)},
    )


def sole_producer(ref: Ref, scope: Ref) -> Ref:
    """The one block of the scope that makes what this one reads, and is read by it alone."""
    own = set(scope.stmt.alloc_buffers)
    found = []
    for other in siblings(ref):
        if other is ref:
            break
        if write_buffers(other.stmt) & read_buffers(ref.stmt) & own:
            found.append(other)
    if not found:
        what = f"block {ref.stmt.name_hint!r} reads nothing that its scope makes"
        raise ScheduleError(what, instead="a block with a producer", at=ref.node)
    return found[-1]


def check_others(ref: Ref, producer: Ref, buffer: Any) -> None:
    """Raise ScheduleError where something else reads the buffer, or what the consumer also needs
    is not there when the producer runs."""
    blocks = siblings(ref)
    between = blocks[blocks.index(producer) + 1 :]
    if read_buffers(producer.stmt) & write_buffers(ref.stmt):
        what = f"block {ref.stmt.name_hint!r} overwrites what {producer.stmt.name_hint!r} reads"
        raise ScheduleError(what, at=[ref.node, producer.node])
    for other in blocks:
        if other is not ref and buffer in read_buffers(other.stmt):
            what = f"block {other.stmt.name_hint!r} reads {buffer.name}, too"
            raise ScheduleError(
                what, instead="a buffer with one consumer", at=[ref.node, other.node]
            )
    for other in between[: between.index(ref)]:
        mine = read_buffers(ref.stmt) | write_buffers(ref.stmt)
        if mine & write_buffers(other.stmt) or write_buffers(ref.stmt) & read_buffers(other.stmt):
            what = (
                f"block {other.stmt.name_hint!r} runs between the two and shares a buffer with them"
            )
            raise ScheduleError(what, at=[ref.node, other.node])


def solve(
    sch: Any, ref: Ref, producer: Ref, made_by: BufferStore
) -> tuple[dict[Var, PrimExpr], list[PrimExpr]]:
    """The consumer's axes in terms of the producer's, and where they are in their domains."""
    block, buffer = ref.stmt, made_by.buffer
    loads = loads_of(block.body, buffer)
    dims = index_axes(loads[0].indices, block, buffer.shape) if loads else None
    key = sch.state.analyzer(ref).key
    alike = all(key(load.indices) == key(loads[0].indices) for load in loads)
    fixed = {
        a.var: a.dom.min
        for a in block.iter_vars
        if isinstance(a.dom.extent, IntImm) and a.dom.extent.value == 1
    }
    needed = vars_in(block.body) & {a.var for a in block.iter_vars}
    if dims is None or not alike or not needed <= set(dims) | set(fixed):
        what = f"the axes of {block.name_hint!r} do not follow from its load of {buffer.name}"
        hint = "one load, each dimension indexed by an axis of its own"
        raise ScheduleError(what, instead=hint, at=ref.node)
    ana = sch.state.analyzer(producer)
    values: dict[Var, PrimExpr] = dict(fixed)
    tests: list[PrimExpr] = []
    for axis in block.iter_vars:
        if axis.var not in dims:
            continue
        index = values[axis.var] = made_by.indices[dims[axis.var]]
        low, end = axis.dom.min, add(axis.dom.min, axis.dom.extent)
        if not ana.can_prove(index >= low):
            tests.append(low <= index)
        if not ana.can_prove(index < end):
            tests.append(less(index, end))
    for n, index in enumerate(loads[0].indices):
        if isinstance(index, IntImm) and not ana.can_prove_equal(made_by.indices[n], index):
            tests.append(made_by.indices[n] == index)
    return values, tests
