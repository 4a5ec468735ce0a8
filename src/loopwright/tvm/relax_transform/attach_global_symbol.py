"""AttachGlobalSymbol: every function gets the name by which it is looked up at run time.

Before (-) and after (+)::

    - @R.function(private=True)
    + @R.function
      def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
          gv = R.exp(x)
          return gv
"""

from __future__ import annotations

from typing import Any

from ...ir.expr import BaseExpr, GlobalVar
from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax.expr import Function
from ...relax.functor import GraphRewriter
from ...tir.function import PrimFunc


class AttachGlobalSymbol(ModulePass):
    """Set `global_symbol` of the functions that have none. PrimFuncs get the module's
    `system_lib_prefix` as a prefix."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        prefix = str(mod.get_attr("system_lib_prefix", ""))
        changed, renamed = {}, {}
        for gvar, func in mod.functions.items():
            if isinstance(func, (PrimFunc, Function)) and "global_symbol" not in func.attrs:
                name = gvar.name_hint
                if prefix and isinstance(func, PrimFunc):
                    renamed[gvar] = name = prefix + name
                changed[gvar] = func.with_attr("global_symbol", name)
        named = mod.with_functions(changed)
        return _renamed(named, renamed) if renamed else named


def _renamed(mod: IRModule, names: dict[GlobalVar, str]) -> IRModule:
    """The module with its PrimFuncs renamed to their symbols."""
    table = {}
    for old, name in names.items():
        table[old] = GlobalVar(name)
        table[old].struct_info = old.struct_info
    work = _Rename(mod)
    work.table = table
    functions = {}
    for gvar, func in mod.functions.items():
        renamed = work.function(func) if isinstance(func, Function) else func
        functions[table.get(gvar, gvar)] = renamed
    return IRModule(functions, mod.attrs, mod.global_infos, mod.span)


class _Rename(GraphRewriter):
    table: dict[GlobalVar, GlobalVar]

    def value(self, expr: BaseExpr) -> Any:
        return self.table.get(expr, expr) if isinstance(expr, GlobalVar) else super().value(expr)
