"""RemoveUnusedParameters: private functions take only the parameters that they use.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
          def main(x: R.Tensor(("n",), dtype="float32"), y: R.Tensor((4,), dtype="float32")) -> R.Tensor(("n",), dtype="float32"):
              n = T.int64()
              cls = Module
    -         gv: R.Tensor((n,), dtype="float32") = cls.func(x, y)
    +         gv: R.Tensor((n,), dtype="float32") = cls.func(R.prim_value(n))
              return gv

          @R.function(private=True)
    -     def func(x: R.Tensor(("n",), dtype="float32"), y: R.Tensor((4,), dtype="float32")) -> R.Tensor(("n",), dtype="float32"):
    +     def func(param_n: R.Prim(value="n")) -> R.Tensor(("n",), dtype="float32"):
              n = T.int64()
              gv: R.Tensor((n,), dtype="float32") = R.zeros(R.shape([n]), dtype="float32")
              return gv

A symbolic dimension that only an unused parameter defines becomes a parameter of its own, the last
one first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.prim_expr import Var as TirVar
from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax import expr as rx
from ...relax.analysis import definable_tir_vars_in_struct_info
from ...relax.analysis.variables import free_symbolic_vars
from ...relax.relations import match_struct_info
from ...relax.struct_info import PrimStructInfo
from ...relax.transform.queries import shape_vars, used_vars
from ._signatures import Signature, only_called, with_signatures


class RemoveUnusedParameters(ModulePass):
    """Private functions take only the parameters that they use."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        changes = {}
        for gvar, (func, calls) in only_called(mod).items():
            change = _plan(func, calls)
            if change is not None:
                changes[gvar] = change
        return with_signatures(mod, changes)


def _plan(func: rx.Function, calls: list[rx.Call]) -> Signature | None:
    used = {*used_vars(func.body), *shape_vars(func.ret_struct_info)}
    used |= {v for p in func.params for v in shape_vars(p.struct_info)}
    symbols = _missing(func, used)
    # A symbol that an unused parameter is, or that a call does not determine, needs its parameter.
    unknown = {s for call in calls for s in symbols if s not in _symbols_of(func, call)}
    for param in func.params:
        info = param.struct_info
        if isinstance(info, PrimStructInfo) and info.value in symbols:
            used.add(param)
        if unknown.intersection(definable_tir_vars_in_struct_info(info)):
            used.add(param)
    symbols = _missing(func, used)
    remaining = [i for i, param in enumerate(func.params) if param in used]
    if len(remaining) == len(func.params):
        return None
    params = [func.params[i] for i in remaining]
    params += [rx.Var(f"param_{s.name}", PrimStructInfo(value=s)) for s in symbols]

    def arguments(call: rx.Call) -> list[Any]:
        table = _symbols_of(func, call)
        return [*(call.args[i] for i in remaining), *(rx.PrimValue(table[s]) for s in symbols)]

    return Signature(func.replace(params=tuple(params)), arguments)


def _missing(func: rx.Function, used: set[rx.Var]) -> list[TirVar]:
    """The symbols that only parameters outside `used` define."""
    remaining = tuple(p for p in func.params if p in used)
    before = free_symbolic_vars(func)
    after: Sequence[TirVar] = free_symbolic_vars(func.replace(params=remaining))
    return [s for s in reversed(after) if s not in before]


def _symbols_of(func: rx.Function, call: rx.Call) -> dict[Any, Any]:
    """The values of a function's symbols in a call."""
    table: dict[Any, Any] = {}
    for param, arg in zip(func.params, call.args, strict=True):
        match_struct_info(param.struct_info, arg.struct_info, table)
    return table
