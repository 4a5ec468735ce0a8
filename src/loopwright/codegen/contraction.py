"""Which products and sums of floats code may round once, together: the rule of LLVM's code and of C's.

A product of a converted integer is rounded separately, since the last bit of dequantized numbers decides
the next step; and so are the terms of a difference of equal ones: fused, a b - a b would be the rounding
error of a b instead of 0.
"""

from __future__ import annotations

from ..ir import prim_expr as pe
from ..ir.structural import structural_equal


def stays(node: pe.PrimExpr) -> bool:
    """Whether an operation of floats is not fused with another."""
    return _dequantizes(node) or _is_zero(node)


def _is_zero(node: pe.PrimExpr) -> bool:
    """Whether it is a difference of equal floats."""
    return isinstance(node, pe.Sub) and node.dtype.is_float and structural_equal(node.a, node.b)


def _dequantizes(node: pe.PrimExpr) -> bool:
    """Whether it is a product of an integer and a float."""
    sides = [x for x in (node.a, node.b) if isinstance(x, pe.Cast) and x.value.dtype.is_integer]
    return isinstance(node, pe.Mul) and node.dtype.is_float and bool(sides)
