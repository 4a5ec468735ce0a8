"""RunCodegen: replaces the regions of external back ends by calls of generated code.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
          def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
              with R.dataflow():
                  gv: R.Tensor((4,), dtype="float32") = R.exp(x)
                  R.output(gv)
              return gv

A region is a function with the attribute `Codegen: NAME`; its call becomes

    R.call_dps_packed("SYMBOL", args, out_sinfo)    graph level, a packed function
    R.call_tir(cls.call_SYMBOL, args, out_sinfo)    graph level, a C function
    R.call_tir(cls.KERNEL, ...), ...                loop level: the region's own kernels

and the generated modules are listed in the module's attribute "external_mods". See `relax.byoc`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....ir.transform import IRModule, ModulePass, PassContext
from ...byoc import lower
from ...byoc.registry import Backend


class RunCodegen(ModulePass):
    """Compiles the regions of external back ends and replaces their calls.

    target_options: back end's name -> options for its code generator.
    entry_functions: the functions whose regions are lowered; by default all.
    backends: `Backend`s that take precedence over registered ones of the same name.
    """

    def __init__(
        self,
        target_options: Mapping[str, Any] | None = None,
        entry_functions: Sequence[str] | None = None,
        backends: Sequence[Any] = (),
    ) -> None:
        super().__init__()
        self.target_options = dict(target_options or {})
        self.entry_functions = entry_functions
        self.backends = {b.name: b for b in backends if isinstance(b, Backend)}

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return lower.run_codegen(mod, self.target_options, self.entry_functions, self.backends)
