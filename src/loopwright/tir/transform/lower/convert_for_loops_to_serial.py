"""`ConvertForLoopsToSerial`: makes every loop serial.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4, 8), "float32")):
    -     for i in T.parallel(4):
    -         for j in T.vectorized(8):
    +     for i in range(4):
    +         for j in range(8):
                  A[i, j] = T.float32(1)
"""

from __future__ import annotations

from typing import Any

from ...stmt import For, ForKind, Stmt
from .._base import RewriterPass, StmtRewriter


class _Serial(StmtRewriter):
    def visit_PrimExpr(self, node: Any) -> Any:
        return node

    def visit_For(self, node: For) -> Stmt:
        kind = ForKind.SERIAL if node.kind != ForKind.THREAD_BINDING else node.kind
        return node.replace(kind=kind, body=self.visit(node.body))


class ConvertForLoopsToSerial(RewriterPass):
    """See the file's docstring."""

    name = "tir.ConvertForLoopsToSerial"
    rewriter = _Serial


__all__ = ["ConvertForLoopsToSerial"]
