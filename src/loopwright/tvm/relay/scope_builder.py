"""Expressions with `let` and `if`, built line by line.

sb = relay.ScopeBuilder()
y = sb.let("y", relay.add(x, x))
with sb.if_scope(cond):
    sb.ret(y)
with sb.else_scope():
    sb.ret(x)
expr = sb.get()
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.expr import BaseExpr
from .expr import Expr, If, Let, TupleWrapper, Var, var
from .types import IncompleteType


class _Scope:
    """Bindings, and the value at the end: an expression, or an `if` whose `else` is to come."""

    def __init__(self) -> None:
        self.bindings: list[tuple[Var, Any]] = []
        self.value: Any = None
        self.half: tuple[Any, Any] | None = None

    def expr(self) -> Any:
        """The expression of the scope."""
        if self.half is not None:
            what = "Creating an If expression without else"
            raise LoopwrightError(explain(what, instead="open `else_scope()` behind `if_scope`"))
        if self.value is None:
            raise LoopwrightError(explain("ret is not called in this scope", instead="sb.ret(x)"))
        result = self.value
        for variable, value in reversed(self.bindings):
            result = Let(variable, value, result)
        return result


class ScopeBuilder:
    """Collects the bindings of nested scopes."""

    def __init__(self) -> None:
        self._scopes = [_Scope()]

    def let(self, var: Var | str | tuple[Any, ...], value: Expr | TupleWrapper) -> Var:
        """Bind a value to a variable: a `relay.Var`, a name, or (name, type). Returns the
        variable."""
        if isinstance(value, TupleWrapper):
            value = value.astuple()
        if isinstance(var, (list, tuple)):
            if len(var) != 2:
                what = "a pair is expected: (name, type)"
                raise ValueError(explain(what, got=repr(var)))
            var = Var(*var)
        elif isinstance(var, str):
            var = Var(var)
        self._scopes[-1].bindings.append((var, value))
        return var

    @contextmanager
    def if_scope(self, cond: Expr) -> Iterator[None]:
        """The scope of what holds under a condition; an `else_scope` must follow."""
        self._check_open()
        self._scopes.append(_Scope())
        yield
        branch = self._scopes.pop().expr()
        self._scopes[-1].half = (cond, branch)

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The scope of what holds otherwise."""
        half = self._scopes[-1].half
        if half is None:
            what = "an else scope must follow an if scope"
            raise LoopwrightError(explain(what, instead="with sb.if_scope(cond): sb.ret(x)"))
        self._scopes.append(_Scope())
        yield
        branch = self._scopes.pop().expr()
        here = self._scopes[-1]
        here.half, here.value = None, If(*half, branch)

    def type_of(self, expr: Expr) -> Any:
        """The type of an expression: a variable's annotation, else what inference is to find."""
        if isinstance(expr, Var):
            return expr.type_annotation
        kind = IncompleteType()
        self.let(var("unify", kind), expr)
        return kind

    def ret(self, value: TupleWrapper | Expr | int) -> None:
        """Set the value of the scope."""
        self._check_open()
        if isinstance(value, TupleWrapper):
            value = value.astuple()
        if not isinstance(value, BaseExpr):
            raise TypeError(explain("a scope's value is a Relay expression", got=repr(value)))
        self._scopes[-1].value = value

    def get(self) -> Any:
        """The whole expression."""
        if len(self._scopes) != 1:
            what = "can only call get at the outmost scope"
            raise LoopwrightError(explain(what, got=f"{len(self._scopes) - 1} open scopes"))
        return self._scopes[-1].expr()

    def _check_open(self) -> None:
        here = self._scopes[-1]
        if here.value is not None or here.half is not None:
            raise LoopwrightError("ret value is already set in this scope")
