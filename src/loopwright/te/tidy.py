"""Canonical form of element expressions: simplified, comparisons as < and <=, sums
with added terms first, then constants, then subtracted terms."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from ..arith import Analyzer
from ..ir.functor import Rewriter, pre_order_visit
from ..ir.prim_expr import GE, GT, LE, LT, Add, BinaryOpExpr, IntImm, PrimExpr, Sub
from ..ir.prim_op import add, const, subtract
from ..tir.buffer import Buffer

if TYPE_CHECKING:
    from ..ir.node import Node


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
        return _Ordered().visit(expr) if counts or compares else expr


def _kinds(expr: PrimExpr) -> tuple[bool, bool]:
    """(has integer arithmetic, has > or >=)"""
    counts = compares = False

    def visit(node: Node) -> bool | None:
        nonlocal counts, compares
        if isinstance(node, Buffer):
            return False
        if isinstance(node, BinaryOpExpr):
            counts = counts or node.a.dtype.is_integer
            compares = compares or isinstance(node, (GT, GE))
        return None

    pre_order_visit(expr, visit)
    return counts, compares


class _Ordered(Rewriter):
    """The canonical form of simplified expressions. A sum is put in order as a whole."""

    def __init__(self) -> None:
        self.memo: dict[int, tuple[Any, Any]] = {}  # keeps the key's node alive

    def visit_Node(self, node: Node) -> Any:
        cached = self.memo.get(id(node))
        if cached is None:
            if isinstance(node, (Add, Sub)) and node.dtype.is_int:
                new = self.sum(node)
            else:
                new = node if isinstance(node, Buffer) else self.visit_default(node)
            if isinstance(new, (GT, GE)):
                new = (LT if type(new) is GT else LE)._make(new.b, new.a, span=new.span)
            cached = self.memo[id(node)] = (node, new)
        return cached[1]

    def sum(self, node: Add | Sub) -> PrimExpr:
        terms: list[tuple[PrimExpr, bool]] = []
        constant = self.terms(node, True, terms)
        plus = [t for t, positive in terms if positive]
        minus = [t for t, positive in terms if not positive]
        if not plus:
            return self.visit_default(node)
        total = add(reduce(add, plus), const(max(constant, 0), node.dtype))
        return subtract(reduce(subtract, minus, total), const(max(-constant, 0), node.dtype))

    def terms(self, node: PrimExpr, positive: bool, terms: list[tuple[PrimExpr, bool]]) -> int:
        """Collect the rewritten terms and whether they are added; the sum of the constants."""
        if isinstance(node, (Add, Sub)):
            left = self.terms(node.a, positive, terms)
            return left + self.terms(node.b, positive == isinstance(node, Add), terms)
        node = self.visit(node)
        if isinstance(node, IntImm):
            return node.value if positive else -node.value
        terms.append((node, positive))
        return 0
