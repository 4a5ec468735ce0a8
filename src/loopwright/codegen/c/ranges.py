"""The least and greatest values of integers, as far as they can be derived from a function's text.

An emitter queries them at every operation, so they are plain intervals; `arith` proves tighter bounds.
"""

from __future__ import annotations

from ...arith.bounds import scaled_bound
from ...ir import prim_expr as pe
from ...ir.dtype import DataType
from ...ir.prim_expr import IntImm, PrimExpr, Var

# Values of int64 within it fit a ptrdiff_t of 32 bits, which 32-bit cores compute in one instruction.
NARROW_LIMIT = 1 << 31
_INTEGER_OPS = (pe.Add, pe.Sub, pe.Mul, pe.Div, pe.Mod, pe.FloorDiv, pe.FloorMod, pe.Min, pe.Max)
_NO_RANGE = (-(1 << 70), 1 << 70)  # wider than any int64


class Ranges:
    """Known ranges of variables; `narrow`: int64 variables that fit a ptrdiff_t."""

    def __init__(self) -> None:
        self.bounds: dict[Var, tuple[int, int]] = {}
        self.narrow: set[Var] = set()

    def fits(self, node: pe.BinaryOpExpr) -> bool:
        """Whether integer arithmetic is known not to overflow its type."""
        dtype = node.dtype
        if not dtype.is_int or dtype.bits < 32:
            return False
        low, high = self.interval(node)
        return -(1 << (dtype.bits - 1)) <= low and high < 1 << (dtype.bits - 1)

    def fits_narrow(self, node: PrimExpr) -> bool:
        """Whether an integer expression and all its subexpressions are known to fit 32 bits."""
        if not node.dtype.is_int or node.dtype.bits < 32:
            return False
        low, high = self.interval(node)
        if low < -NARROW_LIMIT or high >= NARROW_LIMIT:
            return False
        if isinstance(node, IntImm):
            return True
        if isinstance(node, Var):
            return node.dtype.bits == 32 or node in self.narrow
        if isinstance(node, pe.Cast):
            return self.fits_narrow(node.value)
        if isinstance(node, _INTEGER_OPS):
            return self.fits_narrow(node.a) and self.fits_narrow(node.b)
        return False

    def interval(self, node: PrimExpr) -> tuple[int, int]:
        """Bounds of an integer expression, as tight as is known."""
        if isinstance(node, IntImm):
            return node.value, node.value
        if isinstance(node, Var):
            return self.bounds.get(node) or _of_type(node.dtype)
        if isinstance(node, pe.Cast) and node.value.dtype.is_integer:
            return _within(self.interval(node.value), node.dtype)
        if isinstance(node, pe.Cast):
            low, high = scaled_bound(node, self.interval) or _NO_RANGE
            return _within((int(low), int(high)), node.dtype)
        if not isinstance(node, pe.BinaryOpExpr):
            return _of_type(node.dtype)
        (a, b), (c, d) = self.interval(node.a), self.interval(node.b)
        kind = type(node)
        if kind is pe.Add:
            return a + c, b + d
        if kind is pe.Sub:
            return a - d, b - c
        if kind is pe.Mul:
            ends = (a * c, a * d, b * c, b * d)
            return min(ends), max(ends)
        if kind is pe.Min:
            return min(a, c), min(b, d)
        if kind is pe.Max:
            return max(a, c), max(b, d)
        if c == d and c > 0:
            if kind is pe.FloorDiv or (kind is pe.Div and a >= 0):
                return a // c, b // c
            if kind is pe.FloorMod or (kind is pe.Mod and a >= 0):
                return 0, c - 1
        return _of_type(node.dtype)


def _of_type(dtype: DataType) -> tuple[int, int]:
    """All values of a dtype."""
    if dtype.is_int:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return (0, (1 << dtype.bits) - 1) if dtype.is_integer else _NO_RANGE


def _within(bounds: tuple[int, int], dtype: DataType) -> tuple[int, int]:
    """The bounds after a cast: those of the dtype where a value may wrap around."""
    whole = _of_type(dtype)
    return bounds if whole[0] <= bounds[0] and bounds[1] <= whole[1] else whole
