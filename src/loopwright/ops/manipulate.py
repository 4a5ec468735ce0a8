"""Operators that move elements: shape, order and place change, values do not."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.prim_expr import IntImm, PrimExpr, Range
from ..ir.prim_op import add, cast, ceildiv, const, floordiv, floormod, multiply, subtract
from ..relax.expr import ShapeExpr
from ..relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ..tir import IndexMap
from ..tir.stmt_functor import substitute
from .core import (
    INJECTIVE,
    Axes,
    Axis,
    Ints,
    Prims,
    Sections,
    Shape,
    Tensor,
    Tensors,
    case,
    op,
)
from .family import (
    broadcast_index,
    compute,
    is_one,
    normalize_axes,
    normalize_axis,
    shape_text,
    simplify,
)


@op("relax.permute_dims")
def transpose(x: Tensor, axes: Axes | None = None):
    """Reorder the axes; without `axes`, reverse them."""
    order = _order(axes, len(x.shape))

    def cell(*i):
        source = [None] * len(order)
        for place, axis in zip(i, order, strict=True):
            source[axis] = place
        return x(*source)

    return compute([x.shape[a] for a in order], cell, "T_transpose", tag="injective")


def _order(axes, ndim):
    if axes is None:
        return list(range(ndim))[::-1]
    order = [normalize_axis(a, ndim) for a in axes]
    if sorted(order) != list(range(ndim)):
        what = "axes must name every axis once"
        raise ValueError(explain(what, got=f"{list(axes)} for rank {ndim}"))
    return order


@transpose.infer
def _(x: TensorStructInfo, axes=None):
    if x.ndim == -1:
        return TensorStructInfo(dtype=x.dtype, ndim=-1 if axes is None else len(axes))
    order, shape = _order(axes, x.ndim), x.get_shape()
    if shape is None:
        return TensorStructInfo(dtype=x.dtype, ndim=x.ndim)
    return TensorStructInfo([shape[a] for a in order], x.dtype)


@transpose.numpy
def _(x, axes=None):
    return np.transpose(x, axes)


transpose.samples(case((2, 3)), case(("n", 3, 4), axes=[1, 0, 2]))


def _product(dims):
    size = const(1, "int64")
    for d in dims:
        size = multiply(size, d)
    return size


def _flat_index(indices, dims):
    flat = const(0, "int64")
    for i, d in zip(indices, dims, strict=True):
        flat = add(multiply(flat, d), i)
    return flat


def _unflatten(flat, dims):
    """Indices into `dims` of the element number `flat`."""
    found = []
    for d in reversed(list(dims)):
        found.append(floormod(flat, d))
        flat = floordiv(flat, d)
    return found[::-1]


@op("relax.reshape")
def reshape(x: Tensor, shape: Shape):
    """The same elements in row-major order, in another shape; one dim may be -1 (and a dim may
    be 0: take the input's)."""
    flat = lambda i: simplify(_flat_index(i, shape))  # noqa: E731
    cell = lambda *i: x(*[simplify(v) for v in _unflatten(flat(i), x.shape)])  # noqa: E731
    return compute(shape, cell, "T_reshape", tag="injective")


@reshape.build
def _(x, shape):
    if isinstance(shape, (int, PrimExpr)):
        shape = [shape]
    if not isinstance(shape, (list, tuple)):
        return {"x": x, "shape": shape}
    dims = list(shape)
    info = x.struct_info
    known = info.get_shape() if isinstance(info, TensorStructInfo) else None
    literal = [d.value if isinstance(d, IntImm) else d for d in dims]
    for place, d in enumerate(literal):
        if isinstance(d, int) and d == 0 and known is not None and not _has_zero(known):
            dims[place] = known[place]
    holes = [k for k, d in enumerate(literal) if isinstance(d, int) and d == -1]
    if len(holes) > 1:
        what = "relax.reshape: only one dimension may be -1"
        raise ValueError(explain(what, got=literal))
    if holes:
        if known is None:
            what = "relax.reshape: -1 needs the input's shape to be known"
            raise ValueError(explain(what, got=str(info), instead="give every dimension"))
        rest = _product([d for k, d in enumerate(dims) if k != holes[0]])
        dims[holes[0]] = simplify(floordiv(_product(known), rest))
    return {"x": x, "shape": ShapeExpr(dims)}


def _has_zero(dims):
    return any(isinstance(d, IntImm) and d.value == 0 for d in dims)


@reshape.infer
def _(x: TensorStructInfo, shape: ShapeStructInfo):
    old = x.get_shape()
    if shape.values is None:
        return TensorStructInfo(dtype=x.dtype, ndim=shape.ndim)
    if old is not None:
        before, after = simplify(_product(old)), simplify(_product(shape.values))
        both = isinstance(before, IntImm) and isinstance(after, IntImm)
        if both and before.value != after.value:
            what = "the number of elements must stay"
            raise ValueError(explain(what, got=f"{before.value} into {after.value}"))
    return TensorStructInfo(ShapeExpr(shape.values), x.dtype)


@reshape.numpy
def _(x, shape):
    return np.reshape(x, tuple(int(d) for d in shape))


reshape.samples(case((2, 6), [3, 4]), case(("n", 4), ["n * 2", 2]))


@op("relax.flatten")
def flatten(x: Tensor):
    """All elements in one dimension."""
    return reshape(x, [_product(x.shape)])


@flatten.numpy
def _(x):
    return x.reshape(-1)


flatten.samples(case((2, 3)))


@op("relax.expand_dims")
def expand_dims(x: Tensor, axis: Axes):
    """Insert dimensions of extent 1 at `axis` of the result."""
    where = normalize_axes(axis, len(x.shape) + len(axis))
    shape, rest = [], list(x.shape)
    for a in range(len(x.shape) + len(where)):
        shape.append(const(1, "int64") if a in where else rest.pop(0))
    keep = lambda i: [v for a, v in enumerate(i) if a not in where]  # noqa: E731
    return compute(shape, lambda *i: x(*keep(i)), "expand_dims", axes="i", tag="injective")


@expand_dims.numpy
def _(x, axis):
    return np.expand_dims(x, tuple(axis))


expand_dims.samples(case((2, 3), axis=[0, 3]), case(("n", 3), axis=[-1]))


@op("relax.squeeze")
def squeeze(x: Tensor, axis: Axes | None = None):
    """Drop dimensions of extent 1: those of `axis`, or all."""
    gone = _squeezed(x.shape, axis)

    def cell(*i):
        rest = list(i)
        zero = const(0, "int64")
        return x(*[zero if a in gone else rest.pop(0) for a in range(len(x.shape))])

    kept = [d for a, d in enumerate(x.shape) if a not in gone]
    return compute(kept, cell, "T_squeeze", tag="injective")


def _squeezed(shape, axis):
    if axis is None:
        return [a for a, d in enumerate(shape) if is_one(d)]
    where = normalize_axes(axis, len(shape))
    for a in where:
        if isinstance(shape[a], IntImm) and not is_one(shape[a]):
            raise ValueError(
                explain("squeeze drops dims of extent 1", got=f"axis {a}: {shape[a].value}")
            )
    return where


@squeeze.infer
def _(x: TensorStructInfo, axis=None):
    shape = x.get_shape()
    if shape is None:
        if x.ndim == -1 or axis is None:
            return TensorStructInfo(dtype=x.dtype)
        return TensorStructInfo(dtype=x.dtype, ndim=x.ndim - len(axis))
    gone = _squeezed(shape, axis)
    return TensorStructInfo([d for a, d in enumerate(shape) if a not in gone], x.dtype)


@squeeze.numpy
def _(x, axis=None):
    return np.squeeze(x, None if axis is None else tuple(axis))


squeeze.samples(case((2, 1, 3)), case((1, "n", 1), axis=[0]))


@op("relax.broadcast_to")
def broadcast_to(x: Tensor, shape: Shape):
    """Repeat along dims of extent 1 (and in front) until the shape is `shape`."""
    cell = lambda *i: x(*broadcast_index(x, i, list(shape)))  # noqa: E731
    return compute(shape, cell, "T_broadcast_to", tag="broadcast")


@broadcast_to.infer
def _(x: TensorStructInfo, shape: ShapeStructInfo):
    old = x.get_shape()
    if shape.values is not None and old is not None:
        fits = len(old) <= len(shape.values)
        for a, b in zip(reversed(old), reversed(shape.values), strict=False):
            both = isinstance(a, IntImm) and isinstance(b, IntImm)
            fits = fits and (is_one(a) or not both or a.value == b.value)
        if not fits:
            got = f"{shape_text(old)} to {shape_text(shape.values)}"
            raise ValueError(explain("the shape cannot be broadcast", got=got))
    if shape.values is None:
        return TensorStructInfo(dtype=x.dtype, ndim=shape.ndim)
    return TensorStructInfo(ShapeExpr(shape.values), x.dtype)


@broadcast_to.numpy
def _(x, shape):
    return np.broadcast_to(x, tuple(int(d) for d in shape)).copy()


broadcast_to.samples(case((3, 1), [2, 3, 4]), case(("n", 1), ["n", 5]))


@op("relax.concat")
def concatenate(tensors: Tensors, axis: Axis | None = 0):
    """Join tensors along `axis`; with None, flatten them first."""
    if axis is None:
        tensors, axis = [flatten(t) for t in tensors], 0
    which = normalize_axis(axis, len(tensors[0].shape))
    starts, total = [], const(0, "int64")
    for t in tensors:
        starts.append(total)
        total = simplify(add(total, t.shape[which]))

    def cell(*i):
        value: Any = None
        for t, start in zip(tensors, starts, strict=True):
            here = [*i[:which], subtract(i[which], start), *i[which + 1 :]]
            if value is None:
                value = t(*here)
            else:
                value = tir.if_then_else(start <= i[which], t(*here), value)
        return value

    shape = [total if a == which else d for a, d in enumerate(tensors[0].shape)]
    return compute(shape, cell, "T_concat", tag="injective")


@concatenate.infer
def _(tensors: TupleStructInfo, axis=0):
    infos = tensors.fields
    dtypes = {str(t.dtype) for t in infos if not t.dtype.is_void}
    if len(dtypes) > 1:
        raise TypeError(explain("tensors of different dtypes", got=", ".join(sorted(dtypes))))
    dtype = infos[0].dtype if all(not t.dtype.is_void for t in infos) else "void"
    ranks = {t.ndim for t in infos if t.ndim != -1}
    if len(ranks) > 1 and axis is not None:
        raise ValueError(explain("tensors of different rank", got=sorted(ranks)))
    shapes = [t.get_shape() for t in infos]
    if axis is None or any(s is None for s in shapes):
        rank = 1 if axis is None else next(iter(ranks), -1)
        if axis is None and all(s is not None for s in shapes):
            total = const(0, "int64")
            for s in shapes:
                total = simplify(add(total, _product(s)))
            return TensorStructInfo([total], dtype)
        return TensorStructInfo(dtype=dtype, ndim=rank)
    which = normalize_axis(axis, len(shapes[0]))
    total = const(0, "int64")
    for s in shapes:
        total = simplify(add(total, s[which]))
        for a, (d, first) in enumerate(zip(s, shapes[0], strict=True)):
            both = isinstance(d, IntImm) and isinstance(first, IntImm)
            if a != which and both and d.value != first.value:
                what = f"all dims but axis {which} must be equal"
                raise ValueError(explain(what, got=f"axis {a}: {first.value} and {d.value}"))
    dims = [total if a == which else d for a, d in enumerate(shapes[0])]
    return TensorStructInfo(dims, dtype)


@concatenate.numpy
def _(tensors, axis=0):
    return np.concatenate(list(tensors), axis)


concatenate.samples(case([(2, 3), (2, 5)], axis=1), case([("n", 3), (4, 3), (1, 3)], axis=0))


@op("relax.split")
def split(x: Tensor, indices_or_sections: Sections, axis: Axis = 0):
    """A tuple of pieces of `axis`: `indices_or_sections` is a number of equal pieces (the last
    may be shorter) or the list of the indices where a new piece begins."""
    which = normalize_axis(axis, len(x.shape))

    def piece(begin, size):
        shape = [size if a == which else d for a, d in enumerate(x.shape)]
        move = lambda i: [add(v, begin) if a == which else v for a, v in enumerate(i)]  # noqa: E731
        return compute(shape, lambda *i: x(*move(i)), "T_split", tag="injective")

    return [piece(*p) for p in _pieces(x.shape[which], indices_or_sections)]


@split.build
def _(x, indices_or_sections, axis):
    if not isinstance(indices_or_sections, (list, tuple)) and int(indices_or_sections) <= 0:
        what = "relax.split: the number of sections must be positive"
        raise ValueError(explain(what, got=indices_or_sections))
    return {"x": x, "indices_or_sections": indices_or_sections, "axis": axis}


def _pieces(extent, where):
    """(begin, size) of each piece."""
    if isinstance(where, int):
        size = simplify(ceildiv(extent, where))
        begins = [simplify(multiply(size, k)) for k in range(where)]
        last = simplify(subtract(extent, begins[-1]))
        return [*[(b, size) for b in begins[:-1]], (begins[-1], last)]
    begins = [const(0, "int64"), *[const(w, "int64") for w in where]]
    if isinstance(extent, IntImm):
        begins = [const(min(b.value, extent.value), "int64") for b in begins]
    ends = [*begins[1:], extent]
    return [(b, simplify(subtract(e, b))) for b, e in zip(begins, ends, strict=True)]


@split.infer
def _(x: TensorStructInfo, indices_or_sections, axis=0):
    where = indices_or_sections
    count = where if isinstance(where, int) else len(where) + 1
    shape = x.get_shape()
    if shape is None:
        one = TensorStructInfo(dtype=x.dtype, ndim=x.ndim)
        return TupleStructInfo([one] * count)
    which = normalize_axis(axis, len(shape))
    sizes = [s for _, s in _pieces(shape[which], where)]
    made = [[s if a == which else d for a, d in enumerate(shape)] for s in sizes]
    return TupleStructInfo([TensorStructInfo(m, x.dtype) for m in made])


@split.numpy
def _(x, indices_or_sections, axis=0):
    where = indices_or_sections
    if isinstance(where, int):
        size = -(-x.shape[axis] // where)
        where = [size * k for k in range(1, where)]
    return tuple(np.ascontiguousarray(p) for p in np.split(x, where, axis))


split.samples(
    case((4, 6), indices_or_sections=3, axis=1), case(("n", 6), indices_or_sections=[2], axis=1)
)


@op("relax.strided_slice")
def strided_slice(
    x: Tensor,
    axes: Prims,
    begin: Prims,
    end: Prims,
    strides: Prims | None = None,
    assume_inbound: bool = False,
):
    """x[begin:end:stride] on each of `axes`, with Python's rule for negative and large bounds
    (`assume_inbound`: the bounds are taken as they are)."""
    steps = strides if strides is not None else [const(1, "int64")] * len(axes)
    ranges = _slice_ranges(x.shape, axes, begin, end, steps, assume_inbound)

    def cell(*i):
        at = list(i)
        for a, (first, step, _) in ranges.items():
            at[a] = add(multiply(i[a], step), first)
        return x(*at)

    shape = [ranges[a][2] if a in ranges else d for a, d in enumerate(x.shape)]
    return compute(shape, cell, "T_strided_slice_with_axes", tag="injective")


def _slice_ranges(shape, axes, begin, end, steps, inbound):
    """axis -> (first, step, count)."""
    made = {}
    for axis, first, last, step in zip(axes, begin, end, steps, strict=True):
        which = normalize_axis(int(axis), len(shape))
        made[which] = _slice_range(shape[which], first, last, int(step), inbound)
    return made


def _slice_range(extent, first, last, step, inbound):
    if step == 0:
        raise ValueError("the stride of a slice may not be 0")
    first, last = cast("int64", first), cast("int64", last)
    if not inbound:
        low, high = (0, extent) if step > 0 else (-1, subtract(extent, 1))
        first, last = _bound(first, extent, low, high), _bound(last, extent, low, high)
    gap = subtract(last, first) if step > 0 else subtract(first, last)
    count = floordiv(add(gap, abs(step) - 1), abs(step))
    return first, step, simplify(tir.max(simplify(count), const(0, "int64")))


def _bound(value, extent, low, high):
    """A slice bound made non-negative and clamped to [low, high]."""
    if isinstance(value, IntImm):
        if value.value < 0:
            value = simplify(add(value, extent))
        elif isinstance(extent, IntImm):
            return const(min(value.value, int(high)), "int64")
        elif value.value >= 2**31 - 1:
            return cast("int64", high)
    else:
        value = tir.if_then_else(value < const(0, "int64"), add(value, extent), value)
    return simplify(tir.max(tir.min(value, high), low))


@strided_slice.infer
def _(x: TensorStructInfo, axes, begin, end, strides=None, assume_inbound=False):
    shape = x.get_shape()
    groups = [axes, begin, end, strides]
    values: list[Any] = [None if g is None else [_value(f) for f in g.fields] for g in groups]
    missing = any(v is None for g in values if g is not None for v in g)
    if shape is None or missing:
        return TensorStructInfo(dtype=x.dtype, ndim=x.ndim)
    steps = values[3] or [const(1, "int64")] * len(values[0])
    ranges = _slice_ranges(shape, values[0], values[1], values[2], steps, assume_inbound)
    dims = [ranges[a][2] if a in ranges else d for a, d in enumerate(shape)]
    return TensorStructInfo(dims, x.dtype)


def _value(info):
    return info.value if isinstance(info, PrimStructInfo) else None


@strided_slice.numpy
def _(x, axes, begin, end, strides=None, assume_inbound=False):
    at = [slice(None)] * x.ndim
    steps = strides or [1] * len(axes)
    for a, b, e, s in zip(axes, begin, end, steps, strict=True):
        stop = None if int(s) < 0 and int(e) < -x.shape[int(a)] else int(e)
        at[int(a)] = slice(int(b), stop, int(s))
    return np.ascontiguousarray(x[tuple(at)])


strided_slice.samples(
    case((6, 5), [0], [1], [5], [2]),
    case(("n", 8), [1], [-3], [2**31 - 1], [1]),
    case((6, 5), [0], [4], [-7], [-1]),
)


@op("relax.take")
def take(x: Tensor, indices: Tensor, axis: Axis | None = None, mode: str = "fast"):
    """x at `indices` along `axis`. `mode` says what happens out of range: "fast" nothing is
    checked, "wrap" modulo the extent, "clip" to the nearest, "nan" gives NaN."""
    if axis is None:
        x, axis = flatten(x), 0
    which = normalize_axis(axis, len(x.shape))
    width = len(indices.shape) if isinstance(indices, te.Tensor) else 0
    extent = x.shape[which]

    def cell(*i):
        at = indices(*i[which : which + width]) if isinstance(indices, te.Tensor) else indices
        at = cast("int64", at)
        place = at
        if mode == "wrap":
            place = floormod(at, extent)
        elif mode == "clip":
            place = tir.max(tir.min(at, subtract(extent, 1)), const(0, "int64"))
        value = x(*i[:which], place, *i[which + width :])
        if mode != "nan":
            return value
        inside = tir.all(const(0, "int64") <= at, at < extent)
        return tir.if_then_else(inside, value, const(float("nan"), x.dtype))

    middle = list(indices.shape) if isinstance(indices, te.Tensor) else []
    shape = [*x.shape[:which], *middle, *x.shape[which + 1 :]]
    return compute(shape, cell, "T_take", tag="injective")


@take.numpy
def _(x, indices, axis=None, mode="fast"):
    if mode == "nan":
        extent = x.size if axis is None else x.shape[axis]
        inside = (indices >= 0) & (indices < extent)
        found = np.take(x, np.where(inside, indices, 0), axis)
        width = 1 if axis is None else 0
        shape = [1] * (axis or 0) + list(indices.shape)
        shape += [1] * (found.ndim - len(shape)) if not width else []
        return np.where(inside.reshape(shape), found, np.array(np.nan, x.dtype))
    return np.take(x, indices, axis, mode="raise" if mode == "fast" else mode)  # type: ignore[arg-type]


take.samples(
    case((5, 3), np.array([0, 4, 2], np.int64), axis=0),
    case((5, 3), np.array([[7, -1]], np.int32), axis=0, mode="wrap"),
)


@op("relax.repeat")
def repeat(data: Tensor, repeats: int, axis: Axis | None = None):
    """Each element `repeats` times along `axis` (None: of the flattened tensor)."""
    if axis is None:
        data, axis = flatten(data), 0
    which = normalize_axis(axis, len(data.shape))
    shape = [multiply(d, repeats) if a == which else d for a, d in enumerate(data.shape)]
    back = lambda i: [floordiv(v, repeats) if a == which else v for a, v in enumerate(i)]  # noqa: E731
    return compute(shape, lambda *i: data(*back(i)), "T_repeat", tag="broadcast")


@repeat.numpy
def _(data, repeats, axis=None):
    return np.repeat(data, repeats, axis)


repeat.samples(case((2, 3), repeats=2, axis=1))


@op("relax.tile")
def tile(data: Tensor, repeats: Ints):
    """The tensor laid `repeats` times along each axis."""
    ndim = max(len(data.shape), len(repeats))
    counts = [1] * (ndim - len(repeats)) + list(repeats)
    dims = [const(1, "int64")] * (ndim - len(data.shape)) + list(data.shape)
    back = lambda i: [floormod(v, d) for v, d in zip(i, dims, strict=True)]  # noqa: E731
    lead = ndim - len(data.shape)
    shape = [multiply(d, c) for d, c in zip(dims, counts, strict=True)]
    return compute(shape, lambda *i: data(*back(i)[lead:]), "T_tile", tag="broadcast")


@tile.numpy
def _(data, repeats):
    return np.tile(data, repeats)


tile.samples(case((2, 3), repeats=[2, 1]), case((2, 3), repeats=[2, 1, 2]))


@op("relax.flip")
def flip(data: Tensor, axis: Axis):
    """The order of `axis` turned round."""
    which = normalize_axis(axis, len(data.shape))
    last = subtract(data.shape[which], 1)
    back = lambda i: [subtract(last, v) if a == which else v for a, v in enumerate(i)]  # noqa: E731
    return compute(data.shape, lambda *i: data(*back(i)), "T_reverse", tag="injective")


@flip.numpy
def _(data, axis):
    return np.ascontiguousarray(np.flip(data, axis))


flip.samples(case((2, 3), axis=1), case(("n", 2), axis=0))


@op("relax.layout_transform", kind=INJECTIVE)
def layout_transform(
    x: Tensor,
    index_map,
    pad_value=None,
    axis_separators: Ints | None = None,
    input_axis_separators: Ints | None = None,
):
    """The elements rearranged by `index_map` (an IndexMap, or a function of the old indices that
    gives the new ones). Where the new shape is larger, `pad_value` (default 0) fills."""
    shape = [simplify(d) for d in index_map.map_shape(x.shape)]
    inverse, padded = index_map.non_surjective_inverse(
        [Range.from_min_extent(const(0, "int64"), d) for d in x.shape]
    )
    fill = const(0 if pad_value is None else pad_value, x.dtype)

    def cell(*i):
        value = x(*inverse.map_indices(list(i)))
        if isinstance(padded, IntImm):
            return value
        known = dict(zip(inverse.initial_indices, i, strict=True))
        return tir.if_then_else(substitute(padded, known), fill, value)

    return compute(shape, cell, "te_layout_transform", axes="i")


layout_transform.te_name = "te_layout_transform"


@layout_transform.build
def _(**values):
    if not isinstance(values["index_map"], IndexMap):
        ndim = values["x"].struct_info.ndim
        made = IndexMap.from_func_with_separators(values["index_map"], ndim)
        values["index_map"], separators = made
        if separators and values["axis_separators"] is None:
            values["axis_separators"] = separators
    fill = values["pad_value"]
    values["pad_value"] = getattr(getattr(fill, "value", fill), "value", fill)
    return values


@layout_transform.numpy
def _(x, index_map, pad_value=None, axis_separators=None, input_axis_separators=None):
    made = index_map.map_ndarray(x)
    if not pad_value:
        return made
    filled = index_map.map_ndarray(np.ones(x.shape, bool))
    return np.where(filled, made, np.asarray(pad_value, x.dtype))


layout_transform.samples(
    case((4, 6), index_map=lambda i, j: [j // 2, i, j % 2]),
    case((2, 5), index_map=lambda i, j: [i, j // 4, j % 4], pad_value=2.0),
)
