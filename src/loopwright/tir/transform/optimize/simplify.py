"""`Simplify`: simplifies index arithmetic and conditions, and removes unreachable code.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((32,), "float32")):
          for i, j in T.grid(4, 8):
    -         if i * 8 + j < 32:
    -             A[(i * 8 + j) // 8 * 8 + j % 8] = T.float32(0)
    +         A[i * 8 + j] = T.float32(0)
"""

from __future__ import annotations

from typing import Any

from ....ir.literals import is_one, is_true
from ....ir.prim_expr import IntImm, Not
from ...expr import BufferLoad
from ...stmt import AssertStmt, BufferStore, For, ForKind, IfThenElse, LetStmt, Stmt
from .._base import NO_OP, RewriterPass, Simplifying


class _Simplify(Simplifying):
    def visit_PrimExpr(self, node: Any) -> Any:
        return self.ana.simplify(node)

    def visit_Var(self, node: Any) -> Any:
        return self.ana.simplify(node)

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        return self.ana.simplify(node)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        simplify = self.ana.simplify
        value = simplify(node.value)
        indices = [simplify(i) for i in node.indices]
        predicate = None if node.predicate is None else simplify(node.predicate)
        same = value is node.value and predicate is node.predicate
        if same and all(a is b for a, b in zip(indices, node.indices, strict=True)):
            return node
        return BufferStore._make(node.buffer, value, tuple(indices), predicate, span=node.span)

    def visit_For(self, node: For) -> Stmt:
        low, extent = self.ana.simplify(node.min), self.ana.simplify(node.extent)
        if isinstance(extent, IntImm) and extent.value <= 0:
            return NO_OP
        node = node.replace(min=low, extent=extent)
        with self.loop(node):
            if isinstance(extent, IntImm):
                body = self.visit(node.body)
            else:
                with self.ana.constraint_scope(extent >= 1):
                    body = self.visit(node.body)
        single = is_one(extent) and not node.annotations
        if single and node.kind != ForKind.THREAD_BINDING:
            return body  # the variable has become `low`
        return node.replace(body=body)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self.ana.simplify(node.condition)
        if isinstance(condition, IntImm):
            case = node.then_case if condition.value else node.else_case
            return NO_OP if case is None else self.visit(case)
        with self.ana.constraint_scope(condition):
            then = self.visit(node.then_case)
        other = node.else_case
        if other is not None:
            with self.ana.constraint_scope(Not(condition)):
                other = self.visit(other)
        return node.replace(condition=condition, then_case=then, else_case=other)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.ana.simplify(node.value)
        if isinstance(value, IntImm):
            self.ana.bind(node.var, value)
        else:
            self.ana.bind_value_bounds(node.var, value)
        return node.replace(value=value, body=self.visit(node.body))

    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        condition = self.ana.simplify(node.condition)
        with self.ana.constraint_scope(condition):
            body = self.visit(node.body)
        if is_true(condition):
            return body
        return node.replace(condition=condition, body=body)


class Simplify(RewriterPass):
    """See the file's docstring."""

    name = "tir.Simplify"
    rewriter = _Simplify


__all__ = ["Simplify"]
