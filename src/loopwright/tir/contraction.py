"""Which products and sums of floats code may round once, together: the rule of LLVM's code, of C's and of the
interpreter.

A product of a converted integer is rounded separately, since the last bit of dequantized numbers decides
the next step; and so are the terms of a difference of equal ones: fused, a b - a b would be the rounding
error of a b instead of 0.
"""

from __future__ import annotations

from ..ir import prim_expr as pe
from ..ir.structural import structural_equal


def stays(node: pe.PrimExpr) -> bool:
    """Whether an operation of floats is not fused with another."""
    if isinstance(node, pe.Mul):
        return _converted(node.a) or _converted(node.b)
    return isinstance(node, pe.Sub) and structural_equal(node.a, node.b)


def _converted(factor: pe.PrimExpr) -> bool:
    return isinstance(factor, pe.Cast) and factor.value.dtype.is_integer
