"""BindParams: binds parameters of a function to constants.

Pass::

    BindParams("main", {"w": __import__("numpy").zeros((), "float32")})

Before (-) and after (+)::

      @R.function
    - def main(x: R.Tensor((2,), dtype="float32"), w: R.Tensor((), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
    -     gv = R.add(x, w)
    + def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
    +     gv = R.add(x, R.const(0.0, "float32"))
          return gv
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....ir.transform import IRModule, ModulePass, PassContext
from ...specialize import bind_params


class BindParams(ModulePass, repr=False):
    """Replace parameters of `func_name` by constants: {name or Var: array or Tensor}.

    Raises ValueError for an unknown parameter, or an array that does not fit it.
    """

    func_name: str
    params: Mapping[Any, Any]

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        gvar = mod.get_global_var(self.func_name)
        return mod.with_functions({gvar: bind_params(mod[gvar], self.params)})
