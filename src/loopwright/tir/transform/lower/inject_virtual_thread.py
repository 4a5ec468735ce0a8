"""`InjectVirtualThread`: serializes the virtual threads of a loop.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((2, 8), "float32"), B: T.Buffer((2, 8), "float32")):
    -     for v in T.thread_binding(2, thread="vthread.x"):
    +     for v in range(2):
              for i in range(8):
                  B[v, i] = A[v, i] + T.float32(1)

Memory allocated inside is private to a virtual thread. A barrier inside is an error, because
the threads run in turn.
"""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ....ir.functor import pre_order_visit
from ....ir.prim_expr import IterVar
from ....ir.prim_op import const
from ...op import is_call_to
from ...stmt import AttrStmt, For, ForKind, Stmt
from .._base import RewriterPass, StmtRewriter

_TAGS = ("vthread", "cthread")


def _check_no_barrier(body: Stmt) -> None:
    def visit(node: Any) -> None:
        if is_call_to(node, "tvm_storage_sync"):
            what = "a barrier inside of virtual threads"
            hint = "split the loop at the barrier, or bind it to threadIdx"
            raise ValueError(explain(what, instead=hint, span=node.span))

    pre_order_visit(body, visit)


class _Inject(StmtRewriter):
    def visit_PrimExpr(self, node: Any) -> Any:
        return node

    def visit_For(self, node: For) -> Stmt:
        body = self.visit(node.body)
        bound = node.thread_binding
        if bound is None or not bound.thread_tag.startswith(_TAGS):
            return node.replace(body=body)
        _check_no_barrier(body)
        return node.replace(body=body, kind=ForKind.SERIAL, thread_binding=None)

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        body = self.visit(node.body)
        if node.attr_key != "virtual_thread" or not isinstance(node.node, IterVar):
            return node.replace(body=body)
        _check_no_barrier(body)
        var = node.node.var
        low = const(0, var.dtype)
        return For(var, low, node.value, ForKind.SERIAL, body, span=node.span)


class InjectVirtualThread(RewriterPass):
    """See the file's docstring."""

    name = "tir.InjectVirtualThread"
    rewriter = _Inject


__all__ = ["InjectVirtualThread"]
