"""Operators that write elements where indices say, and those that read there.

The ones that write copy their data first, then store one update after the other, so that a later
one wins where two have the same index.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.prim_expr import IntImm, PrimExpr
from ..ir.prim_op import cast, const, floormod, maximum, minimum
from ..ir.variables import uses_any
from ..relax.struct_info import TensorStructInfo, TupleStructInfo
from ..tir.ir_builder import BufferVar, IRBuilder
from .common import (
    aligned_index,
    broadcast_all,
    common_dtype,
    compute,
    element,
    infer_broadcast,
    like,
    need_integers,
    normalize_axis,
    product,
    shape_of,
    shape_text,
)
from .core import case, op
from .extents import (
    broadcast_differ,
    check_filled,
    check_within,
    differ,
    dims_equal,
    extents_of,
    shorter,
    simplify,
    text,
)
from .joining import slice_range
from .params import Axis, Prim, Tensor, Tensors
from .statements import in_vectors, long, loops, prim_func

# How an update is combined with the element at its index: as an expression, and as numpy's ufunc.
_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "mean": lambda old, new: (old + new) / const(2, old.dtype),
    "min": minimum,
    "max": maximum,
}
_COMBINE["updates"] = _COMBINE["update"]  # TVM takes this spelling, too
_NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    **_COMBINE,
    "mean": lambda old, new: ((old + new) / 2).astype(old.dtype),
    "min": np.minimum,
    "max": np.maximum,
}


def _updated(
    data: Any, others: list[Any], dims: list[Any], update: Callable[..., Any], name: str, how: str
) -> Any:
    """A copy of `data` changed by one update for each index of `dims`. update(at, others) returns the
    element's indices and the new value, from the updates' indices and the tensors `others`."""
    tensors = [t for t in others if isinstance(t, te.Tensor)]
    sources = [data, *tensors]
    buffers = [tir.decl_buffer(t.shape, t.dtype, f"in{k}") for k, t in enumerate(sources)]
    out = tir.decl_buffer(data.shape, data.dtype, "out")

    def write(ib, old, *pointers):
        *reads, result = pointers
        read = iter(reads)
        values = [next(read) if isinstance(t, te.Tensor) else t for t in others]
        own = _own_axes(update, values, dims, data.shape)

        def store(where, new):
            result[where] = _COMBINE[how](result[where], new)

        with ExitStack() as stack:
            *outer, last = dims or [long(1)]
            at, along = loops(ib, stack, outer[:own], parallel=True), tir.Var("along", "int64")
            _copy(ib, old, result, list(data.shape), at)
            at += loops(ib, stack, outer[own:], parallel=False)
            row = _row(update([*at, along][: len(dims)], values)[0], along)
            if row is None:
                at += loops(ib, stack, dims[len(outer) :], parallel=False)
                where, new = update(at, values)
                store(tuple(where), new)
            else:
                row = [ib.let("row", i) for i in row]
                for i in in_vectors(ib, last):
                    store((*row, i), update([*at, i], values)[1])

    return te.extern_primfunc(sources, prim_func([*buffers, out], write), name=name)


def _own_axes(update: Callable[..., Any], values: list[Any], dims: list[Any], shape: Any) -> int:
    """How many of the first axes are the same in updates and data, which threads share: updates of others
    may meet in an element."""
    at = [tir.Var(f"i{k}", "int64") for k in range(len(dims))]
    own = 0
    for where, index, *extents in zip(update(at, values)[0], at[:-1], dims, shape, strict=False):
        if where is not index or not dims_equal(*extents):
            break
        own += 1
    return own


def _row(where: list[PrimExpr], along: PrimExpr) -> list[PrimExpr] | None:
    """The indices before the last one of an update, where they do not depend on the updates' last index
    `along`, and that is the last one: a slice is stored. None elsewhere."""
    if not where or where[-1] is not along or uses_any(tuple(where[:-1]), (along,)):
        return None
    return where[:-1]


def _copy(ib: IRBuilder, old: Any, new: Any, shape: list[Any], first: list[Any]) -> None:
    """Copy what has the indices `first` on the first axes."""
    with ExitStack() as stack:
        *outer, last = shape or [long(1)]
        at = [*first, *loops(ib, stack, outer[len(first) :], parallel=not first)]
        for i in in_vectors(ib, last, parallel=not outer):
            element = (*at, i)[: len(shape)]
            new[element] = old[element]


# ---------------------------------------------------------------- along one axis


@op("relax.scatter_elements", choices={"reduction": _COMBINE})
def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, axis: Axis = 0, reduction: str = "update"
):
    """data with updates[i0, i1, ...] at [i0, ..., indices[i0, i1, ...], ...], the index on `axis`;
    negative ones count from the end. `reduction`: "update", or what an element and its update
    become: "add", "mul", "mean" (of the two), "min", "max"."""
    which = normalize_axis(axis, len(data.shape))

    def update(at, others):
        spot, new = others
        where = list(at)
        where[which] = tir.checked_index(cast("int64", spot[tuple(at)]), data.shape[which])
        return where, new[tuple(at)]

    dims = list(indices.shape)
    return _updated(data, [indices, updates], dims, update, "scatter_elements", reduction)


@scatter_elements.infer
def _(data, indices, updates, axis=0, reduction="update"):
    need_integers(indices)
    common_dtype(data, updates)
    if data.ndim != -1:
        normalize_axis(axis, data.ndim)
    ranks = {t.ndim for t in (data, indices, updates) if t.ndim != -1}
    if len(ranks) > 1:
        what = "data, indices and updates must have one rank"
        raise ValueError(explain(what, got=", ".join(map(str, sorted(ranks)))))
    a, b = indices.get_shape(), updates.get_shape()
    if a is not None and b is not None and any(differ(x, y) for x, y in zip(a, b, strict=True)):
        what = "indices and updates must have one shape"
        raise ValueError(explain(what, got=f"{indices} and {updates}"))
    extents = data.get_shape()
    if a is not None and extents is not None:
        check_within(a, extents, normalize_axis(axis, data.ndim))
    return like(data)


@scatter_elements.numpy
def _(data, indices, updates, axis=0, reduction="update"):
    out, combine = data.copy(), _NUMPY[reduction]
    for at in np.ndindex(indices.shape):
        where = list(at)
        where[axis] = indices[at]
        out[tuple(where)] = combine(out[tuple(where)], updates[at])
    return out


_TWICE = np.array([[0, 2, -1], [0, 1, 0]], np.int64)
scatter_elements.samples(
    case((3, 4), _TWICE, (2, 3), axis=0),
    case((3, 4), _TWICE, (2, 3), axis=1, reduction="add"),
    case(("n", 4), _TWICE, (2, 3), axis=-1, reduction="mul"),
    case((3, 4), _TWICE, (2, 3), reduction="max"),
    case((3, 4), _TWICE, (2, 3), reduction="mean"),
    case((3, 4), _TWICE, (2, 3), reduction="updates"),
)


@op("relax.grad.take_backward")
def take_backward(output_grad: Tensor, x: Tensor, indices: Tensor, axis: Axis | None = None):
    """The gradient of take for `x`: each element of output_grad added where it was taken."""
    which = 0 if axis is None else normalize_axis(axis, len(x.shape))
    width = len(shape_of(indices))
    shape = list(x.shape)
    zero = compute(shape, lambda *i: const(0, x.dtype), "zero")

    def update(at, others):
        gradient, spot = others
        middle = tuple(at[which : which + width])
        index = cast("int64", element_at(spot, middle))
        if axis is None:
            flat, where = tir.checked_index(index, product(shape)), []
            for extent in reversed(shape):
                where.append(tir.indexmod(flat, extent))
                flat = tir.indexdiv(flat, extent)
            return where[::-1], element_at(gradient, tuple(at))
        index = tir.checked_index(index, shape[which])
        return [*at[:which], index, *at[which + width :]], element_at(gradient, tuple(at))

    dims = shape_of(output_grad)
    return _updated(zero, [output_grad, indices], dims, update, "take_backward", "add")


def element_at(value: PrimExpr | BufferVar, at: tuple[Any, ...]) -> Any:
    """An element of a buffer, or a scalar expression itself."""
    return value if isinstance(value, tir.PrimExpr) else value[at]


@take_backward.infer
def _(output_grad, x, indices, axis=None):
    have, shape, middle = (t.get_shape() for t in (output_grad, x, indices))
    if have is not None and shape is not None and middle is not None:
        want = list(middle)
        if axis is None:
            check_filled("x", *shape)
        else:
            which = normalize_axis(axis, len(shape))
            want = [*shape[:which], *middle, *shape[which + 1 :]]
        if len(have) != len(want) or any(map(differ, have, want)):
            what = "output_grad must have the shape of the taken elements"
            raise ValueError(explain(what, got=f"{output_grad} for {shape_text(want)}"))
    return like(x)


@take_backward.numpy
def _(output_grad, x, indices, axis=None):
    out = np.zeros_like(x)
    if axis is None:
        np.add.at(out.reshape(-1), np.asarray(indices), output_grad)
        return out
    at = [slice(None)] * x.ndim
    at[axis] = np.asarray(indices)
    np.add.at(out, tuple(at), output_grad)
    return out


_ROWS = np.array([1, 0, 1], np.int64)
take_backward.samples(
    case((3, 4), (2, 4), _ROWS, axis=0),
    case((3, 3), (3, 2), _ROWS, axis=1),
    case((3,), (2, 4), np.array([7, 0, 7], np.int64)),
)


# ---------------------------------------------------------------- by vectors of indices


@op("relax.scatter_nd", choices={"reduction": _COMBINE})
def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, reduction: str = "update"):
    """data with updates[i] at the index vector indices[i] (the last axis of `indices`), an element
    or a slice. `reduction` as for scatter_elements."""
    lead = len(indices.shape) - 1
    count = indices.shape[-1]
    if not isinstance(count, IntImm):
        what = "the last axis of indices must have an extent that is a number"
        raise ValueError(explain(what, got=count, instead="match_cast it"))
    count = count.value

    def update(at, others):
        spot, new = others
        vector = [cast("int64", spot[(*at[:lead], const(k, "int64"))]) for k in range(count)]
        where = [tir.checked_index(v, data.shape[k]) for k, v in enumerate(vector)]
        return [*where, *at[lead:]], new[tuple(at)]

    dims = list(updates.shape)
    return _updated(data, [indices, updates], dims, update, "scatter_nd", reduction)


@scatter_nd.infer
def _(data, indices, updates, reduction="update"):
    need_integers(indices)
    common_dtype(data, updates)
    a, b, c = (t.get_shape() for t in (data, indices, updates))
    if indices.ndim == 0 or data.ndim == 0:
        raise ValueError(explain("data and indices must have a rank of 1 or more", got="rank 0"))
    if b is not None and a is not None and isinstance(b[-1], IntImm):
        count = b[-1].value
        if count > len(a):
            what = "an index vector is longer than the rank of data"
            raise ValueError(explain(what, got=f"{count} for rank {len(a)}"))
        required = [*b[:-1], *a[count:]]
        if c is not None and (
            len(c) != len(required) or any(differ(x, y) for x, y in zip(required, c, strict=True))
        ):
            what = "updates must have the shape of indices without the last axis, then the slice's"
            raise ValueError(explain(what, got=str(updates)))
    return like(data)


@scatter_nd.numpy
def _(data, indices, updates, reduction="update"):
    out, combine = data.copy(), _NUMPY[reduction]
    for at in np.ndindex(indices.shape[:-1]):
        where = tuple(indices[at])
        out[where] = combine(out[where], updates[at])
    return out


_VECTORS = np.array([[0, 1], [2, 3], [0, 1]], np.int64)
scatter_nd.samples(
    case((3, 4), _VECTORS, (3,)),
    case((3, 4, 2), _VECTORS, (3, 2), reduction="add"),
    case((3, 2), np.array([[[1]], [[-1]]], np.int64), (2, 1, 2)),
)


def _axes_of(data, indices):
    if len(indices) > len(data):
        what = "there are more indices than axes"
        raise ValueError(explain(what, got=f"{len(indices)} for rank {len(data)}"))


@op("relax.index_tensor")
def index_tensor(data: Tensor, indices: Tensors):
    """numpy's data[indices[0], indices[1], ...]: tensors of integers that broadcast, one for each
    of the first axes; negative ones count from the end."""
    _axes_of(data.shape, indices)
    dims = broadcast_all(shape_of(t) for t in indices)

    def cell(*i):
        front, where = i[: len(dims)], []
        for a, t in enumerate(indices):
            at = element(t, aligned_index(shape_of(t), front, dims))
            where.append(tir.checked_index(cast("int64", at), data.shape[a]))
        return data(*where, *i[len(dims) :])

    shape = [*dims, *data.shape[len(indices) :]]
    return compute(shape, cell, "index", tag="injective")


@index_tensor.infer
def _(data: TensorStructInfo, indices: TupleStructInfo):
    if not indices.fields:
        raise ValueError(explain("needs a tensor of indices", got="none"))
    if data.ndim != -1:
        _axes_of(range(data.ndim), indices.fields)
    tensors: list[Any] = list(indices.fields)
    for t in tensors:
        need_integers(t)
    if all(t.get_shape() is not None for t in tensors):
        broadcast_all(t.get_shape() for t in tensors)
    whole = tensors[0]
    for t in tensors[1:]:
        whole = infer_broadcast(whole, t, "int64")
    shape, dims = data.get_shape(), whole.get_shape()
    if shape is not None and dims is not None:
        return TensorStructInfo([*dims, *shape[len(indices.fields) :]], data.dtype)
    if -1 in (data.ndim, whole.ndim):
        return TensorStructInfo(dtype=data.dtype)
    return TensorStructInfo(dtype=data.dtype, ndim=whole.ndim + data.ndim - len(indices.fields))


_LEFT, _RIGHT = np.array([[0], [2]], np.int64), np.array([1, -1, 0], np.int32)
index_tensor.numpy(lambda data, indices: data[tuple(indices)])
index_tensor.samples(
    case((3, 4), [_LEFT, _RIGHT]), case((3, 4, 2), [_LEFT]), case(("n", 4), [_RIGHT])
)


@op("relax.index_put")
def index_put(data: Tensor, indices: Tensors, values: Tensor, accumulate: bool = False):
    """data with `values` (which broadcast) at numpy's data[indices[0], indices[1], ...];
    `accumulate` adds them."""
    _axes_of(data.shape, indices)
    front = broadcast_all(shape_of(t) for t in indices)
    dims = [*front, *data.shape[len(indices) :]]

    def update(at, others):
        *spots, new = others
        where = []
        for a, (t, spot) in enumerate(zip(indices, spots, strict=True)):
            here = aligned_index(shape_of(t), at[: len(front)], front)
            index = cast("int64", element_at(spot, tuple(here)))
            where.append(tir.checked_index(index, data.shape[a]))
        here = aligned_index(shape_of(values), at, dims)
        return [*where, *at[len(front) :]], element_at(new, tuple(here))

    how = "add" if accumulate else "update"
    return _updated(data, [*indices, values], dims, update, "index_put", how)


@index_put.infer
def _(data, indices, values, accumulate=False):
    common_dtype(data, values)
    if data.ndim != -1:
        _axes_of(range(data.ndim), indices.fields)
    for t in indices.fields:
        need_integers(t)
    shape, own = data.get_shape(), values.get_shape()
    shapes = [t.get_shape() for t in indices.fields]
    if shape is not None and own is not None and None not in shapes:
        front = broadcast_all(shapes)
        dims = [*front, *shape[len(shapes) :]]
        if len(own) > len(dims) or broadcast_differ(own, dims, both=False):
            what = "values must broadcast to the indexed elements"
            raise ValueError(explain(what, got=f"{shape_text(own)} for {shape_text(dims)}"))
    return like(data)


@index_put.build
def _(data, indices, values, accumulate):
    return {
        "data": data,
        "indices": indices if isinstance(indices, (list, tuple)) else _listed(indices),
        "values": values,
        "accumulate": accumulate,
    }


def _listed(indices):
    """One tensor of indices is read as a tuple of it."""
    info = getattr(indices, "struct_info", None)
    return [indices] if isinstance(info, TensorStructInfo) else indices


@index_put.numpy
def _(data, indices, values, accumulate=False):
    out = data.copy()
    if accumulate:
        np.add.at(out, tuple(indices), values)
    else:
        out[tuple(indices)] = values
    return out


index_put.samples(
    case((3, 4), [_LEFT, _RIGHT], (2, 3)),
    case((3, 4), [np.array([0, 2, 0], np.int64)], (3, 4), accumulate=True),
    case((3, 4), [np.array([1, 2], np.int64)], (1, 4)),
)


@op("relax.slice_scatter")
def slice_scatter(
    input_tensor: Tensor, src: Tensor, start: Prim, end: Prim, step: Prim, axis: Axis = 0
):
    """input_tensor with `src` in place of its slice start:end:step on `axis`."""
    which = normalize_axis(axis, len(input_tensor.shape))
    extent = input_tensor.shape[which]
    first, by, count = slice_range(extent, start, end, int(step), False)

    def cell(*i):
        gap = i[which] - first
        inside = tir.all(
            i[which] >= first,
            i[which] < first + count * by,
            tir.EQ(tir.indexmod(tir.max(gap, const(0, "int64")), const(by, "int64")), 0),
        )
        source = tir.indexdiv(gap, const(by, "int64"))
        new = src(*i[:which], source, *i[which + 1 :])
        return tir.if_then_else(inside, new, input_tensor(*i))

    return compute(input_tensor.shape, cell, "slice_scatter", tag="injective")


@slice_scatter.infer
def _(input_tensor, src, start, end, step, axis=0):
    common_dtype(input_tensor, src)
    if -1 not in (input_tensor.ndim, src.ndim) and input_tensor.ndim != src.ndim:
        what = "input_tensor and src must have one rank"
        raise ValueError(explain(what, got=f"{input_tensor.ndim} and {src.ndim}"))
    if isinstance(step.value, IntImm) and step.value.value < 1:
        raise ValueError(explain("step must be 1 or more", got=step.value.value))
    shape, own = input_tensor.get_shape(), src.get_shape()
    if shape is not None:
        which = normalize_axis(axis, len(shape))
        values = [start.value, end.value, step.value]
        if own is not None and all(v is not None for v in values):
            count = slice_range(shape[which], values[0], values[1], int(values[2]), False)[2]
            required = [*shape[:which], count, *shape[which + 1 :]]
            if any(differ(simplify(a), simplify(b)) for a, b in zip(required, own, strict=True)):
                raise ValueError(explain("src does not have the shape of the slice", got=str(src)))
    return like(input_tensor)


@slice_scatter.numpy
def _(input_tensor, src, start, end, step, axis=0):
    out = input_tensor.copy()
    at = [slice(None)] * out.ndim
    at[axis] = slice(int(start), int(end), int(step))
    out[tuple(at)] = src
    return out


slice_scatter.samples(case((6, 3), (3, 3), 1, 6, 2), case(("n", 5), ("n", 2), -3, -1, 1, axis=1))


@op("relax.tensor_scatter")
def tensor_scatter(
    data: Tensor, updates: Tensor, start: Tensor, axis: Axis = -2, circular: bool = False
):
    """The data with updates written along `axis` from start[b] on, for each index b of axis 0; after the
    end at the beginning again if `circular`. Otherwise updates outside are not written."""
    which = normalize_axis(axis, data.ndim)
    if which == 0:
        raise ValueError(explain("the updates are not along axis 0", got=axis))
    if data.dtype != updates.dtype:
        got = f"{updates.dtype} for {data.dtype}"
        raise TypeError(explain("the updates must have the data's type", got=got))
    dims = list(data.shape)
    dims[which] = None
    extent, count = data.shape[which], extents_of(updates, "updates", *dims)[which]
    extents_of(start, "start", data.shape[0])
    if circular and shorter(extent, count):
        what = "there are more updates than elements"
        raise ValueError(explain(what, got=f"{text(count)} for {text(extent)}"))

    def cell(*i):
        offset = i[which] - cast("int64", start(i[0]))
        offset = floormod(offset, extent) if circular else offset
        source = updates(*i[:which], offset, *i[which + 1 :])
        return tir.if_then_else(tir.all(offset >= 0, offset < count), source, data(*i))

    return compute(data.shape, cell, "tensor_scatter", tag="injective")


@tensor_scatter.numpy
def _(data, updates, start, axis=-2, circular=False):
    which, out = normalize_axis(axis, data.ndim), data.copy()
    extent = data.shape[which]
    for b, first in enumerate(start):
        for n in range(updates.shape[which]):
            position = (int(first) + n) % extent if circular else int(first) + n
            if 0 <= position < extent:
                rest = (slice(None),) * (which - 1)
                out[(b, *rest, position)] = updates[(b, *rest, n)]
    return out


tensor_scatter.samples(
    case((2, 3, 5, 2), (2, 3, 2, 2), np.array([1, 3])),
    case((2, 5, 2), (2, 3, 2), np.array([4, 0]), circular=True),
    case(("n", 4, "m"), ("n", 2, "m"), np.array([3, 1, 0])),
)
