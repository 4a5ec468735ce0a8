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

from ...base.errors import LoopwrightError, explain
from ...ir.transform import IRModule, ModulePass, PassContext
from ...tir.function import PrimFunc


class Filter(ModulePass):
    """Keeps the PrimFuncs for which `fcond` is true; other functions are kept."""

    name = "tir.Filter"
    fcond: Callable[[PrimFunc], bool] = lambda func: True

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Remove the functions that `fcond` rejects."""
        removed = []
        for gvar, func in mod.functions.items():
            if isinstance(func, PrimFunc):
                try:
                    keep = self.fcond(func)
                except (LookupError, AttributeError, TypeError) as error:
                    what = f"the condition of {self.name} fails for function {gvar.name_hint!r}"
                    got = f"{type(error).__name__}: {error}"
                    hint = "a condition for each PrimFunc: func.attrs.get(key), not func.attrs[key]"
                    raise LoopwrightError(explain(what, got=got, instead=hint)) from error
                removed += [] if keep else [gvar]
        return mod.with_functions(remove=removed)
