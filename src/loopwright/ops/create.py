"""Operators that create tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import te, tir
from ..base import budget
from ..base.errors import CallValueError, explain
from ..ir.dtype import DataType, numpy_dtype
from ..ir.prim_expr import IntImm, PrimExpr
from ..ir.prim_op import add, cast, ceildiv, const, floordiv, multiply, subtract
from ..relax import op as R
from ..relax.expr import ShapeExpr
from ..relax.expr import const as constant
from ..relax.struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from .common import accumulator, compute, element, like, of_shape, shape_of
from .core import case, op
from .extents import simplify
from .gradient import no_gradient
from .layout_rules import along
from .params import DType, Prim, Scalar, Shape, Tensor


@op("relax.full")
def full(shape: Shape, fill_value: Scalar, dtype: DType | None = None):
    """A tensor of `shape` whose elements are all `fill_value` (a 0-d tensor)."""
    value = element(fill_value, [])
    kind = DataType(dtype) if dtype is not None else value.dtype
    return compute(shape, lambda *i: cast(kind, value), "T_full", tag="elemwise")


@full.infer
def _(shape: ShapeStructInfo, fill_value: TensorStructInfo, dtype=None):
    kind = dtype if dtype is not None else fill_value.dtype
    return of_shape(shape, kind)


@full.numpy
def _(shape, fill_value, dtype=None):
    kind = fill_value.dtype if dtype is None else numpy_dtype(dtype)
    return np.full(tuple(int(d) for d in shape), fill_value, kind)


full.samples(case([2, 3], np.float32(1.5)), case([4], np.int32(7), dtype="float32"))


@op("relax.full_like")
def full_like(x: Tensor, fill_value: Scalar, dtype: DType | None = None):
    """A tensor of x's shape whose elements are all `fill_value`."""
    kind = DataType(dtype) if dtype is not None else x.dtype
    value = element(fill_value, [])
    return compute(shape_of(x), lambda *i: cast(kind, value), "T_full_like", tag="elemwise")


@full_like.numpy
def _(x, fill_value, dtype=None):
    return np.full_like(x, fill_value, dtype=None if dtype is None else numpy_dtype(dtype))


@full_like.legalize
def _(bb, call):
    x, fill_value = call.args
    if not isinstance(x.struct_info.shape, ShapeExpr):
        return None
    return R.full(x.struct_info.shape, fill_value, _kind_of(call))


def _kind_of(call):
    """The dtype of a tensor created like another one."""
    dtype = call.attrs.dtype
    return call.args[0].struct_info.dtype if DataType(dtype).is_void else dtype


full.grad(no_gradient)
full_like.infer(lambda x, fill_value, dtype=None: like(x, dtype))
full_like.grad(no_gradient)
full_like.layout(along())
full_like.samples(case((2, 3), np.float32(2.0)))


def _filled(name: str, value: int) -> None:
    def body(shape: Shape, dtype: DType):
        return compute(shape, lambda *i: const(value, dtype), "T_full", tag="elemwise")

    def of_other(x: Tensor, dtype: DType | None = None):
        kind = x.dtype if dtype is None else dtype
        return compute(shape_of(x), lambda *i: const(value, kind), "T_full_like", tag="elemwise")

    body.__name__, body.__doc__ = name, f"A tensor of {name}."
    of_other.__name__, of_other.__doc__ = "full_like", f"A tensor of {name} of x's shape."
    filled, filled_like = op(f"relax.{name}")(body), op(f"relax.{name}_like")(of_other)
    filled_like.layout(along())
    filled.grad(no_gradient)
    filled_like.grad(no_gradient)

    @filled.build
    def _(shape, dtype):
        if not dtype or DataType(dtype).is_void:
            what = f"relax.{name} needs a dtype"
            raise ValueError(explain(what, got="none", instead="such as 'float32'"))
        return {"shape": shape, "dtype": dtype}

    @filled.infer
    def _(shape: ShapeStructInfo, dtype):
        return of_shape(shape, dtype)

    @filled.numpy
    def _(shape, dtype):
        return np.full(tuple(int(d) for d in shape), value, numpy_dtype(dtype))

    @filled_like.infer
    def _(x: TensorStructInfo, dtype=None):
        return like(x, dtype)

    @filled_like.legalize
    def _(bb, call):
        shape = call.args[0].struct_info.shape
        return filled.builder(shape, _kind_of(call)) if isinstance(shape, ShapeExpr) else None

    @filled_like.numpy
    def _(x, dtype=None):
        return np.full_like(x, value, dtype=None if dtype is None else numpy_dtype(dtype))

    filled.samples(case([2, 3], dtype="float32"), case([4], dtype="int64"))
    filled_like.samples(case((2, 3)))


_filled("zeros", 0)
_filled("ones", 1)


@op("relax.arange")
def arange(start: Prim, end: Prim | None = None, step: Prim = 1, dtype: DType | None = None):
    """start, start + step, ... below `end`; with one bound only, from 0 up to it. The dtype is
    int64 for whole numbers and float32 for others, unless it is given."""
    bounds: list[Any] = [start, end, step]
    literal: list[Any] = [getattr(v, "value", None) for v in bounds]
    if all(isinstance(v, (int, float)) for v in literal):
        count = const(_count(*literal), "int64")
    elif all(v.dtype.is_integer for v in bounds):
        count = _symbolic_count(start, end, step)
    else:
        real = subtract(cast("float64", end), cast("float64", start))
        count = cast("int64", tir.ceil(tir.Div(real, cast("float64", step))))
    return _numbers(simplify(tir.max(cast("int64", count), const(0, "int64"))), start, step, dtype)


def _numbers(size: PrimExpr, start: Any, step: Any, dtype: Any) -> te.Tensor:
    first, by = cast(dtype, start), cast(dtype, step)
    cell = lambda i: add(first, multiply(by, cast(dtype, i)))  # noqa: E731
    return te.compute([size], cell, name="T_arange", tag="injective")


@arange.build
def _(start, end, step, dtype):
    if end is None:
        start, end = 0, start
    if dtype is None:
        whole = all(_is_whole(v) for v in (start, end, step))
        dtype = "int64" if whole else "float32"
    return {"start": start, "end": end, "step": step, "dtype": dtype}


def _count(first: Any, last: Any, by: Any) -> int:
    """The elements of an `arange`."""
    if not by or not all(map(math.isfinite, (first, last, by))):
        what = "a range of numbers has finite bounds and a step that is not 0"
        raise CallValueError(explain(what, got=f"from {first} to {last} by {by}"))
    exact = all(isinstance(v, int) for v in (first, last, by))
    return max(-((first - last) // by) if exact else math.ceil((last - first) / by), 0)


def _symbolic_count(first: PrimExpr | None, last: Any, by: PrimExpr | None) -> Any:
    """The same of whole numbers that are not known: less than 0 for none."""
    if isinstance(by, IntImm) and by.value > 0:
        return ceildiv(subtract(last, first), by)
    return -floordiv(subtract(first, last), by)


def _is_whole(value):
    if isinstance(value, (int, float)):
        return isinstance(value, int)
    info = getattr(value, "struct_info", None)
    return (info.dtype if isinstance(info, PrimStructInfo) else value.dtype).is_integer


@arange.legalize
def _(bb, call):
    """Numbers that are known are a constant, where there is room for them."""
    bounds: list[Any] = [getattr(getattr(a, "value", None), "value", None) for a in call.args]
    dtype, shape = call.attrs.dtype, call.struct_info.shape
    if None in bounds and isinstance(shape, ShapeExpr):  # its size is simpler in the graph
        start, _, step = (a.struct_info.value for a in call.args)
        return bb.call_te(
            _numbers, shape.values[0], start, step, dtype, primfunc_name_hint="arange"
        )
    if None in bounds or not budget.room(16 * _count(*bounds)):
        return arange._legalize(bb, call)
    return constant(np.arange(*bounds).astype(numpy_dtype(dtype)), dtype)


@arange.infer
def _(start: PrimStructInfo, end: PrimStructInfo, step: PrimStructInfo, dtype):
    values = [start.value, end.value, step.value]
    literal: list[Any] = [getattr(v, "value", None) for v in values]
    if all(isinstance(v, (int, float)) for v in literal):
        return TensorStructInfo([_count(*literal)], dtype)
    if any(v is None or v.dtype.is_float for v in values):
        return TensorStructInfo(dtype=dtype, ndim=1)
    count = _symbolic_count(*values)
    return TensorStructInfo([simplify(tir.max(cast("int64", count), const(0, "int64")))], dtype)


arange.numpy(lambda start, end, step, dtype: np.arange(start, end, step).astype(numpy_dtype(dtype)))
arange.samples(case(0, 8, 1, dtype="int64"), case(1, 9, 3, dtype="float32"), case(5, dtype="int64"))


def _identity(shape, k, dtype, name):
    def cell(*i):
        here = tir.EQ(cast("int64", i[-1]), cast("int64", i[-2]) + cast("int64", _diagonal(k)))
        return tir.Select(here, const(1, dtype), const(0, dtype))

    return compute(shape, cell, name, tag="injective")


@op("relax.eye", mixed="follow")
def eye(n: Prim, m: Prim | None = None, k: Prim = 0, dtype: DType = "float32"):
    """n x m (None: n x n): 1 on the diagonal number k, 0 elsewhere."""
    return _identity([n, n if m is None else m], k, dtype, "eye")


@eye.infer
def _(n: PrimStructInfo, m: PrimStructInfo, k, dtype="float32"):
    if n.value is None or m.value is None:
        return TensorStructInfo(dtype=dtype, ndim=2)
    return TensorStructInfo([n.value, m.value], dtype)


@eye.numpy
def _(n, m=None, k=0, dtype="float32"):
    return np.eye(int(n), None if m is None else int(m), int(k), numpy_dtype(dtype))


eye.build(lambda n, m, k, dtype: {"n": n, "m": n if m is None else m, "k": k, "dtype": dtype})
eye.samples(case(3, dtype="float32"), case(3, 5, 1, dtype="int64"), case(4, 2, -2, dtype="int32"))


@op("relax.eye_like", mixed="follow")
def eye_like(x: Tensor, k: Prim = 0, dtype: DType | None = None):
    """`eye` of the shape of the matrix x."""
    return _identity(x.shape, k, x.dtype if dtype is None else dtype, "eye_like")


@eye_like.infer
def _(x: TensorStructInfo, k, dtype=None):
    if x.ndim not in (-1, 2):
        raise ValueError(explain("needs a matrix", got=f"rank {x.ndim}"))
    return like(x, dtype)


@eye_like.numpy
def _(x, k=0, dtype=None):
    return np.eye(*x.shape, int(k), x.dtype if dtype is None else numpy_dtype(dtype))


eye_like.grad(no_gradient)
eye_like.samples(case((3, 4), dtype="float32"), case(("n", 3), 1, dtype="int64"))


@op("relax.hamming_window", mixed="follow")
def hamming_window(window_size: Prim, periodic: Prim, alpha: Prim, beta: Prim, dtype: DType):
    """alpha - beta * cos(2 pi i / m) for i below window_size, where m is window_size, or one less
    if it is not `periodic`."""
    wide = accumulator(dtype)
    length = cast(wide, window_size)
    whole = tir.max(tir.Select(cast("bool", periodic), length, length - 1), const(1, wide))

    def cell(i):
        turn = const(2 * math.pi, wide) * cast(wide, i) / whole
        value = cast(wide, alpha) - cast(wide, beta) * tir.cos(turn)
        if_one = cast(wide, alpha) + cast(wide, beta)
        return cast(dtype, tir.Select(window_size > 1, value, if_one))

    return te.compute([cast("int64", window_size)], cell, name="hamming_window", tag="injective")


@hamming_window.infer
def _(window_size: PrimStructInfo, periodic, alpha, beta, dtype):
    if not DataType(dtype).is_float:
        raise TypeError(explain("dtype must be a float", got=str(dtype)))
    size = window_size.value
    if size is None:
        return TensorStructInfo(dtype=dtype, ndim=1)
    if isinstance(size, IntImm) and size.value < 1:
        raise ValueError(explain("window_size must be 1 or more", got=size.value))
    return TensorStructInfo([simplify(size)], dtype)


@hamming_window.numpy
def _(window_size, periodic, alpha, beta, dtype):
    size = int(window_size)
    whole = max(size if periodic else size - 1, 1)
    turn = np.arange(size) * (2 * np.pi / whole)
    value = float(alpha) - float(beta) * np.cos(turn)
    return (value if size > 1 else np.array([float(alpha) + float(beta)])).astype(
        numpy_dtype(dtype)
    )


hamming_window.samples(
    case(20, True, 0.54, 0.46, dtype="float32"), case(7, False, 0.5, 0.5, dtype="float64")
)


def _triangle(name: str, keep, meaning) -> None:
    def body(x: Tensor, k: Prim = 0):
        zero, shift = const(0, x.dtype), _diagonal(k)
        below = isinstance(shift, IntImm) and shift.value < 0

        def cell(*i):
            up = cast(i[-1].dtype, shift)
            col, row = (i[-1] - up, i[-2]) if below else (i[-1], i[-2] + up)
            return tir.Select(keep(col, row), x(*i), zero)

        return compute(x.shape, cell, "trilu", axes="i", tag="injective")

    body.__name__ = name
    body.__doc__ = f"The elements of `np.{name}(x, k)`; the rest is 0."
    operator = op(f"relax.{name}")(body)

    @operator.infer
    def _(x: TensorStructInfo, k):
        if x.ndim in (0, 1):
            raise ValueError(explain("needs a tensor of two axes or more", got=f"rank {x.ndim}"))
        return like(x)

    @operator.grad
    def _(cx, x, k):
        return getattr(R, name)(cx.grad, k)

    operator.numpy(lambda x, k=0: meaning(x, min(max(int(k), -_FAR), _FAR)))
    operator.samples(case((3, 4)), case((2, 4, 4), 1), case((2, 3), -(1 << 63)))


def _diagonal(k):
    """A diagonal's number, clamped so that it can be added to an index."""
    return const(min(max(k.value, -_FAR), _FAR), "int64") if isinstance(k, IntImm) else k


_FAR = 1 << 62  # beyond all extents, and an index plus it is still an int64
_triangle("tril", lambda col, row: col <= row, np.tril)
_triangle("triu", lambda col, row: row <= col, np.triu)
