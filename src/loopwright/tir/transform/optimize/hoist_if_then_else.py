"""`HoistIfThenElse`: moves loop-invariant conditions out of loops.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4, 8), "float32"), n: T.int32):
    -     for i, j in T.grid(4, 8):
    +     for i in range(4):
              if i < n:
    -             A[i, j] = T.float32(1)
    +             for j in range(8):
    +                 A[i, j] = T.float32(1)

A condition that reads memory or calls a function is not moved: the loop might change its value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....ir.functor import any_node
from ....ir.prim_expr import Call
from ....ir.variables import uses_any
from ...expr import BufferLoad
from ...op import is_call_to
from ...stmt import For, IfThenElse, Stmt
from ...stmt_functor import renew_defs
from .._base import RewriterPass, StmtRewriter


class _Hoist(StmtRewriter):
    def visit_PrimExpr(self, node: Any) -> Any:
        return node

    def visit_For(self, node: For) -> Stmt:
        body = self.visit(node.body)
        if not isinstance(body, IfThenElse) or not _constant(body.condition, node):
            return node.replace(body=body)
        then = node.replace(body=body.then_case)
        other = body.else_case
        if other is not None:
            other = renew_defs(node.replace(body=other))
        return body.replace(then_case=then, else_case=other)


def _constant(condition: Any, loop: For) -> bool:
    if uses_any(condition, {loop.loop_var}):
        return False
    return not any_node(condition, _may_change)


def _may_change(node: Any) -> bool:
    return isinstance(node, (BufferLoad, Call)) and not is_call_to(node, "likely")


@dataclass(frozen=True)
class HoistIfThenElse(RewriterPass):
    """`variant` is TVM's; both do the same here."""

    name = "tir.HoistIfThenElse"
    variant: str | None = None
    rewriter = _Hoist


__all__ = ["HoistIfThenElse"]
