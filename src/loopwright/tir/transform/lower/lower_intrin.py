"""`LowerIntrin`: uses truncating division for indices that are not negative.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
          for i in range(64):
    -         B[i] = A[i // 7 * 7]
    +         B[i] = A[T.Div(i, 7) * 7]
"""

from __future__ import annotations

from typing import Any

from ....ir.prim_expr import BinaryOpExpr, Div, FloorDiv, FloorMod, Mod
from ..base import RewriterPass, Simplifying


class _Lower(Simplifying):
    def _truncates(self, node: BinaryOpExpr) -> bool:
        """Whether floor and truncation agree here."""
        if node.dtype.is_uint:
            return True
        if node.dtype.lanes > 1:
            return False
        # A divisor of 0 results in 0 in both.
        return self.ana.any_bound(node.a)[0] >= 0 and self.ana.any_bound(node.b)[0] >= 0

    def visit_FloorDiv(self, node: FloorDiv) -> Any:
        new = self.visit_default(node)
        return Div._make(new.a, new.b, span=node.span) if self._truncates(node) else new

    def visit_FloorMod(self, node: FloorMod) -> Any:
        new = self.visit_default(node)
        return Mod._make(new.a, new.b, span=node.span) if self._truncates(node) else new


class LowerIntrin(RewriterPass):
    """Uses truncating division for indices that are not negative."""

    rewriter = _Lower
