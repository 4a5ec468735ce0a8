"""ExpandTupleArguments: private functions take the fields of tuples, one parameter each.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
          def main(x: R.Tensor((4,), dtype="float32"), y: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
              cls = Module
    -         gv: R.Tensor((4,), dtype="float32") = cls.func((x, y))
    +         gv: R.Tensor((4,), dtype="float32") = cls.func(x, y)
              return gv

          @R.function(private=True)
    -     def func(both: R.Tuple(R.Tensor((4,), dtype="float32"), R.Tensor((4,), dtype="float32"))) -> R.Tensor((4,), dtype="float32"):
    -         x: R.Tensor((4,), dtype="float32") = both[0]
    -         gv: R.Tensor((4,), dtype="float32") = R.exp(x)
    +     def func(both_0: R.Tensor((4,), dtype="float32"), both_1: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    +         gv: R.Tensor((4,), dtype="float32") = R.exp(both_0)
              return gv

Tuples of tuples are taken apart to the last field.
"""

from __future__ import annotations

from typing import Any

from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax import expr as rx
from ...relax.struct_info import StructInfo, TupleStructInfo
from ...relax.transform.queries import merge_blocks
from ._signatures import Signature, only_called, with_signatures


class ExpandTupleArguments(ModulePass):
    """Private functions take the fields of tuples, one parameter each."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        changes = {
            gvar: Signature(_expanded(func), _fields_of_arguments)
            for gvar, (func, _) in only_called(mod).items()
            if any(isinstance(p.struct_info, TupleStructInfo) for p in func.params)
        }
        return with_signatures(mod, changes)


def _expanded(func: rx.Function) -> rx.Function:
    """The function with a parameter for each field; the tuples are bound first."""
    params: list[rx.Var] = []
    bindings = []

    def fields(name: str, info: StructInfo) -> Any:
        if isinstance(info, TupleStructInfo):
            return rx.Tuple([fields(f"{name}_{i}", f) for i, f in enumerate(info.fields)])
        params.append(rx.Var(name, info))
        return params[-1]

    for param in func.params:
        if isinstance(param.struct_info, TupleStructInfo):
            value = fields(param.name_hint, param.struct_info)
            bindings.append(rx.VarBinding(param, value))
        else:
            params.append(param)
    blocks = merge_blocks([rx.BindingBlock(bindings), *func.body.blocks])
    body = rx.SeqExpr(blocks, func.body.body)
    body._update_struct_info(func.body.struct_info)
    return func.replace(params=tuple(params), body=body)


def _fields_of_arguments(call: rx.Call) -> list[Any]:
    return [field for arg in call.args for field in _fields(arg)]


def _fields(value: rx.Expr) -> list[Any]:
    info = value.struct_info
    if not isinstance(info, TupleStructInfo):
        return [value]
    if isinstance(value, rx.Tuple):
        return [leaf for field in value.fields for leaf in _fields(field)]
    items = [rx.TupleGetItem(value, i) for i in range(len(info.fields))]
    return [leaf for item in items for leaf in _fields(item)]
