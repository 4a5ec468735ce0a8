"""`SkipAssert`: removes assertions.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4,), "float32"), n: T.int32):
    -     assert n < 4, "n is too large"
          A[n] = T.float32(1)
"""

from __future__ import annotations

from ....ir.transform import IRModule, Pass, PassContext
from ...stmt import AssertStmt, Stmt
from ...stmt_functor import ExprKeeper
from ..base import RewriterPass, StmtRewriter


class _Skip(ExprKeeper, StmtRewriter):
    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        return self.visit(node.body)


class SkipAssert(RewriterPass):
    """Removes assertions."""

    rewriter = _Skip


class AssertsIfWanted(Pass):
    """`SkipAssert` if the option `tir.disable_assert` is set."""

    name = "tir.AssertsIfWanted"

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return SkipAssert()(mod) if ctx.option("tir.disable_assert") else mod
