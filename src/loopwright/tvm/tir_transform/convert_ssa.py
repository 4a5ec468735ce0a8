"""`ConvertSSA`: splits variables with several definitions.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "float32")):
          for i in T.serial(4, annotations={"kept": 1}):
              A[i] = T.float32(0)
          for i in range(4, 8):
              A[i] = T.float32(1)

(Both loop variables are named `i`; after `UnrollLoop` or inlining they can be the same variable.)
"""

from __future__ import annotations

from typing import Any

from ...ir.module import IRModule
from ...ir.pass_context import PassContext
from ...ir.prim_expr import Let, Var
from ...tir.buffer import Buffer
from ...tir.function import PrimFunc
from ...tir.stmt import Allocate, AllocateConst, For, LetStmt, Stmt
from ...tir.transform.base import PrimFuncPass, StmtRewriter


class _Convert(StmtRewriter):
    """Renames definitions of names that are already defined."""

    def __init__(self, defined: set[Var]) -> None:
        self.defined = defined
        self.now: dict[Var, Var] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def visit_Var(self, node: Var) -> Any:
        return self.now.get(node, node)

    def visit_Buffer(self, node: Buffer) -> Any:
        data = self.now.get(node.data)
        if data is None:
            return node
        renamed = self.buffers.get(node)
        if renamed is None or renamed.data is not data:
            renamed = self.buffers[node] = node.with_data(data)
        return renamed

    def scope(self, node: Stmt | Let, var: Var, name: str) -> Any:
        """A node whose field `name` defines `var` for its body."""
        if var not in self.defined:
            self.defined.add(var)
            return self.visit_default(node)
        outer = self.now.get(var)
        rest = {f.name: getattr(node, f.name) for f in node.__fields__ if f.name != "body"}
        fields = {k: v if k == name else self.visit(v) for k, v in rest.items()}
        self.now[var] = fields[name] = var.copy_with_suffix("")
        self.defined.add(fields[name])
        body = self.visit(node.body)
        if outer is None:
            del self.now[var]
        else:
            self.now[var] = outer
        return node.replace(**fields, body=body)

    def visit_For(self, node: For) -> Any:
        return self.scope(node, node.loop_var, "loop_var")

    def visit_LetStmt(self, node: LetStmt | Let) -> Any:
        return self.scope(node, node.var, "var")

    visit_Let = visit_LetStmt

    def visit_Allocate(self, node: Allocate | AllocateConst) -> Any:
        return self.scope(node, node.buffer_var, "buffer_var")

    visit_AllocateConst = visit_Allocate


class ConvertSSA(PrimFuncPass):
    """Splits variables with several definitions. Runs after blocks are lowered."""

    def run_function(self, func: PrimFunc, mod: IRModule | None, ctx: PassContext) -> PrimFunc:
        defined = {*func.params, *(b.data for b in func.buffers)}
        return func.replace(body=_Convert(defined).visit(func.body))
