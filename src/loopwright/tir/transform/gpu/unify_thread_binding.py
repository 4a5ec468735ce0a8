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
        for b in T.thread_binding(4, thread="blockIdx.x"):
            for i in T.thread_binding(8, thread="threadIdx.x"):
                A[b, i] = T.float32(1)
                B[b, i] = A[b, i]

Each outermost bound loop is enclosed in the loops over all axes that are bound within. Loops on one
axis must have the same extent, and so must launches (`T.launch_thread`), which become loops.
Annotations of a bound loop stay on a loop of one iteration in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....arith import Analyzer
from ....base.errors import explain
from ....ir.prim_expr import IterVar, PrimExpr, Range, Var
from ....ir.prim_op import cast, const
from ...stmt import AttrStmt, For, ForKind, Stmt
from ..base import RewriterPass, Substitute

if TYPE_CHECKING:
    from ....base.span import Span

_LAUNCHES = ("thread_extent", "virtual_thread")


class _Unify(Substitute):
    def __init__(self) -> None:
        super().__init__({})
        self.ana = Analyzer()
        self.axes: dict[str, tuple[Var, Range]] = {}
        self.depth = 0

    def visit_For(self, node: For) -> Stmt:
        bound = node.thread_binding
        if node.kind != ForKind.THREAD_BINDING or bound is None:
            return self.visit_default(node)
        return self.bound(node, node.loop_var, bound.thread_tag, node.range, node.annotations)

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key not in _LAUNCHES:
            return self.visit_default(node)
        axis = node.node
        dom = Range.from_min_extent(const(0, node.value.dtype), node.value)
        return self.bound(node, axis.var, axis.thread_tag, dom, {})

    def bound(
        self, node: For | AttrStmt, var: Var, tag: str, dom: Range, notes: dict[str, int]
    ) -> Stmt:
        """A loop or thread binding, in terms of the variable of its axis."""
        dom = dom.replace(min=self.visit(dom.min), extent=self.visit(dom.extent))
        axis = self.axis(node, var, tag, dom)
        self.table[var] = cast(var.dtype, axis)
        self.depth += 1
        body = self.visit(node.body)
        self.depth -= 1
        if notes:
            zero, one = const(0, "int32"), const(1, "int32")
            body = For(Var("once", "int32"), zero, one, ForKind.SERIAL, body, annotations=notes)
        return body if self.depth else self.launch(body, node.span)

    def axis(self, node: For | AttrStmt, var: Var, tag: str, dom: Range) -> Var:
        """The variable of an axis in this launch."""
        if tag not in self.axes:
            self.axes[tag] = (Var(var.name, dom.extent.dtype), dom)
            return self.axes[tag][0]
        axis, first = self.axes[tag]
        for what, a, b in (("extents", first.extent, dom.extent), ("starts", first.min, dom.min)):
            if not self.equal(a, b):
                what = f"loops on {tag} have different {what}"
                hint = "guard the shorter one with a condition"
                raise ValueError(explain(what, got=f"{a} and {b}", instead=hint, span=node.span))
        return axis

    def equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        return self.ana.can_prove_equal(a, cast(a.dtype, b))

    def launch(self, body: Stmt, span: Span | None) -> Stmt:
        """The loops around the outermost bound loop."""
        for tag, (var, dom) in reversed(self.axes.items()):
            nowhere = IterVar(None, Var("", "int32"), IterVar.ThreadIndex, tag)
            body = For(var, dom.min, dom.extent, ForKind.THREAD_BINDING, body, nowhere, span=span)
        self.axes = {}
        return body


class UnifyThreadBinding(RewriterPass):
    """Uses one variable for all loops bound to the same thread axis."""

    rewriter = _Unify
