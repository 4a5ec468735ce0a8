"""`AnnotateEntryFunc`: marks the only public function as the program's entry.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func
          def main(A: T.Buffer((4,), "float32")):
    +         T.func_attr({"tir.is_entry_func": True})
              A[0] = T.float32(1)

          @T.prim_func(private=True)
          def helper(A: T.Buffer((4,), "float32")):
              A[0] = T.float32(2)

A module with several such functions, none of them named main, is not changed.
"""

from __future__ import annotations

from ...ir.transform import IRModule, ModulePass, PassContext
from ...tir.function import PrimFunc


class AnnotateEntryFunc(ModulePass):
    """Marks the only public function as the program's entry."""

    name = "tir.AnnotateEntryFunc"

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Mark the only PrimFunc, the only public one, or the public one named main."""
        funcs = {v: f for v, f in mod.functions.items() if isinstance(f, PrimFunc)}
        public = {v: f for v, f in funcs.items() if not f.is_private}
        named = {v: f for v, f in public.items() if v.name_hint == "main"}
        for group in (funcs, public, named):
            if len(group) == 1:
                ((var, func),) = group.items()
                return mod.with_functions({var: func.with_attr("tir.is_entry_func", True)})
        return mod
