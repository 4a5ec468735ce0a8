"""Inserts a rewriter callback's result into a function: checked, shared, in normal form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import explain
from ...ir.expr import RelaxExpr
from ...ir.functor import Visitor
from ...ir.op import Op
from ...ir.prim_expr import PrimExpr
from ...ir.transform import code_span
from ..block_builder import BlockBuilder
from ..expr import (
    Call,
    Expr,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..normalize import is_leaf
from ..relations import BaseCheckResult, struct_info_base_check
from ..struct_info import StructInfo
from .script_rules import ScriptRule


class Graft:
    """Transfers expressions into the block that `builder` has open.

    A subexpression that is a value of the function becomes the variable it is bound to, so that
    callbacks may build on their arguments. `improve(value)` may change a value before it is bound.
    """

    def __init__(self, builder: BlockBuilder, improve: Callable[[Any], Any] | None = None) -> None:
        self.builder = builder
        self.improve = improve
        self.scope: dict[Var, None] = {}
        self.names: dict[int, tuple[Any, Var]] = {}  # id of a value -> (it, its variable)

    def define(self, var: Var, value: Expr | None = None) -> None:
        """Define a variable and its value from here on."""
        self.scope[var] = None
        if value is not None and not is_leaf(value):
            self.names[id(value)] = (value, var)

    def forget(self, count: int) -> list[Var]:
        """Leave a scope: forget variables beyond the first `count` and return them."""
        removed = list(self.scope)[count:]
        for var in removed:
            del self.scope[var]
        return removed

    def variable_of(self, expr: Expr) -> Var | None:
        """The variable in scope that is bound to this expression object."""
        entry = self.names.get(id(expr))
        return entry[1] if entry is not None and entry[1] in self.scope else None

    def root(self, expr: Expr) -> Any:
        """`expr` in normal form with its inner calls bound: a value to bind, or a variable."""
        var = self.variable_of(expr)
        if var is not None:
            return var
        if isinstance(expr, Var):
            return self._checked(expr)
        if isinstance(expr, Call):
            op = expr.op if isinstance(expr.op, Op) else self.argument(expr.op)
            args = tuple(self.argument(a) for a in expr.args)
            if op is not expr.op or any(a is not b for a, b in zip(args, expr.args, strict=True)):
                expr = expr.replace(op=op, args=args)
        elif isinstance(expr, Tuple):
            expr = self._tuple(expr)
        elif isinstance(expr, TupleGetItem):
            value = self.argument(expr.tuple_value)
            if isinstance(value, Tuple):
                return value.fields[expr.index]
            if value is not expr.tuple_value:
                expr = TupleGetItem(value, expr.index, expr.span)
        elif isinstance(expr, (Function, If, SeqExpr)):
            for used in _free(expr):
                self._checked(used)
        return self.builder.normalize(expr)

    def argument(self, expr: Expr) -> Any:
        """`expr` as an argument: a variable or literal."""
        var = self.variable_of(expr)
        if var is not None:
            return var
        if isinstance(expr, (Var, Tuple)) or is_leaf(expr):
            return self.root(expr)
        value = self.root(expr)
        if self.improve is not None:
            value = self.improve(value)
        if not is_leaf(value):
            bound = self.variable_of(value)
            if bound is None:
                bound = self.builder.bind(value)
                self.define(bound, value)
            value = bound
        if isinstance(value, Var):
            self.names[id(expr)] = (expr, value)
        return value

    def _tuple(self, expr: Tuple) -> Tuple:
        fields = tuple(self.argument(f) for f in expr.fields)
        same = all(a is b for a, b in zip(fields, expr.fields, strict=True))
        return expr if same else Tuple(fields, expr.span)

    def _checked(self, var: Var) -> Var:
        if var not in self.scope:
            what = f"a replacement uses the variable {var.name_hint}, which is not defined there"
            hint = "use variables and values that the pattern matched, or parameters"
            raise ValueError(explain(what, got=repr(var.name_hint), instead=hint, span=var.span))
        return var


class _Free(Visitor):
    def __init__(self) -> None:
        self.used: dict[Var, None] = {}
        self.bound: set[Var] = set()

    def visit_Var(self, var: Var) -> None:
        if isinstance(var, Var):
            self.used[var] = None

    def visit_Function(self, func: Function) -> None:
        self.bound.update(func.params)
        self.visit(func.body)

    def visit_VarBinding(self, binding: VarBinding) -> None:
        self.bound.add(binding.var)
        self.visit(binding.value)

    def visit_MatchCast(self, binding: MatchCast) -> None:
        self.bound.add(binding.var)
        self.visit(binding.value)

    def visit_PrimExpr(self, expr: PrimExpr) -> None:
        """No graph variables inside."""


def _free(expr: Expr) -> list[Var]:
    free = _Free()
    free.visit(expr)
    return [v for v in free.used if v not in free.bound]


def checked_result(
    result: Expr | str | int, callback: ScriptRule | Callable[..., Any], at: Expr
) -> Any:
    """The result of a callback, if it is an expression.

    Raises TypeError otherwise; `at` is the expression that was to be replaced.
    """
    if isinstance(result, RelaxExpr):
        return result
    name = getattr(callback, "__name__", type(callback).__name__)
    what = f"the rewriter {name} must return a Relax expression"
    hint = "return the replacement, or the original expression if nothing should change"
    got = f"{type(result).__name__}: {result!r}"
    span = code_span(callback) or at.span
    raise TypeError(explain(what, got=got, instead=hint, span=span))


def check_struct_info(
    new: StructInfo, old: StructInfo, name: str, callback: ScriptRule | Callable[..., Any], at: Expr
) -> None:
    """Raises ValueError if a replacement's struct info contradicts that of the original."""
    worst = min(struct_info_base_check(old, new), struct_info_base_check(new, old))
    if worst is not BaseCheckResult.FAIL_L0:
        return
    what = f"the replacement of {name} has another struct info"
    hint = "make it fit (astype, reshape), or pass new_struct_info=True if its users can take it"
    got = f"{new} for {old}"
    span = at.span or code_span(callback)
    raise ValueError(explain(what, got=got, instead=hint, span=span))
