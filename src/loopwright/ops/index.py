"""Operators that select elements by a condition or by indices."""

from __future__ import annotations

import numpy as np

from .. import tir
from ..base.errors import explain
from ..ir.prim_expr import IntImm
from ..ir.prim_op import cast, const
from ..relax.struct_info import TensorStructInfo
from .common import (
    broadcast_index,
    broadcast_shape,
    common_dtype,
    compute,
    element,
    infer_broadcast,
    normalize_axis,
    shape_of,
)
from .core import case, op
from .flow import broadcasting
from .params import Axis, Prim, Tensor


@op("relax.where")
def where(condition: Tensor, x1: Tensor, x2: Tensor):
    """x1 where `condition` (bool) holds, else x2; the three broadcast."""
    dims = broadcast_shape(broadcast_shape(shape_of(condition), shape_of(x1)), shape_of(x2))

    def cell(*i):
        cond, a, b = (element(v, broadcast_index(v, i, dims)) for v in (condition, x1, x2))
        return tir.Select(cond, a, b)

    return compute(dims, cell, "T_where", tag="broadcast")


@where.infer
def _(condition: TensorStructInfo, x1: TensorStructInfo, x2: TensorStructInfo):
    if not (condition.dtype.is_void or condition.dtype.is_bool):
        what = "the condition must be a tensor of bool"
        raise TypeError(explain(what, got=str(condition.dtype)))
    dtype = common_dtype(x1, x2)
    return infer_broadcast(condition, infer_broadcast(x1, x2), dtype)


@where.numpy
def _(condition, x1, x2):
    return np.where(condition, x1, x2)


where.layout(broadcasting())
where.samples(
    case(np.array([[True, False, True]]), (2, 3), (2, 1)),
    case(np.array([True, False]), ("n", 2), (2,)),
)


@op("relax.one_hot")
def one_hot(indices: Tensor, on_value: Prim, off_value: Prim, depth: int, axis: Axis = -1):
    """A new axis of extent `depth` at `axis`: on_value at the index, off_value elsewhere."""
    which = normalize_axis(axis, len(indices.shape) + 1)
    shape = [*indices.shape[:which], const(depth, "int64"), *indices.shape[which:]]

    def cell(*i):
        index = cast("int64", indices(*i[:which], *i[which + 1 :]))
        return tir.Select(tir.EQ(index, cast("int64", i[which])), on_value, off_value)

    return compute(shape, cell, "T_one_hot", tag="broadcast")


@one_hot.numpy
def _(indices, on_value, off_value, depth, axis=-1):
    which = axis % (indices.ndim + 1)
    shape = [1] * (indices.ndim + 1)
    shape[which] = depth
    at = np.expand_dims(indices, which) == np.arange(depth).reshape(shape)
    # The dtype that PrimValue gives a Python number.
    kind = {bool: np.bool_, int: np.int64, float: np.float32}[type(on_value)]
    return np.where(at, on_value, off_value).astype(kind)


one_hot.samples(
    case(np.array([0, 3, 1], np.int64), 1.0, 0.0, depth=4),
    case(np.array([[0, 2]], np.int32), 5.0, -1.0, depth=3, axis=0),
)


@op("relax.gather_elements")
def gather_elements(data: Tensor, indices: Tensor, axis: Axis = 0):
    """data[i0, ..., indices[i0, i1, ...], ...], the index on `axis`; negative ones count from the
    end."""
    which = normalize_axis(axis, len(data.shape))

    def cell(*i):
        at = list(i)
        at[which] = tir.checked_index(indices(*i), data.shape[which])
        return data(*at)

    return compute(indices.shape, cell, "gather_elements", tag="injective")


@gather_elements.infer
def _(data: TensorStructInfo, indices: TensorStructInfo, axis=0):
    if data.ndim != indices.ndim and -1 not in (data.ndim, indices.ndim):
        what = "data and indices must have one rank"
        raise ValueError(explain(what, got=f"{data.ndim} and {indices.ndim}"))
    return TensorStructInfo(indices.shape, data.dtype, ndim=indices.ndim)


@gather_elements.numpy
def _(data, indices, axis=0):
    at = list(np.indices(indices.shape, sparse=True))
    at[axis] = indices
    return data[tuple(at)]


gather_elements.samples(
    case((3, 4), np.array([[0, 3], [-1, 2]], np.int64), axis=1),
    case((3, 2), np.array([[2, 0]], np.int32), axis=0),
)


@op("relax.gather_nd")
def gather_nd(data: Tensor, indices: Tensor, batch_dims: int = 0):
    """Slices of `data` at the index vectors in the last axis of `indices`; the first `batch_dims`
    axes are shared."""
    count = _vector_length(indices.shape, data.shape, batch_dims)
    lead = len(indices.shape) - 1

    def cell(*i):
        vectors = [indices(*i[:lead], const(k, "int64")) for k in range(count)]
        at = [tir.checked_index(v, data.shape[batch_dims + k]) for k, v in enumerate(vectors)]
        return data(*i[:batch_dims], *at, *i[lead:])

    shape = [*indices.shape[:lead], *data.shape[batch_dims + count :]]
    return compute(shape, cell, "gather_nd", tag="injective")


def _vector_length(indices, data, batch_dims):
    if not indices or not isinstance(indices[-1], IntImm):
        raise ValueError(explain("the last dimension of indices must be known", got=str(indices)))
    count = indices[-1].value
    if batch_dims + count > len(data):
        what = "an index vector is longer than the rank of data"
        raise ValueError(explain(what, got=f"{count} for rank {len(data)}, {batch_dims} of batch"))
    return count


@gather_nd.numpy
def _(data, indices, batch_dims=0):
    lead = data.shape[:batch_dims]
    at = list(np.indices((*lead, *indices.shape[batch_dims:-1]), sparse=True)[:batch_dims])
    return data[(*at, *(indices[..., k] for k in range(indices.shape[-1])))]


gather_nd.samples(
    case((3, 4), np.array([[0, 1], [2, 3]], np.int64)),
    case((2, 3, 4), np.array([[1], [2]], np.int64), batch_dims=1),
)
