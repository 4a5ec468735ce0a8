"""LazyGetInput: a function fetches each weight when it needs it.

Before (-) and after (+)::

      @R.function
    - def main(x: R.Tensor((4,), dtype="float32"), w: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    -     R.func_attr({"num_input": 1})
    + def main(x: R.Tensor((4,), dtype="float32"), fget_param: R.Callable((R.Prim("int64"), R.Object), R.Object)) -> R.Tensor((4,), dtype="float32"):
    +     R.func_attr({"num_input": 2})
          a: R.Tensor((4,), dtype="float32") = R.exp(x)
    -     gv: R.Tensor((4,), dtype="float32") = R.add(a, w)
    +     w: R.Object = fget_param(R.prim_value(0), R.str("w"))
    +     w1: R.Tensor((4,), dtype="float32") = R.match_cast(w, R.Tensor((4,), dtype="float32"))
    +     gv: R.Tensor((4,), dtype="float32") = R.add(a, w1)
          return gv

The weights are the parameters after the first `num_input` (a function attribute; without it, all).
The new parameter takes a weight's number and name. Functions that are called from outside are
changed, and they have no dataflow blocks then.
"""

from __future__ import annotations

from typing import Any

from ...ir.transform import FunctionPass, IRModule, PassContext
from ...relax import expr as rx
from ...relax.struct_info import FuncStructInfo, ObjectStructInfo, PrimStructInfo
from ...relax.transform.queries import is_private
from ._lazy import Flat, load_weights


class LazyGetInput(FunctionPass):
    """A function fetches each weight when it needs it."""

    function_type = rx.Function

    def run_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> Any:
        if is_private(func):
            return func
        count = int(func.attrs.get("num_input", 0))
        flat, anything = Flat.of(func), ObjectStructInfo()
        info = FuncStructInfo([PrimStructInfo("int64"), anything], anything)
        fget = rx.Var("fget_param", info)

        def fetch(index: int, weight: rx.Var) -> rx.Call:
            return rx.Call(fget, [rx.PrimValue(index), rx.StringImm(weight.name_hint)])

        load_weights(flat, list(func.params[count:]), fetch)
        attrs = func.with_attr("num_input", count + 1).attrs
        return flat.function((*func.params[:count], fget), func.is_pure, attrs)
