"""`LowerMatchBuffer`: replaces aliases of buffer regions by the original buffer.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8, 8), "float32")):
          for i in range(8):
              with T.block(""):
                  T.reads()
                  T.writes(A[i, 4:8])
    -             row = T.match_buffer(A[i, 4:8], (4,), offset_factor=1)
                  for j in range(4):
    -                 row[j] = T.float32(0)
    +                 A[i, j + 4] = T.float32(0)
"""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ....ir.prim_expr import IntImm, PrimExpr, Var
from ....ir.prim_op import add, const, multiply
from ...buffer import Buffer, BufferRegion
from ...expr import BufferLoad
from ...stmt import Block, BufferStore, MatchBufferRegion
from .._base import RewriterPass, Substitute


class _Lower(Substitute):
    def __init__(self) -> None:
        super().__init__({})
        self.matched: dict[Buffer, BufferRegion] = {}

    def visit_Block(self, node: Block) -> Any:
        for match in node.match_buffers:
            self.match(match)
        new = self.visit_default(node.replace(match_buffers=()))
        return node if new is node else new

    def match(self, match: MatchBufferRegion) -> None:
        source = self.visit(match.source)
        source = self.resolved(source)
        target = match.buffer
        self.matched[target] = source
        owner, starts = source.buffer, [r.min for r in source.region]
        self.table[target.data] = owner.data
        extents = [r.extent for r in source.region][-len(target.shape) :] if target.shape else []
        for dim, extent in zip(target.shape, extents, strict=True):
            self.define(dim, extent)
        steps = owner.strides or _row_major(owner)
        tail = steps[len(steps) - len(target.strides) :]
        for stride, value in zip(target.strides, tail, strict=True):
            self.define(stride, value)
        if isinstance(target.elem_offset, Var):
            self.define(target.elem_offset, owner.flat_offset(list(starts)))

    def define(self, name: PrimExpr, value: PrimExpr) -> None:
        if isinstance(name, Var) and name not in self.table:
            self.table[name] = value

    def resolved(self, region: BufferRegion) -> BufferRegion:
        """A region of a matched buffer as a region of the original buffer."""
        behind = self.matched.get(region.buffer)
        if behind is None:
            return region
        lead = len(behind.region) - len(region.region)
        moved = list(behind.region[:lead])
        for outer, inner in zip(behind.region[lead:], region.region, strict=True):
            moved.append(inner.replace(min=add(outer.min, inner.min)))
        return BufferRegion(behind.buffer, tuple(moved))

    def moved(self, buffer: Buffer, indices: tuple[Any, ...]) -> tuple[Buffer, tuple[Any, ...]]:
        source = self.matched[buffer]
        lead = len(source.region) - len(indices)
        if lead < 0:
            what = f"buffer {buffer.name} has more dimensions than the region it matches"
            raise ValueError(explain(what, got=f"{len(indices)} and {len(source.region)}"))
        begins = [r.min for r in source.region]
        shifted = [add(i, b) for i, b in zip(indices, begins[lead:], strict=True)]
        return source.buffer, (*begins[:lead], *shifted)

    def visit_BufferLoad(self, node: BufferLoad | BufferStore) -> Any:
        node = self.visit_default(node)
        if node.buffer not in self.matched:
            return node
        buffer, indices = self.moved(node.buffer, node.indices)
        return node.replace(buffer=buffer, indices=indices)

    visit_BufferStore = visit_BufferLoad

    def visit_BufferRegion(self, node: BufferRegion) -> Any:
        return self.resolved(self.visit_default(node))


def _row_major(buffer: Buffer) -> list[PrimExpr]:
    steps: list[PrimExpr] = []
    step: PrimExpr = const(1, buffer.shape[0].dtype) if buffer.shape else IntImm("int32", 1)
    for extent in reversed(buffer.shape):
        steps.insert(0, step)
        step = multiply(step, extent)
    return steps


class LowerMatchBuffer(RewriterPass):
    """See the file's docstring."""

    name = "tir.LowerMatchBuffer"
    rewriter = _Lower


__all__ = ["LowerMatchBuffer"]
