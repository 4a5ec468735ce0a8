"""`RemoveAssume`: removes assumptions.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "float32"), n: T.int32):
    -     T.evaluate(T.assume(n < 8))
          for i in range(8):
              A[i] = T.float32(0)
"""

from __future__ import annotations

from ...tir.op import is_call_to
from ...tir.stmt import Evaluate, Stmt
from ...tir.transform.base import NO_OP, RewriterPass
from ...tir.transform.optimize.remove_no_op import NoOpRemover


class _Remove(NoOpRemover):
    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        return NO_OP if is_call_to(node.value, "assume") else super().visit_Evaluate(node)


class RemoveAssume(RewriterPass):
    """Removes assumptions."""

    rewriter = _Remove
