"""`SplitHostDevice`: outlines annotated regions into functions called from the host.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func
          def main(A: T.handle("float32", "global"), n: T.int32):
              T.func_attr({"global_symbol": "main", "target": T.target("cuda", host="llvm")})
    +         Module.main_kernel(A, n)
    +
    +     @T.prim_func(private=True)
    +     def main_kernel(A: T.handle("float32", "global"), n: T.int32):
    +         T.func_attr({"target": T.target("cuda"), "tir.is_global_func": True, "tir.noalias": True})
              A_1 = T.Buffer((16,), data=A)
    -         with T.attr(T.target("cuda"), "target", 0):
    -             with T.launch_thread("threadIdx.x", 16) as tx:
    -                 A_1[tx] = T.Cast("float32", n)
    +         with T.launch_thread("threadIdx.x", 16) as tx:
    +             A_1[tx] = T.Cast("float32", n)

The parameters are the region's free variables: pointers first, then the rest, each in
order of use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....base.names import free_name
from ....ir.expr import GlobalVar
from ....ir.module import IRModule
from ....ir.prim_expr import Call, Var
from ....ir.target import Target
from ....ir.transform import Pass, PassContext
from ...analysis.definitions import undefined_vars
from ...function import PrimFunc
from ...stmt import AttrStmt, Evaluate, Stmt
from ...stmt_functor import renew_defs
from .._base import StmtRewriter


class _Split(StmtRewriter):
    def __init__(self, name: str, taken: set[str]) -> None:
        self.name, self.taken = name, taken
        self.kernels: list[tuple[GlobalVar, PrimFunc]] = []

    def visit_PrimExpr(self, node: Any) -> Any:
        return node

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key != "target" or not isinstance(node.node, Target):
            return self.visit_default(node)
        used = undefined_vars(node.body)
        params: list[Var] = [v for v in used if v.dtype.is_handle]
        params += [v for v in used if not v.dtype.is_handle]
        attrs = {"target": node.node, "tir.is_global_func": True, "tir.noalias": True}
        kernel = PrimFunc(params, node.body, None, None, attrs, span=node.span)
        var = GlobalVar(self.fresh())
        self.kernels.append((var, renew_defs(kernel)))
        return Evaluate(Call("void", var, params), span=node.span)

    def fresh(self) -> str:
        name = free_name(f"{self.name}_kernel", self.taken)
        self.taken.add(name)
        return name


@dataclass(frozen=True)
class SplitHostDevice(Pass):
    """See the file's docstring."""

    name = "tir.SplitHostDevice"

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        taken = {var.name_hint for var in mod.functions}
        functions: dict[GlobalVar, Any] = {}
        for var, func in mod.functions.items():
            if not isinstance(func, PrimFunc):
                functions[var] = func
                continue
            split = _Split(var.name_hint, taken)
            functions[var] = func.replace(body=split.visit(func.body))
            functions.update(split.kernels)
        return mod.replace(functions=functions)


__all__ = ["SplitHostDevice"]
