"""`CompactBufferAllocation`: shrinks buffers to the accessed region, starting at 0.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
          for i in range(4):
              with T.block(""):
                  T.reads(A[i, 0:8])
                  T.writes(C[i, 0:8])
    -             B = T.alloc_buffer((4, 8))
    +             B = T.alloc_buffer((1, 8))
                  for j in range(8):
    -                 B[i, j] = A[i, j] + T.float32(1)
    +                 B[0, j] = A[i, j] + T.float32(1)
                  for j in range(8):
    -                 C[i, j] = B[i, j] * T.float32(2)
    +                 C[i, j] = B[0, j] * T.float32(2)

A block's annotation `buffer_dim_align` ([[buffer, dim, factor, offset], ...]) pads the strides of
the buffers that it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....arith import Analyzer, IntervalSet, eval_set, neg_inf, pos_inf
from ....arith.int_set import union_interval
from ....arith.interval import is_infinite
from ....ir.functor import any_node, post_order_visit
from ....ir.literals import is_zero
from ....ir.prim_expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Call,
    FloorDiv,
    IntImm,
    IterVar,
    Not,
    PrimExpr,
    Ramp,
    Range,
    Var,
)
from ....ir.prim_op import add, const, floordiv, maximum, multiply, subtract
from ....ir.structural import structural_equal
from ....ir.variables import uses_any, vars_in
from ...analysis.effects import can_change
from ...analysis.gpu import sharing_threads
from ...buffer import Buffer, BufferRegion
from ...expr import BufferLoad
from ...function import PrimFunc
from ...op import is_call_to
from ...stmt import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    Stmt,
)
from ..base import PrimFuncPass, StmtRewriter, StmtVisitor, bind_function, parts_of
from .lower_opaque_block import allocated_shape

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.node import Node
    from ....ir.pass_context import PassContext

Box = list[IntervalSet]
_UNKNOWN = 1 << 24  # larger extents are artifacts of a type's limits


class _Regions(StmtVisitor):
    """The accessed region of each allocated buffer, over all iterations of the loops inside its
    block and the threads that share it. strict: whether no dimension may grow."""

    def __init__(self, ana: Analyzer, strict: bool) -> None:
        self.ana = ana
        self.strict = strict
        self.inner: list[tuple[Var, Any]] = []  # variables defined so far, with their sets
        self.outside: dict[Buffer, int] = {}  # number of them defined outside the allocation
        self.by_data: dict[Var, Buffer] = {}
        self.boxes: dict[Buffer, Box] = {}
        self.opaque: set[Buffer] = set()
        self.declared: dict[Buffer, list[BufferRegion]] = {}  # by the block around
        self.pointed: set[Buffer] = set()  # given away as pointers, to code that keeps to a region
        self.compacted: dict[Buffer, tuple[Buffer, list[Any]]] = {}
        self.aligns: dict[Buffer, list[tuple[int, int, int]]] = {}
        self.tags: dict[Var, str] = {}  # of the threads
        self.gaps: list[PrimExpr] = []  # at most 0 by the conditions around a statement

    def visit_Var(self, node: Var) -> None:
        buffer = self.by_data.get(node)
        if buffer is None:
            return
        if buffer not in self.declared:
            self.opaque.add(buffer)
            return
        self.pointed.add(buffer)
        for region in self.declared[buffer]:
            for end in ([r.min for r in region.region], [r.last for r in region.region]):
                self.access(buffer, end)

    def visit_For(self, node: For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        self.inner.append((node.loop_var, node.range))
        if node.thread_binding is not None:
            self.tags[node.loop_var] = node.thread_binding.thread_tag
        with self.ana.loop_scope(node.loop_var, node.range):
            self.visit(node.body)
        self.inner.pop()

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        self.visit(node.value)
        thread = node.node if isinstance(node.node, IterVar) else None
        if thread is None or node.attr_key not in ("thread_extent", "virtual_thread"):
            self.visit(node.body)
            return
        around = Range.from_min_extent(const(0, thread.var.dtype), node.value)
        self.inner.append((thread.var, around))
        self.tags[thread.var] = thread.thread_tag
        with self.ana.loop_scope(thread.var, around):
            self.visit(node.body)
        self.inner.pop()

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.visit(node.value)
        self.inner.append((node.var, IntervalSet(neg_inf(), pos_inf())))
        self.visit(node.body)
        self.inner.pop()

    def visit_Block(self, node: Block) -> None:
        for buffer in node.alloc_buffers:
            self.outside[buffer] = len(self.inner)
            self.by_data[buffer.data] = buffer
        for match in node.match_buffers:
            self.window(match)
        for entry in node.annotations.get("buffer_dim_align", ()):
            index, dim, factor, offset = map(int, entry)
            if index < len(node.writes):  # unused writes are removed
                buffer = node.writes[index].buffer
                self.aligns.setdefault(buffer, []).append((dim, factor, offset))
        around, self.declared = self.declared, {}
        for region in (*node.reads, *node.writes):
            self.declared.setdefault(region.buffer, []).append(region)
        for part in (node.init, node.body):
            if part is not None:
                self.visit(part)
        self.declared = around
        for buffer in node.alloc_buffers:
            self.decide(buffer)

    def window(self, match: MatchBufferRegion) -> None:
        """A window accesses its region; one that declares strides or an offset fixes the buffer's
        layout."""
        layout = (*match.buffer.strides, match.buffer.elem_offset)
        free = all(value is None or isinstance(value, Var) for value in layout)
        if not free or match.buffer.offset_factor > 1:
            self.opaque.add(match.source.buffer)
            return
        for end in ([r.min for r in match.source.region], [r.last for r in match.source.region]):
            self.access(match.source.buffer, end)

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        self.visit(node.iter_values)
        self.visit(node.predicate)
        self.visit_given(node.predicate, True, node.block)

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        self.visit(node.condition)
        self.visit_given(node.condition, True, node.then_case)
        if node.else_case is not None:
            self.visit_given(node.condition, False, node.else_case)

    def visit_Call(self, node: Call) -> None:
        if not is_call_to(node, "if_then_else"):
            self.visit_default(node)
            return
        condition, yes, no = node.args
        self.visit(condition)
        self.visit_given(condition, True, yes)
        self.visit_given(condition, False, no)

    def visit_given(self, condition: PrimExpr, holds: bool, body: PrimExpr | Stmt) -> None:
        """Visit what runs only where a condition holds, or only where it does not."""
        outer = self.gaps
        parts = parts_of(condition, holds)
        self.gaps = outer + [
            gap for part in parts if not can_change(body, part) for gap in _gaps(part, self.ana)
        ]
        self.visit(body)
        self.gaps = outer

    def visit_Allocate(self, node: Allocate) -> None:
        """A buffer that is allocated outside of blocks, by the pair of statements of a lowered one."""
        declared = declared_buffer(node)
        if declared is None:
            self.visit_default(node)
            return
        self.outside[declared] = len(self.inner)
        self.by_data[node.buffer_var] = declared
        for entry in node.annotations.get("buffer_dim_align", ()):
            _, dim, factor, offset = map(int, entry)
            self.aligns.setdefault(declared, []).append((dim, factor, offset))
        self.visit(node.body.body if isinstance(node.body, DeclBuffer) else node.body)
        self.decide(declared)

    def decide(self, buffer: Buffer) -> None:
        """Decide once all accesses are known and the loops around the allocation are still in
        scope."""
        box = self.boxes.get(buffer)
        plain = not buffer.strides and buffer.elem_offset is None
        if box is None or buffer in self.opaque or not plain:
            return
        new, starts = _compacted(self.ana, buffer, box, self.aligns.get(buffer), self.strict)
        moved = any(start is not None for start in starts) or new.shape[1:] != buffer.shape[1:]
        if new is not buffer and not (moved and buffer in self.pointed):
            self.compacted[buffer] = (new, starts)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.visit(node.indices)
        self.access(node.buffer, node.indices)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.visit(node.value)
        self.visit(node.indices)
        self.access(node.buffer, node.indices)

    def relaxed(self, index: PrimExpr, domain: dict[Var, Any]) -> IntervalSet:
        """The values of an index over all inner loops, whose ranges may depend on each other."""
        bounds = eval_set(index, domain, self.ana)
        for _ in range(4):
            low, high = bounds.min_value, bounds.max_value
            if is_infinite(low) or is_infinite(high):
                break
            if not uses_any(low, domain) and not uses_any(high, domain):
                return bounds
            bounds = IntervalSet(
                eval_set(low, domain, self.ana).min_value,
                eval_set(high, domain, self.ana).max_value,
            )
        return IntervalSet(neg_inf(), pos_inf())

    def narrowed(self, index: PrimExpr, domain: dict[Var, Any]) -> IntervalSet:
        """The values of an index over all inner loops, as far as conditions let them run."""
        gaps = [gap for gap in self.gaps if uses_any(gap, domain)]
        shared = {v for gap in gaps for v in vars_in(gap)} & vars_in(index) & domain.keys()
        if not shared:
            return self.relaxed(index, domain)
        domain = {**domain, **{v: self.cut(v, gaps, domain) for v in shared if v is not index}}
        quotients = _Quotients(shared)
        index = quotients.visit(self.ana.simplify(index))
        for var, (part, divisor) in quotients.divisions.items():
            bounds = self.cut(part, gaps, domain)
            ends = bounds.min_value, bounds.max_value
            domain[var] = IntervalSet(
                *(e if is_infinite(e) else floordiv(e, divisor) for e in ends)
            )
        return self.cut(index, gaps, domain)

    def cut(self, index: PrimExpr, gaps: list[PrimExpr], domain: dict[Var, Any]) -> IntervalSet:
        """`relaxed`, tightened: an index is a gap and a rest, or a rest less a gap."""
        bounds = self.relaxed(index, domain)
        low, high = bounds.min_value, bounds.max_value
        for gap in gaps:
            most = self.relaxed(subtract(index, gap), domain).max_value
            least = self.relaxed(add(index, gap), domain).min_value
            if not is_infinite(most) and (is_infinite(high) or self.ana.can_prove(most <= high)):
                high = most
            if not is_infinite(least) and (is_infinite(low) or self.ana.can_prove(least >= low)):
                low = least
        return IntervalSet(low, high)

    def access(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> None:
        start = self.outside.get(buffer)
        if start is None:
            if buffer.data in self.by_data:
                self.opaque.add(self.by_data[buffer.data])
            return
        vectors = [i for i in indices if i.dtype.lanes > 1]
        if not all(isinstance(i, Ramp) and isinstance(i.stride, IntImm) for i in vectors):
            self.opaque.add(buffer)
            return
        if vectors:
            for last in (False, True):
                self.access(buffer, [_lane(i, last) for i in indices])
            return
        domain = dict(self.inner[start:])
        shared = sharing_threads(buffer.scope())
        domain |= {v: r for v, r in self.inner[:start] if self.tags.get(v, "-").startswith(shared)}
        box = [self.narrowed(i, domain) for i in indices]
        previous = self.boxes.get(buffer)
        if previous is not None:
            box = [union_interval(self.ana, a, b) for a, b in zip(previous, box, strict=True)]
        self.boxes[buffer] = box


def _lane(index: PrimExpr, last: bool) -> PrimExpr:
    """The first or the last lane of an index."""
    if not isinstance(index, Ramp):
        return index
    return add(index.base, multiply(index.stride, index.lanes - 1)) if last else index.base


class _Quotients(StmtRewriter):
    """Replaces quotients by positive constants, of what uses one of the variables, with others."""

    def __init__(self, inner: set[Var]) -> None:
        self.inner = inner
        self.divisions: dict[Var, tuple[PrimExpr, IntImm]] = {}

    def visit_FloorDiv(self, node: FloorDiv) -> PrimExpr:
        if not isinstance(node.b, IntImm) or node.b.value <= 0 or not uses_any(node, self.inner):
            return node
        var = Var("quotient", node.dtype)
        self.divisions[var] = (node.a, node.b)
        return var


def _gaps(part: PrimExpr, ana: Analyzer) -> list[PrimExpr]:
    """Differences that are at most 0 where a comparison of integers holds."""
    holds = not isinstance(part, Not)
    test = part if holds else part.a
    if is_call_to(test, "likely"):
        test = test.args[0]
    if isinstance(test, NE) and holds and test.a.dtype.is_integer:
        test = GT(test.a, test.b) if ana.can_prove(test.a >= test.b) else test
    if not isinstance(test, (LT, LE, GT, GE, EQ)) or not test.a.dtype.is_integer:
        return []
    a, b = test.a, test.b
    if a.dtype.lanes > 1 or _reads_memory(a) or _reads_memory(b):
        return []
    if isinstance(test, EQ):
        return [subtract(a, b), subtract(b, a)] if holds else []
    if isinstance(test, (GT, GE)):
        a, b = b, a
    if not holds:
        a, b = b, a
    apart = isinstance(test, (LT, GT)) is holds
    return [add(subtract(a, b), 1) if apart else subtract(a, b)]


def declared_buffer(node: Allocate) -> Buffer | None:
    """The buffer that an allocation is for, where it is declared right inside, or is the only one of
    its memory."""
    buffer = node.body.buffer if isinstance(node.body, DeclBuffer) else _only_view(node)
    if buffer is None:
        return None
    matches = buffer.data is node.buffer_var and buffer.dtype == node.dtype
    return buffer if matches and structural_equal(buffer.shape, node.extents) else None


def _only_view(node: Allocate) -> Buffer | None:
    """The buffer through which alone the memory of an allocation is used, without a declaration."""
    views: set[Buffer] = set()

    def look(part: Node) -> None:
        buffer = getattr(part, "buffer", None)
        if isinstance(buffer, Buffer) and buffer.data is node.buffer_var:
            views.add(buffer)
            declared.extend([part] if isinstance(part, DeclBuffer) else [])

    declared: list[Any] = []
    post_order_visit(node.body, look)
    return views.pop() if len(views) == 1 and not declared else None


def _reads_memory(expr: PrimExpr) -> bool:
    return any_node(expr, lambda n: isinstance(n, (BufferLoad, Call)))


class _Compact(StmtRewriter):
    def __init__(self, ana: Analyzer, compact: dict[Buffer, tuple[Buffer, list[Any]]]) -> None:
        self.ana = ana
        self.compacted = compact

    def shifted(self, indices: Sequence[PrimExpr], starts: list[Any]) -> tuple[PrimExpr, ...]:
        return tuple(
            i if s is None else self.ana.simplify(subtract(i, s))
            for i, s in zip(indices, starts, strict=True)
        )

    def visit_BufferLoad(self, node: BufferLoad | BufferStore) -> Any:
        node = self.visit_default(node)
        entry = self.compacted.get(node.buffer)
        if entry is None:
            return node
        buffer, starts = entry
        return node.replace(buffer=buffer, indices=self.shifted(node.indices, starts))

    visit_BufferStore = visit_BufferLoad

    def visit_BufferRegion(self, node: BufferRegion) -> Any:
        entry = self.compacted.get(node.buffer)
        if entry is None:
            return node
        buffer, starts = entry
        begins = self.shifted([r.min for r in node.region], starts)
        pairs = zip(begins, node.region, strict=True)
        return BufferRegion(buffer, tuple(Range.from_min_extent(b, r.extent) for b, r in pairs))

    def visit_Allocate(self, node: Allocate) -> Any:
        declared = declared_buffer(node)
        node = self.visit_default(node)
        if declared is not None and declared in self.compacted:
            buffer, _ = self.compacted[declared]
            node = node.replace(extents=allocated_shape(buffer))
            if isinstance(node.body, DeclBuffer):
                node = node.replace(body=node.body.replace(buffer=buffer))
        return node

    def visit_Block(self, node: Block) -> Any:
        buffers = tuple(
            self.compacted[b][0] if b in self.compacted else b for b in node.alloc_buffers
        )
        if any(a is not b for a, b in zip(buffers, node.alloc_buffers, strict=True)):
            node = node.replace(alloc_buffers=buffers)
        return self.visit_default(node)


def _compacted(
    ana: Analyzer, buffer: Buffer, box: Box, aligns: list[Any] | None, strict: bool
) -> tuple[Buffer, list[Any]]:
    shape: list[Any] = []
    starts: list[Any] = []
    for extent, dim in zip(buffer.shape, box, strict=True):
        start, size = _dimension(ana, extent, dim, strict)
        shape.append(size)
        starts.append(start)
    strides = _strides(shape, aligns) if aligns and shape else buffer.strides
    if all(a is b for a, b in zip(shape, buffer.shape, strict=True)) and strides is buffer.strides:
        return buffer, starts
    return buffer.replace(shape=tuple(shape), strides=tuple(strides)), starts


def _dimension(ana: Analyzer, extent: PrimExpr, dim: IntervalSet, strict: bool) -> tuple[Any, Any]:
    """(first index or None for 0, extent)"""
    low, high = dim.min_value, dim.max_value
    if is_infinite(low) or is_infinite(high) or _reads_memory(low) or _reads_memory(high):
        return None, extent
    size = ana.simplify(high - low + 1)
    if isinstance(size, IntImm):  # conditional accesses may seem out of bounds
        is_constant = strict and isinstance(extent, IntImm)
        if not 0 < size.value <= (extent.value if is_constant else _UNKNOWN):
            return None, extent
    elif not ana.can_prove(size <= extent):
        return None, extent
    elif not ana.can_prove(size >= 0):
        size = maximum(size, const(0, size.dtype))  # of an iteration that runs nothing
    if ana.can_prove_equal(size, extent):
        size = extent
    first = ana.simplify(low)
    zero = is_zero(first)
    return (None if zero else first), size


def _strides(shape: list[Any], aligns: list[tuple[int, int, int]]) -> list[Any]:
    """Row-major strides; the stride of an aligned dimension is offset modulo factor."""
    alignments = {dim: (factor, offset) for dim, factor, offset in aligns}
    strides: list[Any] = []
    step: Any = const(1, shape[0].dtype)
    for dim in reversed(range(len(shape))):
        if dim in alignments:
            factor, offset = alignments[dim]
            over = subtract(offset, step)
            step = add(step, subtract(over, multiply(floordiv(over, factor), factor)))
        strides.insert(0, step)
        step = multiply(step, shape[dim])
    return strides


class CompactBufferAllocation(PrimFuncPass):
    """Shrinks buffers to the accessed region, starting at 0. is_strict: no dimension becomes longer
    than it was, where accesses under conditions reach outside; the result covers all that are
    within the buffer."""

    is_strict: bool = True

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        ana = Analyzer()
        bind_function(ana, func)
        regions = _Regions(ana, self.is_strict)
        regions.visit(func.body)
        compact = regions.compacted
        return func.replace(body=_Compact(ana, compact).visit(func.body)) if compact else func
