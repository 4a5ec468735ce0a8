"""Operators that move elements without changing their values."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import te, tir
from ..base.errors import explain, suggest
from ..ir.literals import is_one, is_zero
from ..ir.prim_expr import IntImm, PrimExpr, Range
from ..ir.prim_op import add, cast, const, floordiv, indexdiv, indexmod, multiply, subtract
from ..relax import op as R
from ..relax.expr import Call, ShapeExpr
from ..relax.layout import LayoutPlan, LayoutQuery
from ..relax.struct_info import ShapeStructInfo, TensorStructInfo
from ..tir import IndexMap
from ..tir.stmt_functor import substitute
from .common import (
    broadcast_index,
    compute,
    need_integers,
    normalize_axes,
    normalize_axis,
    of_shape,
    product,
    shape_text,
)
from .core import INJECTIVE, case, op
from .extents import broadcast_differ, simplify
from .layout_rules import along, inserted, moved, squeezing
from .params import Axes, Axis, Ints, Operand, Shape, Tensor


@op("relax.permute_dims", mixed="follow")
def transpose(x: Tensor, axes: Axes | None = None):
    """Reorder the axes; without `axes`, reverse them."""
    order = _order(axes, len(x.shape))

    def cell(*i):
        source = [None] * len(order)
        for index, axis in zip(i, order, strict=True):
            source[axis] = index
        return x(*source)

    return compute([x.shape[a] for a in order], cell, "T_transpose", tag="injective")


def _order(axes, ndim):
    """The axes counted from the first one; None: reversed. Raises ValueError if one is not named once."""
    if axes is None:
        return list(range(ndim))[::-1]
    order = [normalize_axis(a, ndim) for a in axes]
    if sorted(order) != list(range(ndim)):
        what = "axes must name every axis once"
        raise ValueError(explain(what, got=f"{list(axes)} for rank {ndim}"))
    return order


@transpose.infer
def _(x: TensorStructInfo, axes=None):
    ndim = x.ndim
    if ndim == -1:
        if axes is None:
            return TensorStructInfo(dtype=x.dtype)
        ndim = len(axes)  # each axis is named once
    order, shape = _order(axes, ndim), x.get_shape()
    if shape is None:
        return TensorStructInfo(dtype=x.dtype, ndim=ndim)
    return TensorStructInfo([shape[a] for a in order], x.dtype)


@transpose.grad
def _(cx, x, axes=None):
    order = _order(axes, x.struct_info.ndim)
    return R.permute_dims(cx.grad, [order.index(a) for a in range(len(order))])


@transpose.layout
def _(call: Call, query: LayoutQuery) -> LayoutPlan | None:
    layout = query.inputs[0]
    if layout is None or query.block or not str(layout).isupper():
        return None
    order = _order(call.attrs.axes, call.struct_info.ndim)
    return LayoutPlan((layout,), (moved(layout, order),), moves_nothing=True)


transpose.numpy(lambda x, axes=None: np.transpose(x, axes))
transpose.samples(case((2, 3)), case(("n", 3, 4), axes=[1, 0, 2]))


def _flat_index(indices, dims):
    """The position in row-major order of the element at `indices`."""
    flat = const(0, "int64")
    for i, d in zip(indices, dims, strict=True):
        flat = add(multiply(flat, d), i)
    return flat


def _unflatten(flat, dims):
    """The indices into `dims` of the element with the flat index `flat`."""
    indices = []
    for d in reversed(list(dims)):
        indices.append(indexmod(flat, d))
        flat = indexdiv(flat, d)
    return indices[::-1]


@op("relax.reshape", mixed="follow")
def reshape(x: Tensor, shape: Shape):
    """The same elements in row-major order, in another shape; one dim may be -1, and a dim of
    0 is copied from the input."""
    flat = lambda i: simplify(_flat_index(i, shape))  # noqa: E731
    cell = lambda *i: x(*[simplify(v) for v in _unflatten(flat(i), x.shape)])  # noqa: E731
    return compute(shape, cell, "T_reshape", tag="injective")


@reshape.build
def _(x, shape):
    if isinstance(shape, (int, PrimExpr)):
        shape = [shape]
    if not isinstance(shape, (list, tuple, ShapeExpr)):
        return {"x": x, "shape": shape}
    dims = list(shape)
    info = x.struct_info
    old = info.get_shape() if isinstance(info, TensorStructInfo) else None
    literal = [d.value if isinstance(d, IntImm) else d for d in dims]
    for axis, d in enumerate(literal):
        if isinstance(d, int) and d == 0 and old is not None and not any(map(is_zero, old)):
            if axis >= len(old):
                what = "relax.reshape: a dimension of 0 is copied from the input, whose rank is too low"
                raise ValueError(explain(what, got=f"{shape_text(old)} into {shape_text(dims)}"))
            dims[axis] = old[axis]
        if isinstance(d, int) and d < -1:
            raise ValueError(explain("relax.reshape: a dimension is at least -1", got=literal))
    inferred = [k for k, d in enumerate(literal) if isinstance(d, int) and d == -1]
    if len(inferred) > 1:
        raise ValueError(explain("relax.reshape: only one dimension may be -1", got=literal))
    if inferred:
        if old is None:
            what = "relax.reshape: -1 needs the input's shape to be known"
            raise ValueError(explain(what, got=str(info), instead="give every dimension"))
        rest = product([d for k, d in enumerate(dims) if k != inferred[0]])
        dims[inferred[0]] = simplify(floordiv(product(old), rest))
    return {"x": x, "shape": ShapeExpr(dims)}


@reshape.infer
def _(x: TensorStructInfo, shape: ShapeStructInfo):
    old = x.get_shape()
    if shape.values is None:
        return TensorStructInfo(dtype=x.dtype, ndim=shape.ndim)
    if old is not None:
        before = simplify(product(old))
        after = simplify(product(shape.values)) if isinstance(before, IntImm) else None
        if isinstance(after, IntImm) and before.value != after.value:
            what = "the number of elements must stay"
            raise ValueError(explain(what, got=f"{before.value} into {after.value}"))
    return TensorStructInfo(ShapeExpr(shape.values), x.dtype)


reshape.numpy(lambda x, shape: np.reshape(x, tuple(int(d) for d in shape)))
reshape.grad(lambda cx, x, shape: [R.reshape(cx.grad, cx.shape(x)), None])
reshape.samples(case((2, 6), [3, 4]), case(("n", 4), ["n * 2", 2]))


@op("relax.flatten", mixed="follow")
def flatten(x: Tensor):
    """All elements in one dimension."""
    return reshape(x, [product(x.shape)])


flatten.numpy(lambda x: x.reshape(-1))
flatten.grad(lambda cx, x: R.reshape(cx.grad, cx.shape(x)))
flatten.samples(case((2, 3)))


@op("relax.expand_dims", mixed="follow")
def expand_dims(x: Tensor, axis: Axes):
    """Insert dimensions of extent 1 at `axis` of the result."""
    where = normalize_axes(axis, len(x.shape) + len(axis))
    shape, rest = [], list(x.shape)
    for a in range(len(x.shape) + len(where)):
        shape.append(const(1, "int64") if a in where else rest.pop(0))
    keep = lambda i: [v for a, v in enumerate(i) if a not in where]  # noqa: E731
    return compute(shape, lambda *i: x(*keep(i)), "expand_dims", axes="i", tag="injective")


@expand_dims.layout
def _(call: Call, query: LayoutQuery) -> LayoutPlan | None:
    layout = query.inputs[0]
    if layout is None or query.block or not str(layout).isupper():
        return None
    output = inserted(layout, normalize_axes(call.attrs.axis, call.struct_info.ndim))
    return LayoutPlan((layout,), (output,))


expand_dims.numpy(lambda x, axis: np.expand_dims(x, tuple(axis)))
expand_dims.grad(lambda cx, x, axis: R.squeeze(cx.grad, axis))
expand_dims.samples(case((2, 3), axis=[0, 3]), case(("n", 3), axis=[-1]))


@op("relax.squeeze", mixed="follow")
def squeeze(x: Tensor, axis: Axes | None = None):
    """Drop dimensions of extent 1: those of `axis`, or all."""
    dropped = _squeezed(x.shape, axis)

    def cell(*i):
        rest = list(i)
        zero = const(0, "int64")
        return x(*[zero if a in dropped else rest.pop(0) for a in range(len(x.shape))])

    dims = [d for a, d in enumerate(x.shape) if a not in dropped]
    return compute(dims, cell, "T_squeeze", tag="injective")


def _squeezed(shape, axis):
    """The axes that are dropped; None: those whose extent is known to be 1. Raises ValueError for another
    extent."""
    if axis is None:
        return [a for a, d in enumerate(shape) if is_one(d)]
    where = normalize_axes(axis, len(shape))
    for a in where:
        if isinstance(shape[a], IntImm) and not is_one(shape[a]):
            raise ValueError(
                explain("squeeze drops dims of extent 1", got=f"axis {a}: {shape[a].value}")
            )
    return where


@squeeze.build
def _(x, axis):
    """Which dimensions are dropped must not depend on what symbolic ones are at run time."""
    info = getattr(x, "struct_info", None)
    shape = info.get_shape() if axis is None and isinstance(info, TensorStructInfo) else None
    if shape is not None and not all(isinstance(d, IntImm) for d in shape):
        axis = _squeezed(shape, None)
    return {"x": x, "axis": axis}


@squeeze.infer
def _(x: TensorStructInfo, axis=None):
    shape = x.get_shape()
    if axis is not None and x.ndim != -1:
        normalize_axes(axis, x.ndim)
    if shape is None:
        if x.ndim == -1 or axis is None:
            return TensorStructInfo(dtype=x.dtype)
        return TensorStructInfo(dtype=x.dtype, ndim=x.ndim - len(axis))
    dropped = _squeezed(shape, axis)
    return TensorStructInfo([d for a, d in enumerate(shape) if a not in dropped], x.dtype)


squeeze.numpy(lambda x, axis=None: np.squeeze(x, None if axis is None else tuple(axis)))
squeeze.grad(lambda cx, x, axis=None: R.reshape(cx.grad, cx.shape(x)))
squeeze.layout(squeezing)
squeeze.samples(case((2, 1, 3)), case((1, "n", 1), axis=[0]))


@op("relax.broadcast_to", mixed="follow")
def broadcast_to(x: Tensor, shape: Shape):
    """Repeat along dims of extent 1 (and in front) until the shape is `shape`."""
    cell = lambda *i: x(*broadcast_index(x, i, list(shape)))  # noqa: E731
    return compute(shape, cell, "T_broadcast_to", tag="broadcast")


@broadcast_to.infer
def _(x: TensorStructInfo, shape: ShapeStructInfo):
    old = x.get_shape()
    if -1 < shape.ndim < x.ndim:
        got = f"{x.ndim} to {shape.ndim} dims"
        raise ValueError(explain("the shape cannot be broadcast", got=got))
    if shape.values is not None and old is not None:
        if broadcast_differ(old, shape.values, both=False):
            got = f"{shape_text(old)} to {shape_text(shape.values)}"
            raise ValueError(explain("the shape cannot be broadcast", got=got))
    return of_shape(shape, x.dtype)


broadcast_to.numpy(lambda x, shape: np.broadcast_to(x, tuple(int(d) for d in shape)).copy())
broadcast_to.grad(lambda cx, x, shape: [cx.fit(cx.grad, x), None])
broadcast_to.samples(case((3, 1), [2, 3, 4]), case(("n", 1), ["n", 5]))


def _check_mode(mode: str) -> None:
    modes = ("fast", "wrap", "clip", "nan")
    if mode not in modes:
        what = "take: unknown mode"
        raise ValueError(explain(what, got=repr(mode), instead=suggest(mode, modes)))


@op("relax.take", mixed="follow")
def take(x: Tensor, indices: Operand, axis: Axis | None = None, mode: str = "fast"):
    """x at `indices` along `axis`. `mode`, for an index out of range: "fast" fails (negative
    ones count from the end), "wrap" takes it modulo the extent, "clip" clamps it, "nan" returns
    NaN."""
    _check_mode(mode)
    if axis is None:
        x, axis = flatten(x), 0
    which = normalize_axis(axis, len(x.shape))
    width = len(indices.shape) if isinstance(indices, te.Tensor) else 0
    extent = x.shape[which]

    def cell(*i):
        at = indices(*i[which : which + width]) if isinstance(indices, te.Tensor) else indices
        at = cast("int64", at)
        index = at
        if mode == "wrap":
            index = indexmod(at, extent)
        elif mode == "clip":
            index = tir.max(tir.min(at, subtract(extent, 1)), const(0, "int64"))
        nonempty = isinstance(extent, IntImm) and extent.value > 0
        if mode == "fast" or (mode != "nan" and not nonempty):
            index = tir.checked_index(index, extent)
        value = x(*i[:which], index, *i[which + width :])
        if mode != "nan":
            return value
        inside = tir.all(const(0, "int64") <= at, at < extent)
        return tir.if_then_else(inside, value, const(float("nan"), x.dtype))

    middle = list(indices.shape) if isinstance(indices, te.Tensor) else []
    shape = [*x.shape[:which], *middle, *x.shape[which + 1 :]]
    return compute(shape, cell, "T_take", tag="injective")


@take.infer
def _(x: TensorStructInfo, indices, axis=None, mode="fast"):
    _check_mode(mode)
    need_integers(indices)
    if axis is None and x.ndim != 1:
        what = "without an axis, x must be a vector"
        raise ValueError(explain(what, got=f"rank {x.ndim}", instead="name the axis"))
    if -1 in (x.ndim, indices.ndim):
        return TensorStructInfo(dtype=x.dtype)
    which = 0 if axis is None else normalize_axis(axis, x.ndim)
    shape, positions = x.get_shape(), indices.get_shape()
    if shape is None or positions is None:
        return TensorStructInfo(dtype=x.dtype, ndim=x.ndim + indices.ndim - 1)
    return TensorStructInfo([*shape[:which], *positions, *shape[which + 1 :]], x.dtype)


@take.numpy
def _(x, indices, axis=None, mode: Any = "fast"):
    if mode != "nan":
        return np.take(x, indices, axis, mode="raise" if mode == "fast" else mode)
    data, which = (x.reshape(-1), 0) if axis is None else (x, normalize_axis(axis, x.ndim))
    inside = (indices >= 0) & (indices < data.shape[which])
    values = np.take(data, np.where(inside, indices, 0), which)
    inside = inside.reshape(*inside.shape, *[1] * (data.ndim - which - 1))
    return np.where(inside, values, np.array(np.nan, x.dtype))


@take.grad
def _(cx, x, indices, axis=None, mode="fast"):
    if mode != "fast":
        raise cx.refusal("this mode", mode)
    return [R.grad.take_backward(cx.grad, x, indices, axis), None]


take.samples(
    case((5, 3), np.array([0, 4, 2], np.int64), axis=0),
    case((5, 3), np.array([[7, -1]], np.int32), axis=0, mode="wrap"),
)


def _check_counts(repeats):
    if min(repeats, default=0) < 0:
        raise ValueError(explain("repeats must not be negative", got=list(repeats)))


@op("relax.repeat", mixed="follow")
def repeat(data: Tensor, repeats: int, axis: Axis | None = None):
    """Each element `repeats` times along `axis` (None: of the flattened tensor)."""
    _check_counts([repeats])
    if axis is None:
        data, axis = flatten(data), 0
    which, each = normalize_axis(axis, len(data.shape)), max(repeats, 1)
    shape = [multiply(d, repeats) if a == which else d for a, d in enumerate(data.shape)]
    back = lambda i: [floordiv(v, each) if a == which else v for a, v in enumerate(i)]  # noqa: E731
    return compute(shape, lambda *i: data(*back(i)), "T_repeat", tag="broadcast")


def _summed_parts(g, dims, counts, inner):
    """`g` summed over `counts` copies along each axis: of each element (inner), or of all."""
    cut, axes = [], []
    for d, c in zip(dims, counts, strict=True):
        axes.append(len(cut) + inner)
        cut += [d, c] if inner else [c, d]
    return R.sum(R.reshape(g, cut), axes)


@repeat.grad
def _(cx, data, repeats, axis=None):
    dims = list(data.struct_info.get_shape())
    if axis is None:
        flat = _summed_parts(cx.grad, [product(dims)], [repeats], True)
        return R.reshape(flat, dims)
    which = normalize_axis(axis, len(dims))
    return _summed_parts(
        cx.grad, dims, [repeats if a == which else 1 for a in range(len(dims))], True
    )


repeat.numpy(lambda data, repeats, axis=None: np.repeat(data, repeats, axis))
repeat.layout(along("axis", copies=True))
repeat.samples(case((2, 3), repeats=2, axis=1))


@op("relax.tile", mixed="follow")
def tile(data: Tensor, repeats: Ints):
    """The tensor repeated `repeats` times along each axis."""
    _check_counts(repeats)
    ndim = max(len(data.shape), len(repeats))
    counts = [1] * (ndim - len(repeats)) + list(repeats)
    dims = [const(1, "int64")] * (ndim - len(data.shape)) + list(data.shape)
    back = lambda i: [indexmod(v, d) for v, d in zip(i, dims, strict=True)]  # noqa: E731
    lead = ndim - len(data.shape)
    shape = [multiply(d, c) for d, c in zip(dims, counts, strict=True)]
    return compute(shape, lambda *i: data(*back(i)[lead:]), "T_tile", tag="broadcast")


@tile.grad
def _(cx, data, repeats):
    dims = list(data.struct_info.get_shape())
    rank = max(len(dims), len(repeats))
    counts = [1] * (rank - len(repeats)) + list(repeats)
    wide = [1] * (rank - len(dims)) + dims
    return R.reshape(_summed_parts(cx.grad, wide, counts, False), dims)


tile.numpy(lambda data, repeats: np.tile(data, repeats))
tile.samples(case((2, 3), repeats=[2, 1]), case((2, 3), repeats=[2, 1, 2]))


@op("relax.flip", mixed="follow")
def flip(data: Tensor, axis: Axis):
    """The tensor with `axis` reversed."""
    which = normalize_axis(axis, len(data.shape))
    last = subtract(data.shape[which], 1)
    back = lambda i: [subtract(last, v) if a == which else v for a, v in enumerate(i)]  # noqa: E731
    return compute(data.shape, lambda *i: data(*back(i)), "T_reverse", tag="injective")


flip.numpy(lambda data, axis: np.ascontiguousarray(np.flip(data, axis)))
flip.grad(lambda cx, data, axis: R.flip(cx.grad, axis))
flip.layout(along("axis", copies=True))
flip.samples(case((2, 3), axis=1), case(("n", 2), axis=0))


@op("relax.layout_transform", kind=INJECTIVE, mixed="follow")
def layout_transform(
    x: Tensor,
    index_map: Any,
    pad_value=None,
    axis_separators: Ints | None = None,
    input_axis_separators: Ints | None = None,
):
    """The elements rearranged by `index_map` (an IndexMap, or a function from the old indices to
    the new ones). If the new shape is larger, it is padded with `pad_value` (default 0)."""
    shape = [simplify(d) for d in index_map.map_shape(x.shape)]
    inverse, padded = index_map.non_surjective_inverse(
        [Range.from_min_extent(const(0, "int64"), d) for d in x.shape]
    )
    if isinstance(pad_value, float) and not x.dtype.is_float:
        what = "pad_value must be of the tensor's dtype"
        raise TypeError(explain(what, got=f"{pad_value} for {x.dtype}"))
    fill = const(0 if pad_value is None else pad_value, x.dtype)

    def cell(*i):
        value = x(*inverse.map_indices(list(i)))
        if isinstance(padded, IntImm):
            return value
        substitution = dict(zip(inverse.initial_indices, i, strict=True))
        return tir.if_then_else(substitute(padded, substitution), fill, value)

    return compute(shape, cell, "te_layout_transform", axes="i")


layout_transform.te_name = "te_layout_transform"


@layout_transform.build
def _(**arguments):
    if not isinstance(arguments["index_map"], IndexMap):
        ndim = arguments["x"].struct_info.ndim
        index_map, separators = IndexMap.from_func_with_separators(arguments["index_map"], ndim)
        arguments["index_map"] = index_map
        if separators and arguments["axis_separators"] is None:
            arguments["axis_separators"] = separators
    for key in ("axis_separators", "input_axis_separators"):
        arguments[key] = arguments[key] or None
    fill = arguments["pad_value"]
    arguments["pad_value"] = getattr(getattr(fill, "value", fill), "value", fill)
    return arguments


@layout_transform.numpy
def _(x, index_map, pad_value=None, axis_separators=None, input_axis_separators=None):
    moved = index_map.map_ndarray(x)
    if not pad_value:
        return moved
    filled = index_map.map_ndarray(np.ones(x.shape, bool))
    return np.where(filled, moved, np.asarray(pad_value, x.dtype))


layout_transform.samples(
    case((4, 6), index_map=lambda i, j: [j // 2, i, j % 2]),
    case((2, 5), index_map=lambda i, j: [i, j // 4, j % 4], pad_value=2.0),
)
