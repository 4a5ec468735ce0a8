"""Finding blocks and loops: get_block, get_loops, and a block's neighbours."""

from __future__ import annotations

from collections.abc import Iterator

from ....base.errors import suggest
from ....ir.expr import GlobalVar
from ..machinery import BlockArg, BlockRV, LoopRV, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.scope import consumers, producers, write_buffers


@primitive("GetBlock", attrs="name func_name")
def get_block(sch: ScheduleBase, name: str, func_name: str | None = None) -> BlockRV:
    """The block called `name`. Raises ScheduleError unless exactly one has this name."""
    gvar = sch.working_function() if func_name is None else GlobalVar(func_name)
    if gvar not in sch.state._mod.functions:
        names = [g.name_hint for g in sch.state._mod.functions]
        raise ScheduleError("no such function", got=func_name, instead=suggest(func_name, names))
    sch.record_as(func_name=gvar.name_hint)
    index = sch.state.index(gvar)
    refs = [ref for block, ref in index.blocks.items() if block.name_hint == name]
    if not refs:
        names = [block.name_hint for block in index.blocks]
        hint = suggest(name, names, "one of")
        tvm = f"Cannot find a block with the specified name. Cannot find a block with the name: {name}"
        raise ScheduleError("no block of this name", got=name, instead=hint, tvm=tvm)
    if len(refs) > 1:
        what = f"{len(refs)} blocks are called {name!r}"
        hint = "rename them, or come from another block: sch.get_consumers, sch.get_child_blocks"
        raise ScheduleError(what, instead=hint, at=[ref.node for ref in refs])
    return sch.new_block(gvar, refs[0].stmt)


@primitive("GetLoops", inputs="block")
def get_loops(sch: ScheduleBase, block: BlockArg) -> list[LoopRV]:
    """The loops around a block in its scope, the outermost first."""
    ref = sch.block(block)
    return [sch.new_loop(ref.func, loop.stmt.loop_var) for loop in ref.loops()]


@primitive("GetChildBlocks", inputs="block_or_loop")
def get_child_blocks(sch: ScheduleBase, block_or_loop: BlockArg | LoopRV) -> list[BlockRV]:
    """The blocks directly inside a block or loop."""
    ref = sch.get_sref(block_or_loop)
    return [sch.new_block(ref.func, child.stmt) for child in ref.blocks()]


@primitive("GetProducers", inputs="block")
def get_producers(sch: ScheduleBase, block: BlockArg) -> list[BlockRV]:
    """The earlier blocks of the same scope that a block depends on."""
    ref = sch.block(block)
    return [sch.new_block(ref.func, other.stmt) for other in producers(ref)]


@primitive("GetConsumers", inputs="block")
def get_consumers(sch: ScheduleBase, block: BlockArg) -> list[BlockRV]:
    """The later blocks of the same scope that depend on a block."""
    ref = sch.block(block)
    return [sch.new_block(ref.func, other.stmt) for other in consumers(ref)]


@primitive("GetOutputBlocks", inputs="scope_block")
def get_output_blocks(sch: ScheduleBase, scope_block: BlockArg) -> list[BlockRV]:
    """The blocks inside a block, at any depth, that write buffers not allocated inside it."""
    ref = sch.block(scope_block)
    inside = list(_within(ref))
    own = {buffer for at in (ref, *inside) for buffer in at.stmt.alloc_buffers}
    outputs = [child for child in inside if not write_buffers(child.stmt) <= own]
    return [sch.new_block(ref.func, child.stmt) for child in outputs]


def _within(ref: Ref) -> Iterator[Ref]:
    """The blocks inside a block, outer ones before those they contain."""
    for child in ref.blocks():
        yield child
        yield from _within(child)
