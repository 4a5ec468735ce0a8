"""`Apply`: applies a function to each PrimFunc.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4,), "float32")):
    +     T.func_attr({"seen": True})
          A[0] = T.float32(1)

Pass::

    Apply(lambda func: func.with_attr("seen", True))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.module import IRModule
from ...ir.pass_context import PassContext
from ...tir.function import PrimFunc
from ...tir.transform.base import PrimFuncPass


class Apply(PrimFuncPass):
    """Runs `ftransform` on each PrimFunc."""

    ftransform: Callable[[PrimFunc], PrimFunc] = lambda func: func

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        return self.ftransform(func)

    def user_code(self) -> Any:
        return self.ftransform
