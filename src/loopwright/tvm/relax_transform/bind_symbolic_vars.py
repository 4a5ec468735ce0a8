"""BindSymbolicVars: binds symbolic dimensions to values.

Pass::

    BindSymbolicVars({"n": 4})

Before (-) and after (+)::

      @R.function
    - def main(x: R.Tensor(("n", 2), dtype="float32")) -> R.Tensor(("n", 2), dtype="float32"):
    -     n = T.int64()
    -     gv: R.Tensor((n, 2), dtype="float32") = R.exp(x)
    + def main(x: R.Tensor((4, 2), dtype="float32")) -> R.Tensor((4, 2), dtype="float32"):
    +     gv: R.Tensor((4, 2), dtype="float32") = R.exp(x)
          return gv
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base.errors import CallValueError, explain
from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax.analysis import defined_symbolic_vars
from ...relax.expr import Function
from ...relax.specialize import bind_symbolic_vars


class BindSymbolicVars(ModulePass, repr=False):
    """Replace symbolic variables, by name or tir.Var, in `func_name` (None: in all functions that
    have them). Raises ValueError if no function has one of them."""

    binding_map: Mapping[Any, Any]
    func_name: str | None = None

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        if self.func_name is not None:
            gvar = mod.get_global_var(self.func_name)
            return mod.with_functions({gvar: bind_symbolic_vars(mod[gvar], self.binding_map)})
        changed, bound = {}, set()
        for gvar, func in mod.functions.items():
            if not isinstance(func, Function):
                continue
            symbols = defined_symbolic_vars(func)
            chosen = {
                k: v
                for k, v in self.binding_map.items()
                if any(k is s or k == s.name for s in symbols)
            }
            bound.update(chosen)
            if chosen:
                changed[gvar] = bind_symbolic_vars(func, chosen)
        missing = [str(k) for k in self.binding_map if k not in bound]
        if missing:
            what = "no function has these symbolic variables"
            raise CallValueError(explain(what, got=", ".join(missing)))
        return mod.with_functions(changed)
