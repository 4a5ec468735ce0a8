"""AttachGlobalSymbol: every function is given the name under which it is found at run time.

Before::

    @R.function(private=True)
    def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        gv = R.exp(x)
        return gv

After::

    @R.function
    def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        gv = R.exp(x)
        return gv
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.module import IRModule
from ...ir.transform import ModulePass, PassContext
from ...tir.function import PrimFunc
from ..expr import Function


@dataclass(frozen=True, repr=False)
class AttachGlobalSymbol(ModulePass):
    """Set `global_symbol` of the functions that have none. PrimFuncs get the module's
    `system_lib_prefix` in front."""

    name = "AttachGlobalSymbol"

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        prefix = str(mod.get_attr("system_lib_prefix", ""))
        changed = {}
        for gvar, func in mod.functions.items():
            if isinstance(func, (PrimFunc, Function)) and "global_symbol" not in func.attrs:
                name = gvar.name_hint
                name = prefix + name if isinstance(func, PrimFunc) else name
                changed[gvar] = func.with_attr("global_symbol", name)
        return mod.with_functions(changed)


__all__ = ["AttachGlobalSymbol"]
