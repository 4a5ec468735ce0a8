"""NormalizeGlobalVar: public functions are called by the names that they have outside.

Before (-) and after (+)::

    - @I.ir_module(check_well_formed=False)
    + @I.ir_module
      class Module:
          @R.function
    -     def entry(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    -         R.func_attr({"global_symbol": "main"})
    +     def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
              cls = Module
              gv: R.Tensor((4,), dtype="float32") = cls.func(x)
              return gv

          @R.function(private=True)
          def func(y: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
              gv: R.Tensor((4,), dtype="float32") = R.negative(y)
              return gv

A private function that has such a name gets another one.
"""

from __future__ import annotations

from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax.block_builder import BlockBuilder


class NormalizeGlobalVar(ModulePass):
    """Public functions are called by the names that they have outside."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return BlockBuilder(mod).finalize()
