"""Relations between blocks of one scope: producers, consumers, complete and reduction blocks."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from ....ir.functor import Visitor
from ....ir.literals import is_one
from ....ir.prim_expr import IterVar
from ....ir.variables import vars_in
from ...analysis.effects import has_effect
from ...buffer import Buffer
from ...expr import BufferLoad
from ...stmt import Block
from .errors import ScheduleError
from .refs import Ref

if TYPE_CHECKING:
    from ...function import PrimFunc

AXES = (IterVar.DataPar, IterVar.CommReduce)


class DepKind(IntEnum):
    """Kinds of dependency."""

    RAW = 0
    WAW = 1
    WAR = 2
    OPAQUE = 3


class Dependency:
    """`dst` comes after `src` because of `kind`."""

    __slots__ = ("dst", "kind", "src")

    def __init__(self, src: Ref, dst: Ref, kind: DepKind) -> None:
        self.src, self.dst, self.kind = src, dst, kind


class BlockScope:
    """Dependencies among the blocks directly inside a block."""

    def __init__(self, ref: Ref) -> None:
        self.ref = ref
        self.deps: list[Dependency] = []
        blocks = ref.blocks()
        for n, dst in enumerate(blocks):
            reads, writes = read_buffers(dst.stmt), write_buffers(dst.stmt)
            for src in blocks[:n]:
                written = write_buffers(src.stmt)
                if not reads.isdisjoint(written):
                    self.deps.append(Dependency(src, dst, DepKind.RAW))
                if not writes.isdisjoint(written):
                    self.deps.append(Dependency(src, dst, DepKind.WAW))
                if not writes.isdisjoint(read_buffers(src.stmt)):
                    self.deps.append(Dependency(src, dst, DepKind.WAR))

    def get_deps_by_src(self, block: Ref) -> list[Dependency]:
        """Dependencies that start at a block."""
        return [d for d in self.deps if d.src is block]

    def get_deps_by_dst(self, block: Ref) -> list[Dependency]:
        """Dependencies that end at a block."""
        return [d for d in self.deps if d.dst is block]


def read_buffers(block: Block) -> set[Buffer]:
    """The buffers a block reads."""
    return {r.buffer for r in block.reads}


def write_buffers(block: Block) -> set[Buffer]:
    """The buffers a block writes."""
    return {r.buffer for r in block.writes}


class _OutsideBlocks(Visitor):
    def __init__(self) -> None:
        self.loaded: set[Buffer] = set()

    def visit_Block(self, node: Block) -> None:
        pass

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.loaded.add(node.buffer)
        self.visit_default(node)


def check_bounds_keep(scope: Ref, blocks: list[Ref]) -> None:
    """Raise ScheduleError where blocks that are to run at another time write values that bounds of
    a loop, a condition or bindings of a block's axes load: no block declares these reads."""
    finder = _OutsideBlocks()
    finder.visit(scope.stmt.body)
    for block in blocks:
        lost = finder.loaded & write_buffers(block.stmt)
        if lost:
            what = (
                f"the bounds of loops, or the axes of blocks, are read from {next(iter(lost)).name}"
            )
            got = f"a step that changes when block {block.stmt.name_hint!r} writes it"
            hint = "loops whose bounds are read from buffers that are not written"
            raise ScheduleError(what, got=got, instead=hint, at=block.node)


def siblings(ref: Ref) -> list[Ref]:
    """The blocks of the same scope, including this one, in the order of the program."""
    return ref.scope().blocks()


def producers(ref: Ref) -> list[Ref]:
    """Earlier blocks of the scope that write what this one reads or writes."""
    accessed = read_buffers(ref.stmt) | write_buffers(ref.stmt)
    blocks = []
    for other in siblings(ref):
        if other is ref:
            break
        if not accessed.isdisjoint(write_buffers(other.stmt)):
            blocks.append(other)
    return blocks


def consumers(ref: Ref) -> list[Ref]:
    """Later blocks of the scope that read or write what this one writes."""
    own = write_buffers(ref.stmt)
    blocks, after = [], False
    for other in siblings(ref):
        if after and not own.isdisjoint(read_buffers(other.stmt) | write_buffers(other.stmt)):
            blocks.append(other)
        after = after or other is ref
    return blocks


def is_output(ref: Ref, func: PrimFunc | None) -> bool:
    """Whether a block writes what outlives its scope: not allocated by the block around."""
    return not write_buffers(ref.stmt) <= set(ref.scope().stmt.alloc_buffers)


def axes_of_kinds(block: Block, kinds: tuple[int, ...] = AXES) -> bool:
    """Whether all axes of a block are of the given kinds."""
    return all(a.iter_type in kinds for a in block.iter_vars)


def write_apart(block: Block, kinds: tuple[int, ...] = AXES) -> bool:
    """Whether all axes of a block are of the given kinds. One whose iterations run in order counts as
    spatial where each iteration has its own elements, and nothing but these is changed."""
    ordered = {a.var for a in block.iter_vars if a.iter_type == IterVar.DimInfo}
    if not ordered:
        return axes_of_kinds(block, kinds)
    points = [{r.min for r in w.region if is_one(r.extent)} for w in block.writes]
    apart = axes_of_kinds(block, (*kinds, IterVar.DimInfo)) and all(ordered <= p for p in points)
    return apart and not has_effect(block)


def is_dominant(ref: Ref) -> bool:
    """Whether the block is the only one of its scope that writes its outputs."""
    own = write_buffers(ref.stmt)
    return all(other is ref or own.isdisjoint(write_buffers(other.stmt)) for other in siblings(ref))


def why_not_complete(ref: Ref, axes: Callable[..., Any] = axes_of_kinds) -> str | None:
    """Why a block is not complete (None: it is): spatial axes only, the only writer of its
    outputs, and not reading them."""
    block = ref.stmt
    if block.init is not None or not axes(block, (IterVar.DataPar,)):
        return "it has axes that are not spatial" if block.init is None else "it is a reduction"
    if not write_buffers(block).isdisjoint(read_buffers(block)):
        return "it reads what it writes"
    return None if is_dominant(ref) else "another block writes the same buffer"


def why_not_reduction(ref: Ref, axes: Callable[..., Any] = axes_of_kinds) -> str | None:
    """Why a block is not a reduction (None: it is): an init, spatial and reduction axes, the only
    writer of its outputs, which are indexed by spatial axes."""
    block = ref.stmt
    if block.init is None:
        return "it has no init"
    if not axes(block):
        return "it has axes that are neither spatial nor reduction"
    if not is_dominant(ref):
        return "another block writes the same buffer"
    reduced = {a.var for a in block.iter_vars if a.iter_type == IterVar.CommReduce}
    for region in block.writes:
        for r in region.region:
            if not vars_in(r.min).isdisjoint(reduced):
                return f"{region.buffer.name} is written at a reduction axis"
    return None


def check_complete(ref: Ref) -> None:
    """Raise ScheduleError unless the block is complete."""
    why = why_not_complete(ref)
    if why is not None:
        what = f"block {ref.stmt.name_hint!r} is not a complete block: {why}"
        hint = "a block with spatial axes only, the only writer of its buffer, not reading it"
        raise ScheduleError(what, instead=hint, at=ref.node)


def check_complete_or_reduction(ref: Ref) -> None:
    """Raise ScheduleError unless the block is complete or a reduction."""
    why = why_not_complete(ref, write_apart)
    if why is None:
        return
    other = why_not_reduction(ref, write_apart)
    if other is not None:
        what = (
            f"block {ref.stmt.name_hint!r} is neither a complete block ({why}) nor a reduction "
            f"block ({other})"
        )
        hint = "a block that alone writes its buffer, with spatial and reduction axes and an init"
        raise ScheduleError(what, instead=hint, at=ref.node)
