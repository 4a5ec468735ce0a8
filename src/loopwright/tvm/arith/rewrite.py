"""Rewriting by rules to the forms of TVM's rewrite simplifier: `Analyzer.rewrite_simplify`.

`simplify` works on canonical polynomials and takes the cheapest form; scripts and tests that look
at the result of `rewrite_simplify` expect the forms of this table (`x - 1` is `x + -1`, `x >= y` is
`y <= x`). A part that no rule matches is simplified as always.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...arith.context import Context
from ...ir import prim_expr as pe
from ...ir import prim_op as po
from ...ir.functor import Rewriter
from ...ir.prim_expr import IntImm, PrimExpr, ScalarLike
from .rewrite_rules import RULES
from .rule_text import Rule

if TYPE_CHECKING:
    from ...ir.op import Op


class _Rewrite(Rewriter):
    """Bottom-up: rules first; `simplify` where none fits."""

    def __init__(self, ctx: Context, simplify: bool) -> None:
        self.ctx = ctx
        self.simplify = simplify

    def visit(self, node: Op | PrimExpr | Sequence[PrimExpr]) -> Any:
        if isinstance(node, tuple):
            items = tuple(map(self.visit, node))
            return node if all(map(operator.is_, items, node)) else items
        if not isinstance(node, PrimExpr) or isinstance(node, (pe.Var, pe.ConstExpr)):
            return node
        return self.here(folded(super().visit(node)))

    def here(self, node: PrimExpr) -> PrimExpr:
        """`node`, whose operands are in form, in form."""
        for _ in range(8):
            changed = self.once(node)
            if changed is None:
                break
            inner = _Rewrite(self.ctx, False) if self.simplify else super()
            node = inner.visit(changed)
        else:
            return node
        if self.simplify and changed is None:
            simple = self.ctx.simplified(node)
            if simple is not node:
                return _Rewrite(self.ctx, False).visit(simple)
        return node

    def once(self, node: PrimExpr) -> PrimExpr | None:
        """The result of the first rule that fits."""
        if isinstance(node, pe.BinaryOpExpr) and not _whole(node.a):
            same = type(node) is pe.Sub and node.dtype.is_integer and node.dtype.lanes == 1
            if same and self.ctx.keys.of(node.a) == self.ctx.keys.of(node.b):
                return po.const(0, node.dtype)
            return None
        for rule in RULES.get(Rule.key(node), ()):
            changed = rule.apply(self.ctx, node)
            if changed is not None:
                return changed
        return None


def _whole(operand: PrimExpr) -> bool:
    dtype = operand.dtype
    return dtype.lanes == 1 and (dtype in ("int32", "int64") or dtype.is_bool)


def folded(node: PrimExpr) -> PrimExpr:
    """`node` with literal operands computed. Raises DivisionByZero for a divisor 0."""
    if isinstance(node, (pe.Div, pe.Mod, pe.FloorDiv, pe.FloorMod)):
        po.check_divisor(node.b)
    if isinstance(node, pe.BinaryOpExpr) and not isinstance(node, pe.LogicalExpr):
        value = po.fold_binary(type(node), node.a, node.b)
        return node if value is None else value
    return node


def rewrite_simplify(ctx: Context, expr: ScalarLike) -> Any:
    """An equal expression in the form of the table of rules.

    Raises DivisionByZero for a division by the literal 0, which `simplify` leaves as it is.
    """
    expr = po.convert(expr)
    if not isinstance(expr, PrimExpr) or isinstance(expr, IntImm):
        return expr
    return _Rewrite(ctx, True).visit(expr)
