"""LambdaLift: turns local functions into functions of the module.

A local function without free variables is called as a global one; one with free variables becomes
a closure over them.

Before (-) and after (+)::

      @I.ir_module
      class Module:
    +     @R.function(private=True)
    +     def main_twice(y: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
    +         s: R.Tensor((2,), dtype="float32") = R.add(y, y)
    +         return s
    +
          @R.function
          def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
    -         @R.function
    -         def twice(y: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
    -             s: R.Tensor((2,), dtype="float32") = R.add(y, y)
    -             return s
    -         gv: R.Tensor((2,), dtype="float32") = twice(x)
    +         cls = Module
    +         gv: R.Tensor((2,), dtype="float32") = cls.main_twice(x)
              return gv
"""

from __future__ import annotations

from typing import Any

from ....ir.expr import GlobalVar
from ....ir.transform import IRModule, ModulePass, PassContext
from ...analysis import free_vars
from ...expr import Binding, Call, Function, Var
from ...functor import GraphRewriter
from ...op.base import invoke_closure, invoke_pure_closure, make_closure
from ...relations import derive_call_ret_struct_info
from ...struct_info import FuncStructInfo


class LambdaLift(ModulePass):
    """Make local functions global."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        work = _Lifter(mod)
        for gvar, func in list(mod.functions.items()):
            if isinstance(func, Function):
                work.outer = gvar.name_hint
                work.update(gvar, work.function(func))
        return work.builder.get()


class _Lifter(GraphRewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.outer = ""
        self.lifted: dict[Var, GlobalVar] = {}
        self.recursive: dict[Any, tuple[GlobalVar, list[Var]]] = {}
        self.closures: dict[Var, Any] = {}  # variable -> the function's struct info

    def binding(self, binding: Binding) -> None:
        if not isinstance(binding.value, Function):
            super().binding(binding)
            return
        var, func = binding.var, binding.value
        name = self.fresh(f"{self.outer}_{var.name_hint}")
        captured = [v for v in free_vars(func) if v is not var and v not in self.lifted]
        func = func.without_attr("global_symbol")
        gvar = GlobalVar(name)
        if not captured:
            # Recursive calls also become calls of the global function.
            gvar.struct_info = func.struct_info
            self.lifted[var] = self.var_map[var] = gvar
            self.builder.update_func(gvar, self.function(func))
            return
        params = [Var(v.name_hint, v.struct_info) for v in captured]
        ret, pure = func.ret_struct_info, func.is_pure
        infos = [p.struct_info for p in (*func.params, *params)]
        gvar.struct_info = FuncStructInfo(infos, ret, pure)
        table = dict(zip(captured, params, strict=True))
        outer, self.var_map = self.var_map, {**self.var_map, **table}
        self.recursive[var] = gvar, params  # a call of itself passes the captured values on
        inner = self.function(func)
        del self.recursive[var]
        self.var_map = outer
        whole = Function([*func.params, *params], inner.body, ret, pure, func.attrs, func.span)
        self.builder.update_func(gvar, whole)
        args = [self.value(v) for v in captured]
        self.closures[var] = func.struct_info
        self.emit(binding, make_closure(gvar, args))

    def fresh(self, name: str) -> str:
        """A name that no function has."""
        names = {g.name_hint for g in self.builder.get().functions}
        free, n = name, 0
        while free in names:
            free, n = f"{name}_{n}", n + 1
        return free

    def call(self, call: Call) -> Any:
        if call.op in self.recursive:
            gvar, captured = self.recursive[call.op]
            return Call(gvar, [*call.args, *captured], span=call.span)
        for var, info in self.closures.items():
            if call.op is self.var_map.get(var, var):
                ret = derive_call_ret_struct_info(info, call, self.builder)
                build = invoke_pure_closure if info.purity else invoke_closure
                return build(call.op, list(call.args), ret)
        return call
