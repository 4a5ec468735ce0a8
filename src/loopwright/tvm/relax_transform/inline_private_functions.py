"""InlinePrivateFunctions: replaces calls of private functions by their bodies.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
          def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    -         cls = Module
              lv: R.Tensor((4,), dtype="float32") = R.exp(x)
    -         gv: R.Tensor((4,), dtype="float32") = cls.func(lv)
    +         gv: R.Tensor((4,), dtype="float32") = R.negative(lv)
              return gv
    -
    -     @R.function(private=True)
    -     def func(y: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    -         gv: R.Tensor((4,), dtype="float32") = R.negative(y)
    -         return gv

Functions that call themselves stay, those that are used as values, and those that a back end or
FuseTIR takes as a whole (with the attribute Codegen, Composite or Primitive).
"""

from __future__ import annotations

from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax.analysis.variables import detect_recursion
from ...relax.specialize import inline_functions
from ...relax.transform.queries import functions_of
from ._signatures import only_called

WHOLE = ("Codegen", "Composite", "Primitive")


class InlinePrivateFunctions(ModulePass):
    """Replaces calls of private functions by their bodies."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        stay = {gvar for group in detect_recursion(mod) for gvar in group}
        inlined = {
            gvar: func
            for gvar, (func, _) in only_called(mod).items()
            if gvar not in stay and not any(key in func.attrs for key in WHOLE)
        }
        if not inlined:
            return mod
        changed = {}
        for gvar, func in functions_of(mod):
            if gvar not in inlined:
                changed[gvar] = inline_functions(func, inlined)
        return mod.with_functions(changed, remove=inlined)
