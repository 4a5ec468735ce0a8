"""`LowerOpaqueBlock`: removes blocks; their buffers are allocated by statements.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), n: T.int32):
          for i in range(8):
    -         with T.block(""):
    -             T.where(i < n)
    -             T.reads(A[i])
    -             T.writes(C[i])
    -             B = T.alloc_buffer((1,))
    +         if i < n:
    +             B_data = T.allocate([1], "float32", "global")
    +             B = T.decl_buffer((1,), data=B_data)
                  B[0] = A[i] + T.float32(1)
                  C[i] = B[0]

Loops of one iteration without annotations are replaced by their body, and loops that are bound to
threads by the launch of the threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....base.errors import LoopwrightError, explain
from ....ir.literals import is_one, is_true, is_zero
from ....ir.prim_expr import IterVar, PrimExpr, Range
from ....ir.prim_op import add, const
from ... import stmt as st
from ...buffer import MOST_ALIGNMENT, Buffer
from ..base import RewriterPass, Substitute

if TYPE_CHECKING:
    from ....base.span import Span


class _Lower(Substitute):
    def __init__(self) -> None:
        super().__init__({})
        self.aligns: dict[Buffer, list[Any]] = {}

    def visit_BlockRealize(self, node: st.BlockRealize) -> st.Stmt:
        block: st.Block = node.block
        body = self.visit(block.body)
        for key, value in reversed(block.annotations.items()):
            if key.startswith("pragma_"):
                body = st.AttrStmt(const(0, "int32"), key, value, body)
        for entry in block.annotations.get("buffer_dim_align", ()):
            index, *align = entry
            if index < len(block.writes):  # unused writes are removed
                self.aligns.setdefault(block.writes[int(index)].buffer, []).append([0, *align])
        for buffer in reversed(block.alloc_buffers):
            aligns = self.aligns.get(buffer)
            notes = {"buffer_dim_align": aligns} if aligns else {}
            body = allocate(buffer, body, block, notes)
        predicate = self.visit(node.predicate)
        return body if is_true(predicate) else st.IfThenElse(predicate, body, span=node.span)

    def visit_For(self, node: st.For) -> st.Stmt:
        low, extent = self.visit(node.min), self.visit(node.extent)
        single = is_one(extent) and not node.annotations
        if single and node.kind != st.ForKind.THREAD_BINDING:
            self.table[node.loop_var] = low
            return self.visit(node.body)
        launched = node.kind == st.ForKind.THREAD_BINDING and node.thread_binding is not None
        if launched and not is_zero(low):  # threads are numbered from 0
            self.table[node.loop_var] = add(node.loop_var, low)
        body = self.visit(node.body)
        if launched:
            return _launch(node, extent, body)
        annotations = {k: v for k, v in node.annotations.items() if not _is_pragma(k)}
        loop = node.replace(min=low, extent=extent, body=body)
        if len(annotations) == len(node.annotations):
            return loop
        stmt: st.Stmt = loop.replace(annotations=annotations)
        for key, value in reversed(node.annotations.items()):
            if _is_pragma(key):
                stmt = st.AttrStmt(const(0, "int32"), key, value, stmt)
        return stmt


def _launch(loop: st.For, extent: PrimExpr, body: st.Stmt) -> st.Stmt:
    assert loop.thread_binding is not None
    tag = loop.thread_binding.thread_tag
    axis = IterVar(Range.upto(extent), loop.loop_var, IterVar.ThreadIndex, tag)
    virtual = tag == "vthread" or tag.startswith("vthread.")
    key = "virtual_thread" if virtual else "thread_extent"
    return st.AttrStmt(axis, key, extent, body, span=loop.span)


def allocate(buffer: Buffer, body: st.Stmt, origin: st.Block, notes: dict[str, Any]) -> st.Stmt:
    """`body` with the buffer allocated around it."""
    check_alignment(buffer, origin.span)
    inner = st.DeclBuffer(buffer, body, span=origin.span)
    extents, always = allocated_shape(buffer), const(True)
    return st.Allocate(buffer.data, buffer.dtype, extents, always, inner, notes, span=origin.span)


def allocated_shape(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """The extents of the memory of a buffer that is allocated."""
    return (buffer.strides[0] * buffer.shape[0],) if buffer.strides else buffer.shape


def check_alignment(buffer: Buffer, span: Span | None) -> None:
    """Raise LoopwrightError for a buffer to be allocated with more alignment than memory has."""
    if buffer.data_alignment > MOST_ALIGNMENT:
        what = f"buffer {buffer.name} cannot be aligned to {buffer.data_alignment} bytes"
        hint = f"align={MOST_ALIGNMENT} at most; take more memory and align the pointer"
        raise LoopwrightError(explain(what, instead=hint, span=span))


def _is_pragma(key: str) -> bool:
    """Whether an annotation becomes an attribute around the loop; LoopPartition's stays."""
    return key.startswith("pragma_") and key != "pragma_loop_partition_hint"


class LowerOpaqueBlock(RewriterPass):
    """Removes blocks; their buffers are allocated by statements."""

    rewriter = _Lower
