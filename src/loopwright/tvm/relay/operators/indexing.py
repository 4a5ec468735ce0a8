"""Operators that read or write at indices: gathers, scatters, masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_expr import PrimExpr
from ....ops.core import BROADCAST, INJECTIVE
from ....relax import expr as rx
from ..expr import Constant, Expr, Tuple
from ..types import Any as AnyDim
from ..types import TensorType
from .core import VIEWS, Input, InputNumber, Inputs, Numbers, R, op, view
from .tensor import as_i64, broadcast, extent_value, fields, i64, shape_of_tensor
from .transform import dims_of


@op("take", attrs="TakeAttrs", view=False, kind=INJECTIVE, mixed="follow")
def take(
    data: Input, indices: Input, batch_dims: int = 0, axis: Any = None, mode: str = "clip"
) -> Any:
    """The elements at indices along an axis; None: of all elements in a row. mode: "clip" to the
    axis, "wrap" around it, or "fast" for indices that are right."""
    if axis is None:
        data, axis = R.reshape(data, [-1]), 0
    rank = data.struct_info.ndim
    if not -rank <= axis < rank:
        raise ValueError(explain("take: the axis is out of range", got=f"{axis} of {rank}"))
    axis = int(axis) % rank
    index = _wrapped(indices, dims_of(data)[axis], mode)
    if not batch_dims:
        return R.take(data, index, axis)
    batch_dims = batch_dims % indices.struct_info.ndim if batch_dims < 0 else batch_dims
    return _batched_take(data, index, axis, batch_dims)


def _wrapped(indices: rx.Var | Input, extent: PrimExpr, mode: str) -> Any:
    """Indices within an axis."""
    wide = as_i64(indices)
    size = extent_value(extent)
    if mode == "clip":
        return R.minimum(R.maximum(wide, i64(0)), R.subtract(size, i64(1)))
    return R.floor_mod(wide, size) if mode == "wrap" else wide


def _batched_take(data: Any, index: Any, axis: int, batch: int) -> Any:
    """`take` whose first `batch` axes are the same of data and indices."""
    dims, spread = dims_of(data), dims_of(index)
    before, after = dims[batch:axis], dims[axis + 1 :]
    moved = R.permute_dims(
        data, [*range(batch), axis, *range(batch, axis), *range(axis + 1, len(dims))]
    )
    gathered = R.gather_nd(
        moved, R.expand_dims(index, -1), batch
    )  # batch, index axes, before, after
    many = len(spread) - batch
    order = [
        *range(batch),
        *range(batch + many, batch + many + len(before)),
        *range(batch, batch + many),
        *range(batch + many + len(before), batch + many + len(before) + len(after)),
    ]
    return R.permute_dims(gathered, order)


@view("take")
def _take(
    data: Expr, indices: Expr, axis: int | None = None, batch_dims: int = 0, mode: str = "clip"
) -> Any:
    """The elements at indices along an axis."""
    return take.builder(data, indices, batch_dims, axis, mode)


@op("gather", attrs="GatherAttrs", kind=INJECTIVE)
def gather(data: Input, axis: int, indices: Input) -> Any:
    """The element at an index along an axis, for each element of `indices`."""
    axis = axis % data.struct_info.ndim
    return R.gather_elements(data, _from_end(indices, dims_of(data)[axis]), axis)


def _from_end(indices: Any, extent: Any) -> Any:
    """Indices, of which negative ones count from the end."""
    wide = as_i64(indices)
    size = extent_value(extent)
    return R.where(R.less(wide, i64(0)), R.add(wide, size), wide)


def _coordinates_last(indices: Any) -> Any:
    """Relay has the coordinates of an element along the first axis, Relax along the last."""
    rank = indices.struct_info.ndim
    return R.permute_dims(as_i64(indices), [*range(1, rank), 0])


@op("gather_nd", attrs="GatherNDAttrs", kind=INJECTIVE)
def gather_nd(data: Input, indices: Input, batch_dims: int = 0, index_rank: Any = None) -> Any:
    """The elements or parts whose coordinates are along the first axis of `indices`."""
    return R.gather_nd(data, _coordinates_last(indices), batch_dims)


@op("scatter_elements", attrs="ScatterElementsAttrs", mixed="follow")
def scatter_elements(
    data: Input, indices: Input, updates: Input, axis: int = 0, reduction: str = "update"
) -> Any:
    """`data` with elements of `updates` put at indices along an axis, or combined with the old
    elements."""
    return R.scatter_elements(data, as_i64(indices), updates, axis, reduction)


@op("scatter_nd", attrs="ScatterNDAttrs", mixed="follow")
def scatter_nd(data: Input, indices: Input, updates: Input, mode: str = "update") -> Any:
    """`data` with parts of `updates` put at indices, or combined with the old parts."""
    return R.scatter_nd(data, _coordinates_last(indices), updates, mode)


@op("where", kind=BROADCAST, mixed="follow")
def where(condition: Input, x: Input, y: Input) -> Any:
    """x where the condition holds, else y."""
    dtype = condition.struct_info.dtype
    zero = rx.const(0, str(dtype))
    condition = condition if dtype == "bool" else R.not_equal(condition, zero)
    return R.where(condition, x, y)


@where.infer
def _(types: list[Any], attrs: dict[str, Any]) -> Any:
    condition, x, y = types
    if x.dtype != y.dtype:
        raise ValueError(explain("where: x and y are of one dtype", got=f"{x.dtype} and {y.dtype}"))
    return TensorType(broadcast(condition.shape, broadcast(x.shape, y.shape)), x.dtype)


@op("argwhere", mixed="follow")
def argwhere(condition: Input) -> Any:
    """The indices of nonzero elements, a row for each."""
    return R.astype(R.permute_dims(R.nonzero(condition)), "int32")


argwhere.infer(lambda types, attrs: TensorType((AnyDim(), len(types[0].shape)), "int32"))


@op("one_hot", attrs="OneHotAttrs", kind=INJECTIVE)
def one_hot(
    indices: Input, on_value: Input, off_value: Input, depth: int, axis: int = -1,
    dtype: str = "float32",
) -> Any:  # fmt: skip
    """A new axis of `depth`: on_value at the index, off_value elsewhere."""
    rank = indices.struct_info.ndim
    position = rank if axis == -1 else axis
    numbers = R.arange(0, depth, 1, "int64")
    numbers = R.reshape(numbers, [depth, *[1] * (rank - position)])
    hit = R.equal(R.expand_dims(as_i64(indices), position), numbers)
    return R.astype(R.where(hit, on_value, off_value), dtype)


@op("dyn.one_hot", attrs="OneHotAttrs", static=one_hot)
def dyn_one_hot(
    indices: Input, on_value: Input, off_value: Input, depth: Input, axis: int = -1,
    dtype: str = "float32",
) -> Any:  # fmt: skip
    """`one_hot` whose depth is a value."""
    rank = indices.struct_info.ndim
    position = rank if axis == -1 else axis
    shape = R.shape_to_tensor(R.shape_of(indices))
    parts = [R.strided_slice(shape, [0], [0], [position])] if position else []
    parts.append(R.reshape(as_i64(depth), [1]))
    parts += [R.strided_slice(shape, [0], [position], [rank])] if position < rank else []
    full = R.concat(parts, 0) if len(parts) > 1 else parts[0]
    ones = R.ones(R.tensor_to_shape(full), "int64")
    numbers = R.subtract(R.cumsum(ones, position), i64(1))
    hit = R.equal(R.expand_dims(as_i64(indices), position), numbers)
    return R.astype(R.where(hit, on_value, off_value), dtype)


@dyn_one_hot.infer
def _(types: list[Any], attrs: dict[str, Any]) -> Any:
    dims = list(types[0].shape)
    dims.insert(len(dims) if attrs["axis"] == -1 else attrs["axis"], AnyDim())
    return TensorType(dims, attrs["dtype"])


@op("unravel_index", kind=INJECTIVE)
def unravel_index(indices: Input, shape: Input) -> Any:
    """The coordinates, along the first axis, of positions in a flat tensor of a shape."""
    count = int(dims_of(shape)[0])
    rest, coordinates = indices, []
    for axis in reversed(range(count)):
        size = R.take(shape, rx.const(np.array(axis, "int64")), 0)
        size = R.astype(size, str(indices.struct_info.dtype))
        coordinates.append(R.floor_mod(rest, size))
        rest = R.floor_divide(rest, size)
    return R.stack(coordinates[::-1], 0)


@op("adv_index", kind=INJECTIVE)
def adv_index(inputs: Inputs) -> Any:
    """numpy's indexing of the first tensor by the others."""
    data, *indices = fields(inputs)
    return R.index_tensor(data, [as_i64(i) for i in indices])


@view("adv_index")
def _adv_index(inputs: Tuple | Sequence[Expr]) -> Any:
    """numpy's indexing of the first tensor by the others."""
    return adv_index.builder(list(inputs) if isinstance(inputs, (list, tuple)) else inputs)


@op("sequence_mask", attrs="SequenceMaskAttrs", kind=INJECTIVE)
def sequence_mask(data: Input, valid_length: Input, mask_value: float = 0, axis: int = 0) -> Any:
    """`data` with the elements behind the valid length of each row replaced. Axis 0 or 1 is that
    of the sequence, the other one that of the batch."""
    dims = dims_of(data)
    rank = len(dims)
    spread = [1] * rank
    spread[axis] = dims[axis]
    number = R.reshape(R.arange(0, dims[axis], 1, "int64"), spread)
    spread = [1] * rank
    spread[1 - axis] = dims[1 - axis]
    length = R.reshape(as_i64(valid_length), spread)
    fill = rx.const(mask_value, str(data.struct_info.dtype))
    return R.where(R.less(number, length), data, fill)


@op("sparse_to_dense", attrs="SparseToDenseAttrs")
def sparse_to_dense(
    sparse_indices: Input, output_shape: Numbers, sparse_values: Input,
    default_value: InputNumber = 0,
) -> Any:  # fmt: skip
    """A tensor of a default value with values at the given indices."""
    shape = [int(d) for d in output_shape]
    return _to_dense(sparse_indices, sparse_values, default_value, shape)


@op("dyn.sparse_to_dense", attrs="SparseToDenseAttrs", static=sparse_to_dense)
def dyn_sparse_to_dense(
    sparse_indices: Input, output_shape: Input, sparse_values: Input, default_value: InputNumber
) -> Any:
    """`sparse_to_dense` whose shape is a value."""
    shape = shape_of_tensor(output_shape)
    return _to_dense(sparse_indices, sparse_values, default_value, shape)


def _to_dense(
    indices: Any, values: rx.Expr | Input, default: rx.Expr | Input, shape: Input | list[int]
) -> Any:
    have = indices.struct_info.ndim
    wide = as_i64(indices)
    if have == 0:
        wide = R.reshape(wide, [1, 1])
    elif have == 1:
        wide = R.expand_dims(wide, -1)
    (count, *_) = dims_of(wide)
    values = R.broadcast_to(R.reshape(values, [-1]), [count])
    base = R.full(shape, default, values_dtype(values))
    return R.scatter_nd(base, wide, values)


def values_dtype(value: Any) -> str:
    """The dtype of a Relax expression."""
    return str(value.struct_info.dtype)


@op("matrix_set_diag", attrs="MatrixSetDiagAttrs", view=False, kind=INJECTIVE)
def matrix_set_diag(
    data: Input, diagonal: Input, k1: int = 0, k2: int = 0, super_diag_right_align: bool = True,
    sub_diag_right_align: bool = False,
) -> Any:  # fmt: skip
    """Matrices with the diagonals from k1 to k2 replaced, the highest one first in `diagonal`."""
    dims = dims_of(data)
    rows, cols = dims[-2].value, dims[-1].value
    longest = dims_of(diagonal)[-1].value
    row, col = np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij")
    k = col - row
    size = np.minimum(cols - np.maximum(k, 0), rows + np.minimum(k, 0))
    right = np.where(k >= 0, super_diag_right_align, sub_diag_right_align)
    offset = np.minimum(row, col) + np.where(right, longest - size, 0)
    inside = (k >= k1) & (k <= k2)
    flat = np.where(inside, (k2 - k) * longest + offset if k1 != k2 else offset, 0)
    lead = dims[: len(dims) - 2]
    source = R.reshape(diagonal, [*lead, -1])
    diagonals = R.reshape(R.take(source, i64(flat.reshape(-1)), -1 % (len(lead) + 1)), dims)
    return R.where(rx.const(inside), diagonals, data)


@view("matrix_set_diag")
def _matrix_set_diag(
    data: Expr, diagonal: Expr, k: int | Sequence[int] = 0, align: str = "RIGHT_LEFT"
) -> Any:
    """Matrices with the diagonals k, or from k[0] to k[1], replaced."""
    low, high = (k, k) if isinstance(k, int) else (k[0], k[-1])
    above, below = align.split("_")
    return matrix_set_diag.builder(data, diagonal, low, high, above == "RIGHT", below == "RIGHT")


@op("invert_permutation", kind=INJECTIVE)
def invert_permutation(data: Input) -> Any:
    """The position of each number in a permutation."""
    (count,) = dims_of(data)
    numbers = R.arange(0, count, 1, values_dtype(data))
    return R.scatter_elements(R.zeros_like(data), as_i64(data), numbers, 0)


@view("segment_sum")
def _segment_sum(
    data: Expr, segment_ids: Expr, num_segments: int | Sequence[int] | None = None
) -> Any:
    """The sums of the parts of a tensor that have the same number; there are num_segments."""
    one_shape_tail = VIEWS["strided_slice"](VIEWS["shape_of"](data, "int64"), [1], [2**31 - 1])
    data = VIEWS["slice_like"](data, segment_ids, [0])  # rows without a number are left out
    count = num_segments
    if count is None:
        last = VIEWS["cast"](VIEWS["max"](segment_ids), "int64")
        count = VIEWS["reshape"](VIEWS["add"](last, Constant(np.array(1, "int64"))), -1)
    elif isinstance(count, int):
        count = Constant(np.array([count], "int64"))
    elif isinstance(count, (list, tuple)):
        count = Constant(np.array(count, "int64"))
    shape = VIEWS["concatenate"]([VIEWS["cast"](count, "int64"), one_shape_tail], 0)
    zeros = VIEWS["cast_like"](VIEWS["zeros"](shape, "float32"), data)
    return scatter_nd.builder(zeros, VIEWS["expand_dims"](segment_ids, 0), data, "add")
