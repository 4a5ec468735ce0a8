"""`cache_inplace`: updates a copy of a buffer that a block updates in place."""

from __future__ import annotations

from functools import partial

from ...buffer import Buffer
from ...stmt import Block
from ..machinery import BlockArg, BlockRV, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.buffer_accesses import replace_by
from ..machinery.buffer_lookup import BufferArg, buffer_at
from ..machinery.copy_placement import (
    cache_of,
    check_reduces_inside,
    copy_nest,
    holding_item,
    insert,
    levels,
)
from ..machinery.predicates import tests_around
from ..machinery.regions import relaxed_region, union_boxes
from ..machinery.scope import read_buffers, write_buffers


@primitive("CacheInplace", inputs="block", attrs="read_buffer_index storage_scope")
def cache_inplace(
    sch: ScheduleBase, block: BlockArg, read_buffer_index: BufferArg, storage_scope: str
) -> list[BlockRV]:
    """Copy a buffer that a block reads and writes into `storage_scope` before it, and back after.

    Returns the two copying blocks.

    Raises ScheduleError when the block does not write the buffer.

    Before (-) and after (+) ``sch.cache_inplace("A", 0, "local")``, with ``A: T.Buffer(8)``::

        + A_local = T.alloc_buffer(8, scope="local")
        + for ax0 in range(8):
        +     with T.block("A_local"):
        +         v0 = T.axis.spatial(8, ax0)
        +         A_local[v0] = A[v0]
          for i in range(8):
              with T.block("A"):
                  v = T.axis.spatial(8, i)
        -         A[v] = A[v] * 2.0
        +         A_local[v] = A_local[v] * 2.0
        + for ax0 in range(8):
        +     with T.block("A_local_back"):
        +         v0 = T.axis.spatial(8, ax0)
        +         A[v0] = A_local[v0]
    """
    ref = sch.block(block)
    buffer = buffer_at(ref, read_buffer_index, write=False)
    if buffer not in write_buffers(ref.stmt):
        what = f"block {ref.stmt.name_hint!r} does not write {buffer.name}"
        raise ScheduleError(what, instead="cache_read", at=ref.node)
    scope = ref.scope()
    at, position = place_around(scope, ref, buffer)
    if sch.enable_check:
        check_reduces_inside(ref, at)
    ana = sch.state.analyzer(at)
    boxes = [relaxed_region(sch.state, ref, at, buffer, write=write) for write in (False, True)]
    box = union_boxes(ana, boxes)
    tests = tests_around([ref], at)
    cache, first = cache_of(ana, [ref], buffer, storage_scope, box, scope, at)
    copy = partial(copy_nest, ana, box=box, scope=scope, at=at, tests=tests, first=first)
    before, there = copy(buffer, cache)
    after, back = copy(cache, buffer, name=f"{cache.name}_back")
    renamed: dict[Block, Block] = {}
    realize = replace_by(buffer, cache, first, renamed).visit(ref.realize)
    nests = [(position, before, there), (position + 1, after, back)]
    insert(sch.state, ref.func, {ref: realize}, renamed, scope, at, nests, cache)
    return [sch.new_block(ref.func, there), sch.new_block(ref.func, back)]


def place_around(scope: Ref, ref: Ref, buffer: Buffer) -> tuple[Ref, int]:
    """The outermost loop (or the scope) whose statement that holds the block holds no other block
    that accesses the buffer, and the position of that statement."""
    others = [
        b
        for b in scope.blocks()
        if b is not ref and buffer in read_buffers(b.stmt) | write_buffers(b.stmt)
    ]
    for at, (position,) in levels(scope, [ref]):
        if not any(b.is_under(at) and holding_item(at, b) == position for b in others):
            return at, position
    what = f"block {ref.stmt.name_hint!r} is under a condition, or another block in it"
    raise ScheduleError(what, instead="loops and blocks only", at=ref.node)
