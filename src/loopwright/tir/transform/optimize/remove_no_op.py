"""`RemoveNoOp`: removes statements without effect, and loops and branches that contain only these.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4,), "float32"), n: T.int32):
    -     for i in range(n):
    -         T.evaluate(0)
          for i in range(4):
    -         if i < n:
    -             T.evaluate(n + 1)
              A[i] = T.float32(0)
"""

from __future__ import annotations

from typing import Any

from ....ir.functor import any_node
from ....ir.prim_expr import Call
from ... import stmt as st
from ...op import effect_of
from .._base import NO_OP, RewriterPass, StmtRewriter, is_no_op


def has_effect(expr: Any) -> bool:
    """Whether evaluating an expression has a side effect."""
    return any_node(
        expr,
        lambda n: isinstance(n, Call) and effect_of(n) not in ("pure", "read", "annotation"),
    )


class NoOpRemover(StmtRewriter):
    """Drops the statements without effect."""

    def visit_PrimExpr(self, node: Any) -> Any:
        return node

    def visit_Evaluate(self, node: st.Evaluate) -> st.Stmt:
        return node if has_effect(node.value) else NO_OP

    def visit_SeqStmt(self, node: st.SeqStmt) -> st.Stmt:
        stmts = [self.visit(s) for s in node.seq]
        left = [s for s in stmts if not is_no_op(s)]
        if len(left) == len(node.seq) and all(a is b for a, b in zip(left, node.seq, strict=True)):
            return node
        return st.seq(*left) if left else NO_OP

    def _body(self, node: Any, *values: Any) -> st.Stmt:
        body = self.visit(node.body)
        if is_no_op(body) and not any(map(has_effect, values)):
            return NO_OP
        return node if body is node.body else node.replace(body=body)

    def visit_For(self, node: st.For) -> st.Stmt:
        return self._body(node, node.min, node.extent)

    def visit_LetStmt(self, node: st.LetStmt) -> st.Stmt:
        return self._body(node, node.value)

    def visit_AttrStmt(self, node: st.AttrStmt) -> st.Stmt:
        return self._body(node)

    def visit_Allocate(self, node: st.Allocate) -> st.Stmt:
        return self._body(node)

    def visit_DeclBuffer(self, node: st.DeclBuffer) -> st.Stmt:
        return self._body(node)

    def visit_IfThenElse(self, node: st.IfThenElse) -> st.Stmt:
        then = self.visit(node.then_case)
        other = None if node.else_case is None else self.visit(node.else_case)
        if other is not None and is_no_op(other):
            other = None
        if is_no_op(then) and other is None and not has_effect(node.condition):
            return NO_OP
        return node.replace(then_case=then, else_case=other)


class RemoveNoOp(RewriterPass):
    """See the file's docstring."""

    name = "tir.RemoveNoOp"
    rewriter = NoOpRemover


__all__ = ["RemoveNoOp"]
