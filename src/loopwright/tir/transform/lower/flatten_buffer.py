"""`FlattenBuffer`: flattens accesses of multi-dimensional buffers to the dimensions of their memory.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    +     A_1 = T.Buffer((32,), data=A.data)
    +     B_1 = T.Buffer((32,), data=B.data)
          for i, j in T.grid(4, 8):
    -         B[i, j] = A[i, j] + T.float32(1)
    +         B_1[i * 8 + j] = A_1[i * 8 + j] + T.float32(1)

Memory has one dimension, and one more for each axis separator of a buffer. Booleans are stored as
bytes, and declarations of buffers dropped: what remains are views of memory. The pipelines of this
package set `native`: for its code generators memory has one dimension, and they know booleans and
declarations. An allocation is annotated with the largest alignment that its buffers have, where that
is more than memory has anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....ir.dtype import DataType
from ....ir.prim_expr import PrimExpr, Ramp, Range
from ....ir.prim_op import add, cast, const, multiply, subtract
from ...buffer import ALIGNMENT, Buffer, BufferRegion
from ...expr import BufferLoad
from ...stmt import Allocate, Block, BufferStore, DeclBuffer
from ..base import RewriterPass, Simplifying
from .lower_opaque_block import check_alignment

if TYPE_CHECKING:
    from ....ir.node import Node

_BYTE = DataType("int8")


class _Flatten(Simplifying):
    def __init__(self, native: bool = False) -> None:
        super().__init__()
        self.native = native
        self.flat: dict[Buffer, Buffer] = {}
        self.aligned: dict[Any, Buffer] = {}  # pointer -> its buffer of the largest alignment

    def buffer(self, buffer: Buffer) -> Buffer:
        flat = self.flat.get(buffer)
        if flat is None:
            most = self.aligned.get(buffer.data)
            least = ALIGNMENT if most is None else most.data_alignment
            if buffer.data_alignment > least:
                self.aligned[buffer.data] = buffer
            flat = self.flat[buffer] = self.flattened(buffer)
        return flat

    def flattened(self, buffer: Buffer) -> Buffer:
        original = buffer
        if self.native and original.axis_separators:
            original = original.replace(axis_separators=())
        flat = original.get_flattened_buffer()
        if flat is not original:
            flat = flat.replace(shape=tuple(self.ana.simplify(e) for e in flat.shape))
        if flat.elem_offset is not None:
            flat = flat.replace(elem_offset=None)
        return flat.replace(dtype=_BYTE) if self.is_byte(flat) else flat

    def is_byte(self, node: Node) -> bool:
        """Whether the booleans of memory are stored as bytes."""
        return node.dtype.is_bool and not self.native

    def index(self, buffer: Buffer, indices: tuple[Any, ...]) -> tuple[Any, ...]:
        if buffer.axis_separators and not self.native:
            return tuple(map(self.ana.expand, buffer.offsets(indices)))
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
        if flattened is node.buffer and _same(indices, node.indices):
            return node
        load = BufferLoad._make(flattened, indices, node.predicate, span=node.span)
        return cast(node.dtype, load) if self.is_byte(node) else load

    def visit_BufferStore(self, node: BufferStore) -> Any:
        node = self.visit_default(node)
        flattened, indices = self.buffer(node.buffer), self.index(node.buffer, node.indices)
        if flattened is node.buffer and _same(indices, node.indices):
            return node
        value = node.value
        if self.is_byte(value):
            value = cast(_BYTE.like(value.dtype), value)
        return BufferStore._make(flattened, value, indices, node.predicate, span=node.span)

    def visit_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        node = self.visit_default(node)
        flattened = self.buffer(node.buffer)
        if flattened is node.buffer:
            return node
        first = self.index(node.buffer, tuple(r.min for r in node.region))
        ends = tuple(add(r.min, subtract(r.extent, 1)) for r in node.region)
        last = self.index(node.buffer, ends)
        sizes = [self.ana.simplify(subtract(e, b) + 1) for b, e in zip(first, last, strict=True)]
        return BufferRegion(flattened, tuple(map(Range.from_min_extent, first, sizes)))

    def visit_Block(self, node: Block) -> Block:
        new_block = self.visit_default(node)
        buffers = tuple(map(self.buffer, node.alloc_buffers))
        return (
            new_block
            if _same(buffers, node.alloc_buffers)
            else new_block.replace(alloc_buffers=buffers)
        )

    def visit_DeclBuffer(self, node: DeclBuffer) -> Any:
        flattened, body = self.buffer(node.buffer), self.visit(node.body)
        if not self.native:
            return body
        if flattened is node.buffer and body is node.body:
            return node
        return DeclBuffer._make(flattened, body, span=node.span)

    def visit_Allocate(self, node: Allocate) -> Any:
        body = self.visit(node.body)
        declared = node.body.buffer if isinstance(node.body, DeclBuffer) else None
        if declared is not None and declared.data is node.buffer_var and not self.native:
            extents = self.buffer(declared).shape
        else:
            extents = (self.ana.simplify(_product(node.extents)),)
        aligned = self.aligned.get(node.buffer_var)
        if aligned is not None and aligned.data_alignment > node.alignment:
            check_alignment(aligned, node.span)
            note = {Allocate.ALIGNED: aligned.data_alignment}
            node = node.replace(annotations={**node.annotations, **note})
        if self.is_byte(node):
            node = node.replace(dtype=_BYTE)
        if body is node.body and _same(extents, node.extents):
            return node
        return node.replace(extents=extents, body=body)


def _same(new: tuple[Any, ...], old: tuple[Any, ...]) -> bool:
    return len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))


def _product(extents: tuple[PrimExpr, ...]) -> PrimExpr:
    size = extents[0] if extents else const(1, "int32")
    for extent in extents[1:]:
        size = multiply(size, extent)
    return size


class FlattenBuffer(RewriterPass):
    """Flattens accesses of multi-dimensional buffers to the dimensions of their memory."""

    native: bool = False

    def rewriter(self) -> _Flatten:
        return _Flatten(self.native)
