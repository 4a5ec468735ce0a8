"""AttachExternModules: attaches the modules and C libraries that functions are compiled against.

Pass::

    AttachExternModules([])

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
          def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
              with R.dataflow():
                  gv = R.call_dps_packed("scale", (x,), out_sinfo=R.Tensor((4,), dtype="float32"))
                  R.output(gv)
              return gv

They are listed in the module's attribute "external_mods", each once; only that changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import explain
from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax.byoc.lower import attach_externals
from ...runtime.extern import ExternLibrary


class AttachExternModules(ModulePass):
    """Attaches the modules and C libraries that functions are compiled against.

    extern_modules: `runtime.Module`s, `ExternLibrary`s, or objects whose `load()` returns one.

    Raises TypeError for anything else.
    """

    def __init__(self, extern_modules: Sequence[Any]) -> None:
        super().__init__()
        self.extern_modules = [_module(m) for m in extern_modules]

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return attach_externals(mod, self.extern_modules)


def _module(loader: Any) -> Any:
    """An external module or library, loaded if necessary."""
    module = loader.load() if hasattr(loader, "load") else loader
    if not isinstance(module, ExternLibrary) and not hasattr(module, "function_names"):
        what = "an external module is a runtime.Module or an ExternLibrary"
        raise TypeError(explain(what, got=repr(module)))
    return module
