"""`RemoveStoreUndef`: removes stores of `T.undef()`.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "int32")):
    -     for i in range(8):
    -         A[i] = T.undef(dtype="int32")
          A[0] = 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....base.errors import explain
from ....ir.prim_expr import Call
from ...function import PrimFunc
from ...op import is_call_to
from ...stmt import BufferStore, Stmt
from .._base import NO_OP, PrimFuncPass, StmtRewriter
from ..optimize.remove_no_op import RemoveNoOp


class _Remove(StmtRewriter):
    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        if is_call_to(node.value, "undef"):
            self.visit(node.indices)
            return NO_OP
        return self.visit_default(node)

    def visit_Call(self, node: Call) -> Any:
        if is_call_to(node, "undef"):
            what = "T.undef() cannot be an operand"
            hint = "store it in a buffer by itself"
            raise ValueError(explain(what, instead=hint, span=node.span))
        return self.visit_default(node)


@dataclass(frozen=True)
class RemoveStoreUndef(PrimFuncPass):
    """See the file's docstring."""

    name = "tir.RemoveStoreUndef"

    def run_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        removed = func.replace(body=_Remove().visit(func.body))
        return RemoveNoOp().run_function(removed, mod, ctx)


__all__ = ["RemoveStoreUndef"]
