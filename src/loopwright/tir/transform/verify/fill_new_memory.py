"""`FillNewMemory`: new memory holds NaN, or the least integer, so that reads before writes are seen.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4,), "float32")):
          t = T.allocate([4], "float32", "global")
    +     all = T.Buffer((4,), data=t)
    +     for i in range(4):
    +         all[i] = T.float32("nan")
          t_1 = T.Buffer((4,), data=t)
          A[0] = t_1[0]

The interpreter fills memory so, too. Runs where buffers are allocated where they are used, and flat.
"""

from __future__ import annotations

from ....ir.prim_expr import Broadcast, Var
from ....ir.prim_op import const, min_value
from ...buffer import decl_buffer
from ...stmt import Allocate, BufferStore, SeqStmt, Stmt, serial_nest
from ..base import RewriterPass, StmtRewriter


class _Fill(StmtRewriter):
    def visit_Allocate(self, node: Allocate) -> Stmt:
        dtype = node.dtype
        inner = self.visit(node.body)
        if dtype.is_handle:
            return node.replace(body=inner)
        memory = decl_buffer(node.extents, dtype, node.buffer_var.name, data=node.buffer_var)
        loops = [Var("i", e.dtype) for e in node.extents]
        empty = const(float("nan"), dtype.element) if dtype.is_float else min_value(dtype.element)
        value = Broadcast(empty, dtype.lanes) if dtype.lanes > 1 else empty
        fill = serial_nest(loops, node.extents, BufferStore(memory, value, loops))
        return node.replace(body=SeqStmt([fill, inner]))


class FillNewMemory(RewriterPass):
    """New memory holds NaN, or the least integer, so that reads before writes are seen."""

    rewriter = _Fill
