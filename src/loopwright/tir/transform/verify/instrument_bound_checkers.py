"""`InstrumentBoundCheckers`: makes out-of-bounds accesses errors at run time.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), k: T.int32):
          for i in range(8):
    +         assert i + k >= 0 and i + k < 8, T.tvm_tuple("A: index i + k = {value} is outside of axis 0 (8 elements)", i + k)
              B[i] = A[i + k]

Pass::

    InstrumentBoundCheckers(show_source=False)

The message also shows the source line with the access marked, and the index in place of `{value}`.
Accesses proved to be in bounds are not checked. An access under `T.if_then_else` or `Select` is
checked in place. Masked vector accesses rely on their mask.

The default pipeline runs it with `PassContext(config={"tir.instrument_bound_checkers": True})`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....base.errors import explain
from ....ir.literals import is_true
from ....ir.prim_expr import Broadcast, IntImm, Let, Not, PrimExpr, Ramp, StringImm
from ....ir.prim_op import const, logical_and, logical_or
from ....ir.transform import IRModule, Pass, PassContext
from ... import stmt as st
from ...analysis.element_accesses import ChoiceVisitor
from ...buffer import Buffer
from ...expr import BufferLoad
from ...op import call_intrin
from ...stmt_functor import ExprKeeper, substitute
from ..base import NO_OP, RewriterPass, Simplifying, StmtVisitor

if TYPE_CHECKING:
    from ....arith.analyzer import Analyzer
    from ....base.span import Span


@dataclass
class _Check:
    condition: PrimExpr
    message: PrimExpr


class _Checks(ChoiceVisitor, StmtVisitor):
    """The checks that the accesses of one statement's expressions need, inner ones first."""

    def __init__(self, ana: Analyzer, span: Any, show_source: bool) -> None:
        self.ana = ana
        self.span = span
        self.show_source = show_source
        self.needed: list[_Check] = []
        self.guards: list[PrimExpr] = []
        self.values: dict[Any, PrimExpr] = {}

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.visit(node.indices)
        self.access(node)

    def visit_Let(self, node: Let) -> None:
        self.visit(node.value)
        self.values[node.var] = substitute(node.value, self.values)
        self.visit(node.body)
        del self.values[node.var]

    def choice(self, condition: PrimExpr, yes: BufferLoad, no: PrimExpr) -> None:
        self.visit(condition)
        if condition.dtype.lanes > 1:
            return  # the lanes that are not wanted may be anywhere
        for guard, value in ((condition, yes), (Not(condition), no)):
            self.guards.append(substitute(guard, self.values))
            with self.ana.constraint_scope(self.guards[-1]):
                self.visit(value)
            self.guards.pop()

    def access(self, node: BufferLoad | st.BufferStore) -> None:
        if node.predicate is not None:
            return
        buffer: Buffer = node.buffer
        for axis, (index, extent) in enumerate(zip(node.indices, buffer.shape, strict=True)):
            index = substitute(index, self.values)
            parts = [p for end in _ends(index) for p in (end >= 0, end < extent)]
            missing = [p for p in parts if not self.ana.can_prove(p)]
            if not missing:
                continue
            inside = missing[0]
            for part in missing[1:]:
                inside = logical_and(inside, part)
            for guard in reversed(self.guards):
                inside = logical_or(Not(guard), inside)
            value = index.dtype.lanes == 1 and not isinstance(index, IntImm)
            shown = f"{index} = {{value}}" if value else str(index)
            what = f"{buffer.name}: index {shown} is outside of axis {axis} ({extent} elements)"
            span = (node.span or self.span) if self.show_source else None
            text = StringImm(explain(what, span=span))
            message = call_intrin("handle", "tir.tvm_tuple", text, index) if value else text
            self.needed.append(_Check(inside, message))


def _ends(index: PrimExpr) -> list[PrimExpr]:
    """The scalars that must be in bounds for all lanes to be."""
    if isinstance(index, Ramp):
        last = const(index.lanes - 1, index.base.dtype)
        return [index.base, index.base + index.stride * last]
    if isinstance(index, Broadcast):
        return [index.value]
    return [index] if index.dtype.lanes == 1 else []


class _Instrument(ExprKeeper, Simplifying):
    def __init__(self, show_source: bool) -> None:
        super().__init__()
        self.show_source = show_source

    def checks(self, span: Span | None, *exprs: PrimExpr | Sequence[PrimExpr]) -> _Checks:
        checks = _Checks(self.ana, span, self.show_source)
        for expr in exprs:
            checks.visit(expr)
        return checks

    def visit_BufferStore(self, node: st.BufferStore) -> st.Stmt:
        checks = self.checks(node.span, node.indices, node.value)
        checks.access(node)
        return _checked(node, checks)

    def visit_Evaluate(self, node: st.Evaluate) -> st.Stmt:
        return _checked(node, self.checks(node.span, node.value))

    def visit_LetStmt(self, node: st.LetStmt) -> st.Stmt:
        return _checked(super().visit_LetStmt(node), self.checks(node.span, node.value))

    def visit_IfThenElse(self, node: st.IfThenElse) -> st.Stmt:
        return _checked(super().visit_IfThenElse(node), self.checks(node.span, node.condition))

    def visit_AssertStmt(self, node: st.AssertStmt) -> st.Stmt:
        checks = self.checks(node.span, node.condition)
        with self.ana.constraint_scope(node.condition):
            new = node.replace(body=self.visit(node.body))
        return _checked(new, checks)

    def visit_For(self, node: st.For) -> st.Stmt:
        return _checked(super().visit_For(node), self.checks(node.span, node.min, node.extent))

    def visit_While(self, node: st.While) -> st.Stmt:
        checks = self.checks(node.span, node.condition)
        body = self.visit(node.body)
        if checks.needed:
            body = st.seq(body, _checked(NO_OP, checks))
        return _checked(node.replace(body=body), checks)

    def visit_BlockRealize(self, node: st.BlockRealize) -> st.Stmt:
        """Blocks keep their declared regions; axes are replaced by their bindings."""
        block = node.block
        for axis, value in zip(block.iter_vars, node.iter_values, strict=True):
            self.ana.bind(axis.var, value)
        with self.ana.constraint_scope(node.predicate):
            init = self.visit(block.init)
            body = self.visit(block.body)
        return node.replace(block=block.replace(init=init, body=body))


def _checked(stmt: st.Stmt, checks: _Checks) -> st.Stmt:
    for check in reversed(checks.needed):
        if not is_true(check.condition):
            stmt = st.AssertStmt(check.condition, check.message, stmt, span=stmt.span)
    return stmt


class InstrumentBoundCheckers(RewriterPass):
    """Makes out-of-bounds accesses errors at run time. Best run while buffers have all their
    dimensions."""

    show_source: bool = True

    def rewriter(self) -> Any:
        return _Instrument(self.show_source)


class BoundCheckersIfWanted(Pass):
    """`InstrumentBoundCheckers` if the option `tir.instrument_bound_checkers` is set."""

    name = "tir.BoundCheckersIfWanted"

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        asked = ctx.option("tir.instrument_bound_checkers")
        return InstrumentBoundCheckers()(mod) if asked else mod
