"""`Filter`: keeps the PrimFuncs for which a condition holds.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func
          def keep(A: T.Buffer((4,), "float32")):
              A[0] = T.float32(1)
    -
    -     @T.prim_func
    -     def drop(A: T.Buffer((8,), "float32")):
    -         A[0] = T.float32(1)

Pass::

    Filter(lambda func: func.attrs["global_symbol"] == "keep")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.module import IRModule
from ....ir.transform import ModulePass, PassContext
from ...function import PrimFunc


@dataclass(frozen=True)
class Filter(ModulePass):
    """Keeps the PrimFuncs for which `fcond` is true; other functions are kept."""

    name = "tir.Filter"
    fcond: Callable[[PrimFunc], bool] = lambda func: True

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Remove the functions that `fcond` rejects."""
        gone = [
            gvar
            for gvar, func in mod.functions.items()
            if isinstance(func, PrimFunc) and not self.fcond(func)
        ]
        return mod.with_functions(remove=gone)


__all__ = ["Filter"]
