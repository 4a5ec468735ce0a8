"""`cache_inplace`: a buffer that a block updates in place, worked on in a copy."""

from __future__ import annotations

from typing import Any

from ..buffer import Buffer
from ..stmt import Block, SeqStmt, seq
from .accesses import ReplaceBuffer, check_no_pointer
from .cache import buffer_at, cache_buffer, copy_nest, item_index
from .error import ScheduleError
from .primitive import primitive
from .region import Box, relaxed_region, union_box
from .rv import BlockRV
from .scope import write_buffers


@primitive("CacheInplace", inputs="block", attrs="read_buffer_index storage_scope")
def cache_inplace(
    sch: Any, block: BlockRV, read_buffer_index: int | str | Buffer, storage_scope: str
) -> list[BlockRV]:
    """Copy a buffer that a block reads and writes into `storage_scope` before it, and back after.

    Gives the two copying blocks.

    Before::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("A"):
                    v = T.axis.spatial(8, i)
                    A[v] = A[v] * T.float32(2)

    After ``sch.cache_inplace("A", 0, "local")``::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32")):
            A_local = T.alloc_buffer((8,), scope="local")
            for ax0 in range(8):
                with T.block("A_local"):
                    v0 = T.axis.spatial(8, ax0)
                    A_local[v0] = A[v0]
            for i in range(8):
                with T.block("A"):
                    v = T.axis.spatial(8, i)
                    A_local[v] = A_local[v] * T.float32(2)
            for ax0 in range(8):
                with T.block("A_local_back"):
                    v0 = T.axis.spatial(8, ax0)
                    A[v0] = A_local[v0]
    """
    ref = sch.block(block)
    buffer = buffer_at(ref, read_buffer_index, write=False)
    if buffer not in write_buffers(ref.stmt):
        what = f"block {ref.stmt.name_hint!r} does not write {buffer.name}"
        raise ScheduleError(what, instead="cache_read", at=ref.node)
    scope = ref.scope()
    position = item_index(scope, ref)
    shared = [b for b in scope.blocks() if b is not ref and item_index(scope, b) == position]
    if position < 0 or shared:
        what = f"block {ref.stmt.name_hint!r} shares its loops with other blocks"
        raise ScheduleError(what, at=[ref.node, *(b.node for b in shared)])
    check_no_pointer(ref.stmt, buffer, ref)
    cache = cache_buffer(buffer, storage_scope)
    ana = sch.state.analyzer(ref)
    box: Box | None = None
    for write in (False, True):
        box = union_box(ana, box, relaxed_region(sch, ref, scope, buffer, write=write))
    first, there = copy_nest(ana, buffer, cache, box)
    last, back = copy_nest(ana, cache, buffer, box, f"{cache.name}_back")
    renamed: dict[Block, Block] = {}
    made = ReplaceBuffer({buffer: cache}, renamed).visit(ref.realize)

    def change(b: Block) -> Block:
        items = list(b.body.seq if isinstance(b.body, SeqStmt) else (b.body,))
        items[position : position + 1] = [first, items[position], last]
        return b.replace(body=seq(*items), alloc_buffers=(*b.alloc_buffers, cache))

    sch.state.update(ref.func, {ref: made}, renamed, {scope: change})
    return [sch.new_block(ref.func, there), sch.new_block(ref.func, back)]
