"""The cost of an expression, which selects between equal forms."""

from __future__ import annotations

from typing import Any

from ..ir import prim_expr as pe
from ..ir.prim_expr import IntImm, Var

STEP = 16  # the cost of half an addition, in units of a variable
_CHAIN = frozenset((pe.Add, pe.Sub))
_LEAF = {Var: 1, pe.SizeVar: 1, IntImm: 0, pe.FloatImm: 0, pe.StringImm: 0}
_COST: dict[type, int] = dict.fromkeys((pe.FloorDiv, pe.FloorMod, pe.Div, pe.Mod), 5 * STEP)
_COST |= {pe.Cast: STEP, pe.Broadcast: STEP}


class Costs:
    """The computation cost of expressions, memoized.

    Among forms with the same operations, fewer variables are cheaper (n * 2, not
    n + n), then literals on the right.
    """

    __slots__ = ("_cache",)

    def __init__(self) -> None:
        self._cache: dict[
            int, tuple[Any, int]
        ] = {}  # by id; holds the node so the id stays its own

    def of(self, expr: Any) -> int:
        """The cost of an expression."""
        kind = type(expr)
        leaf = _LEAF.get(kind)
        if leaf is not None:
            return leaf
        entry = self._cache.get(id(expr))
        if entry is None:
            if kind in _CHAIN:
                total, node = 0, expr
                while type(node) in _CHAIN and id(node) not in self._cache:
                    total += 2 * STEP + self.of(node.b) + (kind is not pe.Sub and _untidy(node))
                    node = node.a
                    kind = type(node)
                total += self.of(node)
            elif isinstance(expr, pe.BinaryOpExpr):
                total = _COST.get(kind, 2 * STEP) + self.of(expr.a) + self.of(expr.b)
                if kind is pe.Mul and type(expr.a) is IntImm:
                    total += 1
            else:
                total = _COST.get(kind, 2 * STEP) + sum(map(self.of, expr.children()))
            entry = (expr, total)
            self._cache[id(expr)] = entry
        return entry[1]


def _untidy(e: Any) -> int:
    """1 for a sum with a literal on the left, or that adds a negative multiple."""
    if type(e.a) is IntImm:
        return 1
    factor = e.b.b if type(e.b) is pe.Mul else e.b
    return int(type(factor) is IntImm and factor.value < 0)
