"""AppendLoss: a function that computes a loss of a model's results.

Pass::

    AppendLoss("main", relax.training.loss.L1Loss("sum")(
        TensorStructInfo((3,), "float32"), TensorStructInfo((3,), "float32")))

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
          def main(x: R.Tensor((3,), dtype="float32")) -> R.Tensor((3,), dtype="float32"):
              with R.dataflow():
                  out: R.Tensor((3,), dtype="float32") = R.exp(x)
                  R.output(out)
              return out
    +
    +     @R.function
    +     def main_loss(x: R.Tensor((3,), dtype="float32"), targets: R.Tensor((3,), dtype="float32")) -> R.Tensor((), dtype="float32"):
    +         with R.dataflow():
    +             out: R.Tensor((3,), dtype="float32") = R.exp(x)
    +             lv: R.Tensor((3,), dtype="float32") = R.subtract(out, targets)
    +             lv1: R.Tensor((3,), dtype="float32") = R.abs(lv)
    +             gv: R.Tensor((), dtype="float32") = R.sum(lv1)
    +             R.output(gv)
    +         return gv
"""

from __future__ import annotations

from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.expr import GlobalVar
from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax import expr as rx
from ...relax.block_builder import BlockBuilder
from ...relax.relations import BaseCheckResult, match_struct_info
from ...relax.specialize import bind_params, copy_with_new_vars
from ...relax.struct_info import TensorStructInfo
from ...relax.transform.queries import replace_vars
from .gradient import only_dataflow_block


class AppendLoss(ModulePass, repr=False):
    """Add the function `new_func_name`, by default `<func_name>_loss`.

    loss_function: takes the first `num_backbone_outputs` results of `func_name`, and more, which
        become parameters; it returns a scalar. Both functions are one dataflow block each.

    The new function returns the loss, or a tuple of it and the results that the loss does not take.
    Raises ValueError for an unknown function, LoopwrightError for functions that do not fit.
    """

    func_name: str
    loss_function: rx.Function
    num_backbone_outputs: int = 1
    new_func_name: str | None = None

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        model = mod[mod.get_global_var(self.func_name)]
        only_dataflow_block(model, self.func_name)
        results = _results(model)
        used, left = results[: self.num_backbone_outputs], results[self.num_backbone_outputs :]
        loss = _bound(self.loss_function, used, self.num_backbone_outputs)
        params = [*model.params, *loss.params]
        (first,), (second,) = model.body.blocks, loss.body.blocks
        local: dict[rx.Var, Any] = {
            b.var: rx.DataflowVar(b.var.name_hint, b.var.struct_info, b.var.span)
            for b in first.bindings
            if type(b.var) is rx.Var and b.var not in left
        }
        bindings = [
            b.replace(var=local.get(b.var, b.var), value=replace_vars(b.value, local))
            for b in (*first.bindings, *second.bindings)
        ]
        out = loss.body.body
        body = rx.SeqExpr([rx.DataflowBlock(bindings)], rx.Tuple([out, *left]) if left else out)
        name = self.new_func_name or f"{self.func_name}_loss"
        attrs = {**dict(model.attrs), "global_symbol": name}
        func = BlockBuilder().normalize(rx.Function(params, body, None, model.is_pure, attrs))
        return mod.with_functions({GlobalVar(name): copy_with_new_vars(func)})


def _results(func: rx.Function) -> list[rx.Var]:
    """The variables that a function returns."""
    body = func.body.body
    results: list[Any] = list(body.fields) if isinstance(body, rx.Tuple) else [body]
    for result in results:
        if not isinstance(result, rx.Var):
            what = "AppendLoss: the function must return variables"
            raise LoopwrightError(explain(what, got=str(result), span=func.span))
    return results


def _bound(loss: rx.Function, used: list[rx.Var], count: int) -> rx.Function:
    """The loss of these variables, a function of its other parameters."""
    only_dataflow_block(loss, "the loss function")
    available = min(len(used), len(loss.params))
    if available < count:
        what = f"AppendLoss: the loss is to take {count} results of the function"
        got = f"{len(used)} results, and a loss of {len(loss.params)} parameters"
        raise LoopwrightError(explain(what, got=got, instead="give num_backbone_outputs"))
    out, info = loss.body.body, loss.body.body.struct_info
    if not isinstance(out, rx.Var) or not isinstance(info, TensorStructInfo) or info.ndim:
        what = "AppendLoss: the loss function must return a scalar variable"
        raise LoopwrightError(explain(what, got=f"{out} with {info}", instead="reduce it"))
    loss = copy_with_new_vars(loss)
    pairs, symbols = list(zip(loss.params, used, strict=False)), {}
    for param, var in pairs:
        fits = match_struct_info(param.struct_info, var.struct_info, symbols)
        if fits is not BaseCheckResult.PASS:
            what = f"AppendLoss: parameter {param.name_hint} of the loss cannot be this result"
            got = f"{var.struct_info} for {param.struct_info}"
            raise LoopwrightError(explain(what, got=got))
    return bind_params(loss, dict(pairs))
