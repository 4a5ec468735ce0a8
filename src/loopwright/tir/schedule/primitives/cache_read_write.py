"""Copies of buffers in front of their readers or behind their writers: `cache_read`,
`cache_write`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir.prim_expr import IntImm, IterVar, PrimExpr, Range, Var
from ....ir.prim_op import const
from ...buffer import Buffer, BufferRegion, decl_buffer
from ...expr import BufferLoad
from ...stmt import Block, BufferStore, Stmt
from ..machinery.buffer_accesses import ReplaceBuffer, check_no_pointer
from ..machinery.copy_placement import (
    check_reduces_inside,
    copy_loops,
    domain_box,
    insert,
    place_after,
    place_before,
    steady,
    written_box,
)
from ..machinery.errors import ScheduleError
from ..machinery.primitive import primitive
from ..machinery.random_variables import BlockRV
from ..machinery.regions import Box, relaxed_region, union_box
from ..machinery.scope import read_buffers, siblings, write_buffers
from ..machinery.state import Ref
from .compute_at import tests_around


@primitive("CacheRead", inputs="block *consumer_blocks", attrs="read_buffer_index storage_scope")
def cache_read(
    sch: Any,
    block: BlockRV,
    read_buffer_index: int | str | Buffer,
    storage_scope: str,
    consumer_blocks: list[BlockRV] | None = None,
) -> BlockRV:
    """Copy what a block reads of a buffer to a new buffer in `storage_scope`, and read that.

    All readers in the scope read the copy, or only `consumer_blocks`. Gives the copying block.

    Before::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)

    After ``sch.cache_read("B", 0, "local")``::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            A_local = T.alloc_buffer((8,), scope="local")
            for ax0 in range(8):
                with T.block("A_local"):
                    v0 = T.axis.spatial(8, ax0)
                    A_local[v0] = A[v0]
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A_local[v] * T.float32(2)
    """
    ref = sch.block(block)
    buffer = buffer_at(ref, read_buffer_index, write=False)
    scope = ref.scope()
    users = chosen(sch, ref, buffer, consumer_blocks)
    makers = [b for b in siblings(ref) if buffer in write_buffers(b.stmt)]
    cache = cache_buffer(buffer, storage_scope)
    box: Box | None = None
    at, position = place_before(scope, makers, users)
    ana = sch.state.analyzer(at)
    for user in users:
        check_no_pointer(user.stmt, buffer, user)
        box = union_box(ana, box, relaxed_region(sch, user, at, buffer, write=False))
    tests = tests_around(users, at)
    nest, made = copy_nest(ana, buffer, cache, box, scope, at, tests=tests)
    renamed: dict[Block, Block] = {}
    replace = ReplaceBuffer({buffer: cache}, renamed)
    changes: dict[Ref, Any] = {user: replace.visit(user.realize) for user in users}
    insert(sch, ref.func, changes, renamed, scope, at, [(position, nest, made)], cache)
    return sch.new_block(ref.func, made)


@primitive("CacheWrite", inputs="block *consumer_blocks", attrs="write_buffer_index storage_scope")
def cache_write(
    sch: Any,
    block: BlockRV,
    write_buffer_index: int | str | Buffer,
    storage_scope: str,
    consumer_blocks: list[BlockRV] | None = None,
) -> BlockRV:
    """Let a block write to a new buffer in `storage_scope`, which is copied to the old one after.

    Other readers read the old buffer, but `consumer_blocks` the new one. Gives the copying block.

    Before::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)

    After ``sch.cache_write("B", 0, "local")``::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            B_local = T.alloc_buffer((8,), scope="local")
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B_local[v] = A[v] * T.float32(2)
            for ax0 in range(8):
                with T.block("B_local"):
                    v0 = T.axis.spatial(8, ax0)
                    B[v0] = B_local[v0]
    """
    ref = sch.block(block)
    buffer = buffer_at(ref, write_buffer_index, write=True)
    scope = ref.scope()
    blocks = siblings(ref)
    writers = [b for b in blocks if buffer in write_buffers(b.stmt)]
    users = [sch.block(b) for b in consumer_blocks or ()]
    if sch.enable_check:
        check_writers(ref, writers, blocks, buffer)
    cache = cache_buffer(buffer, storage_scope)
    for writer in writers:
        check_no_pointer(writer.stmt, buffer, writer)
    others = [b for b in blocks if b not in writers and buffer in read_buffers(b.stmt)]
    at, position = place_after(scope, writers, [b for b in others if b not in users])
    ana = sch.state.analyzer(at)
    limits: list[Box] = []
    kept = False
    if sch.enable_check:
        # What the buffer holds elsewhere is not to be written over.
        kept = at is not scope or buffer not in scope.stmt.alloc_buffers
        for writer in writers:
            check_reduces_inside(writer, at)
        domain = domain_box(sch, writers, buffer)
        limits += [domain] if domain is not None else []
    box = written_box(sch, writers, at, buffer, kept)
    limits += [box] if at is not scope else []
    nest, made = copy_nest(ana, cache, buffer, box, scope, at, limits=limits)
    renamed: dict[Block, Block] = {}
    replace = ReplaceBuffer({buffer: cache}, renamed)
    changes = {b: replace.visit(b.realize) for b in (*writers, *users)}
    insert(sch, ref.func, changes, renamed, scope, at, [(position, nest, made)], cache)
    return sch.new_block(ref.func, made)


def buffer_at(ref: Ref, which: int | str | Buffer, *, write: bool) -> Buffer:
    """The buffer of a block's reads or writes by position, name, or itself."""
    regions = ref.stmt.writes if write else ref.stmt.reads
    buffers = [r.buffer for r in regions]
    if isinstance(which, IntImm):
        which = which.value
    if isinstance(which, int):
        if 0 <= which < len(buffers):
            return buffers[which]
    else:
        for buffer in buffers:
            if buffer is which or buffer.name == which:
                return buffer
    names = ", ".join(f"{n}: {b.name}" for n, b in enumerate(buffers)) or "none"
    side = "writes" if write else "reads"
    what = f"block {ref.stmt.name_hint!r} {side} no such buffer"
    got = which.name if isinstance(which, Buffer) else which
    raise ScheduleError(what, got=got, instead=names, at=ref.node)


def chosen(sch: Any, ref: Ref, buffer: Buffer, consumer_blocks: Any) -> list[Ref]:
    """The readers that are to read the copy."""
    if consumer_blocks:
        users = [sch.block(b) for b in consumer_blocks]
        if ref not in users:
            users.append(ref)
    else:
        users = [b for b in siblings(ref) if buffer in read_buffers(b.stmt)]
        if ref not in users:
            users = [ref]
    for user in users:
        if buffer in write_buffers(user.stmt):
            what = f"block {user.stmt.name_hint!r} writes {buffer.name}, too"
            raise ScheduleError(what, instead="cache_inplace, or cache_write", at=user.node)
    return users


def check_writers(ref: Ref, writers: list[Ref], blocks: list[Ref], buffer: Buffer) -> None:
    """Raise ScheduleError where the writers of a buffer do not stand together."""
    if buffer in read_buffers(writers[0].stmt):
        what = f"block {writers[0].stmt.name_hint!r} updates {buffer.name} in place"
        raise ScheduleError(what, instead="cache_inplace", at=writers[0].node)
    first, last = blocks.index(writers[0]), blocks.index(writers[-1])
    for other in blocks[first:last]:
        if other not in writers and buffer in read_buffers(other.stmt):
            what = f"block {other.stmt.name_hint!r} reads {buffer.name} between its writers"
            raise ScheduleError(what, at=[ref.node, other.node])


def cache_buffer(buffer: Buffer, storage_scope: str) -> Buffer:
    """A buffer of the same shape elsewhere."""
    check_storage_scope(storage_scope)
    return decl_buffer(
        buffer.shape, buffer.dtype, f"{buffer.name}_{storage_scope}", scope=storage_scope
    )


_SCOPES = ("global", "shared", "local", "warp", "texture")


def check_storage_scope(scope: str) -> None:
    """Raise ScheduleError for a memory scope that nobody knows; one with a dot is taken to be a
    back end's own."""
    known = scope.split(":")[0].split("-")[0] in _SCOPES or scope == ""
    if not known and not all(part for part in ("." in scope, *scope.split("."))):
        hint = ", ".join(f'"{s}"' for s in _SCOPES)
        hint += ', "shared.dyn", "wmma.matrix_a", "m16n8k8.matrixC", or another with a dot'
        raise ScheduleError("no such storage scope", got=repr(scope), instead=hint)


def copy_nest(
    ana: Any,
    source: Buffer,
    target: Buffer,
    box: Box | None,
    scope: Ref,
    at: Ref,
    name: str = "",
    limits: Sequence[Box] = (),
    tests: Sequence[PrimExpr] = (),
) -> tuple[Stmt, Block]:
    """Loops that copy a box of `source` to `target`, both of one shape, in the body of `at`; no
    element outside of the boxes `limits`, and nothing where `tests` do not hold."""
    assert box is not None
    spans = steady(box, scope)
    zeros = [const(0, dim.dtype) for dim in source.shape]
    if at is scope:  # bounds that are not proven are those of the buffer
        for n, (span, dim) in enumerate(zip(spans, source.shape, strict=True)):
            if span is None or not (ana.can_prove(span[0] >= 0) and ana.can_prove(span[1] < dim)):
                spans[n] = None
    points = [Var(f"v{n}", dim.dtype) for n, dim in enumerate(source.shape)]
    axes = [
        IterVar(Range.from_min_extent(zero, dim), v, IterVar.DataPar)
        for zero, v, dim in zip(zeros, points, source.shape, strict=True)
    ]
    name = name or (target.name if len(target.name) > len(source.name) else source.name)
    block = Block(
        axes,
        [BufferRegion.from_point(source, points)],
        [BufferRegion.from_point(target, points)],
        name,
        BufferStore(target, BufferLoad(source, points), points),
    )
    ends = [[limit[n] for limit in limits] for n in range(len(axes))]
    return copy_loops(ana, axes, spans, block, ends, tests), block
