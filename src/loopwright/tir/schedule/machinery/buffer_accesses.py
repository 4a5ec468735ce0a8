"""Rewriting how blocks access buffers, and the regions that they then declare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ....arith import Analyzer
from ....base.span import Span, merge_spans
from ....ir.dtype import DataType
from ....ir.literals import is_one
from ....ir.prim_expr import IntImm, PrimExpr, Range, Var
from ....ir.prim_op import subtract
from ....ir.variables import vars_in
from ...analysis import get_block_access_region
from ...buffer import Buffer, BufferRegion, pointed
from ...expr import BufferLoad
from ...stmt import Block, BufferStore, MatchBufferRegion
from .errors import ScheduleError
from .refs import Ref
from .rewriting import BlockRewriter
from .state import ScheduleState


def with_detected_regions(block: Block) -> Block:
    """The block with the regions that its body accesses; a block that uses pointers keeps the
    regions it declares."""
    reads, writes, opaque = get_block_access_region(block, {})
    if opaque:
        return block
    return block.replace(reads=tuple(reads), writes=tuple(writes))


class ReplaceBuffer(BlockRewriter):
    """Replaces buffers by others, with the same indices."""

    def __init__(
        self, table: dict[Buffer, Buffer], renamed: dict[Block, Block] | None = None
    ) -> None:
        super().__init__(renamed)
        self.table = table
        self.pointers = {old.data: new.data for old, new in table.items()}

    def visit_Buffer(self, node: Buffer) -> Any:
        return self.table.get(node, node)

    def visit_Var(self, node: Var) -> Any:
        return self.pointers.get(node, node)


class _ToPart(ReplaceBuffer):
    """Replaces a buffer by one that holds the part of it that begins at `first`."""

    def __init__(
        self, old: Buffer, new: Buffer, first: list[PrimExpr], renamed: dict[Block, Block]
    ) -> None:
        super().__init__({old: new}, renamed)
        self.new, self.first = new, first
        self.ana = Analyzer()

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        return self.moved(self.visit_default(node))

    visit_BufferStore = visit_BufferLoad

    def visit_BufferRegion(self, node: BufferRegion) -> Any:
        region = self.visit_default(node)
        if region.buffer is not self.new:
            return region
        begins = self.less([r.min for r in region.region])
        pairs = zip(begins, region.region, strict=True)
        ranges = (Range.from_min_extent(begin, r.extent, r.span) for begin, r in pairs)
        return BufferRegion(region.buffer, tuple(ranges))

    def moved(self, access: BufferLoad | BufferStore) -> Any:
        """A load or store with the indices of the part."""
        here = access.buffer is self.new
        return access.replace(indices=self.less(access.indices)) if here else access

    def less(self, indices: Iterable[PrimExpr]) -> tuple[PrimExpr, ...]:
        """Indices less the first ones."""
        pairs = zip(indices, self.first, strict=True)
        return tuple(self.ana.simplify(subtract(i, first)) for i, first in pairs)


def replace_by(
    old: Buffer, new: Buffer, first: list[PrimExpr] | None, renamed: dict[Block, Block]
) -> ReplaceBuffer:
    """A rewriter that replaces a buffer by another one or, with `first`, by one that holds a part
    of it."""
    if first is None:
        return ReplaceBuffer({old: new}, renamed)
    return _ToPart(old, new, first, renamed)


class MapLoads(BlockRewriter):
    """Replaces each load of a buffer by `fn(load)`; blocks that had one get new read regions, and
    stores that had one come from `place`, too."""

    def __init__(
        self,
        buffer: Buffer,
        fn: Callable[[BufferLoad], PrimExpr],
        renamed: dict[Block, Block] | None = None,
        span: Span | None = None,
    ) -> None:
        super().__init__(renamed)
        self.buffer = buffer
        self.fn = fn
        self.span = span

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        load = self.visit_default(node)
        return self.fn(load) if load.buffer is self.buffer else load

    def visit_BufferStore(self, node: BufferStore) -> Any:
        store = self.visit_default(node)
        return node if store is node else store.with_span(merge_spans(self.span, store.span))

    def visit_BufferRegion(self, node: BufferRegion) -> Any:
        return node

    def visit_MatchBufferRegion(self, node: MatchBufferRegion) -> Any:
        source = self.visit_default(node.source)  # its indices may be loads
        return node if source is node.source else node.replace(source=source)

    def visit_Block(self, node: Block) -> Any:
        block = self.visit_default(node)
        declared = any(r.buffer is self.buffer for r in node.reads)  # of what it no longer reads
        if block is not node or declared:
            block = with_detected_regions(block)
            self.renamed[node] = block
        return block


def single_store(ref: Ref) -> BufferStore:
    """The store that is the whole body of a block. Raises ScheduleError for another body."""
    body = ref.stmt.body
    if not isinstance(body, BufferStore) or ref.stmt.init is not None:
        what = f"block {ref.stmt.name_hint!r} is more than one store"
        raise ScheduleError(what, instead="a block whose body is one assignment", at=ref.node)
    return body


def is_matched(ref: Ref, buffer: Buffer) -> bool:
    """Whether a block, or one in it, matches a region of a buffer."""
    return any(m.source.buffer is buffer for m in _matches(ref))


def has_pointer(ref: Ref, buffer: Buffer) -> bool:
    """Whether a block reaches a buffer by its pointer or through a match."""
    return buffer.data in vars_in(ref.stmt) or is_matched(ref, buffer)


def check_no_pointer(buffer: Buffer, ref: Ref) -> None:
    """Raise ScheduleError where a block reaches a buffer by its pointer or through a match."""
    if has_pointer(ref, buffer):
        what = f"block {ref.stmt.name_hint!r} reaches {buffer.name} through a pointer or a match"
        raise ScheduleError(what, instead="plain loads and stores", at=ref.node)


def loads_of(node: PrimExpr | BufferStore, buffer: Buffer) -> list[BufferLoad]:
    """All loads of a buffer."""
    loads: list[BufferLoad] = []

    def note(load: BufferLoad) -> PrimExpr:
        loads.append(load)
        return load

    MapLoads(buffer, note).visit(node)
    return loads


def index_axes(
    indices: Sequence[PrimExpr], block: Block, shape: Sequence[PrimExpr]
) -> dict[Var, int] | None:
    """Maps each axis to the dimension that it alone indexes; None unless every index is an axis of
    its own (or a literal, in a dimension of extent 1)."""
    axes = {a.var for a in block.iter_vars}
    dims: dict[Var, int] = {}
    for n, (index, extent) in enumerate(zip(indices, shape, strict=True)):
        if isinstance(index, Var) and index in axes and index not in dims:
            dims[index] = n
        elif not (isinstance(index, IntImm) and is_one(extent)):
            return None
    return dims


def _matches(ref: Ref) -> list[MatchBufferRegion]:
    """The match_buffer regions of a block and those inside it, the outer ones first."""
    blocks = [ref]
    for block in blocks:
        blocks += block.blocks() if block.children else []
    return [m for block in blocks for m in block.stmt.match_buffers]


def with_matches(
    site: Ref, old: Buffer, new: Buffer, change: Callable[[Buffer, Buffer], Buffer]
) -> dict[Buffer, Buffer]:
    """A buffer and those that match regions of it inside a block, which become
    `change(part, new whole)`."""
    table = {old: new}
    for match in _matches(site):
        if match.source.buffer in table:
            table[match.buffer] = change(match.buffer, table[match.source.buffer])
    return table


def of_memory(buffer: Buffer, dtype: str, scope: str) -> Buffer:
    """The buffer with elements of a type, in a scope of memory."""
    data = Var._make(buffer.data.name, buffer.data.dtype, pointed(DataType(dtype), scope))
    return buffer.replace(data=data, dtype=dtype)


def replace_buffer(state: ScheduleState, site: Ref, table: dict[Buffer, Buffer]) -> None:
    """Replace buffers by others, in the block that allocates them."""
    renamed: dict[Any, Any] = {}
    realize = ReplaceBuffer(table, renamed).visit(site.realize)
    state.update(site.func, {site: realize}, renamed)
