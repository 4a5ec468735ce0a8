"""Repeated subexpressions."""

from __future__ import annotations

from typing import Any

from ...arith.analyzer import Analyzer
from ...ir import prim_expr as pe
from ...ir.prim_expr import PrimExpr, Var


def detect_common_subexpr(expr: PrimExpr, threshold: int) -> dict[PrimExpr, int]:
    """The subexpressions that occur at least `threshold` times (and at least twice) in `expr`, the
    largest first, with their counts. One that occurs only inside a larger one of the result is left out, and so are
    variables, literals and expressions with side effects.

    >>> x, y = Var("x"), Var("y")
    >>> common = detect_common_subexpr((x + y) * 2 + (x + y) * (x + y), 2)
    >>> [(type(e).__name__, count) for e, count in common.items()]
    [('Add', 3)]
    """
    seen = _Occurrences()
    counts = dict(seen.inside(expr))
    repeated: dict[PrimExpr, int] = {}
    # The largest first, since computing one once removes occurrences of its subexpressions.
    for key in sorted(counts, key=lambda k: -seen.size(seen.first[k])):
        count = counts[key]
        if count < max(threshold, 2):
            continue
        repeated[seen.first[key]] = count
        for part in _parts(seen.first[key]):
            for inner, times in seen.inside(part).items():
                counts[inner] -= (count - 1) * times  # one occurrence remains, computed once
    return repeated


class _Occurrences:
    """Counts pure subexpressions by key. Nodes shared in the expression are visited once; the memo
    tables hold them, so that no id is reused."""

    def __init__(self) -> None:
        self.ana = Analyzer()
        self.first: dict[Any, PrimExpr] = {}
        self.counts: dict[int, tuple[Any, dict[Any, int]]] = {}
        self.sizes: dict[int, tuple[Any, int]] = {}

    def inside(self, e: PrimExpr) -> dict[Any, int]:
        """The counts of subexpressions in `e`, itself included, by key."""
        if isinstance(e, (Var, pe.ConstExpr)) or not isinstance(e, PrimExpr):
            return {}
        cached = self.counts.get(id(e))
        if cached is not None:
            return cached[1]
        counts: dict[Any, int] = {}
        key = self.ana.key(e)
        if key[0] != "id":  # the key of an expression with side effects, which equals no other
            counts[key] = 1
            self.first.setdefault(key, e)
        for part in _parts(e):
            for inner, times in self.inside(part).items():
                counts[inner] = counts.get(inner, 0) + times
        self.counts[id(e)] = (e, counts)
        return counts

    def size(self, e: PrimExpr) -> int:
        """The number of nodes, with shared ones counted at each occurrence."""
        if not isinstance(e, PrimExpr):
            return 0
        cached = self.sizes.get(id(e))
        if cached is None:
            cached = self.sizes[id(e)] = (e, 1 + sum(map(self.size, _parts(e))))
        return cached[1]


def _parts(e: PrimExpr) -> list[Any]:
    """The operands of an expression."""
    return list(e.args) if isinstance(e, pe.Call) else list(e.children())
