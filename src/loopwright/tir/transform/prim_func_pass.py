"""`prim_func_pass`: a decorator that turns a function on PrimFuncs into a pass.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4,), "float32")):
    +     T.func_attr({"seen": True})
          for i in range(4):
              A[i] = T.float32(0)

Pass::

    prim_func_pass(lambda func, mod, ctx: func.with_attr("seen", True), opt_level=0, name="mark")

A function that returns None, or anything but a PrimFunc, is reported with the pass's name and the
line of its `def`.
"""

from __future__ import annotations

from ...ir.transform import make_pass_decorator
from .base import PrimFuncPass

prim_func_pass = make_pass_decorator(PrimFuncPass)

__all__ = ["PrimFuncPass", "prim_func_pass"]
