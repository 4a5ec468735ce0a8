"""Helpers for operator code: numbers in expressions, positions in flat memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arith import Analyzer
from ..base.errors import explain
from ..ir.prim_expr import FloatImm, IntImm, PrimExpr
from ..ir.prim_op import const, convert


class InvalidShapeError(ValueError):
    """A shape that an operator cannot take."""


def simplify(expr: Any) -> Any:
    """The simplest form of an expression; numbers unchanged."""
    return Analyzer().simplify(expr) if isinstance(expr, PrimExpr) else expr


def get_const_int(expr: Any) -> int:
    """The value of an integer literal. Raises ValueError for other expressions."""
    value = simplify(convert(expr))
    if not isinstance(value, IntImm):
        what = "a number is needed here, not an extent that is known when the program runs"
        raise ValueError(explain(what, got=str(expr)))
    return value.value


def get_const_float(expr: Any) -> float:
    """The value of a literal. Raises ValueError for other expressions."""
    value = simplify(convert(expr))
    if not isinstance(value, (FloatImm, IntImm)):
        raise ValueError(explain("a number is needed here", got=str(expr)))
    return float(value.value)


def equal_const_int(expr: Any, value: int) -> bool:
    """Whether an expression is this number."""
    literal = simplify(convert(expr))
    return isinstance(literal, IntImm) and literal.value == value


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[Any, ...]:
    """The numbers of a shape; symbolic extents stay expressions."""
    dims = [simplify(convert(e)) for e in in_tuple]
    return tuple(e.value if isinstance(e, IntImm) else e for e in dims)


def prod(x: Sequence[Any]) -> PrimExpr:
    """The product of a shape."""
    size: PrimExpr = const(1, "int32")
    for e in x:
        size = size * e
    return size


def ravel_index(indices: Sequence[Any], shape: Sequence[Any]) -> Any:
    """The flat index of a position."""
    flat: Any = None
    for index, extent in zip(indices, shape, strict=True):
        flat = index if flat is None else flat * extent + index
    return flat


def unravel_index(idx: Any, shape: Sequence[Any]) -> list[Any]:
    """The position of a flat index."""
    position = []
    for extent in reversed(shape[1:]):
        position.append(idx % extent)
        idx = idx // extent
    return [idx, *reversed(position)]


def traverse_inline(s: Any, final_op: Any, callback: Any) -> None:
    """Call `callback` on the operations behind `final_op`, and inline those that are computed
    elementwise and are not a result."""
    seen: set[Any] = set()

    def visit(op: Any) -> None:
        if op in seen:
            return
        seen.add(op)
        if is_inlined(op) and op not in s.outputs:
            s[op].compute_inline()
        for tensor in op.input_tensors:
            visit(tensor.op)
        callback(op)

    def is_inlined(op: Any) -> bool:
        return op.tag in ("elemwise", "broadcast", "injective") and op.num_outputs == 1

    visit(final_op)


__all__ = [
    "InvalidShapeError",
    "equal_const_int",
    "get_const_float",
    "get_const_int",
    "get_const_tuple",
    "prod",
    "ravel_index",
    "simplify",
    "traverse_inline",
    "unravel_index",
]
