"""The buffer of a block that an argument names, and the block that allocates it."""

from __future__ import annotations

from typing import Any

from ....ir.prim_expr import IntImm
from ...buffer import Buffer
from ...stmt import Block
from .errors import ScheduleError
from .refs import Ref

BufferArg = (
    int | str | Buffer
)  # its position among those a block accesses, its name, or the buffer itself


def buffer_at(ref: Ref, which: int | str | Buffer, *, write: bool) -> Buffer:
    """A buffer among a block's reads or writes, by position, by name, or the buffer itself."""
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


def buffer_name(ref: Ref, buffer: Buffer) -> Any:
    """How the trace names a buffer of a block: ["write", 0]."""
    for side, regions in (("write", ref.stmt.writes), ("read", ref.stmt.reads)):
        for n, region in enumerate(regions):
            if region.buffer is buffer:
                return [side, n]
    return buffer.name


def pick_buffer(ref: Ref, buffer: Buffer | str | tuple[str | int, ...]) -> Buffer:
    """A buffer of a block: ("read", n), ("write", n), its name, or itself."""
    if isinstance(buffer, (tuple, list)):
        side, n = buffer
        if side not in ("read", "write"):
            raise ScheduleError('the side is "read" or "write"', got=side, at=ref.node)
        return buffer_at(ref, n, write=side == "write")
    for region in (*ref.stmt.writes, *ref.stmt.reads):
        if region.buffer is buffer or region.buffer.name == buffer:
            return region.buffer
    return buffer_at(ref, buffer, write=True)


def alloc_site(ref: Ref, buffer: Buffer) -> Ref:
    """The enclosing block that allocates a buffer. Raises ScheduleError for a parameter."""
    for above in (ref, *ref.ancestors()):
        if above.is_block and buffer in above.stmt.alloc_buffers:
            return above
    what = f"{buffer.name} is not allocated by the function"
    raise ScheduleError(what, instead="a buffer from T.alloc_buffer", at=ref.node)


def check_allocated(ref: Ref, scope: Ref, buffer: Buffer) -> None:
    """Raise ScheduleError unless the scope allocates the buffer."""
    if buffer not in scope.stmt.alloc_buffers:
        what = f"block {ref.stmt.name_hint!r} writes {buffer.name}, which outlives it"
        hint = "a block that writes a buffer allocated in the same scope, not an output"
        raise ScheduleError(what, instead=hint, at=ref.node)


def drop_buffer(buffer: Buffer) -> Any:
    """A function that removes the buffer from those a block allocates."""

    def change(block: Block) -> Block:
        return block.replace(alloc_buffers=tuple(b for b in block.alloc_buffers if b is not buffer))

    return change
