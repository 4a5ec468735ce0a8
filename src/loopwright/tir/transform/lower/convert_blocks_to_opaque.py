"""`ConvertBlocksToOpaque`: replaces the axes of blocks by their bindings.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
          for i in range(8):
              with T.block("B"):
    -             vi = T.axis.spatial(8, i)
    -             T.reads(A[vi])
    -             T.writes(B[vi])
    -             B[vi] = A[vi] + T.float32(1)
    +             T.reads(A[i])
    +             T.writes(B[i])
    +             B[i] = A[i] + T.float32(1)
"""

from __future__ import annotations

from ....base.errors import LoopwrightError, explain
from ....ir.variables import uses_any
from ...stmt import Block, BlockRealize
from ..base import RewriterPass, Substitute


class _Convert(Substitute):
    def visit_BlockRealize(self, node: BlockRealize) -> BlockRealize:
        values = [self.visit(v) for v in node.iter_values]
        axes = {axis.var for axis in node.block.iter_vars}
        if uses_any(node.predicate, axes):
            what = f"the condition of block {node.block.name_hint!r} uses an axis of the block"
            hint = "state it with the loops around, as T.where(i < 6)"
            raise LoopwrightError(explain(what, got=node.predicate, instead=hint, span=node.span))
        predicate = self.visit(node.predicate)
        for axis, value in zip(node.block.iter_vars, values, strict=True):
            self.table[axis.var] = value
        block = self.visit(node.block)
        if not values and predicate is node.predicate and block is node.block:
            return node
        return BlockRealize._make((), predicate, block, span=node.span)

    def visit_Block(self, node: Block) -> Block:
        new = self.visit_default(node.replace(iter_vars=()))
        return node if new is node else new


class ConvertBlocksToOpaque(RewriterPass):
    """Replaces the axes of blocks by their bindings."""

    rewriter = _Convert
