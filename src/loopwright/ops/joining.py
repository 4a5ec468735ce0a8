"""Operators that join and split tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np

from .. import tir
from ..base.errors import explain
from ..ir.literals import int_value
from ..ir.prim_expr import IntImm, PrimExpr, Var
from ..ir.prim_op import add, cast, ceildiv, const, floordiv, maximum, minimum, multiply, subtract
from ..relax import op as R
from ..relax.expr import Call, PrimValue, Tuple, TupleGetItem
from ..relax.layout import LayoutPlan, LayoutQuery
from ..relax.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from .common import compute, element, normalize_axes, normalize_axis, product, shape_of
from .core import case, op
from .extents import differ, of_extent, simplify, text
from .layout_rules import cut, join, positions
from .manipulate import flatten
from .params import Axis, Prims, Sections, Tensor, Tensors

_MOST = 16  # inputs or outputs of one kernel: its checks nest, and its arguments are compared


@op("relax.concat", mixed="follow")
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
    dtype, ranks = _dtype_and_ranks(infos, same_rank=axis is not None)
    if ranks and axis is not None:
        normalize_axis(axis, min(ranks))
    shapes = [t.get_shape() for t in infos]
    if axis is None or any(s is None for s in shapes):
        rank = 1 if axis is None else next(iter(ranks), -1)
        if axis is None and all(s is not None for s in shapes):
            return TensorStructInfo([_sum([product(s) for s in shapes])], dtype)
        return TensorStructInfo(dtype=dtype, ndim=rank)
    which = normalize_axis(axis, len(shapes[0]))
    for s in shapes:
        for a, (d, first) in enumerate(zip(s, shapes[0], strict=True)):
            if a != which and differ(d, first):
                what = f"all dims but axis {which} must be equal"
                raise ValueError(explain(what, got=f"axis {a}: {text(first)} and {text(d)}"))
    total = _sum([s[which] for s in shapes])
    dims = [total if a == which else d for a, d in enumerate(shapes[0])]
    return TensorStructInfo(dims, dtype)


def _groups(items: Sequence[Any], most: int) -> list[Any]:
    """The items in groups of at most `most`."""
    return [items[k : k + most] for k in range(0, len(items), most)]


def _sum(parts: list[Any]) -> Any:
    """The sum of extents, simplified once, as a tree: long ones are not deep. What cannot be made
    shorter stays in the order of the tensors."""
    constants = sum(isinstance(p, IntImm) for p in parts)
    if len(parts) <= _MOST and constants <= 1:
        if len({p for p in parts if isinstance(p, Var)}) == len(parts) - constants:
            return reduce(add, parts)
    while len(parts) > 1:
        parts = [reduce(add, pair) for pair in _groups(parts, 2)]
    return simplify(parts[0])


@concatenate.grad
def _(cx, tensors, axis=0):
    infos = tensors.struct_info.fields
    if axis is None:
        raise cx.refusal("flattened tensors", "axis None")
    sizes = [info.get_shape()[axis] for info in infos]
    if len(sizes) == 1:
        return Tuple([cx.grad])
    if all(isinstance(size, IntImm) for size in sizes):
        return R.split(cx.grad, _ends(map(int, sizes)), axis)
    ends = list(accumulate(sizes))
    pairs = zip([const(0, "int64"), *ends], ends, strict=False)
    return Tuple([R.strided_slice(cx.grad, [axis], [begin], [end]) for begin, end in pairs])


@concatenate.legalize
def _(bb, call):
    """Many tensors are joined in groups first."""
    tensors, axis = call.args[0], call.attrs.axis
    if not isinstance(tensors, Tuple) or len(tensors.fields) <= _MOST:
        return concatenate._legalize(bb, call)
    groups = [concatenate.builder(list(g), axis) for g in _groups(tensors.fields, _MOST)]
    return concatenate.builder([bb.emit(g) for g in groups], axis)


concatenate.numpy(lambda tensors, axis=0: np.concatenate(list(tensors), axis))
concatenate.layout(join)
concatenate.samples(case([(2, 3), (2, 5)], axis=1), case([("n", 3), (4, 3), (1, 3)], axis=0))


_MOST_PIECES = 10_000  # so that a short program as text cannot create a module of any size


@op("relax.split", mixed="follow")
def split(x: Tensor, indices_or_sections: Sections, axis: Axis = 0):
    """A tuple of pieces of `axis`: `indices_or_sections` is a number of equal pieces (the last
    may be shorter) or the list of the indices at which new pieces start. One piece is the tensor
    itself, in no tuple."""
    which = normalize_axis(axis, len(x.shape))

    def piece(begin, size):
        shape = [size if a == which else d for a, d in enumerate(x.shape)]
        move = lambda i: [add(v, begin) if a == which else v for a, v in enumerate(i)]  # noqa: E731
        return compute(shape, lambda *i: x(*move(i)), "T_split", tag="injective")

    pieces = [piece(*p) for p in _pieces(x.shape[which], indices_or_sections)]
    return pieces if len(pieces) > 1 else pieces[0]


@split.build
def _(x, indices_or_sections, axis):
    many = isinstance(indices_or_sections, (list, tuple))
    if not many and not 0 < int(indices_or_sections) <= _MOST_PIECES:
        what = f"relax.split: the number of sections must be from 1 to {_MOST_PIECES}"
        raise ValueError(explain(what, got=indices_or_sections))
    return {"x": x, "indices_or_sections": indices_or_sections, "axis": axis}


def _pieces(extent, where):
    """(start, size) of each piece."""
    if isinstance(where, int):
        size = simplify(ceildiv(extent, where))
        begins = [simplify(multiply(size, k)) for k in range(where)]
        last = simplify(subtract(extent, begins[-1]))
        if (int_value(last) or 0) < 0:
            what = "the pieces before the last one take more than there is"
            raise ValueError(explain(what, got=f"{text(extent)} in {where} of {text(size)}"))
        return [*[(b, size) for b in begins[:-1]], (begins[-1], last)]
    zero = const(0, "int64")
    as_extent = of_extent(extent)
    begins = [as_extent(minimum(const(max(w, 0), "int64"), extent)) for w in (0, *where)]
    ends = [*begins[1:], extent]
    sizes = [as_extent(maximum(subtract(e, b), zero)) for b, e in zip(begins, ends, strict=True)]
    return list(zip(begins, sizes, strict=True))


@split.infer
def _(x: TensorStructInfo, indices_or_sections, axis=0):
    where = indices_or_sections
    count = where if isinstance(where, int) else len(where) + 1
    shape = x.get_shape()
    if x.ndim != -1:
        normalize_axis(axis, x.ndim)
    if shape is None:
        one = TensorStructInfo(dtype=x.dtype, ndim=x.ndim)
        return TupleStructInfo([one] * count) if count > 1 else one
    which = normalize_axis(axis, len(shape))
    sizes = [s for _, s in _pieces(shape[which], where)]
    shapes = [[s if a == which else d for a, d in enumerate(shape)] for s in sizes]
    infos = [TensorStructInfo(m, x.dtype) for m in shapes]
    return TupleStructInfo(infos) if count > 1 else infos[0]


@split.legalize
def _(bb, call):
    """Many pieces are split off in groups first."""
    if not isinstance(call.struct_info, TupleStructInfo):
        return split._legalize(bb, call)
    axis, infos = call.attrs.axis, call.struct_info.fields
    shapes = [info.get_shape() for info in infos]
    if len(infos) <= _MOST or shapes[0] is None:
        return split._legalize(bb, call)
    which = normalize_axis(axis, len(shapes[0]))
    sizes = [int_value(s[which]) for s in shapes]
    if None in sizes:
        return split._legalize(bb, call)
    groups = _groups(sizes, _MOST)
    parts = bb.emit(split.builder(call.args[0], _ends(map(sum, groups)), axis))
    pieces = []
    for k, group in enumerate(groups):
        part = bb.emit(parts[k])
        inner = bb.emit(split.builder(part, _ends(group), axis)) if len(group) > 1 else None
        pieces += [part] if inner is None else [bb.emit(inner[j]) for j in range(len(group))]
    return Tuple(pieces)


def _ends(sizes: Iterable[int]) -> list[int]:
    """Where all pieces of these sizes but the last end."""
    return list(accumulate(sizes))[:-1]


@split.numpy
def _(x, indices_or_sections, axis=0):
    where = indices_or_sections
    if isinstance(where, int):
        size = -(-x.shape[axis] // where)
        where = [size * k for k in range(1, where)]
    where = np.clip(where, 0, x.shape[axis])  # a piece that ends before it starts is empty
    pieces = [np.ascontiguousarray(p) for p in np.split(x, where, axis)]
    return tuple(pieces) if len(pieces) > 1 else pieces[0]


@split.grad
def _(cx, x, indices_or_sections, axis=0):
    where = indices_or_sections
    if not isinstance(where, int) and list(where) != sorted(where):
        raise cx.refusal("indices that are not in order", where)
    return cx.grad if where in (1, []) else R.concat(cx.grad, axis)


split.layout(cut)
split.samples(
    case((2, 7), indices_or_sections=[-2, 3, 9], axis=1),
    case((4, 6), indices_or_sections=3, axis=1),
    case(("n", 6), indices_or_sections=[2], axis=1),
)


@op("relax.stack", mixed="follow")
def stack(tensors: Tensors, axis: Axis = 0):
    """Tensors of one shape along a new axis `axis` of the result."""
    dims = shape_of(tensors[0])
    which = normalize_axis(axis, len(dims) + 1)

    def cell(*i):
        rest = [*i[:which], *i[which + 1 :]]
        value = element(tensors[-1], rest)
        for k in range(len(tensors) - 2, -1, -1):
            value = tir.if_then_else(tir.EQ(i[which], k), element(tensors[k], rest), value)
        return value

    shape = [*dims[:which], const(len(tensors), "int64"), *dims[which:]]
    return compute(shape, cell, "T_stack", tag="injective")


def _one_dtype(infos):
    """The dtype that tensors share; void if one is unknown."""
    kinds = {str(t.dtype) for t in infos if not t.dtype.is_void}
    if len(kinds) > 1:
        raise TypeError(explain("tensors of different dtypes", got=", ".join(sorted(kinds))))
    return infos[0].dtype if all(not t.dtype.is_void for t in infos) else "void"


def _dtype_and_ranks(infos, same_rank=True):
    """The dtype and the known ranks of tensors that are joined."""
    if not infos:
        raise ValueError(explain("needs at least one tensor", got="none"))
    dtype = _one_dtype(infos)
    ranks = {t.ndim for t in infos if t.ndim != -1}
    if same_rank and len(ranks) > 1:
        raise ValueError(explain("tensors of different rank", got=sorted(ranks)))
    return dtype, ranks


@stack.infer
def _(tensors: TupleStructInfo, axis=0):
    infos = tensors.fields
    dtype, ranks = _dtype_and_ranks(infos)
    if not ranks:
        return TensorStructInfo(dtype=dtype)
    which = normalize_axis(axis, min(ranks) + 1)
    shapes = [t.get_shape() for t in infos]
    full = [s for s in shapes if s is not None]
    for other in full[1:]:
        for x, y in zip(full[0], other, strict=True):
            if differ(y, x):
                raise ValueError(explain("tensors of different shape", got=f"{full[0]}, {other}"))
    if len(full) < len(shapes):
        return TensorStructInfo(dtype=dtype, ndim=min(ranks) + 1)
    return TensorStructInfo([*full[0][:which], len(infos), *full[0][which:]], dtype)


@stack.grad
def _(cx, tensors, axis=0):
    count = len(tensors.struct_info.fields)
    if count == 1:
        return Tuple([R.squeeze(cx.grad, [axis])])
    parts = cx.bb.emit(R.split(cx.grad, count, axis))
    return Tuple([R.squeeze(TupleGetItem(parts, k), [axis]) for k in range(count)])


stack.numpy(lambda tensors, axis=0: np.stack(tensors, axis))
stack.samples(case([(2, 3), (2, 3)]), case([("n", 3)] * 3, axis=-1), case([(4,)], axis=1))


@op("relax.meshgrid", choices={"indexing": ("ij", "xy", None)})
def meshgrid(tensors: Tensors, indexing: str | None = "ij"):
    """Each of the vectors spread over the grid of all of them, as `np.meshgrid`: with "xy" the first
    two axes are exchanged."""
    order = list(range(len(tensors)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    shape = [tensors[k].shape[0] for k in order]

    def spread(k):
        position = order.index(k)
        return compute(shape, lambda *i: tensors[k](i[position]), "T_meshgrid", tag="broadcast")

    return [spread(k) for k in range(len(tensors))]


@meshgrid.infer
def _(tensors: TupleStructInfo, indexing="ij"):
    infos = tensors.fields
    dtype = _one_dtype(infos)
    for t in infos:
        if t.ndim not in (-1, 1):
            raise ValueError(explain("needs vectors", got=f"rank {t.ndim}"))
    shapes = [t.get_shape() for t in infos]
    if any(s is None for s in shapes):
        info = TensorStructInfo(dtype=dtype, ndim=len(infos))
    else:
        dims = [s[0] for s in shapes]
        if indexing == "xy" and len(dims) > 1:
            dims[:2] = dims[1::-1]
        info = TensorStructInfo(dims, dtype)
    return TupleStructInfo([info] * len(infos))


@meshgrid.legalize
def _(bb, call):
    vectors = call.args[0]
    one = len(vectors.struct_info.fields) == 1
    return vectors if one else meshgrid._legalize(bb, call)


@meshgrid.numpy
def _(tensors, indexing="ij"):
    grid: Any = np.meshgrid  # its overloads are for literals
    return tuple(np.ascontiguousarray(t) for t in grid(*tensors, indexing=indexing))


meshgrid.build(lambda tensors, indexing: {"tensors": tensors, "indexing": indexing or "ij"})
meshgrid.samples(case([(2,), (3,)]), case([("n",), (3,), (2,)], indexing="xy"))


@op("relax.strided_slice", mixed="follow")
def strided_slice(
    x: Tensor,
    axes: Prims,
    begin: Prims,
    end: Prims,
    strides: Prims | None = None,
    assume_inbound: bool = False,
):
    """x[begin:end:stride] on each of `axes`, with Python's rule for negative and large bounds
    (`assume_inbound`: the bounds are used unchanged)."""
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
    ranges = {}
    for axis, first, last, step in zip(axes, begin, end, steps, strict=True):
        which = normalize_axis(int(axis), len(shape))
        step = step if isinstance(step, PrimExpr) and not isinstance(step, IntImm) else int(step)
        ranges[which] = slice_range(shape[which], first, last, step, inbound)
    return ranges


def slice_range(
    extent: PrimExpr, first: PrimExpr, last: PrimExpr, step: int | PrimExpr, inbound: bool
) -> tuple[PrimExpr, Any, PrimExpr]:
    """(first, step, count) of a slice of an axis. A step that is not a number is positive."""
    first, last, as_extent = cast("int64", first), cast("int64", last), of_extent(extent)
    if not isinstance(step, int):
        if not inbound:
            what, hint = "the stride of a slice is a number", "or assume_inbound=True"
            raise ValueError(explain(what, got=step, instead=hint))
        step = cast("int64", step)
        return first, step, simplify(floordiv(subtract(add(subtract(last, first), step), 1), step))
    if step == 0:
        raise ValueError(explain("the stride of a slice may not be 0"))
    if not inbound:
        low, high = (0, extent) if step > 0 else (-1, subtract(extent, 1))
        # Behind its end a slice has no elements; where it would begin does not matter.
        most = high if step < 0 or isinstance(first, IntImm) else None
        first, last = _bound(first, extent, low, most), _bound(last, extent, low, high)
    gap = subtract(last, first) if step > 0 else subtract(first, last)
    count = floordiv(add(gap, abs(step) - 1), abs(step))
    count = simplify(count)
    return first, step, count if inbound else as_extent(tir.max(count, const(0, "int64")))


def _bound(value, extent, low, high):
    """A slice bound as a non-negative number, clamped to [low, high]; high may be None."""
    if isinstance(value, IntImm):
        if value.value < 0:
            value = simplify(add(value, extent))
        elif isinstance(extent, IntImm):
            return const(min(value.value, int(high)), "int64")
        elif value.value >= 2**31 - 1:
            return cast("int64", high)
    else:
        # A value that was read may be anything: the sum must not wrap around.
        least = tir.max(value, subtract(-1, extent)) if isinstance(value, Var) else value
        value = tir.if_then_else(value < const(0, "int64"), add(least, extent), value)
    value = tir.max(value, low)
    return of_extent(extent)(value if high is None else tir.min(value, high))


@strided_slice.build
def _(**arguments):
    groups = [arguments[key] for key in ("axes", "begin", "end", "strides")]
    lengths = {len(g) for g in groups if isinstance(g, (list, tuple))}
    if len(lengths) > 1:
        what = "relax.strided_slice: axes, begin, end and strides must have one length"
        raise ValueError(explain(what, got=", ".join(map(str, sorted(lengths)))))
    return arguments


@strided_slice.infer
def _(x: TensorStructInfo, axes, begin, end, strides=None, assume_inbound=False):
    shape = x.get_shape()
    groups = [axes, begin, end, strides]
    if not axes.fields:
        return x if shape is None else TensorStructInfo(shape, x.dtype)
    if x.ndim != -1:
        literals = [_value(f) for f in axes.fields]
        normalize_axes([int(a) for a in literals if isinstance(a, IntImm)], x.ndim)
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
    return np.asarray(x[tuple(at)], order="C")


@strided_slice.layout
def _(call: Call, query: LayoutQuery) -> LayoutPlan | None:
    layout, axes = query.inputs[0], call.args[1]
    if layout is None or query.block or not isinstance(axes, Tuple):
        return None
    values = [_value(f.struct_info) for f in axes.fields]
    stored_axes = None if any(v is None for v in values) else positions(layout, values)
    if stored_axes is None:
        return None
    return LayoutPlan((layout,), (layout,), args={1: Tuple([PrimValue(p) for p in stored_axes])})


@strided_slice.grad
def _(cx, x, axes, begin, end, strides=None, assume_inbound=False):
    """The gradient put back into zeros, from the last axis on."""
    groups = [[f.value for f in g.fields] for g in (axes, begin, end)]
    steps = [1] * len(groups[0]) if strides is None else [f.value for f in strides.fields]
    rank, dims = x.struct_info.ndim, list(x.struct_info.get_shape())
    value = cx.grad
    for axis, first, last, step in zip(*groups, steps, strict=True):
        if int(step) < 0:
            raise cx.refusal("negative strides", int(step))
        which = normalize_axis(int(axis), rank)
        shape = list(cx.out.struct_info.get_shape())
        done = [normalize_axis(int(a), rank) for a in groups[0]]
        done = done[: done.index(which) + 1]
        zeros = R.zeros([dims[a] if a in done else d for a, d in enumerate(shape)], cx.kind)
        value = R.slice_scatter(zeros, value, first, last, step, which)
    return [value] + [None] * (len(cx.call.args) - 1)


strided_slice.samples(
    case((6, 5), [0], [1], [5], [2]),
    case(("n", 8), [1], [-3], [2**31 - 1], [1]),
    case((6, 5), [0], [4], [-7], [-1]),
)
