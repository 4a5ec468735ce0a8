"""Sparse tensors as rows of indices and their values, the rows in ascending order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....relax import expr as rx
from ..expr import Expr, Tuple, TupleGetItem
from ..types import Any as AnyDim
from ..types import TensorType, TupleType
from .core import Input, R, op, view
from .tensor import shape_of_tensor


def _steps(shape: Any) -> Any:
    """The strides of a tensor of that shape, in elements."""
    return R.flip(R.cumprod(R.flip(shape, 0), 0, exclusive=True), 0)


@op("sparse_fill_empty_rows", view=False)
def sparse_fill_empty_rows(
    sparse_indices: Input, sparse_values: Input, dense_shape: Input, default_value: Input
) -> Any:
    """The indices and values with a `default_value` in the first column of each row of `dense_shape`
    that has none, and which rows these are."""
    kind = str(sparse_indices.struct_info.dtype)
    row = R.take(sparse_indices, rx.const(0, "int64"), 1)
    none = R.zeros(shape_of_tensor(R.strided_slice(dense_shape, [0], [0], [1])), "int64")
    one = R.ones_like(R.astype(row, "int64"))
    count = R.scatter_elements(none, R.astype(row, "int64"), one, 0, "add")
    is_empty = R.equal(count, rx.const(0, "int64"))
    empty = R.astype(R.take(R.nonzero(is_empty), rx.const(0, "int64"), 0), kind)
    number = R.cumsum(R.ones_like(dense_shape), 0)
    first = R.astype(R.equal(number, R.ones_like(dense_shape)), kind)
    added = R.multiply(R.expand_dims(empty, 1), R.expand_dims(first, 0))
    filled = R.multiply(R.ones_like(empty), R.astype(default_value, kind))
    indices = R.concat([sparse_indices, added], 0)
    values = R.concat([sparse_values, R.astype(filled, str(sparse_values.struct_info.dtype))], 0)
    order = R.argsort(R.concat([row, empty], 0), 0, False, "int64")
    return rx.Tuple([R.take(indices, order, 0), R.take(values, order, 0), is_empty])


@sparse_fill_empty_rows.infer
def _(types: list[Any], attrs: dict[str, Any]) -> Any:
    indices, values = types[0], types[1]
    some = AnyDim()
    return TupleType(
        [
            TensorType((some, indices.shape[1]), indices.dtype),
            TensorType((some,), values.dtype),
            TensorType((some,), "bool"),
        ]
    )


@view("sparse_fill_empty_rows")
def _(sparse_indices: Expr, sparse_values: Expr, dense_shape: Expr, default_value: Expr) -> Tuple:
    """The indices and values with a default value in empty rows, and which rows these are."""
    args = (sparse_indices, sparse_values, dense_shape, default_value)
    outputs = sparse_fill_empty_rows.builder(*args)
    return Tuple([TupleGetItem(outputs, i) for i in range(3)])


@op("sparse_reshape", results=2)
def sparse_reshape(sparse_indices: Input, prev_shape: Input, new_shape: Input) -> Any:
    """The indices of the same elements in a tensor of a new shape, and that shape, whose one extent of
    -1 is found. Indices outside of the old shape stay in a tensor of the same shape; in another they
    are counted along its first axis."""
    flat = R.sum(R.multiply(sparse_indices, R.expand_dims(_steps(prev_shape), 0)), 1, True)
    one = R.ones_like(new_shape)
    unknown = R.less(new_shape, R.zeros_like(new_shape))
    dims = R.where(unknown, one, new_shape)
    inferred = R.floor_divide(R.prod(prev_shape, 0), R.prod(dims, 0))
    full = R.where(unknown, inferred, new_shape)
    number = R.cumsum(one, 0)
    most = rx.const(np.iinfo(full.struct_info.dtype).max, full.struct_info.dtype)
    extents = R.where(R.equal(number, one), R.multiply(one, most), full)
    coordinates = R.floor_mod(
        R.floor_divide(flat, R.expand_dims(_steps(full), 0)), R.expand_dims(extents, 0)
    )
    rank = R.sum(R.ones_like(prev_shape), 0)
    axes = R.subtract(R.minimum(number, R.multiply(one, rank)), one)
    differ = R.not_equal(R.take(prev_shape, axes, 0), full)
    other = R.max(R.logical_or(differ, R.not_equal(R.multiply(one, rank), R.sum(one, 0))), 0)
    return rx.Tuple([R.where(other, coordinates, R.take(sparse_indices, axes, 1)), full])
