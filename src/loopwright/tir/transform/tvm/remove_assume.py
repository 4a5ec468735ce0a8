"""`RemoveAssume`: what a program only says of itself goes.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "float32"), n: T.int32):
    -     T.evaluate(T.assume(n < 8))
          for i in range(8):
              A[i] = T.float32(0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...function import PrimFunc
from ...op import is_call_to
from ...stmt import Evaluate, Stmt
from .._base import NO_OP, PrimFuncPass, StmtRewriter
from ..optimize.remove_no_op import RemoveNoOp


class _Remove(StmtRewriter):
    def visit_PrimExpr(self, node: Any) -> Any:
        return node

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        return NO_OP if is_call_to(node.value, "assume") else node


@dataclass(frozen=True)
class RemoveAssume(PrimFuncPass):
    """See the file's docstring."""

    name = "tir.RemoveAssume"

    def run_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        removed = func.replace(body=_Remove().visit(func.body))
        return RemoveNoOp().run_function(removed, mod, ctx)


__all__ = ["RemoveAssume"]
