"""Helpers for the bodies and hooks of operators: shapes, broadcasting, axes, reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .. import te
from ..base.errors import explain
from ..ir.dtype import DataType, numpy_dtype
from ..ir.literals import broadcast_parts, is_one
from ..ir.prim_expr import IntImm, PrimExpr, Select, Var
from ..ir.prim_op import cast, const, equal, multiply
from ..relax.expr import ShapeExpr
from ..relax.struct_info import ShapeStructInfo, TensorStructInfo
from ..te.tensor import Tensor
from ..tir import interpreter
from .extents import at_most_one, broadcast_differ, broadcast_extent, dims_equal, may_be_one


def named(prefix: str, ndim: int) -> list[str]:
    """Axis names: ax0, ax1, ..."""
    return [f"{prefix}{i}" for i in range(ndim)]


NO_INLINE = "no_inline"  # of a block: its elements are stored, not computed where they are read
# Of a block that compares elements with a result made of them: computed a second time they could be rounded in
# another way, so they are stored.
EXACT_READS = "exact_reads"


def compute(
    shape: Any, fn: Callable[..., PrimExpr], name: str, *, axes: str = "ax", tag: str = "",
    attrs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """te.compute over `shape` with axes called ax0, ax1, ...; `fn` gets them as arguments."""
    shape = list(shape)
    names = named(axes, len(shape))
    return te.compute(shape, fn, name=name, tag=tag, attrs=attrs, varargs_names=names)


def by_loops(body: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """The numpy meaning of an operator that numpy does not have: its loops, interpreted. That they are
    right is for its tests to show, by other formulas."""

    def meaning(*arrays: np.ndarray, **attrs: Any) -> np.ndarray:
        inputs = [np.asarray(a, order="C") for a in arrays]
        tensors = [te.placeholder(a.shape, str(a.dtype), f"x{k}") for k, a in enumerate(inputs)]
        result = body(*tensors, **attrs)
        shape = [int(d.value) for d in result.shape]
        out = np.empty(shape, numpy_dtype(result.dtype))
        interpreter.run(te.create_prim_func([*tensors, result]), [*inputs, out])
        return out

    return meaning


def shape_of(value: PrimExpr | Tensor | float) -> list[PrimExpr]:
    """The shape of a te tensor; a scalar expression has none."""
    return list(value.shape) if isinstance(value, te.Tensor) else []


def element(value: Any, indices: Sequence[Any]) -> PrimExpr:
    """`value[indices]` for a tensor, the value itself for a scalar expression."""
    return value(*indices) if isinstance(value, te.Tensor) else value


def listed(value: int | Sequence[int]) -> Any:
    """A list or tuple unchanged; another value as a list of one."""
    return value if isinstance(value, (list, tuple)) else [value]


def product(dims: Any) -> PrimExpr:
    """The number of elements of a tensor of these dimensions."""
    size = const(1, "int64")
    for d in dims:
        size = multiply(size, d)
    return size


def shape_text(dims: tuple | Sequence[PrimExpr | int]) -> str:
    """The text of a shape: "(n, 3)"."""
    return f"({', '.join(str(getattr(d, 'value', d)) for d in dims)})"


def broadcast_shape(a: list[Any], b: list[Any]) -> list[Any]:
    """The common shape by numpy's rules, see `broadcast_extent` (`broadcast_differ` has it checked
    that they fit). Raises ValueError if literals do not fit."""
    size = max(len(a), len(b))
    left, right = [None] * (size - len(a)) + list(a), [None] * (size - len(b)) + list(b)
    return [_common_dim(x, y, a, b) for x, y in zip(left, right, strict=True)]


def broadcast_all(shapes: Iterable[Any]) -> list[Any]:
    """The common shape of several; extents that cannot be compared are checked at run time."""
    dims: list[Any] = []
    for shape in shapes:
        broadcast_differ(shape, dims)
        dims = broadcast_shape(dims, list(shape))
    return dims


def _common_dim(x: PrimExpr | None, y: PrimExpr | None, a: list[Any], b: list[Any]) -> Any:
    if x is None or y is None:
        return y if x is None else x
    one = is_one(x) or is_one(y)
    if isinstance(x, IntImm) and isinstance(y, IntImm) and x.value != y.value and not one:
        got = f"{shape_text(a)} and {shape_text(b)}"
        what = "shapes do not broadcast"
        raise ValueError(explain(what, got=got, instead="dims must be equal or 1"))
    return broadcast_extent(x, y)


def broadcast_index(
    value: PrimExpr | Tensor | float, indices: tuple[Any, ...], result: list[Any]
) -> list[Any]:
    """The indices into `value` for the element `indices` of the broadcast result of shape
    `result`. An axis that is 1 in both keeps its index, so that the loops show that it is not
    broadcast."""
    return aligned_index(shape_of(value), indices, result)


def aligned_index(shape: list[Any], indices: Sequence[PrimExpr], result: list[Any]) -> list[Any]:
    """`broadcast_index` of a tensor of that shape."""
    skipped = len(indices) - len(shape)
    triples = zip(shape, indices[skipped:], result[skipped:], strict=True)
    return [_aligned(d, i, r) for d, i, r in triples]


def _aligned(dim: PrimExpr, index: PrimExpr, result: PrimExpr) -> Any:
    if is_one(result) or isinstance(dim, IntImm):
        return const(0, index.dtype) if is_one(dim) and not is_one(result) else index
    if dims_equal(dim, result) or not may_be_one(dim):
        return index
    if at_most_one(dim):
        return const(0, index.dtype)
    others = [p for p in broadcast_parts(result) if not dims_equal(p, dim)]
    if all(map(at_most_one, others)):  # of 1, too, the result has no more
        return index
    return Select(equal(dim, 1), const(0, index.dtype), index)


def infer_broadcast(
    x1: TensorStructInfo, x2: TensorStructInfo, dtype: str | None = None
) -> TensorStructInfo:
    """Struct info of a broadcasting operator; unknown if dimensions cannot be compared."""
    result = dtype if dtype is not None else common_dtype(x1, x2)
    if x1.ndim == -1 or x2.ndim == -1:
        return TensorStructInfo(dtype=result)
    a, b = x1.get_shape(), x2.get_shape()
    if a is None or b is None:
        # With a scalar operand, or the same shape variable, the result has x1's shape.
        if x2.ndim == 0 or (x1.shape is not None and x1.shape is x2.shape):
            return TensorStructInfo(x1.shape, result, ndim=x1.ndim)
        if x1.ndim == 0:
            return TensorStructInfo(x2.shape, result, ndim=x2.ndim)
        return TensorStructInfo(dtype=result, ndim=max(x1.ndim, x2.ndim))
    dims = broadcast_shape(list(a), list(b))
    broadcast_differ(b, a)
    if broadcast_known(a, b):
        return TensorStructInfo(dims, result)
    return TensorStructInfo(dtype=result, ndim=len(dims))


def broadcast_known(a: Iterable[Any], b: Iterable[Any]) -> bool:
    """Whether inference says the common shape of two: as in TVM, not where a name has yet to be
    compared with a number or with another name."""
    pairs = zip(reversed(list(a)), reversed(list(b)), strict=False)
    return all(
        is_one(x)
        or is_one(y)
        or not all(isinstance(d, (Var, IntImm)) for d in (x, y))
        or dims_equal(x, y)
        for x, y in pairs
    )


def common_dtype(x1: TensorStructInfo, x2: TensorStructInfo) -> str:
    """The common dtype of both operands ("void" if unknown). Raises TypeError if they differ."""
    a, b = x1.dtype, x2.dtype
    if a.is_void or b.is_void:
        return "void"
    if a != b:
        hint = "cast one side with astype"
        raise TypeError(explain("operands of different dtypes", got=f"{a} and {b}", instead=hint))
    return str(a)


def normalize_axes(axes: Any, ndim: int) -> list[int]:
    """Axes as sorted non-negative numbers; None means all. Raises ValueError out of range."""
    if axes is None:
        return list(range(ndim))
    which = sorted(normalize_axis(a, ndim) for a in axes)
    if len(set(which)) < len(which):
        raise ValueError(explain("an axis is named twice", got=list(axes)))
    return which


def normalize_axis(axis: int, ndim: int) -> int:
    """One axis as a non-negative number. Raises ValueError out of range."""
    if not -ndim <= axis < ndim:
        what = "axis is out of range"
        raise ValueError(explain(what, got=axis, instead=f"use {-ndim} to {ndim - 1}"))
    return axis % ndim


def like(x: TensorStructInfo, dtype: Any = None) -> TensorStructInfo:
    """The struct info of a tensor of x's shape, of `dtype` (None: x's)."""
    return TensorStructInfo(x.shape, dtype or x.dtype, ndim=x.ndim)


def of_shape(shape: ShapeStructInfo, dtype: Any) -> TensorStructInfo:
    """The struct info of a tensor whose shape is an argument."""
    if shape.values is None:
        return TensorStructInfo(dtype=dtype, ndim=shape.ndim)
    return TensorStructInfo(ShapeExpr(shape.values), dtype)


def reduced_shape(shape: Sequence[PrimExpr], axes: list[int], keepdims: bool) -> list[Any]:
    """The shape after reducing `axes`."""
    one = const(1, shape[0].dtype) if len(shape) else None
    if keepdims:
        return [one if i in axes else d for i, d in enumerate(shape)]
    return [d for i, d in enumerate(shape) if i not in axes]


def reduce_over(
    x: Tensor, axes: list[int], keepdims: bool, combine: Callable[..., Any], name: str,
    attrs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """te.compute that reduces `axes` of x with `combine(cell(indices), axis=reduce axes)`."""
    spans = [te.reduce_axis((const(0, x.shape[a].dtype), x.shape[a]), name=f"k{a}") for a in axes]

    def cell(*i: PrimExpr) -> PrimExpr:
        rest, reduced = list(i), iter(spans)
        full = []
        for a in range(len(x.shape)):
            if a in axes:
                full.append(next(reduced))
                if keepdims:
                    rest.pop(0)
            else:
                full.append(rest.pop(0))
        return combine(full, spans)

    shape = reduced_shape(x.shape, axes, keepdims)
    return compute(shape, cell, name, tag="comm_reduce", attrs=attrs)


def infer_reduce(
    x: TensorStructInfo,
    axis: Sequence[int] | None = None,
    keepdims: bool = False,
    dtype: str | None = None,
) -> TensorStructInfo:
    """Struct info of a reduction."""
    result = dtype or x.dtype
    if axis is None and not keepdims:
        return TensorStructInfo([], result)
    if x.ndim == -1:
        return TensorStructInfo(dtype=result)
    if axis is None:
        return TensorStructInfo([1] * x.ndim, result)
    which = normalize_axes(axis, x.ndim)
    shape = x.get_shape()
    if shape is None:
        return TensorStructInfo(dtype=result, ndim=x.ndim if keepdims else x.ndim - len(which))
    return TensorStructInfo(ShapeExpr(reduced_shape(shape, which, keepdims)), result)


def accumulator(dtype: DataType | str) -> DataType:
    """The type that sums and products of values of `dtype` are kept in: float32 for shorter
    floats."""
    dtype = DataType(dtype)
    return DataType("float32") if dtype.is_float and dtype.bits < 32 else dtype


def rounded(value: Tensor, dtype: DataType | str) -> Any:
    """A te tensor in `dtype`, the tensor itself if that is its type."""
    if value.dtype == dtype:
        return value
    return compute(value.shape, lambda *i: cast(dtype, value(*i)), "T_cast", tag="elemwise")


def widened(array: np.ndarray) -> np.ndarray:
    """An array in its accumulator's type."""
    return array.astype(numpy_dtype(accumulator(str(array.dtype))), copy=False)


def contracted(
    a: np.ndarray, b: np.ndarray, axes: tuple[Sequence[int], Sequence[int]]
) -> np.ndarray:
    """np.tensordot, where 0 times infinity is NaN also if a side is a single number: BLAS scales by 0 without
    reading."""
    if 1 not in (a.size, b.size):
        return np.tensordot(a, b, axes)
    left, right = axes
    product = np.multiply.outer(a, b) + np.zeros((), a.dtype)  # a sum begins with 0: it is never -0
    return np.squeeze(product, (*left, *(a.ndim + axis for axis in right)))


def need_integers(indices: TensorStructInfo | Tensor) -> None:
    """Raise TypeError if indices are known not to be integers; truth values, which numpy takes for a
    mask, are none."""
    if not (indices.dtype.is_void or indices.dtype.is_integer) or indices.dtype.is_bool:
        raise TypeError(explain("indices must be integers", got=str(indices.dtype)))


def void_or(dtype: DataType | str | None, default: DataType | str) -> DataType:
    """`dtype`, or `default` in place of None and void."""
    return DataType(default if dtype in (None, "void", "") else dtype)
