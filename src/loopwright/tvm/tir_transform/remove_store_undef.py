"""`RemoveStoreUndef`: removes stores of values computed of `T.undef()`.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "int32")):
    -     for i in range(8):
    -         A[i] = T.undef(dtype="int32")
          A[0] = 1
"""

from __future__ import annotations

from typing import Any

from ...base.errors import CallValueError, explain
from ...ir.functor import any_node, nodes_of
from ...ir.module import IRModule
from ...ir.pass_context import PassContext
from ...ir.prim_expr import Call, PrimExpr, Var
from ...tir.expr import BufferLoad
from ...tir.function import PrimFunc
from ...tir.op import is_call_to
from ...tir.stmt import BufferStore, LetStmt, Stmt
from ...tir.transform.base import NO_OP, PrimFuncPass, StmtRewriter
from ...tir.transform.optimize.remove_no_op import RemoveNoOp


class _Remove(StmtRewriter):
    """Removes stores of undefined values, and variables bound to them."""

    def __init__(self) -> None:
        self.unknown: set[Var] = set()

    def is_unknown(self, expr: PrimExpr) -> bool:
        """Whether an expression contains `T.undef()`, or a variable that does."""
        return any_node(expr, lambda n: is_call_to(n, "undef") or n in self.unknown)

    def check_indices(self, expr: PrimExpr) -> None:
        """Raise for an index of no known value."""
        for load in nodes_of(expr, BufferLoad):
            self.visit(load.indices)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        if not self.is_unknown(node.value):
            return self.visit_default(node)
        self.check_indices(node.value)
        self.unknown.add(node.var)
        return self.visit(node.body)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        if not self.is_unknown(node.value):
            return self.visit_default(node)
        self.visit(node.indices)
        self.check_indices(node.value)
        return NO_OP

    def visit_Var(self, node: Var) -> Any:
        return self.refuse(node) if node in self.unknown else node

    def visit_Call(self, node: Call) -> Any:
        return self.refuse(node) if is_call_to(node, "undef") else self.visit_default(node)

    def refuse(self, node: PrimExpr) -> Any:
        """Raise CallValueError where more than a stored value depends on `T.undef()`."""
        what = "T.undef() cannot be an index or a condition"
        raise CallValueError(explain(what, instead="a known value", span=node.span))


class RemoveStoreUndef(PrimFuncPass):
    """Removes stores of values computed of `T.undef()`."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        removed = func.replace(body=_Remove().visit(func.body))
        return RemoveNoOp().run_function(removed, mod, ctx)
