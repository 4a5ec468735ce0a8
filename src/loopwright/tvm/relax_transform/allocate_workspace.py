"""AllocateWorkspace: functions of external code get the scratch memory that they request.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
    -     def ext(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    -         R.func_attr({"Codegen": "ext", "WorkspaceSize": 64})
    +     def ext1(x: R.Tensor((4,), dtype="float32"), workspace: R.Tensor((64,), dtype="uint8")) -> R.Tensor((4,), dtype="float32"):
    +         R.func_attr({"Codegen": "ext"})
              @R.function
    -         def gv(y: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    -             R.func_attr({"Composite": "ext.exp", "WorkspaceSize": 64})
    +         def gv(y: R.Tensor((4,), dtype="float32"), workspace_1: R.Tensor((64,), dtype="uint8")) -> R.Tensor((4,), dtype="float32"):
    +             R.func_attr({"Composite": "ext.exp"})
                  z: R.Tensor((4,), dtype="float32") = R.exp(y)
                  return z
    -         gv1: R.Tensor((4,), dtype="float32") = gv(x)
    +         gv1: R.Tensor((4,), dtype="float32") = gv(x, workspace)
              return gv1

          @R.function
          def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
              cls = Module
    -         gv: R.Tensor((4,), dtype="float32") = cls.ext(x)
    +         workspace_main: R.Tensor((64,), dtype="uint8") = R.builtin.alloc_tensor(R.shape([64]), R.dtype("uint8"), R.prim_value(0), R.str("global"))
    +         gv: R.Tensor((4,), dtype="float32") = cls.ext1(x, workspace_main)
              return gv

The size in bytes is the attribute WorkspaceSize. The calls in one block share memory of the largest
size that a function of the module requests.
"""

from __future__ import annotations

from typing import Any

from ...base.names import free_name
from ...ir.expr import GlobalVar
from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax import expr as rx
from ...relax.functor import GraphRewriter
from ...relax.op.storage import builtin_alloc_tensor
from ...relax.struct_info import TensorStructInfo
from ...relax.transform.queries import functions_of

SIZE = "WorkspaceSize"


class AllocateWorkspace(ModulePass):
    """Functions of external code get the scratch memory that they request."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        users = {g: f for g, f in functions_of(mod) if SIZE in f.attrs}
        if not users:
            return mod
        work = _Callers(mod, max(int(f.attrs[SIZE]) for f in users.values()))
        for gvar, func in users.items():
            names = {g.name_hint for g in work.builder.get().functions}
            name = free_name(f"{gvar.name_hint}1", names)
            new = _Users(mod).with_workspace(func, "workspace").with_attr("global_symbol", name)
            work.renamed[gvar] = renamed = GlobalVar(name)
            work.builder.update_func(renamed, new)
        for gvar, func in functions_of(mod):
            if gvar not in users:
                work.update(gvar, work.function(func))
        return work.builder.get().with_functions(remove=list(users))


class _Users(GraphRewriter):
    """Passes the memory of a function on to the composite functions in it."""

    memory: Any = None

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.takes: set[rx.Var] = set()

    def with_workspace(self, func: rx.Function, name: str) -> rx.Function:
        info = TensorStructInfo([int(func.attrs[SIZE])], "uint8")
        outer, self.memory = self.memory, rx.Var(name, info)
        params = (*func.params, self.memory)
        with self.builder.scope(params):
            body = self.seq(func.body)
        self.memory = outer
        attrs = func.without_attr(SIZE).attrs
        return rx.Function(params, body, func.ret_struct_info, func.is_pure, attrs, func.span)

    def binding(self, binding: Any) -> None:
        value = binding.value
        if isinstance(value, rx.Function) and SIZE in value.attrs:
            self.takes.add(binding.var)
            self.emit(binding, self.with_workspace(value, f"{self.memory.name_hint}_1"))
            return
        if isinstance(value, rx.Call) and value.op in self.takes:
            new = value.replace(args=(*value.args, self.memory))
            self.emit(binding, self.value(new))
            return
        super().binding(binding)


class _Callers(GraphRewriter):
    """Allocates memory in front of the first call in each block."""

    def __init__(self, mod: IRModule, size: int) -> None:
        super().__init__(mod)
        self.size = size
        self.renamed: dict[GlobalVar, GlobalVar] = {}
        self.memory: Any = None

    def block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        outer, self.memory = self.memory, None
        new = super().block(block)
        self.memory = outer
        return new

    def call(self, call: rx.Call) -> Any:
        gvar = self.renamed.get(call.op) if isinstance(call.op, GlobalVar) else None
        if gvar is None:
            return call
        if self.memory is None:
            memory = builtin_alloc_tensor([self.size], "uint8", 0)
            self.memory = self.builder.emit(memory, "workspace_main")
        return rx.Call(gvar, [*call.args, self.memory], span=call.span)
