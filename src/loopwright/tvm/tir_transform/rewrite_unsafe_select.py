"""`RewriteUnsafeSelect`: makes selects that read memory evaluate only the chosen operand.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "float32"), B: T.Buffer((9,), "float32")):
          for i in range(9):
    -         B[i] = T.Select(0 < i, A[i - 1], T.float32(0))
    +         B[i] = T.if_then_else(0 < i, A[i - 1], T.float32(0))
"""

from __future__ import annotations

from typing import Any

from ...ir.functor import any_node
from ...ir.literals import int_value
from ...ir.op import Op
from ...ir.prim_expr import Call, Div, FloorDiv, FloorMod, Mod, PrimExpr, Select
from ...tir.expr import BufferLoad
from ...tir.op import effect_of
from ...tir.transform.base import RewriterPass, StmtRewriter

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


def unsafe(expr: PrimExpr) -> bool:
    """Whether evaluating an expression could fail or has a side effect."""

    def test(node: Op | PrimExpr) -> bool:
        if isinstance(node, Call):
            return effect_of(node) not in ("pure", "annotation")
        if isinstance(node, _DIVISIONS) and node.dtype.is_integer:
            return not int_value(node.b)
        return isinstance(node, BufferLoad)

    return any_node(expr, test)


class _Rewrite(StmtRewriter):
    def visit_Select(self, node: Select) -> Any:
        new = self.visit_default(node)
        if new.condition.dtype.lanes > 1:
            return new
        if not (unsafe(new.true_value) or unsafe(new.false_value)):
            return new
        args = [new.condition, new.true_value, new.false_value]
        return Call(new.dtype, "tir.if_then_else", args, node.span)


class RewriteUnsafeSelect(RewriterPass):
    """Makes selects that read memory evaluate only the chosen operand."""

    rewriter = _Rewrite
