"""Broadcasting operators of two tensors."""

from __future__ import annotations

import numpy as np

from .. import tir
from ..ir import prim_op
from ..ir.prim_expr import PrimExpr
from ..relax.expr import Call, Constant
from .core import case
from .family import binary

_INT = {"dtype": "int32", "low": 1, "high": 9}
_BOOL = {"dtype": "bool"}
_POSITIVE = {"low": 0.5, "high": 3.0}


def _trunc_mod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.fmod(a, b)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if not np.issubdtype(a.dtype, np.integer):
        return a / b
    floor = np.floor_divide(a, b)  # 0 where b is 0
    return floor + ((floor < 0) & (floor * b != a) & (b != 0))


def _floor_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    integers = np.issubdtype(a.dtype, np.integer)
    return np.floor_divide(a, b) if integers else np.floor(np.divide(a, b))


def _floor_mod(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Of floats by the exact remainder, because a - b * floor(a / b) is NaN where b is infinite."""
    if not a.dtype.is_float:
        return prim_op.floormod(a, b)
    rest, zero = tir.fmod(a, b), prim_op.const(0, a.dtype)
    mixed = tir.And(tir.NE(rest, zero), prim_op.not_equal(rest < zero, b < zero))
    return tir.Select(mixed, rest + b, rest)


def _by_nonzero(call: Call) -> bool:
    """Whether a division is by a constant without zeros."""
    divisor = call.args[1]
    return isinstance(divisor, Constant) and bool(np.all(divisor.data.numpy() != 0))


binary("relax.add", lambda a, b: a + b, np.add, "x1 + x2", finite=True, commutes=True)
binary("relax.subtract", lambda a, b: a - b, np.subtract, "x1 - x2", finite=True)
binary("relax.multiply", lambda a, b: a * b, np.multiply, "x1 * x2", finite=True, commutes=True)
binary(
    "relax.divide",
    prim_op.div,
    _divide,
    "x1 / x2; integers round toward zero, by 0 to 0.",
    sample=_POSITIVE,
    finite=_by_nonzero,
)
binary(
    "relax.floor_divide",
    prim_op.floordiv,
    _floor_divide,
    "x1 / x2 rounded down; integers by 0: 0.",
    sample=_POSITIVE,
)
binary("relax.power", tir.power, np.power, "x1 to the power x2.", sample=_POSITIVE)
binary(
    "relax.mod",
    lambda a, b: tir.fmod(a, b) if a.dtype.is_float else prim_op.truncmod(a, b),
    _trunc_mod,
    "Remainder with the sign of x1.",
    sample=_INT,
)
floor_mod = binary(
    "relax.floor_mod", _floor_mod, np.mod, "Remainder with the sign of x2.", sample=_INT
)
_ENDS = np.array([np.inf, -np.inf, 0, -0.0, 1, -2.5, 3e38, np.nan], np.float32)
floor_mod.samples(case(_ENDS[:, None], _ENDS))
binary("relax.maximum", prim_op.maximum, np.maximum, "The larger of x1 and x2.", finite=True)
binary("relax.minimum", prim_op.minimum, np.minimum, "The smaller of x1 and x2.", finite=True)
binary("relax.atan2", tir.atan2, np.arctan2, "The angle of the point (x2, x1).")

for _name, _fn, _np, _doc in (
    ("equal", prim_op.equal, np.equal, "x1 == x2"),
    ("not_equal", prim_op.not_equal, np.not_equal, "x1 != x2"),
    ("less", prim_op.less, np.less, "x1 < x2"),
    ("less_equal", prim_op.less_equal, np.less_equal, "x1 <= x2"),
    ("greater", prim_op.greater, np.greater, "x1 > x2"),
    ("greater_equal", prim_op.greater_equal, np.greater_equal, "x1 >= x2"),
):
    binary(f"relax.{_name}", _fn, _np, _doc, result="bool")

for _name, _fn, _np, _doc in (
    ("and", tir.And, np.logical_and, "x1 and x2"),
    ("or", tir.Or, np.logical_or, "x1 or x2"),
    ("xor", prim_op.not_equal, np.logical_xor, "Whether exactly one of x1 and x2 holds."),
):
    binary(f"relax.logical_{_name}", _fn, _np, _doc, result="bool", sample=_BOOL)
binary("relax.bitwise_and", prim_op.bitwise_and, np.bitwise_and, "x1 & x2", sample=_INT)
binary("relax.bitwise_or", prim_op.bitwise_or, np.bitwise_or, "x1 | x2", sample=_INT)
binary("relax.bitwise_xor", prim_op.bitwise_xor, np.bitwise_xor, "x1 ^ x2", sample=_INT)
binary("relax.left_shift", prim_op.shift_left, np.left_shift, "x1 << x2", sample=_INT)
binary("relax.right_shift", prim_op.shift_right, np.right_shift, "x1 >> x2", sample=_INT)
