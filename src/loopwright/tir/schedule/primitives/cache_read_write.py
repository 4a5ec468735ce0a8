"""Copies of buffers before their readers or after their writers: `cache_read`, `cache_write`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir.prim_expr import PrimExpr
from ...buffer import Buffer
from ...stmt import Block
from ..machinery import BlockArg, BlockRV, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.buffer_accesses import replace_by
from ..machinery.buffer_lookup import BufferArg, buffer_at
from ..machinery.copy_placement import (
    cache_of,
    check_reduces_inside,
    copy_nest,
    domain_box,
    insert,
    place_after,
    place_before,
    written_box,
)
from ..machinery.flags import block_flags
from ..machinery.predicates import tests_around
from ..machinery.regions import Box, relaxed_region, union_boxes
from ..machinery.scope import check_bounds_keep, producers, read_buffers, siblings, write_buffers
from ..machinery.state import ScheduleState


@primitive("CacheRead", inputs="block *consumer_blocks", attrs="read_buffer_index storage_scope")
def cache_read(
    sch: ScheduleBase,
    block: BlockArg,
    read_buffer_index: BufferArg,
    storage_scope: str,
    consumer_blocks: Sequence[BlockArg] | str | None = None,
) -> BlockRV:
    """Copy the region of a buffer that a block reads to a new buffer in `storage_scope`, and read
    that.

    All readers in the scope read the copy, or only `consumer_blocks`. In a block, the new buffer
    has the shape of the copied region. At most one block of the scope writes the buffer. Returns
    the copying block.

    Raises ScheduleError when the consumers share no loop below the writer.

    Before (-) and after (+) ``sch.cache_read("B", 0, "local")``,
    with ``A: T.Buffer(8), B: T.Buffer(8)``::

        + A_local = T.alloc_buffer(8, scope="local")
        + for ax0 in range(8):
        +     with T.block("A_local"):
        +         v0 = T.axis.spatial(8, ax0)
        +         A_local[v0] = A[v0]
          for i in range(8):
              with T.block("B"):
                  v = T.axis.spatial(8, i)
        -         B[v] = A[v] * 2.0
        +         B[v] = A_local[v] * 2.0
    """
    ref = sch.block(block)
    buffer = buffer_at(ref, read_buffer_index, write=False)
    scope = ref.scope()
    users = chosen(sch, ref, buffer, consumer_blocks)
    makers = check_one_writer(sch, ref, buffer)
    at, position, shared = place_before(scope, makers, users)
    ana = sch.state.analyzer(at)
    if shared:  # the copy runs after the makers, for readers in other loops, too
        if buffer not in scope.stmt.alloc_buffers:
            what = (
                f"{buffer.name} may hold elements that the blocks before its readers do not write"
            )
            raise ScheduleError(what, instead="consumer_blocks that share loops", at=ref.node)
        box = written_box(sch.state, makers, at, buffer, True)
        tests: list[PrimExpr] = []
    else:
        boxes = [relaxed_region(sch.state, user, at, buffer, write=False) for user in users]
        box = union_boxes(ana, boxes)
        tests = tests_around(users, at)
    cache, first = cache_of(ana, users, buffer, storage_scope, box, scope, at)
    nest, copy = copy_nest(ana, buffer, cache, box, scope, at, tests=tests, first=first)
    renamed: dict[Block, Block] = {}
    replace = replace_by(buffer, cache, first, renamed)
    changes: dict[Ref, Any] = {user: replace.visit(user.realize) for user in users}
    insert(sch.state, ref.func, changes, renamed, scope, at, [(position, nest, copy)], cache)
    return sch.new_block(ref.func, copy)


@primitive("CacheWrite", inputs="block *consumer_blocks", attrs="write_buffer_index storage_scope")
def cache_write(
    sch: ScheduleBase,
    block: BlockArg,
    write_buffer_index: BufferArg,
    storage_scope: str,
    consumer_blocks: Sequence[BlockArg] | str | None = None,
) -> BlockRV:
    """Let a block write to a new buffer in `storage_scope`, which is then copied to the old one.

    `consumer_blocks` read the new buffer, other readers the old one. No other block of the scope
    writes the buffer. Returns the copying block.

    Raises ScheduleError when the block updates the buffer in place.

    Before (-) and after (+) ``sch.cache_write("B", 0, "local")``,
    with ``A: T.Buffer(8), B: T.Buffer(8)``::

        + B_local = T.alloc_buffer(8, scope="local")
          for i in range(8):
              with T.block("B"):
                  v = T.axis.spatial(8, i)
        -         B[v] = A[v] * 2.0
        +         B_local[v] = A[v] * 2.0
        + for ax0 in range(8):
        +     with T.block("B_local"):
        +         v0 = T.axis.spatial(8, ax0)
        +         B[v0] = B_local[v0]
    """
    ref = sch.block(block)
    buffer = buffer_at(ref, write_buffer_index, write=True)
    scope = ref.scope()
    blocks = siblings(ref)
    writers = check_one_writer(sch, ref, buffer)
    users = given_consumers(sch, ref, consumer_blocks)
    if sch.enable_check:
        check_bounds_keep(scope, writers)
        if reads_old(sch.state, writers[0], buffer):
            what = f"block {writers[0].stmt.name_hint!r} updates {buffer.name} in place"
            raise ScheduleError(what, instead="cache_inplace", at=writers[0].node)
    others = [b for b in blocks if b not in writers and buffer in read_buffers(b.stmt)]
    at, position = place_after(scope, writers, [b for b in others if b not in users])
    ana = sch.state.analyzer(at)
    limits: list[Box] = []
    partial = False
    if sch.enable_check:
        # The buffer's other elements must not be overwritten.
        partial = at is not scope or buffer not in scope.stmt.alloc_buffers
        for writer in writers:
            check_reduces_inside(writer, at)
        domain = domain_box(sch.state, writers, buffer)
        limits += [domain] if domain is not None else []
    box = written_box(sch.state, writers, at, buffer, partial)
    limits += [box] if at is not scope or partial else []
    changed = (*writers, *users)
    cache, first = cache_of(ana, changed, buffer, storage_scope, box, scope, at)
    nest, copy = copy_nest(ana, cache, buffer, box, scope, at, limits=limits, first=first)
    renamed: dict[Block, Block] = {}
    replace = replace_by(buffer, cache, first, renamed)
    changes = {b: replace.visit(b.realize) for b in changed}
    insert(sch.state, ref.func, changes, renamed, scope, at, [(position, nest, copy)], cache)
    return sch.new_block(ref.func, copy)


def check_one_writer(sch: ScheduleBase, ref: Ref, buffer: Buffer) -> list[Ref]:
    """The blocks of the scope that write a buffer. Raises ScheduleError where they are several: which
    of them made the values that are copied is not known then."""
    writers = [b for b in siblings(ref) if buffer in write_buffers(b.stmt)]
    if sch.enable_check and len(writers) > 1:
        what = f"{buffer.name} is written by several blocks"
        got = ", ".join(b.stmt.name_hint for b in writers)
        hint = "cache it before its writer is taken apart (decompose_reduction, loop_partition)"
        raise ScheduleError(what, got=got, instead=hint, at=[w.node for w in writers])
    return writers


def chosen(
    sch: ScheduleBase, ref: Ref, buffer: Buffer, consumer_blocks: Sequence[BlockArg] | str | None
) -> list[Ref]:
    """The readers that are to read the copy."""
    if consumer_blocks:
        users = given_consumers(sch, ref, consumer_blocks)
    else:
        readers = [b for b in siblings(ref) if buffer in read_buffers(b.stmt)]
        users = [b for b in readers if b is ref or buffer not in write_buffers(b.stmt)]
    for user in users:
        if buffer not in read_buffers(user.stmt):
            what = f"block {user.stmt.name_hint!r} does not read {buffer.name}"
            raise ScheduleError(what, instead="consumer_blocks that do", at=user.node)
        if buffer in write_buffers(user.stmt):
            what = f"block {user.stmt.name_hint!r} also writes {buffer.name}"
            raise ScheduleError(what, instead="cache_inplace, or cache_write", at=user.node)
    return users


def given_consumers(sch: ScheduleBase, ref: Ref, blocks: Sequence[Any] | None) -> list[Ref]:
    """The consumer_blocks of a call: blocks of the scope."""
    users = [sch.block(b) for b in blocks or ()]
    for user in users:
        if user not in siblings(ref):
            what = f"block {user.stmt.name_hint!r} is not in the scope of {ref.stmt.name_hint!r}"
            raise ScheduleError(what, instead="consumer_blocks of one scope", at=user.node)
    return users


def reads_old(state: ScheduleState, ref: Ref, buffer: Buffer) -> bool:
    """Whether a block may read values that a buffer held before it."""
    inside = [b for b in ref.blocks() if buffer in read_buffers(b.stmt)]
    if not inside:
        return buffer in read_buffers(ref.stmt)
    return not all(
        any(buffer in write_buffers(p.stmt) for p in producers(b))
        and block_flags(state, b).region_cover
        for b in inside
    )
