"""Operators that give the same elements in another shape, order or dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import mul
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_expr import IntImm, PrimExpr
from ....ops.core import BROADCAST, ELEMENTWISE, INJECTIVE
from ....relax import expr as rx
from ....tir.data_layout import BijectiveLayout, Layout
from . import layouts
from .core import Input, Inputs, Numbers, R, as_numbers, builder, op, same, view
from .tensor import fields, i64, shape_of_tensor


def dims_of(data: Any) -> list[Any]:
    """The extents of a Relax expression."""
    dims = data.struct_info.get_shape()
    if dims is None:
        what = "this operator needs the extents of its operand"
        raise ValueError(explain(what, got=str(data.struct_info)))
    return list(dims)


# ---------------------------------------------------------------------- dtype


same("cast", "astype", "data dtype", attrs="CastAttrs", kind=ELEMENTWISE, mixed="follow")
same("reinterpret", params="data dtype", attrs="CastAttrs", kind=ELEMENTWISE)


@op("cast_like", kind=ELEMENTWISE, mixed="follow")
def cast_like(data: Input, dtype_like: Input) -> Any:
    """The elements converted to the dtype of another tensor."""
    return R.astype(data, str(dtype_like.struct_info.dtype))


# ---------------------------------------------------------------------- axes


@op("expand_dims", attrs="ExpandDimsAttrs", kind=BROADCAST, mixed="follow")
def expand_dims(data: Input, axis: int, num_newaxis: int = 1) -> Any:
    """`num_newaxis` axes of extent 1 before an axis."""
    rank = data.struct_info.ndim
    if not -rank - 1 <= axis <= rank:
        raise ValueError(explain("expand_dims: the axis is out of range", got=f"{axis} of {rank}"))
    first = axis if axis >= 0 else rank + axis + 1
    return R.expand_dims(data, list(range(first, first + num_newaxis))) if num_newaxis else data


@op("dyn.expand_dims", attrs="DynExpandDimsAttrs", static=expand_dims)
def dyn_expand_dims(data: Input, axis: Input, num_newaxis: int = 1) -> Any:
    """`num_newaxis` axes of extent 1 before an axis that is a value."""
    old = R.shape_to_tensor(R.shape_of(data))
    rank = data.struct_info.ndim
    position = R.astype(R.reshape(axis, [1]), "int64")
    position = R.where(R.less(position, i64(0)), R.add(position, i64(rank + 1)), position)
    number = R.arange(0, rank + num_newaxis, 1, "int64")
    inside = R.logical_and(
        R.greater_equal(number, position), R.less(number, R.add(position, i64(num_newaxis)))
    )
    source = R.where(R.less(number, position), number, R.subtract(number, i64(num_newaxis)))
    source = R.minimum(R.maximum(source, i64(0)), i64(max(rank - 1, 0)))
    picked = R.take(old, source, 0) if rank else R.ones([num_newaxis], "int64")
    shape = R.where(inside, R.ones_like(number), picked)
    return R.reshape(data, R.tensor_to_shape(shape))


@op("transpose", attrs="TransposeAttrs", kind=INJECTIVE, mixed="follow", layout=layouts.transposing)
def transpose(data: Input, axes: Any = None) -> Any:
    """The axes in another order; None: reversed."""
    return R.permute_dims(data, list(axes) if axes else None)


@op("squeeze", attrs="SqueezeAttrs", kind=INJECTIVE, mixed="follow", layout=layouts.squeezing)
def squeeze(data: Input, axis: Numbers = None) -> Any:
    """Without axes of extent 1: those given, or all."""
    if axis is not None and not axis:
        return data
    dims = data.struct_info.get_shape()
    if dims is not None and any(not isinstance(d, IntImm) for d in dims):
        rank = len(dims)
        removed = {a % rank for a in axis} if axis is not None else set()
        return R.reshape(data, [d for i, d in enumerate(dims) if i not in removed])
    return R.squeeze(data, list(axis) if axis is not None else None)


@op("dyn.squeeze", attrs="SqueezeAttrs", static=squeeze)
def dyn_squeeze(data: Input, axis: Input) -> Any:
    """Without the axes that a tensor names."""
    rank = data.struct_info.ndim
    (count,) = dims_of(axis)
    old = R.shape_to_tensor(R.shape_of(data))
    wide = R.astype(axis, "int64")
    wide = R.where(R.less(wide, i64(0)), R.add(wide, i64(rank)), wide)
    removed = R.scatter_elements(R.zeros([rank], "int64"), wide, R.ones([count], "int64"), 0)
    order = R.argsort(removed, 0, dtype="int64")  # those that stay first, in their order
    remaining = R.strided_slice(order, [0], [0], [rank - int(count)])
    return R.reshape(data, R.tensor_to_shape(R.take(old, remaining, 0)))


same("reverse", "flip", attrs="ReverseAttrs", kind=INJECTIVE)
same("collapse_sum_like", params="data collapse_type")


@op("reverse_sequence", attrs="ReverseSequenceAttrs", kind=INJECTIVE)
def reverse_sequence(
    data: Input, seq_lengths: Input, seq_axis: int = 1, batch_axis: int = 0
) -> Any:
    """The first `seq_lengths[i]` elements of each row in reverse order, at most all of them."""
    rank, dims = data.struct_info.ndim, dims_of(data)
    seq, batch = seq_axis % rank, batch_axis % rank
    (count,) = dims_of(seq_lengths)
    if isinstance(count, IntImm) and isinstance(dims[batch], IntImm) and count != dims[batch]:
        what = (
            f"reverse_sequence takes a length for each of the {dims[batch].value} rows of the batch"
        )
        raise ValueError(explain(what, got=str(count.value)))
    spread = [1] * rank
    spread[seq] = dims[seq]
    number = R.reshape(R.arange(0, dims[seq], 1, "int64"), spread)
    spread = [1] * rank
    spread[batch] = dims[batch]
    most = R.shape_to_tensor(rx.ShapeExpr([dims[seq]]))
    length = R.reshape(R.minimum(R.astype(seq_lengths, "int64"), most), spread)
    mirrored = R.subtract(R.subtract(length, number), i64(1))
    source = R.where(R.less(number, length), mirrored, number)
    return R.gather_elements(data, R.broadcast_to(source, dims), seq)


@op("layout_transform", attrs="LayoutTransformAttrs", kind=INJECTIVE)
def layout_transform(data: Input, src_layout: str, dst_layout: str) -> Any:
    """The elements from one layout into another: "NCHW" into "NCHW16c"."""
    if src_layout == dst_layout:
        return data
    source, target = Layout(src_layout), Layout(dst_layout)
    if sorted(src_layout) == sorted(dst_layout) and src_layout.isupper():
        return R.permute_dims(data, [src_layout.index(letter) for letter in dst_layout])
    apart = [n for n, (_, factor) in enumerate(source.parts) if factor == 1]
    whole = [n for n, (_, factor) in enumerate(target.parts) if factor == 1]
    if apart or whole:  # blocks of one element are axes of extent 1
        plain = builder().emit(R.squeeze(data, apart)) if apart else data
        moved = layout_transform.body(plain, _without_units(source), _without_units(target))
        return R.expand_dims(builder().emit(moved), whole) if whole else moved
    blocked = any(factor > 0 for _, factor in source.parts)
    if blocked and not all(isinstance(d, IntImm) for d in dims_of(data)):
        merged, plain = _merged(data, source)
        return layout_transform.body(builder().emit(merged), plain, dst_layout)
    mapping = BijectiveLayout(source, target)
    return R.layout_transform(data, mapping.index_map())


def _merged(data: Any, plan: Layout) -> tuple[Any, str]:
    """A tensor without blocks, and its layout; extents may be symbols."""
    dims, letters = dims_of(data), [letter for letter, _ in plan.parts]
    plain = [letter for letter in letters if letter.isupper()]
    groups = [[i for i, other in enumerate(letters) if other.upper() == c] for c in plain]
    apart = builder().emit(R.permute_dims(data, [i for axis in groups for i in axis]))
    sizes = [reduce(mul, [dims[i] for i in axis]) for axis in groups]
    return R.reshape(apart, sizes), "".join(plain)


def _without_units(plan: Layout) -> str:
    parts = [(letter, factor) for letter, factor in plan.parts if factor != 1]
    return "".join(f"{f if f > 0 else ''}{letter}" for letter, f in parts)


# ---------------------------------------------------------------------- shapes


def reshaped(old: list[Any], new: list[Any], allowzero: bool = False) -> list[Any]:
    """The extents that a new shape with its special codes means: 0 the extent at this place, -1 what
    is left, -2 all extents that follow, -3 two extents as one, -4 one extent as the next two.
    Raises ValueError."""
    out: list[Any] = []
    at, open_at = 0, -1
    items = iter(list(new))

    def take() -> Any:
        nonlocal at
        if at >= len(old):
            what = "the new shape takes more extents than the old one has"
            raise ValueError(explain(what, got=f"{new} of {[str(d) for d in old]}"))
        at += 1
        return old[at - 1]

    for item in items:
        if isinstance(item, int) and item == 0 and not allowzero:
            out.append(take())
        elif isinstance(item, int) and item == -1:
            if open_at >= 0:
                raise ValueError(explain("one extent of a new shape may be -1", got=str(new)))
            open_at = len(out)
            out.append(None)
            at = min(at + 1, len(old))
        elif isinstance(item, int) and item == -2:
            out += old[at:]
            at = len(old)
        elif isinstance(item, int) and item == -3:
            out.append(_product([take(), take()]))
        elif isinstance(item, int) and item == -4:
            whole, first, second = take(), next(items), next(items)
            first = _quotient(whole, second) if first == -1 else first
            out += [first, _quotient(whole, first) if second == -1 else second]
        else:
            out.append(item)
            at = min(at + 1, len(old))
    if open_at >= 0:
        rest = [d for d in out if d is not None]
        out[open_at] = _quotient(_product(old), _product(rest))
    return out


def _product(dims: list[Any]) -> Any:
    plain = [d.value if isinstance(d, IntImm) else d for d in dims]
    return reduce(lambda total, dim: dim * total, plain, 1)


def _quotient(whole: Any, part: Any) -> Any:
    whole, part = (d.value if isinstance(d, IntImm) else d for d in (whole, part))
    if isinstance(whole, int) and isinstance(part, int) and (part == 0 or whole % part):
        what = "the new shape does not divide the elements evenly"
        raise ValueError(explain(what, got=f"{whole} by {part}"))
    return whole // part


@op("reshape", attrs="ReshapeAttrs", kind=INJECTIVE, mixed="follow")
def reshape(data: Input, newshape: Numbers, allowzero: bool = False) -> Any:
    """The same elements, in order, in another shape: see `reshaped` for the codes."""
    return R.reshape(data, reshaped(dims_of(data), list(newshape), allowzero))


@op("dyn.reshape", attrs="ReshapeAttrs", static=reshape, mixed="follow")
def dyn_reshape(data: Input, newshape: Input, allowzero: bool = False) -> Any:
    """The same elements in a shape that is a value; 0, -1 and -3 as for `reshape`."""
    old = R.shape_to_tensor(R.shape_of(data))
    new = R.astype(newshape, "int64")
    rank = int(dims_of(newshape)[0])
    have = data.struct_info.ndim
    if have and rank:  # an extent may be one of `data`'s, or the product of two
        merges = R.equal(new, i64(-3))
        behind = R.cumsum(R.astype(merges, "int64"), 0)
        numbers = R.add(behind, rx.const(np.arange(rank, dtype="int64")))
        last = i64(have - 1)
        second = R.take(old, R.minimum(numbers, last), 0)
        first = R.take(old, R.minimum(R.subtract(numbers, R.astype(merges, "int64")), last), 0)
        if not allowzero:
            new = R.where(R.equal(new, i64(0)), first, new)
        new = R.where(merges, R.multiply(first, second), new)
    is_open = R.equal(new, i64(-1))
    fixed = R.prod(R.where(is_open, R.ones_like(new), new))
    left = R.floor_divide(R.prod(old), R.maximum(fixed, i64(1)))
    return R.reshape(data, R.tensor_to_shape(R.where(is_open, left, new)))


def _reversed_shape(old: list[Any], new: list[Any]) -> list[Any]:
    return reshaped(old[::-1], new[::-1])[::-1]


@op("contrib_reverse_reshape", attrs="ReshapeAttrs", view=False, kind=INJECTIVE)
def reverse_reshape(data: Input, newshape: Numbers, allowzero: bool = False) -> Any:
    """As `reshape`, with the codes read from the last axis to the first."""
    return R.reshape(data, _reversed_shape(dims_of(data), list(newshape)))


view("reverse_reshape")(reverse_reshape.builder)


def like_shape(
    old: Sequence[PrimExpr], other: Sequence[PrimExpr], attrs: dict[str, Any]
) -> list[Any]:
    """`old` with the extents from lhs_begin to lhs_end replaced by those of `other` from rhs_begin to
    rhs_end."""

    def part(dims: Sequence[PrimExpr], side: str) -> slice:
        begin, end = int(attrs[f"{side}_begin"]), attrs[f"{side}_end"]
        count = len(dims)
        begin = begin + count if begin < 0 else begin
        end = count if end is None else int(end) + (count if int(end) < 0 else 0)
        return slice(begin, end)

    new = list(old)
    new[part(old, "lhs")] = list(other)[part(other, "rhs")]
    return new


_RANGES = {"lhs_begin": 0, "lhs_end": None, "rhs_begin": 0, "rhs_end": None}


@op("reshape_like", attrs="ReshapeLikeAttrs", options=_RANGES, kind=INJECTIVE)
def reshape_like(data: Input, shape_like: Input, **ranges: Any) -> Any:
    """The same elements in the shape of another tensor, or with a range of its extents."""
    return R.reshape(data, like_shape(dims_of(data), dims_of(shape_like), ranges))


# ---------------------------------------------------------------------- repetition


@op("broadcast_to", attrs="InitOpAttrs", kind=BROADCAST)
def broadcast_to(data: Input, shape: Numbers = (), dtype: str = "") -> Any:
    """The elements repeated along axes of extent 1 and new ones in front."""
    return R.broadcast_to(data, list(shape))


@op("dyn.broadcast_to", attrs="InitOpAttrs", static=broadcast_to, mixed="follow")
def dyn_broadcast_to(data: Input, shape: Input, dtype: str = "") -> Any:
    """`broadcast_to` of a shape that is a value."""
    return R.broadcast_to(data, shape_of_tensor(shape))


@op("broadcast_to_like", kind=BROADCAST, mixed="follow")
def broadcast_to_like(data: Input, broadcast_type: Input) -> Any:
    """The elements repeated to the shape of another tensor."""
    return R.broadcast_to(data, dims_of(broadcast_type))


@op("collapse_sum_to", attrs="InitOpAttrs")
def collapse_sum_to(data: Input, shape: Numbers = (), dtype: str = "") -> Any:
    """The sums over the axes along which a tensor of this shape would be repeated."""
    return R.collapse_sum_to(data, list(shape))


same("repeat", attrs="RepeatAttrs", kind=INJECTIVE)


@op("tile", attrs="TileAttrs", kind=INJECTIVE, mixed="follow")
def tile(data: Input, reps: Numbers) -> Any:
    """The whole tensor again and again along its axes."""
    return R.tile(data, list(reps))


@op("dyn.tile", attrs="TileAttrs", static=tile, mixed="follow")
def dyn_tile(data: Input, reps: Input) -> Any:
    """`tile` by numbers that are a value."""
    count, rank = int(dims_of(reps)[0]), data.struct_info.ndim
    out_rank = max(count, rank)
    old = R.shape_to_tensor(R.shape_of(data))
    ones = [R.ones([out_rank - rank], "int64")] if out_rank > rank else []
    old = R.concat([*ones, old], 0)
    ones = [R.ones([out_rank - count], "int64")] if out_rank > count else []
    times = R.concat([*ones, R.astype(reps, "int64")], 0)
    unit = R.ones([out_rank], "int64")
    apart = R.reshape(R.stack([unit, old], 1), [2 * out_rank])
    wide = R.reshape(R.stack([times, old], 1), [2 * out_rank])
    spread = R.broadcast_to(R.reshape(data, R.tensor_to_shape(apart)), R.tensor_to_shape(wide))
    return R.reshape(spread, R.tensor_to_shape(R.multiply(times, old)))


# ---------------------------------------------------------------------- parts


def _sections(attrs: dict[str, Any], args: Mapping[str, Any]) -> int:
    parts = attrs["indices_or_sections"]
    return parts if isinstance(parts, int) else len(parts) + 1


@op("split", results=_sections, attrs="SplitAttrs", kind=INJECTIVE, mixed="follow",
    layout=layouts.splitting)  # fmt: skip
def split(data: Input, indices_or_sections: Any, axis: int = 0) -> Any:
    """Parts along an axis: n of one size, or between given indices."""
    parts, dims = indices_or_sections, data.struct_info.get_shape()
    whole = dims[axis] if dims is not None else None
    if not isinstance(parts, int) and list(parts) != sorted(parts):
        raise ValueError(explain("indices_or_sections need to be a sorted", got=str(parts)))
    if isinstance(parts, int) and isinstance(whole, IntImm) and whole.value % parts:
        what = "indices_or_sections need to be able to divide input.shape[axis]"
        raise ValueError(explain(what, got=f"{whole} by {parts}"))
    pieces = R.split(data, parts if isinstance(parts, int) else list(parts), axis)
    return pieces if parts not in (1, [], ()) else rx.Tuple([pieces])


@split.build
def _(indices_or_sections: Any, **attrs: Any) -> dict[str, Any]:
    parts = indices_or_sections
    return {"indices_or_sections": parts if isinstance(parts, int) else as_numbers(parts), **attrs}


@op("meshgrid", attrs="MeshgridAttrs", results=lambda attrs, args: len(args["data"]),
    kind=INJECTIVE)  # fmt: skip
def meshgrid(data: Inputs, indexing: str = "ij") -> Any:
    """The coordinates of a grid, from those of its axes."""
    vectors = [R.reshape(f, [-1]) if f.struct_info.ndim == 0 else f for f in fields(data)]
    return R.meshgrid(vectors, indexing)
