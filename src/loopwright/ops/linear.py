"""Matrix products."""

from __future__ import annotations

import numpy as np

from .. import te
from ..base.errors import explain
from ..ir.dtype import numpy_dtype
from ..ir.literals import is_one
from ..ir.prim_expr import IntImm
from ..ir.prim_op import cast, const, multiply
from ..relax.struct_info import TensorStructInfo
from .common import (
    accumulator,
    aligned_index,
    broadcast_shape,
    dims_equal,
    rounded,
    void_or,
    widened,
)
from .core import case, op
from .params import DType, Tensor


@op("relax.matmul")
def matmul(x1: Tensor, x2: Tensor, out_dtype: DType | None = None):
    """numpy's matmul: the last axis of x1 with the last but one of x2, the rest broadcast."""
    a, b = list(x1.shape), list(x2.shape)
    left, right = len(a) == 1, len(b) == 1
    batch = broadcast_shape(a[:-2], b[:-2])
    rows, cols = [] if left else [a[-2]], [] if right else [b[-1]]
    k = te.reduce_axis((const(0, a[-1].dtype), a[-1]), name="k")
    dtype = void_or(out_dtype, x1.dtype)
    wide = accumulator(dtype)

    def cell(*i):
        front = i[: len(batch)]
        row = [] if left else [i[len(batch)]]
        col = [] if right else [i[-1]]
        lhs = x1(*aligned_index(a[:-2], front, batch), *row, k)
        rhs = x2(*aligned_index(b[:-2], front, batch), k, *col)
        return te.sum(multiply(cast(wide, lhs), cast(wide, rhs)), axis=k)

    return rounded(te.compute([*batch, *rows, *cols], cell, name="matmul"), dtype)


@matmul.infer
def _(x1: TensorStructInfo, x2: TensorStructInfo, out_dtype=None):
    dtype = out_dtype
    if dtype is None:
        known = not (x1.dtype.is_void or x2.dtype.is_void)
        if known and x1.dtype != x2.dtype:
            hint = "cast one side with astype"
            got = f"{x1.dtype} and {x2.dtype}"
            raise TypeError(explain("operands of different dtypes", got=got, instead=hint))
        dtype = x1.dtype if known else "void"
    if x1.ndim == -1 or x2.ndim == -1:
        return TensorStructInfo(dtype=dtype)
    if x1.ndim == 0 or x2.ndim == 0:
        raise ValueError("needs tensors of rank 1 or more")
    rank = max(x1.ndim - 2, x2.ndim - 2, 0) + (x1.ndim > 1) + (x2.ndim > 1)
    a, b = x1.get_shape(), x2.get_shape()
    if a is None or b is None:
        return TensorStructInfo(dtype=dtype, ndim=rank)
    inner, other = a[-1], b[0 if len(b) == 1 else -2]
    if isinstance(inner, IntImm) and isinstance(other, IntImm) and inner.value != other.value:
        what = f"the inner dimensions differ: {inner.value} and {other.value}"
        hint = "transpose or reshape one side"
        raise ValueError(explain(what, instead=hint))
    batch = broadcast_shape(list(a[:-2]), list(b[:-2]))
    pairs = zip(reversed(a[:-2]), reversed(b[:-2]), strict=False)
    for x, y in pairs:
        if not (is_one(x) or is_one(y) or dims_equal(x, y)):
            return TensorStructInfo(dtype=dtype, ndim=rank)
    rows, cols = [a[-2]] if len(a) > 1 else [], [b[-1]] if len(b) > 1 else []
    return TensorStructInfo([*batch, *rows, *cols], dtype)


@matmul.numpy
def _(x1, x2, out_dtype=None):
    kind = x1.dtype if out_dtype is None else numpy_dtype(out_dtype)
    a, b = (widened(x.astype(kind)) for x in (x1, x2))
    return np.asarray(np.matmul(a, b)).astype(kind, copy=False)


matmul.samples(
    case((4, 5), (5, 3)),
    case(("n", 16), (16, 8)),
    case((2, 1, 3, 4), (5, 4, 2)),
    case((4,), (4, 3)),
    case((3, 4), (4,)),
)
