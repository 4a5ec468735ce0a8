"""Completes blocks whose read and written regions are not declared."""

from __future__ import annotations

from ...base.errors import explain
from ...ir.functor import pre_order_visit
from ...tir.analysis.access import accessed_regions
from ...tir.buffer import Buffer
from ...tir.stmt import Block, Stmt


def complete(block: Block, visible: list[Buffer], reads: bool, writes: bool) -> Block:
    """The block with the regions found in its body; `visible` are all buffers in scope.

    Raises ValueError when memory is reached through pointers, so that regions are unknown.
    """
    table = {buffer.data: buffer for buffer in visible}
    found_reads, found_writes, opaque = accessed_regions(block, table)
    if opaque:
        names = ", ".join(region.buffer.name for region in opaque)
        what = f"what block {block.name_hint!r} accesses through pointers cannot be inferred"
        raise ValueError(explain(what, got=names, instead="give it T.reads and T.writes"))
    return block.replace(
        reads=tuple(found_reads) if reads else block.reads,
        writes=tuple(found_writes) if writes else block.writes,
    )


def has_block(stmt: Stmt) -> bool:
    """Whether a statement contains a block."""
    has = False

    def look(node: object) -> bool:
        nonlocal has
        has = has or isinstance(node, Block)
        return not has

    pre_order_visit(stmt, look)
    return has
