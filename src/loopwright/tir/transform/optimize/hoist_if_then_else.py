"""`HoistIfThenElse`: moves loop-invariant conditions out of loops.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4, 8), "float32"), n: T.int32):
    -     for i, j in T.grid(4, 8):
    +     for i in range(4):
              if i < n:
    -             A[i, j] = T.float32(1)
    +             for j in range(8):
    +                 A[i, j] = T.float32(1)

A condition that reads memory or calls a function is not moved: the loop might change its value. One on
a thread's index is moved with the option `tir.HoistIfThenElse` {"support_block_scope_hoisting": True}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....ir.functor import any_node
from ....ir.prim_expr import Call, PrimExpr, Var
from ....ir.variables import uses_any
from ...expr import BufferLoad
from ...function import PrimFunc
from ...op import is_call_to
from ...stmt import AttrStmt, For, IfThenElse, Stmt
from ...stmt_functor import ExprKeeper, renew_defs
from ..base import PrimFuncPass, StmtRewriter

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext


class _Hoist(ExprKeeper, StmtRewriter):
    """of_threads: whether conditions on a thread's index move, also out of the loops over threads."""

    def __init__(self, of_threads: bool) -> None:
        self.of_threads = of_threads
        self.threads: set[Var] = set()

    def visit_For(self, node: For) -> Stmt:
        return self.hoisted(node.replace(body=self.visit(node.body)), node.loop_var)

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key != "thread_extent":
            return self.visit_default(node)
        self.threads.add(node.node.var)
        new = node.replace(body=self.visit(node.body))
        return self.hoisted(new, node.node.var) if self.of_threads else new

    def hoisted(self, node: Stmt, var: Var) -> Stmt:
        """A statement with `var`, in the branches of the conditions that its body begins with."""
        branch = node.body
        if not isinstance(branch, IfThenElse) or not _constant(branch.condition, var):
            return node
        if not self.of_threads and uses_any(branch.condition, self.threads):
            return node
        then = self.hoisted(node.replace(body=branch.then_case), var)
        other = branch.else_case
        if other is not None:
            other = self.hoisted(renew_defs(node.replace(body=other)), var)
        return branch.replace(then_case=then, else_case=other)


def _constant(condition: PrimExpr, var: Var) -> bool:
    if uses_any(condition, {var}):
        return False
    return not any_node(condition, _may_change)


def _may_change(node: PrimExpr) -> bool:
    return isinstance(node, (BufferLoad, Call)) and not is_call_to(node, "likely")


class HoistIfThenElse(PrimFuncPass):
    """`variant` is TVM's; both do the same here."""

    variant: str | None = None

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        options = ctx.option("tir.HoistIfThenElse") or {}
        of_threads = bool(options.get("support_block_scope_hoisting"))
        return func.replace(body=_Hoist(of_threads).visit(func.body))
