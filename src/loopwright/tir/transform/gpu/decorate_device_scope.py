"""`DecorateDeviceScope`: annotates the whole body as device code.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "float32")):
    -     for i in range(8):
    -         A[i] = T.float32(0)
    +     with T.attr(0, "device_scope", 0):
    +         for i in range(8):
    +             A[i] = T.float32(0)
"""

from __future__ import annotations

from typing import Any

from ....ir.prim_expr import IntImm
from ...function import PrimFunc
from ...stmt import AttrStmt
from ..base import PrimFuncPass


class DecorateDeviceScope(PrimFuncPass):
    """Annotates the whole body as device code."""

    def run_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        zero = IntImm("int32", 0)
        return func.replace(body=AttrStmt(zero, "device_scope", zero, func.body))
