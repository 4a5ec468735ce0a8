"""Canonical form of element expressions: simplified, comparisons as < and <=, sums
with added terms first, then constants, then subtracted terms."""

from __future__ import annotations

from typing import Any

from ..arith import Analyzer
from ..ir.functor import pre_order_visit, rewrite
from ..ir.prim_expr import GE, GT, LE, LT, Add, BinaryOpExpr, IntImm, PrimExpr, Sub
from ..ir.prim_op import add, const, subtract
from ..tir.buffer import Buffer
from ..tir.stmt_functor import keep_buffers


class Tidy:
    """Rewrites the expressions of one function to canonical form."""

    def __init__(self) -> None:
        self.analyzer: Analyzer | None = None

    def __call__(self, expr: PrimExpr) -> PrimExpr:
        counts, compares = _kinds(expr)
        if counts:
            if self.analyzer is None:
                self.analyzer = Analyzer()
            expr = self.analyzer.simplify(expr)
        return rewrite(expr, _RULES, keep_buffers) if counts or compares else expr


def _kinds(expr: PrimExpr) -> tuple[bool, bool]:
    """(has integer arithmetic, has > or >=)"""
    counts = compares = False

    def visit(node: Any) -> bool | None:
        nonlocal counts, compares
        if isinstance(node, Buffer):
            return False
        if isinstance(node, BinaryOpExpr):
            counts = counts or node.a.dtype.is_integer
            compares = compares or isinstance(node, (GT, GE))
        return None

    pre_order_visit(expr, visit)
    return counts, compares


def _in_order(node: Add | Sub) -> PrimExpr | None:
    if not node.dtype.is_int:
        return None
    terms: list[tuple[PrimExpr, bool]] = []
    constant = _terms(node, True, terms)
    plus = [t for t, positive in terms if positive]
    if not plus:
        return None
    total = plus[0]
    for term in plus[1:]:
        total = add(total, term)
    if constant > 0:
        total = add(total, const(constant, node.dtype))
    for term, positive in terms:
        if not positive:
            total = subtract(total, term)
    return subtract(total, const(-constant, node.dtype)) if constant < 0 else total


def _terms(node: PrimExpr, positive: bool, terms: list[tuple[PrimExpr, bool]]) -> int:
    if isinstance(node, IntImm):
        return node.value if positive else -node.value
    if isinstance(node, (Add, Sub)):
        left = _terms(node.a, positive, terms)
        return left + _terms(node.b, positive == isinstance(node, Add), terms)
    terms.append((node, positive))
    return 0


_RULES = {
    GT: lambda node: LT._make(node.b, node.a, span=node.span),
    GE: lambda node: LE._make(node.b, node.a, span=node.span),
    Add: _in_order,
    Sub: _in_order,
}
