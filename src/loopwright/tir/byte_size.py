"""Sizes of memory that int64 arithmetic might wrap: computed in float64, and compared with a limit.

A wrapped size is a small allocation that a kernel then writes beyond, so sizes are checked before
anything is allocated.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir import prim_expr as pe
from ..ir.dtype import DataType
from ..ir.functor import post_order_visit
from ..ir.literals import conjunction
from ..ir.prim_expr import FloatImm, IntImm, PrimExpr
from ..ir.prim_op import cast, maximum, multiply
from .op import floor

LIMIT = 1 << 47  # bytes: the address space of a process
_EXACT = float(1 << 62)  # an int64 expression within this bound has not wrapped
_ARITHMETIC = (pe.Add, pe.Sub, pe.Mul)
_DIVISIONS = (pe.Div, pe.FloorDiv)
# Where a part may be larger than the whole.
_PARTIAL = (*_DIVISIONS, pe.Mod, pe.FloorMod, pe.Max, pe.Min, pe.Sub, pe.Select, pe.Call)


def known_bytes(dims: Iterable[PrimExpr], dtype: DataType) -> int:
    """The bytes of a tensor as far as its dimensions are numbers; others, and 0, count as 1."""
    total = dtype.itemsize
    for dim in dims:
        total *= max(dim.value, 1) if isinstance(dim, IntImm) else 1
    return total


def in_float64(expr: PrimExpr) -> PrimExpr:
    """An integer expression in float64, where it cannot wrap."""
    if isinstance(expr, IntImm):
        return FloatImm("float64", float(expr.value))
    if isinstance(expr, (*_ARITHMETIC, pe.Max, pe.Min)):
        return type(expr)(in_float64(expr.a), in_float64(expr.b))
    if isinstance(expr, _DIVISIONS):
        return floor(pe.Div(in_float64(expr.a), in_float64(expr.b)))
    return cast("float64", expr)


def product(dims: Iterable[PrimExpr], itemsize: int) -> PrimExpr:
    """The bytes of a tensor in float64; an extent of 0 counts as 1."""
    one = total = FloatImm("float64", 1.0)
    fixed = itemsize
    for dim in dims:
        if isinstance(dim, IntImm):
            fixed *= max(dim.value, 1)
        else:
            total = multiply(total, maximum(in_float64(dim), one))
    return multiply(total, FloatImm("float64", float(fixed)))


def fits(dims: Iterable[PrimExpr], size: PrimExpr) -> PrimExpr:
    """Whether `size`, the `product` of the dimensions, is within `LIMIT` and no part of a
    dimension wraps."""
    parts: dict[PrimExpr, None] = {}

    def visit(node: PrimExpr) -> None:
        if isinstance(node, _PARTIAL):
            inner = [c for c in node.children() if isinstance(c, _ARITHMETIC)]
            parts.update(dict.fromkeys(inner))

    for dim in dims:
        post_order_visit(dim, visit)
    within = [pe.LE(size, FloatImm("float64", float(LIMIT)))]
    for part in parts:
        value = in_float64(part)
        within += [pe.LE(value, FloatImm("float64", _EXACT))]
        within += [pe.GE(value, FloatImm("float64", -_EXACT))]
    return conjunction(within)


__all__ = ["LIMIT", "fits", "in_float64", "known_bytes", "product"]
