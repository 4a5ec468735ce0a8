"""Operators that select elements by a condition or by indices."""

from __future__ import annotations

import numpy as np

from .. import relax, te, tir
from ..base.errors import explain
from ..ir.dtype import numpy_dtype
from ..ir.prim_expr import IntImm
from ..ir.prim_op import cast, const
from ..relax import op as R
from ..relax.op import register_view as register_relax_view
from ..relax.struct_info import TensorStructInfo
from ..script.relax import register_view as register_script_view
from .common import (
    accumulator,
    broadcast_all,
    broadcast_index,
    common_dtype,
    compute,
    element,
    infer_broadcast,
    like,
    need_integers,
    normalize_axis,
    shape_of,
)
from .core import case, op
from .extents import check_within, differ, dims_equal, extents_of
from .gradient import no_gradient
from .inference import RankUndetermined
from .layout_rules import broadcasting
from .params import Axis, DType, Prim, Tensor


@op("relax.where", mixed="follow")
def where(condition: Tensor, x1: Tensor, x2: Tensor):
    """x1 where `condition` (bool) holds, else x2; the three broadcast."""
    dims = broadcast_all(map(shape_of, (condition, x1, x2)))

    def cell(*i):
        cond, a, b = (element(v, broadcast_index(v, i, dims)) for v in (condition, x1, x2))
        if not cond.dtype.is_bool:  # topi's takes numbers
            cond = cond != 0
        return tir.Select(cond, a, b)

    return compute(dims, cell, "T_where", tag="broadcast")


@where.infer
def _(condition: TensorStructInfo, x1: TensorStructInfo, x2: TensorStructInfo):
    if not condition.dtype.is_bool:
        raise TypeError(explain("the condition must be a tensor of bool", got=str(condition.dtype)))
    dtype = common_dtype(x1, x2)
    shapes = [t.get_shape() for t in (condition, x1, x2)]
    if None not in shapes:
        broadcast_all(shapes)
    return infer_broadcast(condition, infer_broadcast(x1, x2), dtype)


@where.grad
def _(cx, condition, x1, x2):
    zero = cx.number(0)
    first, second = R.where(condition, cx.grad, zero), R.where(condition, zero, cx.grad)
    return [None, cx.fit(first, x1), cx.fit(second, x2)]


where.numpy(lambda condition, x1, x2: np.where(condition, x1, x2))
where.layout(broadcasting())
where.samples(
    case(np.array([[True, False, True]]), (2, 3), (2, 1)),
    case(np.array([True, False]), ("n", 2), (2,)),
)


@op("relax.one_hot")
def one_hot(indices: Tensor, on_value: Prim, off_value: Prim, depth: int, axis: Axis = -1):
    """A new axis of extent `depth` at `axis`: on_value at the index, off_value elsewhere."""
    need_integers(indices)
    if on_value.dtype != off_value.dtype:
        got = f"{on_value.dtype} and {off_value.dtype}"
        raise TypeError(explain("on_value and off_value must have one dtype", got=got))
    if depth < 0:
        raise ValueError(explain("the depth is the extent of an axis, at least 0", got=depth))
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
    # The default dtype of a PrimValue of a Python number.
    kind = {bool: np.bool_, int: np.int64, float: np.float32}[type(on_value)]
    return np.where(at, on_value, off_value).astype(kind)


one_hot.grad(no_gradient)
one_hot.samples(
    case(np.array([0, 3, 1], np.int64), 1.0, 0.0, depth=4),
    case(np.array([[0, 2]], np.int32), 5.0, -1.0, depth=3, axis=0),
)


@op("relax.gather_elements", mixed="follow")
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
    need_integers(indices)
    if data.ndim != -1:
        which, extents, queried = (
            normalize_axis(axis, data.ndim),
            data.get_shape(),
            indices.get_shape(),
        )
        if extents is not None and queried is not None:
            check_within(queried, extents, which)
    return like(indices, data.dtype)


@gather_elements.numpy
def _(data, indices, axis=0):
    at = list(np.indices(indices.shape, sparse=True))
    at[axis] = indices
    return data[tuple(at)]


@gather_elements.grad
def _(cx, data, indices, axis=0):
    zero = R.zeros(cx.shape(data), str(data.struct_info.dtype))
    return [R.scatter_elements(zero, indices, cx.grad, axis, "add"), None]


gather_elements.samples(
    case((3, 4), np.array([[0, 3], [-1, 2]], np.int64), axis=1),
    case((3, 2), np.array([[2, 0]], np.int32), axis=0),
)


@op("relax.gather_nd", mixed="follow")
def gather_nd(data: Tensor, indices: Tensor, batch_dims: int = 0):
    """Slices of `data` at the index vectors in the last axis of `indices`; the first `batch_dims`
    axes are shared."""
    need_integers(indices)
    count = _vector_length(indices.shape, data.shape, batch_dims)
    lead = len(indices.shape) - 1
    if lead < batch_dims:
        raise ValueError(explain("indices lack axes of the batch", got=f"rank {lead + 1}"))
    extents_of(indices, "indices", *data.shape[:batch_dims], *[None] * (lead + 1 - batch_dims))

    def cell(*i):
        vectors = [indices(*i[:lead], const(k, "int64")) for k in range(count)]
        at = [tir.checked_index(v, data.shape[batch_dims + k]) for k, v in enumerate(vectors)]
        return data(*i[:batch_dims], *at, *i[lead:])

    shape = [*indices.shape[:lead], *data.shape[batch_dims + count :]]
    return compute(shape, cell, "gather_nd", tag="injective")


def _vector_length(indices, data, batch_dims):
    if not indices:
        raise ValueError(explain("indices hold vectors along their last axis", got="no axes"))
    if not isinstance(indices[-1], IntImm):
        what = "the last dimension of indices must be known"
        raise RankUndetermined(explain(what, got=str(indices)))
    count = indices[-1].value
    if batch_dims + count > len(data):
        what = "an index vector is longer than the rank of data"
        raise ValueError(explain(what, got=f"{count} for rank {len(data)}, {batch_dims} of batch"))
    return count


@gather_nd.numpy
def _(data, indices, batch_dims=0):
    lead = data.shape[:batch_dims]
    at = list(np.indices((*lead, *indices.shape[batch_dims:-1]), sparse=True)[:batch_dims])
    picked = data[(*at, *(indices[..., k] for k in range(indices.shape[-1])))]
    shape = (*indices.shape[:-1], *data.shape[batch_dims + indices.shape[-1] :])
    return np.broadcast_to(picked, shape).copy()  # a vector of no numbers takes all


@gather_nd.grad
def _(cx, data, indices, batch_dims=0):
    if batch_dims:
        raise cx.refusal("batch_dims", batch_dims)
    zero = R.zeros(cx.shape(data), str(data.struct_info.dtype))
    return [R.scatter_nd(zero, indices, cx.grad, "add"), None]


gather_nd.samples(
    case((3, 4), np.array([[0, 1], [2, 3]], np.int64)),
    case((2, 3, 4), np.array([[1], [2]], np.int64), batch_dims=1),
)


@op("relax.bucketize")
def bucketize(
    input_tensor: Tensor, boundaries: Tensor, out_int32: bool = False, right: bool = False
):
    """For each element the number of `boundaries` (in ascending order) below it; with `right`, not
    above it."""
    k = te.reduce_axis((const(0, "int64"), boundaries.shape[0]), name="k")
    kind = "int32" if out_int32 else "int64"

    def cell(*i):
        value, bound = element(input_tensor, list(i)), boundaries(k)
        before = bound <= value if right else bound < value
        return te.sum(tir.Select(before, const(1, kind), const(0, kind)), axis=k)

    return compute(shape_of(input_tensor), cell, "bucketize", tag="comm_reduce")


@bucketize.infer
def _(input_tensor: TensorStructInfo, boundaries: TensorStructInfo, out_int32=False, right=False):
    if boundaries.ndim not in (-1, 1):
        raise ValueError(explain("boundaries must be a vector", got=f"rank {boundaries.ndim}"))
    kind = "int32" if out_int32 else "int64"
    return like(input_tensor, kind)


@bucketize.numpy
def _(input_tensor, boundaries, out_int32=False, right=False):
    buckets = np.searchsorted(boundaries, input_tensor, "right" if right else "left")
    return np.asarray(buckets, np.int32 if out_int32 else np.int64)


_EDGES = np.array([-1, 0, 0.5, 1], np.float32)
bucketize.samples(
    case(np.array([[-2, -1, 0.2], [0.5, 3, 1]], np.float32), _EDGES),
    case(np.array([-1, 0, 1], np.float32), _EDGES, out_int32=True, right=True),
)


@op("relax.multinomial_from_uniform")
def multinomial_from_uniform(
    prob: Tensor, uniform_sample: Tensor, sample_indices: Tensor, dtype: DType = "int64"
):
    """For each row n the first class whose cumulated probability in prob[sample_indices[n]] reaches
    uniform_sample[n], else the last one; [rows, 1]."""
    classes = prob.shape[1]
    j = te.reduce_axis((const(0, "int64"), classes), name="j")
    zero, wide = const(0, "int64"), accumulator(prob.dtype)

    def up_to(n, c):
        row = tir.checked_index(cast("int64", sample_indices(n, zero)), prob.shape[0])
        value = tir.if_then_else(j.var <= c, cast(wide, prob(row, j)), const(0, wide))
        return te.sum(value, axis=j)

    rows = uniform_sample.shape[0]
    total = te.compute([rows, classes], up_to, name="cumulated")
    k = te.reduce_axis((zero, classes), name="k")

    def count(n, _):
        below = total(n, k) < cast(wide, uniform_sample(n, zero))
        return te.sum(tir.Select(below, const(1, "int64"), zero), axis=k)

    counts = te.compute([rows, const(1, "int64")], count, name="below")
    last = classes - 1
    return compute(
        counts.shape, lambda *i: cast(dtype, tir.min(counts(*i), last)), "multinomial_from_uniform"
    )


@multinomial_from_uniform.infer
def _(prob, uniform_sample, sample_indices, dtype="int64"):
    for name, info in (("prob", prob), ("uniform_sample", uniform_sample)):
        if not (info.dtype.is_void or info.dtype.is_float):
            raise TypeError(explain(f"{name} must hold floats", got=str(info.dtype)))
    for name, info in (
        ("prob", prob),
        ("uniform_sample", uniform_sample),
        ("sample_indices", sample_indices),
    ):
        if info.ndim not in (-1, 2):
            raise ValueError(explain(f"{name} must be a matrix", got=f"rank {info.ndim}"))
    if not (sample_indices.dtype.is_void or sample_indices.dtype.is_integer):
        raise TypeError(explain("sample_indices must hold integers", got=str(sample_indices.dtype)))
    shape = uniform_sample.get_shape()
    if shape is None or prob.get_shape() is None:
        return TensorStructInfo(dtype=dtype, ndim=uniform_sample.ndim)
    own = sample_indices.get_shape()
    for info, dims in ((uniform_sample, shape), (sample_indices, own)):
        if dims is not None and differ(dims[1], const(1, "int64")):
            what = "uniform_sample and sample_indices have one number a row"
            raise ValueError(explain(what, got=str(info)))
    if own is not None and not dims_equal(own[0], shape[0]):
        what = "uniform_sample and sample_indices must have one number of rows"
        raise ValueError(explain(what, got=f"{shape[0]} and {own[0]}"))
    return TensorStructInfo([shape[0], 1], dtype)


@multinomial_from_uniform.numpy
def _(prob, uniform_sample, sample_indices, dtype="int64"):
    total = np.cumsum(prob, 1)[sample_indices[:, 0]]
    below = (total < uniform_sample).sum(1, keepdims=True)
    return np.minimum(below, prob.shape[1] - 1).astype(numpy_dtype(dtype))


multinomial_from_uniform.samples(
    case(
        np.array([[0.2, 0.3, 0.5], [0.9, 0.1, 0]], np.float32),
        np.array([[0.1], [0.45], [0.99]], np.float32),
        np.array([[0], [0], [1]], np.int64),
        dtype="int64",
    )
)


def masked_fill(x: relax.Expr, mask: relax.Expr, value: float) -> relax.Expr:
    """x with `value` (a number) where `mask` (bool, of a shape that broadcasts to x's) holds.

    >>> x, mask = (relax.Var(n, R.Tensor((2, 3), t)) for n, t in [("x", "float32"), ("mask", "bool")])
    >>> relax.op.masked_fill(x, mask, 0.0)
    R.where(mask, R.full_like(x, R.const(0.0, "float32"), dtype="void"), x)
    """
    return R.where(mask, R.full_like(x, relax.const(value, str(x.struct_info.dtype))), x)


register_relax_view("masked_fill", masked_fill)
register_script_view("masked_fill", masked_fill)
