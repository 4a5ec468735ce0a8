"""`UnifyThreadBinding`: uses one variable for all loops bound to the same thread axis.

Before::

    @T.prim_func
    def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        for b in T.thread_binding(4, thread="blockIdx.x"):
            for i in T.thread_binding(8, thread="threadIdx.x"):
                A[b, i] = T.float32(1)
            for j in T.thread_binding(8, thread="threadIdx.x"):
                B[b, j] = A[b, j]

After::

    @T.prim_func
    def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        blockIdx_x = T.launch_thread("blockIdx.x", 4)
        threadIdx_x = T.launch_thread("threadIdx.x", 8)
        A[blockIdx_x, threadIdx_x] = T.float32(1)
        B[blockIdx_x, threadIdx_x] = A[blockIdx_x, threadIdx_x]

Each outermost bound loop is enclosed in one launch. Loops on one axis must have the same extent.
Virtual threads are left to `InjectVirtualThread`.
"""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ....ir.prim_expr import IterVar, PrimExpr, Range, Var
from ....ir.prim_op import add, cast, const
from ....ir.structural import structural_equal
from ...stmt import AttrStmt, For, ForKind, Stmt
from .._base import RewriterPass, StmtRewriter, Substitute

_VIRTUAL = ("vthread", "cthread")


class _Unify(StmtRewriter):
    def __init__(self) -> None:
        self.axes: dict[str, tuple[IterVar, PrimExpr]] = {}
        self.depth = 0

    def visit_PrimExpr(self, node: Any) -> Any:
        return node

    def visit_For(self, node: For) -> Stmt:
        bound = node.thread_binding
        if node.kind != ForKind.THREAD_BINDING or bound is None:
            return node.replace(body=self.visit(node.body))
        if bound.thread_tag.startswith(_VIRTUAL):
            return node.replace(body=self.visit(node.body))
        axis = self.axis(node, bound.thread_tag)
        value = add(node.min, cast(node.loop_var.dtype, axis.var))
        self.depth += 1
        body = self.visit(Substitute({node.loop_var: value}).visit(node.body))
        self.depth -= 1
        return self.launch(body) if self.depth == 0 else body

    def axis(self, loop: For, tag: str) -> IterVar:
        """The axis for a tag in this launch."""
        known = self.axes.get(tag)
        if known is None:
            var = Var(tag, loop.loop_var.dtype)
            axis = IterVar(Range.from_min_extent(const(0, var.dtype), loop.extent), var, 1, tag)
            self.axes[tag] = (axis, loop.extent)
            return axis
        if not structural_equal(known[1], loop.extent):
            what = f"loops on {tag} have different extents"
            got = f"{known[1]} and {loop.extent}"
            hint = "guard the shorter one with a condition"
            raise ValueError(explain(what, got=got, instead=hint, span=loop.span))
        return known[0]

    def launch(self, body: Stmt) -> Stmt:
        """The launch around the outermost bound loop."""
        for axis, extent in reversed(self.axes.values()):
            body = AttrStmt(axis, "thread_extent", extent, body)
        self.axes = {}
        return body


class UnifyThreadBinding(RewriterPass):
    """See the file's docstring."""

    name = "tir.UnifyThreadBinding"
    rewriter = _Unify


__all__ = ["UnifyThreadBinding"]
