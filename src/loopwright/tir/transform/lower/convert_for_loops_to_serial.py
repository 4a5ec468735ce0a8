"""`ConvertForLoopsToSerial`: every loop runs one iteration after the other.

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

from dataclasses import dataclass
from typing import Any

from ...function import PrimFunc
from ...stmt import For, ForKind, Stmt
from .._base import PrimFuncPass, StmtRewriter


class _Serial(StmtRewriter):
    def visit_PrimExpr(self, node: Any) -> Any:
        return node

    def visit_For(self, node: For) -> Stmt:
        kind = ForKind.SERIAL if node.kind != ForKind.THREAD_BINDING else node.kind
        return node.replace(kind=kind, body=self.visit(node.body))


@dataclass(frozen=True)
class ConvertForLoopsToSerial(PrimFuncPass):
    """See the file's docstring."""

    name = "tir.ConvertForLoopsToSerial"

    def run_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        return func.replace(body=_Serial().visit(func.body))


__all__ = ["ConvertForLoopsToSerial"]
