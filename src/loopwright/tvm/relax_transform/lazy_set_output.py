"""LazySetOutput: a function hands out each result as soon as it has it.

Before (-) and after (+)::

    - @R.function
    - def main(x: R.Tensor((4,), dtype="float32")) -> R.Tuple(R.Tensor((4,), dtype="float32"), R.Tensor((4,), dtype="float32")):
    + @R.function(pure=False)
    + def main(x: R.Tensor((4,), dtype="float32"), fset_output: R.Callable((R.Prim("int64"), R.Object), R.Tuple([]), purity=False)) -> R.Tuple():
          a: R.Tensor((4,), dtype="float32") = R.exp(x)
    +     _: R.Tuple() = fset_output(R.prim_value(1), a)
          b: R.Tensor((4,), dtype="float32") = R.negative(a)
    -     return (b, a)
    +     _1: R.Tuple() = fset_output(R.prim_value(0), b)
    +     return R.tuple()

The new parameter takes a result's number and value. It is the last one, or with the attribute
`num_input` the last of those. Functions that are called from outside are changed, and they have no
dataflow blocks then.
"""

from __future__ import annotations

from typing import Any

from ...ir.transform import FunctionPass, IRModule, PassContext
from ...relax import expr as rx
from ...relax.struct_info import FuncStructInfo, ObjectStructInfo, PrimStructInfo, TupleStructInfo
from ...relax.transform.queries import is_private
from ._lazy import Flat, called


class LazySetOutput(FunctionPass):
    """A function hands out each result as soon as it has it."""

    function_type = rx.Function

    def run_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> Any:
        if is_private(func):
            return func
        count, attrs = func.attrs.get("num_input"), func.attrs
        position = len(func.params)
        if count is not None:
            position = int(count)
            attrs = func.with_attr("num_input", position + 1).attrs
        results = [PrimStructInfo("int64"), ObjectStructInfo()]
        info = FuncStructInfo(results, TupleStructInfo([]), purity=False)
        fset = rx.Var("fset_output", info)
        flat = Flat.of(func)
        outputs = flat.outputs()

        def stores(var: rx.Expr) -> list[Any]:
            positions = [i for i, output in enumerate(outputs) if output is var]
            return [called(rx.Call(fset, [rx.PrimValue(i), var])) for i in positions]

        new = [store for param in func.params for store in stores(param)]
        for binding in flat.bindings:
            new += [binding, *stores(binding.var)]
        flat.bindings = new
        for literal in dict.fromkeys(o for o in outputs if not isinstance(o, rx.Var)):
            flat.bindings += stores(literal)
        params = [*func.params[:position], fset, *func.params[position:]]
        return flat.function(params, False, attrs)
