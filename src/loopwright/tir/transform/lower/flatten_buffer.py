"""`FlattenBuffer`: flattens accesses of multi-dimensional buffers to one dimension.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    +     A_1 = T.Buffer((32,), data=A.data)
    +     B_1 = T.Buffer((32,), data=B.data)
          for i, j in T.grid(4, 8):
    -         B[i, j] = A[i, j] + T.float32(1)
    +         B_1[i * 8 + j] = A_1[i * 8 + j] + T.float32(1)

An allocation is annotated with the largest alignment that its buffers have, where that is more than
memory has anyway.
"""

from __future__ import annotations

from typing import Any

from ....ir.prim_expr import Ramp
from ....ir.prim_op import const
from ...buffer import ALIGNMENT, Buffer
from ...expr import BufferLoad
from ...stmt import Allocate, BufferStore, DeclBuffer
from .._base import RewriterPass, Simplifying
from .lower_opaque_block import check_alignment


class _Flatten(Simplifying):
    def __init__(self) -> None:
        super().__init__()
        self.flat: dict[Buffer, Buffer] = {}
        self.aligned: dict[Any, Buffer] = {}  # pointer -> its buffer of the largest alignment

    def buffer(self, buffer: Buffer) -> Buffer:
        known = self.flat.get(buffer)
        if known is None:
            flattened = buffer.get_flattened_buffer()
            if not buffer.shape:
                flattened = buffer.replace(shape=(const(1, "int32"),))
            size = tuple(self.ana.simplify(e) for e in flattened.shape)
            known = flattened.replace(shape=size) if flattened is not buffer else buffer
            if known.elem_offset is not None:
                known = known.replace(elem_offset=None)
            most = self.aligned.get(buffer.data)
            least = ALIGNMENT if most is None else most.data_alignment
            if buffer.data_alignment > least:
                self.aligned[buffer.data] = buffer
            self.flat[buffer] = known
        return known

    def index(self, buffer: Buffer, indices: tuple[Any, ...]) -> tuple[Any, ...]:
        if not indices:
            offset = buffer.elem_offset
            return (const(0, "int32") if offset is None else self.ana.simplify(offset),)
        last = indices[-1]
        if len(indices) == 1 and not buffer.strides and buffer.elem_offset is None:
            return (self.ana.simplify(last),)
        if isinstance(last, Ramp) and all(i.dtype.lanes == 1 for i in indices[:-1]):
            # Whether row-major or strided, the last index steps by the last stride.
            base = buffer.flat_offset([*indices[:-1], last.base])
            step = buffer.strides[-1] * last.stride if buffer.strides else last.stride
            return (Ramp(self.ana.expand(base), self.ana.simplify(step), last.lanes),)
        offset = buffer.flat_offset(list(indices))
        return (self.ana.expand(offset) if offset.dtype.lanes == 1 else self.ana.simplify(offset),)

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        node = self.visit_default(node)
        flattened, indices = self.buffer(node.buffer), self.index(node.buffer, node.indices)
        if flattened is node.buffer and len(indices) == 1 and indices[0] is node.indices[0]:
            return node
        return BufferLoad._make(flattened, indices, node.predicate, span=node.span)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        node = self.visit_default(node)
        flattened, indices = self.buffer(node.buffer), self.index(node.buffer, node.indices)
        if flattened is node.buffer and len(indices) == 1 and indices[0] is node.indices[0]:
            return node
        return BufferStore._make(flattened, node.value, indices, node.predicate, span=node.span)

    def visit_DeclBuffer(self, node: DeclBuffer) -> Any:
        flattened, body = self.buffer(node.buffer), self.visit(node.body)
        if flattened is node.buffer and body is node.body:
            return node
        return DeclBuffer._make(flattened, body, span=node.span)

    def visit_Allocate(self, node: Allocate) -> Any:
        body = self.visit(node.body)
        size = node.extents[0] if node.extents else const(1, "int32")
        for extent in node.extents[1:]:
            size = size * extent
        size = self.ana.simplify(size)
        aligned = self.aligned.get(node.buffer_var)
        if aligned is not None and aligned.data_alignment > node.alignment:
            check_alignment(aligned, node.span)
            note = {Allocate.ALIGNED: aligned.data_alignment}
            node = node.replace(annotations={**node.annotations, **note})
        if body is node.body and len(node.extents) == 1 and size is node.extents[0]:
            return node
        return node.replace(extents=(size,), body=body)


class FlattenBuffer(RewriterPass):
    """See the file's docstring."""

    name = "tir.FlattenBuffer"
    rewriter = _Flatten


__all__ = ["FlattenBuffer"]
