"""Variables of expressions: which occur, and putting something else in their place."""

from __future__ import annotations

from collections.abc import Callable, Container, KeysView, Mapping
from typing import TYPE_CHECKING, Any

from . import prim_expr as pe
from .functor import Rewriter, Visitor, rewrite
from .prim_expr import IntImm, PrimExpr, Var
from .prim_op import cast, const, convert, fold_binary, logical_not, match_types

if TYPE_CHECKING:
    from ..base.span import Span
    from .node import Node


class _Variables(Visitor):
    def __init__(self) -> None:
        self.variables: dict[Var, None] = {}

    def visit_Var(self, node: Var) -> None:
        if isinstance(node, Var):
            self.variables[node] = None
        else:  # a variable of the graph: its dimensions
            self.visit_default(node)

    def visit_ConstExpr(self, node: PrimExpr) -> None:
        pass

    visit_Buffer = visit_ConstExpr


def vars_in(node: Any) -> KeysView[Var]:
    """The scalar variables that occur in an expression, a statement or a list of them: a set, in
    order of occurrence. The shapes of buffers are not looked into."""
    if type(node) in Var.__kinds__:
        return {node: None}.keys()
    if type(node) is IntImm:
        return {}.keys()
    finder = _Variables()
    finder.visit(node)
    return finder.variables.keys()


class _Uses(Visitor):
    def __init__(self, variables: Container[Var]) -> None:
        self.variables = variables
        self.seen = False

    def visit_Var(self, node: Var) -> None:
        self.seen = self.seen or node in self.variables

    def visit_ConstExpr(self, node: PrimExpr) -> None:
        pass

    visit_Buffer = visit_ConstExpr

    def visit_default(self, node: Node) -> None:
        if not self.seen:
            super().visit_default(node)


def uses_any(node: Any, variables: Container[Var]) -> bool:
    """Whether one of `variables` occurs in an expression or statement; see `vars_in`."""
    if type(node) in Var.__kinds__:
        return node in variables
    finder = _Uses(variables)
    finder.visit(node)
    return finder.seen


def substitute(node: Any, vmap: Mapping[Var, Any] | Callable[[Var], Any]) -> Any:
    """`node` with variables replaced: `vmap` is a dict, or a function that returns a replacement
    or None. Nothing is folded. Buffers whose shape mentions a variable are rebuilt (one new
    buffer for each old one).
    """
    look = vmap if callable(vmap) else vmap.get

    def replaced(node: Any) -> Any:
        new = look(node) if type(node) in Var.__kinds__ else None
        return None if new is None else convert(new)

    return rewrite(node, replaced)


class Substitute(Rewriter):
    """Replaces variables, and folds literals on the way."""

    def __init__(self, table: dict[Any, Any]) -> None:
        self.table = table

    def visit_Var(self, node: Var) -> Any:
        return self.table.get(node, node)

    def visit_BinaryOpExpr(self, node: pe.BinaryOpExpr) -> Any:
        a, b = self.visit(node.a), self.visit(node.b)
        return node if a is node.a and b is node.b else self.folded(type(node), a, b, node.span)

    def visit_Not(self, node: pe.Not) -> Any:
        a = self.visit(node.a)
        return node if a is node.a else logical_not(a)

    def visit_Cast(self, node: pe.Cast) -> Any:
        value = self.visit(node.value)
        return node if value is node.value else cast(node.dtype, value)

    def folded(self, kind: type, a: PrimExpr, b: PrimExpr, span: Span | None) -> PrimExpr:
        """`kind` of replaced operands."""
        if a.dtype != b.dtype:
            a, b = same_width(a, b)
        if kind is pe.And or kind is pe.Or:
            literal, other = (a, b) if isinstance(a, IntImm) else (b, a)
            if isinstance(literal, IntImm):
                return other if bool(literal.value) == (kind is pe.And) else literal
        else:
            value = fold_binary(kind, a, b)
            if value is not None:
                return value
        return kind._make(a, b, span=span)


def same_width(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Operands of one type: a literal takes the type of the other."""
    if isinstance(b, IntImm):
        return a, const(b.value, a.dtype)
    if isinstance(a, IntImm):
        return const(a.value, b.dtype), b
    return match_types(a, b)
