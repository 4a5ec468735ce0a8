"""`HoistExpression`: moves loop-invariant conditions and values out of loops.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4, 8), "float32"), n: T.int32):
    -     for i, j in T.grid(4, 8):
    +     for i in range(4):
              with T.LetStmt(i * n) as x:
    -             if i < n and j < n:
    -                 A[i, j] = T.Cast("float32", x)
    +             if i < n:
    +                 for j in range(8):
    +                     if j < n:
    +                         A[i, j] = T.Cast("float32", x)

Expressions that read memory, call a function or divide are not moved. Of a conjunction, the parts
that do not depend on the loop move; a condition with an else branch moves as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag
from typing import Any

from ....ir.functor import any_node
from ....ir.literals import conjunction, conjuncts
from ....ir.prim_expr import Call, Div, FloorDiv, FloorMod, IntImm, Mod, PrimExpr
from ....ir.variables import uses_any
from ...expr import BufferLoad
from ...function import PrimFunc
from ...stmt import For, ForKind, IfThenElse, LetStmt, Stmt
from .._base import PrimFuncPass, StmtRewriter

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


class HoistedConditionals(Flag):
    """Which conditions move out of loops."""

    Never = 0
    IfElseStmt = 1
    IfElseExpr = 2
    BooleanExpression = 4
    UsingBlockVar = 8
    All = 15


class HoistedLetBindings(Flag):
    """Which bound values move out of loops."""

    Never = 0
    RequiredByConditional = 1
    LetStmt = 2
    LetExpr = 4
    All = 7


def _movable(expr: PrimExpr, loop: For) -> bool:
    """Whether an expression has the same value before the loop and cannot fail there."""

    def bound(node: Any) -> bool:
        divides = isinstance(node, _DIVISIONS) and not isinstance(node.b, IntImm)
        return divides or isinstance(node, (BufferLoad, Call))

    return not uses_any(expr, {loop.loop_var}) and not any_node(expr, bound)


class _Hoist(StmtRewriter):
    def __init__(self, conditions: bool, values: bool) -> None:
        self.conditions, self.values = conditions, values

    def visit_PrimExpr(self, node: Any) -> Any:
        return node

    def visit_For(self, node: For) -> Stmt:
        new = node.replace(body=self.visit(node.body))
        return new if new.kind == ForKind.THREAD_BINDING else self.out_of(new)

    def out_of(self, loop: For) -> Stmt:
        body = loop.body
        if isinstance(body, LetStmt) and self.values and _movable(body.value, loop):
            return body.replace(body=self.out_of(loop.replace(body=body.body)))
        if not isinstance(body, IfThenElse) or not self.conditions:
            return loop
        if body.else_case is not None:
            if not _movable(body.condition, loop):
                return loop
            then = self.out_of(loop.replace(body=body.then_case))
            other = self.out_of(loop.replace(body=body.else_case))
            return body.replace(then_case=then, else_case=other)
        parts = conjuncts(body.condition)
        moved = [p for p in parts if _movable(p, loop)]
        if not moved:
            return loop
        stay = [p for p in parts if not any(p is m for m in moved)]
        inner: Stmt = body.then_case
        if stay:
            inner = body.replace(condition=conjunction(stay))
        again = loop.replace(body=inner) if stay else self.out_of(loop.replace(body=inner))
        return body.replace(condition=conjunction(moved), then_case=again)


@dataclass(frozen=True)
class HoistExpression(PrimFuncPass):
    """See the file's docstring. The option `tir.HoistExpression` selects what is moved."""

    name = "tir.HoistExpression"

    def run_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        options = ctx.option("tir.HoistExpression") or {}
        conditions = options.get("hoisted_conditionals", HoistedConditionals.IfElseStmt)
        values = options.get("hoisted_let_bindings", HoistedLetBindings.LetStmt)
        hoist = _Hoist(bool(conditions), bool(values))
        return func.replace(body=hoist.visit(func.body))


__all__ = ["HoistExpression", "HoistedConditionals", "HoistedLetBindings"]
