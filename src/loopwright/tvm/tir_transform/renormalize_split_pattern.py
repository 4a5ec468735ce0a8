"""`RenormalizeSplitPattern`: writes the digits of a split index as `x // a % b`.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((64,), "float32"), B: T.Buffer((8,), "float32")):
          for i in range(64):
    -         B[i % 32 // 4] = A[i]
    +         B[i // 4 % 8] = A[i]
"""

from __future__ import annotations

from typing import Any

from ...ir.prim_expr import FloorDiv, FloorMod, IntImm
from ...ir.prim_op import const, floordiv, floormod
from ...tir.transform.base import RewriterPass, Simplifying


class _Renormalize(Simplifying):
    def visit_FloorDiv(self, node: FloorDiv) -> Any:
        new = self.visit_default(node)
        inner, step = new.a, new.b
        if not (isinstance(inner, FloorMod) and isinstance(step, IntImm) and step.value > 0):
            return new
        modulus = inner.b
        if not isinstance(modulus, IntImm) or modulus.value <= 0 or modulus.value % step.value:
            return new
        digits = const(modulus.value // step.value, new.dtype)
        return floormod(floordiv(inner.a, step), digits)


class RenormalizeSplitPattern(RewriterPass):
    """Writes the digits of a split index as `x // a % b`."""

    rewriter = _Renormalize
