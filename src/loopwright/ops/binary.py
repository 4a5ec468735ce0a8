"""Broadcasting operators of two tensors."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from .. import tir
from ..base.errors import explain
from ..ir import prim_op
from ..ir.prim_expr import IntImm, PrimExpr
from ..relax import op as R
from ..relax.expr import Call, Constant, Expr
from ..relax.struct_info import TensorStructInfo
from .common import common_dtype, compute, element, shape_of
from .core import case, op
from .extents import differ, dims_equal
from .family import binary
from .gradient import Backward
from .layout_rules import broadcasting
from .params import Tensor

_INT = {"dtype": "int32", "low": 1, "high": 9}
_BOOL = {"dtype": "bool"}
_POSITIVE = {"low": 0.5, "high": 3.0}


def _whole(divided: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    """A division of integers by any number: `prim_op` refuses the literal 0, whose result is 0."""
    return lambda a, b: b if isinstance(b, IntImm) and not b.value else divided(a, b)


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


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if not np.issubdtype(a.dtype, np.signedinteger):
        return np.power(a, b)
    # numpy refuses negative powers. Rounded toward zero they are those of 0, 1 and -1, of which a power
    # of 2 or 3 has the same sign.
    base = np.where((b < 0) & (np.abs(a) != 1), np.zeros_like(a), a)
    return np.power(base, np.where(b < 0, 2 + (b & 1), b))


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
    literal = isinstance(divisor, Constant) and not divisor.is_weight
    return literal and bool(np.all(divisor.data.numpy() != 0))


def _chosen(cx: Backward, first: Expr) -> tuple[Any, Any]:
    """The gradients where the result is the first operand or else the second one."""
    zero = cx.number(0)
    return R.where(first, cx.grad, zero), R.where(first, zero, cx.grad)


binary(
    "relax.add",
    lambda a, b: a + b,
    np.add,
    "x1 + x2",
    finite=True,
    commutes=True,
    slopes=lambda cx, a, b: (cx.grad, cx.grad),
)
binary(
    "relax.subtract",
    lambda a, b: a - b,
    np.subtract,
    "x1 - x2",
    finite=True,
    slopes=lambda cx, a, b: (cx.grad, -cx.grad),
)
binary(
    "relax.multiply",
    lambda a, b: a * b,
    np.multiply,
    "x1 * x2",
    finite=True,
    commutes=True,
    slopes=lambda cx, a, b: (cx.grad * b, cx.grad * a),
)
binary(
    "relax.divide",
    _whole(prim_op.div),
    _divide,
    "x1 / x2; integers round toward zero, by 0 to 0.",
    sample=_POSITIVE,
    finite=_by_nonzero,
    slopes=lambda cx, a, b: (cx.grad / b, -cx.grad * cx.out / b),
)
binary(
    "relax.floor_divide",
    _whole(prim_op.floordiv),
    _floor_divide,
    "x1 / x2 rounded down; integers by 0: 0.",
    sample=_POSITIVE,
)
binary(
    "relax.power",
    tir.power,
    _power,
    "x1 to the power x2; of integers a negative one rounds toward zero, of 0 to 0.",
    sample=_POSITIVE,
    slopes=lambda cx, a, b: (
        cx.grad * b * R.power(a, b - cx.number(1)),
        cx.grad * cx.out * R.log(a),
    ),
)


def log_add_exp(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """From the larger operand: its exponential could overflow."""
    top = prim_op.maximum(a, b)
    gap = tir.if_then_else(tir.EQ(a, b), prim_op.const(0, a.dtype), -tir.abs(a - b))
    return top + tir.log1p(tir.exp(gap))


binary(
    "relax.log_add_exp",
    log_add_exp,
    np.logaddexp,
    "log(exp(x1) + exp(x2))",
    commutes=True,
    slopes=lambda cx, a, b: (cx.grad * R.sigmoid(a - b), cx.grad * R.sigmoid(b - a)),
)
mod = binary(
    "relax.mod",
    _whole(lambda a, b: tir.fmod(a, b) if a.dtype.is_float else prim_op.truncmod(a, b)),
    _trunc_mod,
    "Remainder with the sign of x1.",
    sample=_INT,
    slopes=lambda cx, a, b: (cx.grad, -cx.grad * R.trunc(a / b)),
)
mod.samples(case((2, 3), (2, 3), low=0.5, high=3.0))
floor_mod = binary(
    "relax.floor_mod",
    _whole(_floor_mod),
    np.mod,
    "Remainder with the sign of x2.",
    sample=_INT,
    slopes=lambda cx, a, b: (cx.grad, -cx.grad * R.floor_divide(a, b)),
)
_ENDS = np.array([np.inf, -np.inf, 0, -0.0, 1, -2.5, 3e38, np.nan], np.float32)
floor_mod.samples(case(_ENDS[:, None], _ENDS), case((2, 3), (2, 3), low=0.5, high=3.0))
binary(
    "relax.maximum",
    prim_op.maximum,
    np.maximum,
    "The larger of x1 and x2.",
    finite=True,
    slopes=lambda cx, a, b: _chosen(cx, a >= b),
)
binary(
    "relax.minimum",
    prim_op.minimum,
    np.minimum,
    "The smaller of x1 and x2.",
    finite=True,
    slopes=lambda cx, a, b: _chosen(cx, a < b),
)
binary(
    "relax.atan2",
    tir.atan2,
    np.arctan2,
    "The angle of the point (x2, x1).",
    slopes=lambda cx, a, b: (cx.grad * b / (a * a + b * b), -cx.grad * a / (a * a + b * b)),
)

for _name, _fn, _np, _doc in (
    ("equal", prim_op.equal, np.equal, "x1 == x2"),
    ("not_equal", prim_op.not_equal, np.not_equal, "x1 != x2"),
    ("less", prim_op.less, np.less, "x1 < x2"),
    ("less_equal", prim_op.less_equal, np.less_equal, "x1 <= x2"),
    ("greater", prim_op.greater, np.greater, "x1 > x2"),
    ("greater_equal", prim_op.greater_equal, np.greater_equal, "x1 >= x2"),
):
    _comparison = binary(f"relax.{_name}", _fn, _np, _doc, result="bool", mixed=True)
    _comparison.samples(case((2, 3), np.array([-1, 0, 1], np.int32)))

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


@op("relax.ewise_fma", mixed="follow")
def ewise_fma(x1: Tensor, x2: Tensor, x3: Tensor):
    """x1 * x2 + x3, element by element."""

    def cell(*i):
        a, b, c = (element(x, list(i)) for x in (x1, x2, x3))
        return a * b + c

    return compute(shape_of(x1), cell, "ewise_fma", axes="i")


@ewise_fma.infer
def _(x1: TensorStructInfo, x2: TensorStructInfo, x3: TensorStructInfo):
    infos = (x1, x2, x3)
    ranks = {t.ndim for t in infos if t.ndim != -1}
    if len(ranks) > 1:
        raise ValueError(explain("the tensors must have one shape", got=", ".join(map(str, infos))))
    dtype = common_dtype(x1, x2)
    dtype = common_dtype(TensorStructInfo(dtype=dtype), x3)
    shapes = [t.get_shape() for t in infos]
    if any(s is None for s in shapes):
        same = x1.shape is not None and x1.shape is x2.shape is x3.shape
        rank = max(t.ndim for t in infos)
        return TensorStructInfo(x1.shape if same else None, dtype, ndim=rank)
    for dims in zip(*shapes, strict=True):
        if any(differ(b, a) for a, b in pairwise(dims)):
            what = "the tensors must have one shape"
            raise ValueError(explain(what, got=", ".join(map(str, infos))))
    all_equal = all(dims_equal(dims[0], d) for dims in zip(*shapes, strict=True) for d in dims)
    return TensorStructInfo(x1.shape if all_equal else None, dtype, ndim=x1.ndim)


ewise_fma.numpy(lambda x1, x2, x3: x1 * x2 + x3)
ewise_fma.grad(lambda cx, x1, x2, x3: [cx.grad * x2, cx.grad * x1, cx.grad])
ewise_fma.layout(broadcasting(finite=True))
ewise_fma.samples(case((2, 3), (2, 3), (2, 3)), case(("n", 4), ("n", 4), ("n", 4)))
