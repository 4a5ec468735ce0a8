"""Normalize: binds nested calls to variables and infers every struct info.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
    -     gv = R.exp(R.add(x, x))
    -     return gv
    +     gv = R.add(x, x)
    +     gv1 = R.exp(gv)
    +     return gv1
"""

from __future__ import annotations

from typing import Any

from ...ir.transform import FunctionPass, IRModule, PassContext
from ...relax.block_builder import BlockBuilder
from ...relax.expr import Function


class Normalize(FunctionPass):
    """Bring graph functions into normal form."""

    function_type = Function

    def run_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Any:
        return BlockBuilder(mod).normalize(func)
