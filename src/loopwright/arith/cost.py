"""The cost of an expression, which selects between equal forms."""

from __future__ import annotations

from typing import Any

from ..ir import prim_expr as pe
from ..ir.prim_expr import IntImm, Var

STEP = 16  # the cost of half an addition, in units of a variable
_CHAIN = frozenset((pe.Add, pe.Sub))
_LEAF = {Var: 1, pe.SizeVar: 1, IntImm: 0, pe.FloatImm: 0, pe.StringImm: 0}
_REMAINDERS = frozenset((pe.FloorMod, pe.Mod))
_DIVISIONS = frozenset((pe.FloorDiv, pe.Div)) | _REMAINDERS
_COST: dict[type, int] = dict.fromkeys(_DIVISIONS, 5 * STEP)
_COST |= {pe.Cast: STEP, pe.Broadcast: STEP}


class Costs:
    """The computation cost of expressions, memoized.

    Among forms with the same operations, fewer variables are cheaper (n * 2, not
    n + n), then flat sums of products with the literal at the end,
    remainders of single terms, without common variables. Another product that divides is
    free: it is computed once.
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
                    total += 2 * STEP + self.of(node.b) + _untidy(node)
                    node = node.a
                    kind = type(node)
                total += self.of(node)
            elif kind in pe.BinaryOpExpr.__kinds__:
                total = _COST.get(kind, 2 * STEP) + self.of(expr.a)
                common = kind in _REMAINDERS and type(expr.a) is pe.Mul and _common(expr.a, expr.b)
                if kind not in _DIVISIONS or type(expr.b) is not pe.Mul or common:
                    total += self.of(expr.b) + common
                left = type(expr.a)
                if kind is pe.FloorMod:
                    total += left in _CHAIN or (left is pe.FloorDiv and _by_numbers(expr))
                total += kind is pe.Mul and left is IntImm
            else:
                total = _COST.get(kind, 2 * STEP) + sum(map(self.of, expr.children()))
            entry = (expr, total)
            self._cache[id(expr)] = entry
        return entry[1]


def _common(a: pe.PrimExpr, b: pe.PrimExpr) -> bool:
    """Whether products have a variable in common: x * 8 % (x * n) is 8 % n * x."""
    divisors = _factors(b)
    return any(x is y for x in _factors(a) if type(x) is not IntImm for y in divisors)


def _factors(e: pe.PrimExpr) -> list[Any]:
    return [*_factors(e.a), *_factors(e.b)] if type(e) is pe.Mul else [e]


def _by_numbers(e: pe.FloorMod) -> bool:
    """Whether the divisors of x // a % b are literals."""
    return type(e.b) is IntImm and type(e.a.b) is IntImm


def _untidy(e: Any) -> int:
    """1 for a sum that is not flat (a sum on the right, a multiple of a sum), or has a literal inside
    or on the left, or that adds a negative multiple."""
    inside = type(e.a) in _CHAIN and type(e.a.b) is IntImm
    if inside or type(e.b) in _CHAIN or _of_sum(e.a) or _of_sum(e.b):
        return 1
    if type(e) is pe.Sub:
        return 0
    if type(e.a) is IntImm:
        return 1
    factor = e.b.b if type(e.b) is pe.Mul else e.b
    return int(type(factor) is IntImm and factor.value < 0)


def _of_sum(e: pe.PrimExpr) -> bool:
    return type(e) is pe.Mul and type(e.a) in _CHAIN and type(e.b) is IntImm
