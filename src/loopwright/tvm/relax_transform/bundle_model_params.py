"""BundleModelParams: the weights of a model become one parameter, a tuple.

Before (-) and after (+)::

      @R.function
    - def main(x: R.Tensor((4,), dtype="float32"), w: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    + def main(x: R.Tensor((4,), dtype="float32"), model_params: R.Tuple(R.Tensor((4,), dtype="float32"))) -> R.Tensor((4,), dtype="float32"):
          R.func_attr({"num_input": 1})
    +     w: R.Tensor((4,), dtype="float32") = model_params[0]
          gv: R.Tensor((4,), dtype="float32") = R.add(x, w)
          return gv

The weights are the parameters after the first `num_input`; a function without this attribute has
none.
"""

from __future__ import annotations

from typing import Any

from ...ir.op import Op
from ...ir.transform import FunctionPass, IRModule, PassContext
from ...relax import expr as rx
from ...relax.functor import GraphRewriter
from ...relax.struct_info import TupleStructInfo


class BundleModelParams(FunctionPass, repr=False):
    """The weights of a model become one parameter, a tuple.

    param_tuple_name: the name of the new parameter.
    """

    function_type = rx.Function
    param_tuple_name: str | None = None

    def run_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> Any:
        count = func.attrs.get("num_input")
        if count is None:
            return func
        work = _Bundler(mod)
        work.weights = {param: i for i, param in enumerate(func.params[int(count) :])}
        infos = [param.struct_info for param in work.weights]
        work.bundle = rx.Var(self.param_tuple_name or "model_params", TupleStructInfo(infos))
        return work.bundled(func, func.params[: int(count)])


class _Bundler(GraphRewriter):
    weights: dict[Any, int]
    bundle: rx.Var
    items: dict[rx.Var, rx.Var] = {}  # out of the tuple, in this block

    def bundled(self, func: rx.Function, inputs: tuple[rx.Var, ...]) -> rx.Function:
        params = (*inputs, self.bundle)
        with self.builder.scope(params):
            body = self.seq(func.body)
        return func.replace(params=params, body=body)

    def block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        outer, self.items = self.items, {}
        new = super().block(block)
        self.items = outer
        return new

    def binding(self, binding: rx.VarBinding) -> None:
        index = self.weights.get(binding.value)
        if index is not None and isinstance(binding, rx.VarBinding):
            self.emit(binding, rx.TupleGetItem(self.bundle, index))
        else:
            super().binding(binding)

    def value(self, expr: Op | rx.Expr) -> Any:
        if not isinstance(expr, rx.Var) or expr not in self.weights:
            return super().value(expr)
        if expr not in self.items:
            item = rx.TupleGetItem(self.bundle, self.weights[expr])
            self.items[expr] = self.builder.emit(item, expr.name_hint)
        return self.items[expr]
