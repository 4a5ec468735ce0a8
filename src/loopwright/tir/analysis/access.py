"""The regions that a block reads and writes: one box for each buffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...arith.analyzer import Analyzer
from ...ir.functor import Visitor, any_node
from ...ir.op import Op
from ...ir.prim_expr import Call, IntImm, Let, Max, Min, PrimExpr, Range, Var
from ...ir.prim_op import add, const, maximum, minimum, subtract
from ...ir.structural import structural_equal
from .. import stmt as st
from ..buffer import Buffer, BufferRegion
from ..expr import BufferLoad
from ..stmt_functor import substitute
from .bounds import Bound, bounds_of, difference

Box = list[Bound]  # (least, greatest) index of each dimension, inclusive; None where unbounded


class _Accesses(Visitor):
    """Collects the box of each access, by buffer in order of first access, over all iterations of the loops
    inside the block."""

    def __init__(self, buffer_var_map: Mapping[Var, Buffer]) -> None:
        self.pointers = dict(buffer_var_map)
        self.loops: dict[Var, Bound] = {}
        self.lets: dict[Var, PrimExpr] = {}
        self.matched: dict[Buffer, BufferRegion] = {}
        self.reads: dict[Buffer, list[Box]] = {}
        self.writes: dict[Buffer, list[Box]] = {}
        self.opaque: dict[Buffer, list[Box]] = {}
        self.inner: set[Var] = set()  # pointers to memory that is allocated inside

    def enter(self, block: st.Block) -> None:
        """Visit the block whose accesses are collected."""
        for buffer in block.alloc_buffers:
            self.pointers[buffer.data] = buffer
        for match in block.match_buffers:
            self.matched[match.buffer] = match.source
            self.pointers[match.buffer.data] = match.buffer
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)
        for match in block.match_buffers:  # their indices may be loads
            self.visit(match.source.region)

    def note(self, table: dict[Buffer, list[Box]], buffer: Buffer, box: Box) -> None:
        source = self.matched.get(buffer)
        if source is not None:
            buffer, box = source.buffer, _inside(source, box, len(buffer.shape))
        if buffer.data in self.inner:
            return
        table.setdefault(buffer, []).append(box)

    def box(self, indices: tuple[Any, ...]) -> Box:
        if self.lets:
            indices = tuple(substitute(i, self.lets) for i in indices)
        return [bounds_of(i, self.loops) for i in indices]

    def region(self, region: BufferRegion, values: dict[Var, PrimExpr]) -> Box:
        box: Box = []
        for r in region.region:
            low, size = substitute(r.min, values), substitute(r.extent, values)
            first = bounds_of(low, self.loops)
            last = bounds_of(subtract(add(low, size), 1), self.loops)
            box.append(None if first is None or last is None else (first[0], last[1]))
        return box

    def outside(self, box: Box, own: set[Buffer]) -> Box:
        """The box as it is outside of the block, where indices loaded from a buffer that the block
        allocates are unbounded."""
        if not (own or self.inner):
            return box

        def is_own(node: PrimExpr) -> bool:
            loads = isinstance(node, BufferLoad)
            return loads and (node.buffer in own or node.buffer.data in self.inner)

        return [None if span and any(any_node(e, is_own) for e in span) else span for span in box]

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.note(self.reads, node.buffer, self.box(node.indices))
        self.visit(node.indices)

    def visit_BufferStore(self, node: st.BufferStore) -> None:
        self.note(self.writes, node.buffer, self.box(node.indices))
        self.visit(node.value)
        self.visit(node.indices)

    def visit_Var(self, node: Var) -> None:
        buffer = self.pointers.get(node)
        if buffer is not None:
            self.note(self.opaque, buffer, [None] * len(buffer.shape))

    def visit_Allocate(self, node: st.Allocate | st.AllocateConst) -> None:
        self.inner.add(node.buffer_var)
        self.visit(node.extents)
        self.visit(node.body)

    visit_AllocateConst = visit_Allocate

    def visit_For(self, node: st.For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        low = bounds_of(substitute(node.min, self.lets), self.loops)
        high = bounds_of(substitute(node.range.last, self.lets), self.loops)
        self.loops[node.loop_var] = None if low is None or high is None else (low[0], high[1])
        self.visit(node.body)
        del self.loops[node.loop_var]

    def visit_IfThenElse(self, node: st.IfThenElse) -> None:
        self.visit(node.condition)
        self.visit(node.then_case)
        if node.else_case is not None:
            self.visit(node.else_case)

    def visit_LetStmt(self, node: st.LetStmt | Let) -> None:
        self.visit(node.value)
        self.lets[node.var] = substitute(node.value, self.lets)
        self.visit(node.body)
        del self.lets[node.var]

    visit_Let = visit_LetStmt

    def visit_Call(self, node: Call) -> None:
        if isinstance(node.op, Op) and node.op.name == "tir.tvm_access_ptr":
            self.access_pointer(node)
        else:
            self.visit(node.args)

    def access_pointer(self, node: Call) -> None:
        """A pointer with an access mask: 1 reads, 2 writes, 3 does both. A flat buffer is accessed from
        the offset over the extent, any other as a whole."""
        data, offset, extent, mask = node.args[1:5]
        self.visit(offset)
        self.visit(extent)
        buffer = self.pointers.get(data)
        if buffer is None:
            return
        box: Box = [None] * len(buffer.shape)
        if len(buffer.shape) == 1 and buffer.elem_offset is None:
            (first,) = self.box((offset,))
            (last,) = self.box((subtract(add(offset, extent), 1),))
            box = [None if first is None or last is None else (first[0], last[1])]
        flags = mask.value if isinstance(mask, IntImm) else 3
        if flags & 1:
            self.note(self.reads, buffer, box)
        if flags & 2:
            self.note(self.writes, buffer, box)

    def visit_BlockRealize(self, node: st.BlockRealize) -> None:
        """An inner block declares what it accesses, in terms of its axes."""
        self.visit(node.iter_values)
        block = node.block
        pairs = zip(block.iter_vars, node.iter_values, strict=True)
        values = {axis.var: substitute(value, self.lets) for axis, value in pairs}
        self.inner.update(buffer.data for buffer in block.alloc_buffers)
        for table, regions in ((self.reads, block.reads), (self.writes, block.writes)):
            for r in regions:
                if r.buffer not in block.alloc_buffers:
                    self.note(table, r.buffer, self.region(r, values))
        for axis in block.iter_vars:
            if axis.dom is not None:
                self.visit(substitute(axis.dom, values))


def _inside(source: BufferRegion, box: Box, ndim: int) -> Box:
    """A box of a matched buffer as a box of its source buffer; the leading axes that the match does not
    have are those of the source region."""
    lead = len(source.region) - ndim
    outer: Box = []
    for n, r in enumerate(source.region):
        inner = box[n - lead] if n >= lead else None
        if inner is None:
            outer.append((r.min, r.last))
        else:
            outer.append((add(r.min, inner[0]), add(r.min, inner[1])))
    return outer


def _union(boxes: list[Box], buffer: Buffer, block: st.Block) -> BufferRegion:
    ranges = []
    for n, extent in enumerate(buffer.shape):
        spans = [span for box in boxes if (span := box[n]) is not None]
        if len(spans) < len(boxes):
            ranges.append(Range.upto(extent))
            continue
        low, high = spans[0]
        for other in spans[1:]:
            low = _pick(low, other[0], block, least=True)
            high = _pick(high, other[1], block, least=False)
        ranges.append(range_between(low, high))
    return BufferRegion(buffer, tuple(ranges))


def _pick(a: PrimExpr, b: PrimExpr, block: st.Block, *, least: bool) -> PrimExpr:
    # min(x, n) and min(y, n) are ordered as x and y are.
    limited = type(a) is type(b) and isinstance(a, (Min, Max)) and structural_equal(a.b, b.b)
    gap = difference(a.a, b.a) if limited else difference(a, b)
    if isinstance(gap, int):
        return a if (gap <= 0) == least else b
    ana = Analyzer({axis.var: axis.dom for axis in block.iter_vars})
    if ana.can_prove(a <= b):
        return a if least else b
    if ana.can_prove(b <= a):
        return b if least else a
    return minimum(a, b) if least else maximum(a, b)


def range_between(low: PrimExpr, high: PrimExpr) -> Range:
    """The range from `low` to `high`, inclusive."""
    size = difference(add(high, 1), low)
    if isinstance(size, int):
        return Range.from_min_extent(low, const(size, low.dtype))
    return Range.from_min_extent(low, Analyzer().simplify(subtract(add(high, 1), low)))


def accessed_regions(block: st.Block, pointers: Mapping[Var, Buffer]) -> list[list[BufferRegion]]:
    """[reads, writes, opaque accesses] of a block, detected in its body.

    pointers: pointer variable to buffer, for pointers passed to external calls. Without the buffers
    that the block or blocks in its body allocate, and without a reduction block's reads of its
    results.
    """
    accesses = _Accesses(pointers)
    accesses.enter(block)
    own = set(block.alloc_buffers)
    for table in (accesses.reads, accesses.writes):
        for boxes in table.values():
            boxes[:] = [accesses.outside(box, own) for box in boxes]
    skip = own | set(accesses.writes) if block.init is not None else own
    tables = ((accesses.reads, skip), (accesses.writes, own), (accesses.opaque, own))
    return [[_union(v, b, block) for b, v in t.items() if b not in left] for t, left in tables]


def get_block_access_region(
    block: st.Block, buffer_var_map: Mapping[Var, Buffer]
) -> list[list[BufferRegion]]:
    """[reads, writes, opaque accesses] of a block, see `accessed_regions`; only those of buffers in the map
    (pointer variable to buffer) unless it is empty."""
    accessed = accessed_regions(block, buffer_var_map)
    if not buffer_var_map:
        return accessed
    return [[r for r in regions if r.buffer.data in buffer_var_map] for regions in accessed]


def get_block_read_write_region(
    block: st.Block, buffer_var_map: Mapping[Var, Buffer]
) -> list[list[BufferRegion]]:
    """[reads, writes] of a block; an opaque access counts as both, over the whole buffer."""
    reads, writes, opaque = accessed_regions(block, buffer_var_map)
    for region in opaque:
        for side in (reads, writes):
            indices = [n for n, r in enumerate(side) if r.buffer is region.buffer]
            if indices:
                side[indices[0]] = region
            else:
                side.append(region)
    return [reads, writes]
