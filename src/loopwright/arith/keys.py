"""Keys of expressions: hashable values, equal only for expressions that always have equal values."""

from __future__ import annotations

from typing import Any

from ..ir import prim_expr as pe
from ..ir.node import Node
from ..ir.op import Op
from ..ir.prim_expr import IntImm, PrimExpr

_FROM_OUTSIDE = ("read", "update", "opaque")  # effects of what may return anything


class Keys:
    """The keys of expressions, each computed once."""

    __slots__ = ("_cache", "_reads")

    def __init__(self) -> None:
        self._cache: dict[
            int, tuple[Any, Any]
        ] = {}  # by id; holds the node so the id stays its own
        self._reads: dict[int, tuple[Any, bool]] = {}

    def of(self, expr: object) -> Any:
        """The key of an expression, or of a tuple or list of them."""
        if isinstance(expr, Node):
            entry = self._cache.get(id(expr))
            if entry is None:
                entry = (expr, self._of_node(expr))
                self._cache[id(expr)] = entry
            return entry[1]
        if isinstance(expr, (tuple, list)):
            return tuple(self.of(item) for item in expr)
        return expr

    def reads(self, expr: PrimExpr) -> bool:
        """Whether an expression depends on values read from memory, or returned by a function."""
        kind = type(expr)
        if kind is pe.Var or kind is IntImm:
            return False
        entry = self._reads.get(id(expr))
        if entry is None:
            children = expr.args if kind is pe.Call else expr.children()
            result = not kind.__module__.endswith("prim_expr")
            if kind is pe.Call:
                result = not isinstance(expr.op, Op) or expr.op.effect in _FROM_OUTSIDE
            result = result or any(self.reads(c) for c in children if isinstance(c, PrimExpr))
            entry = self._reads[id(expr)] = (expr, result)
        return entry[1]

    def _of_node(self, expr: Node) -> Any:
        kind = type(expr)
        if expr.bound_by_identity:
            return ("id", expr)
        if kind is IntImm or kind is pe.FloatImm:
            return (kind, expr.dtype, expr.value, str(expr.value))
        if kind is pe.Call and not _repeatable(expr):
            return ("id", expr)
        if not isinstance(expr, (PrimExpr, pe.Range)):
            return ("id", expr)
        # A Let of the same variable, value and body is the same; other binders are equal only to
        # themselves.
        if kind is not pe.Let and any(f.role == "def" for f in expr.__fields__):
            return ("id", expr)
        return (kind, *(self.of(getattr(expr, f.name)) for f in expr.__fields__))


def _repeatable(call: Node) -> bool:
    """Whether evaluating the call again returns the same value."""
    return isinstance(call.op, Op) and call.op.effect in ("pure", "read")
