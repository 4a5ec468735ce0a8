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

A condition moves out of all loops up to the one that it depends on, unless one of several statements
in a row has it; then each branch is the whole loop for one value of the condition, simplified.
Expressions that read memory, call a function or divide are not moved.
"""

from __future__ import annotations

from enum import Flag
from typing import Any

from ...ir.functor import any_node, rewrite
from ...ir.module import IRModule
from ...ir.pass_context import PassContext
from ...ir.prim_expr import (
    And,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    Mod,
    Or,
    PrimExpr,
    Var,
)
from ...ir.prim_op import const
from ...ir.structural import structural_equal
from ...ir.variables import uses_any
from ...tir.expr import BufferLoad
from ...tir.function import PrimFunc
from ...tir.op import is_call_to
from ...tir.stmt import Allocate, AttrStmt, Block, For, IfThenElse, LetStmt, SeqStmt, Stmt, While
from ...tir.stmt_functor import ExprKeeper, keep_buffers
from ...tir.transform.base import PrimFuncPass, StmtRewriter, StmtVisitor, Substitute, is_no_op
from ...tir.transform.optimize.remove_no_op import NoOpRemover, RemoveNoOp
from ...tir.transform.optimize.simplify import Simplify
from .convert_ssa import ConvertSSA

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


def _movable(expr: PrimExpr, inside: set[Var]) -> bool:
    """Whether an expression uses no variable of a loop's inside and cannot fail before the loop."""

    def bound(node: PrimExpr) -> bool:
        divides = isinstance(node, _DIVISIONS) and not isinstance(node.b, IntImm)
        return divides or isinstance(node, (BufferLoad, Call))

    return not uses_any(expr, inside) and not any_node(expr, bound)


class _Find(StmtVisitor):
    """The first part of a loop's body that can move before the loop.

    hoisted: a LetStmt or Let, or a condition; inside: the variables that the loop defines.
    """

    def __init__(
        self, conditions: HoistedConditionals, values: HoistedLetBindings, inside: set[Var]
    ) -> None:
        self.conditions, self.values, self.inside = conditions, values, inside
        self.lets: list[LetStmt | Let] = []  # around the visited node, that could move too
        self.hoisted: Any = None

    def visit(self, node: Any) -> None:
        if self.hoisted is None:
            super().visit(node)

    def condition(self, kind: HoistedConditionals, test: PrimExpr) -> None:
        """Take a condition, or first the value that it needs."""
        if self.hoisted is not None or not kind & self.conditions or isinstance(test, IntImm):
            return
        needed = [let for let in self.lets if uses_any(test, {let.var})]
        allowed = HoistedLetBindings.RequiredByConditional | HoistedLetBindings.LetStmt
        if _movable(test, self.inside) and (not needed or self.values & allowed):
            self.hoisted = self.lets[0] if needed else test

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        self.condition(HoistedConditionals.IfElseStmt, node.condition)
        self.visit_default(node)

    def visit_Call(self, node: Call) -> None:
        if is_call_to(node, "if_then_else"):
            self.condition(HoistedConditionals.IfElseExpr, node.args[0])
        self.visit(node.args)

    def visit_And(self, node: And | Or) -> None:
        self.condition(HoistedConditionals.BooleanExpression, node.a)
        self.condition(HoistedConditionals.BooleanExpression, node.b)
        self.visit_default(node)

    visit_Or = visit_And

    def visit_LetStmt(self, node: LetStmt | Let) -> None:
        kind = HoistedLetBindings.LetStmt if type(node) is LetStmt else HoistedLetBindings.LetExpr
        movable = _movable(node.value, self.inside)
        if movable and kind & self.values:
            self.hoisted = node
            return
        self.visit(node.value)
        if movable:
            self.lets.append(node)
        else:
            self.inside.add(node.var)
        self.visit(node.body)
        if movable:
            self.lets.pop()

    visit_Let = visit_LetStmt

    def visit_SeqStmt(self, node: SeqStmt) -> None:
        """One of several statements decides nothing for the others."""

    def visit_While(self, node: While) -> None:
        """It may not run at all."""

    def visit_For(self, node: For) -> None:
        self.inside.add(node.loop_var)
        self.visit_default(node)

    def visit_Block(self, node: Block) -> None:
        self.inside.update(axis.var for axis in node.iter_vars)
        self.visit_default(node)

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        if isinstance(node.node, IterVar):
            self.inside.add(node.node.var)
        self.visit_default(node)

    def visit_Allocate(self, node: Allocate) -> None:
        self.inside.add(node.buffer_var)
        self.visit_default(node)


def _decided(stmt: Stmt, condition: PrimExpr, value: bool) -> Stmt:
    """A statement where a condition is known."""
    flag = condition if isinstance(condition, Var) else Var("known", "bool")
    if flag is not condition:
        kinds: dict[type, Any] = {
            type(condition): lambda n: flag if structural_equal(n, condition) else None
        }
        stmt = rewrite(stmt, kinds, pre=keep_buffers)
    return NoOpRemover().visit(Substitute({flag: const(value)}).visit(stmt))


class _Without(StmtRewriter):
    """A statement without a binding that has moved."""

    def __init__(self, let: LetStmt | Let) -> None:
        self.let = let

    def visit_LetStmt(self, node: LetStmt | Let) -> Any:
        return self.visit(node.body) if node is self.let else self.visit_default(node)

    visit_Let = visit_LetStmt


class _Hoist(ExprKeeper, StmtRewriter):
    def __init__(self, conditions: HoistedConditionals, values: HoistedLetBindings) -> None:
        self.conditions, self.values = conditions, values

    def visit_For(self, node: For) -> Stmt:
        return self.out_of(node, node.loop_var)

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        across = HoistedConditionals.UsingBlockVar & self.conditions
        if isinstance(node.node, IterVar) and across:
            return self.out_of(node, node.node.var)
        return self.visit_default(node)

    def out_of(self, loop: For | AttrStmt, var: Var) -> Stmt:
        """The loop with what can move before it before it."""
        find = _Find(self.conditions, self.values, {var})
        find.visit(loop.body)
        what = find.hoisted
        if what is None:
            return loop.replace(body=self.visit(loop.body))
        if isinstance(what, (LetStmt, Let)):
            rest = loop.replace(body=_Without(what).visit(loop.body))
            return LetStmt(what.var, what.value, self.out_of(rest, var), span=what.span)
        cases = []
        for value in (True, False):
            body = _decided(loop.body, what, value)
            cases.append(body if is_no_op(body) else self.out_of(loop.replace(body=body), var))
        then, other = cases
        if is_no_op(other):
            return IfThenElse(what, then, span=loop.span)
        return IfThenElse(what, then, other, span=loop.span)


_CONDITIONS = ~HoistedConditionals.UsingBlockVar


def _number(flags: HoistedConditionals | HoistedLetBindings | bool) -> int:
    return flags.value if isinstance(flags, Flag) else int(flags)


class HoistExpression(PrimFuncPass):
    """Moves loop-invariant conditions and values out of loops. The option `tir.HoistExpression`
    selects the moved expressions."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        options = ctx.option("tir.HoistExpression") or {}
        asked = options.get("hoisted_conditionals", _CONDITIONS)
        conditions = _CONDITIONS if asked is True else HoistedConditionals(_number(asked))
        asked = options.get("hoisted_let_bindings", HoistedLetBindings.All)
        values = HoistedLetBindings.All if asked is True else HoistedLetBindings(_number(asked))
        func = func.replace(body=_Hoist(conditions, values).visit(func.body))
        for after in (ConvertSSA(), Simplify(), RemoveNoOp()):
            func = after.run_function(func, mod, ctx)
        return func
