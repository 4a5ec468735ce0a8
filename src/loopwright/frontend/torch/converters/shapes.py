"""Operators that move elements, and those that create tensors. Shapes are those that torch inferred."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from ....ir.dtype import DataType
from ....ir.prim_expr import IntImm, PrimExpr
from ....relax.expr import ShapeExpr
from ..context import Arg, Number, Size, Term, op
from ..context import TorchContext as Context
from ..model import TorchNode as Node
from .table import aten, rows


@aten("view.dtype")
def view_dtype(cx: Context, node: Node, x: Term, dtype: str) -> Term:
    """The same bytes as elements of another type: those of a wider one are several along the last axis, the least
    significant first."""
    have, want = x.dtype.bits, DataType(node.dtype).bits
    if have == want:
        return x.reinterpret(node.dtype)
    words, narrow, wide = x.reinterpret(f"uint{have}"), min(have, want), f"uint{max(have, want)}"
    count = max(have, want) // narrow
    if want < have:
        parts = [(words >> narrow * k).astype(f"uint{want}") for k in range(count)]
        words = cx.stack(parts, x.ndim).reshape(cx.shape(node.value))
    else:
        rows = words.reshape([*cx.dims(node.value), count]).astype(wide)
        parts = [select(cx, node, rows, rows.ndim - 1, k) * (1 << narrow * k) for k in range(count)]
        words = reduce(add, parts)
    return words.reinterpret(node.dtype)


@aten("transpose.int")
def transpose(cx: Context, node: Node, x: Term, first: int, second: int) -> Term:
    order = list(range(x.ndim))
    order[first], order[second] = order[second], order[first]
    return x.permute_dims(order)


@aten("cat")
def cat(cx: Context, node: Node, tensors: list[Term], dim: int) -> Term:
    """Tensors of one axis without elements are left out, of whatever rank the others are."""
    parts = [cx.tensor(v, node.dtype) for v in tensors if v.ndim == node.value.ndim]
    return cx.concat(parts, dim) if len(parts) > 1 else parts[0]


def within(bound: Size | None, extent: PrimExpr, default: Size) -> Size:
    """A bound of a slice, counted from the start and within the extent."""
    if bound is None:
        return default
    if isinstance(bound, int) and isinstance(extent, IntImm):
        return min(max(bound + extent.value if bound < 0 else bound, 0), extent.value)
    return extent if isinstance(bound, int) and bound >= 1 << 62 else bound


@aten("slice.Tensor")
def slice_tensor(
    cx: Context, node: Node, x: Term, dim: int, start: Size | None, end: Size | None, step: Size
) -> Term:
    extent = x.shape[dim]
    begin, stop = within(start, extent, 0), within(end, extent, extent)
    return with_shape(cx, node.value, x.strided_slice([dim], [begin], [stop], [step]))


def with_shape(cx: Context, fake: Any, out: Term) -> Term:
    """A result in the shape that torch inferred, where ours is another expression."""
    if all(isinstance(d, IntImm) for d in out.shape):
        return out
    try:
        dims = cx.dims(fake)
    except ValueError:
        return out  # a size that this result determines
    differing = {k: d for k, d in enumerate(dims) if not cx.equal(d, out.shape[k])}
    return cx.tensor(cx.with_dims(out, differing))


@aten("select.int", "select_copy.int")
def select(cx: Context, node: Node, x: Term, dim: int, index: Size) -> Term:
    if isinstance(index, PrimExpr):
        return x.take(cx.tensor(index, "int64"), dim)
    begin = index if index >= 0 else x.shape[dim] + index
    return cx.part(x, dim, begin, begin + 1).squeeze([dim])


@aten("split_with_sizes", "split_with_sizes_copy", "split.Tensor")
def split(cx: Context, node: Node, x: Term, sizes: object, dim: int) -> list[Term]:
    parts, at = [], 0
    for fake in node.value:
        end = cx.simplify(at + cx.dims(fake)[dim])
        parts.append(cx.part(x, dim, at, end))
        at = end
    return parts


@aten("repeat", "tile")
def repeat(cx: Context, node: Node, x: Term, repeats: Sequence[Size]) -> Term:
    more = [1] * (len(repeats) - x.ndim)
    wide = x.reshape([*more, *x.shape]) if more else x
    counts = [*[1] * (x.ndim - len(repeats)), *repeats]
    return cx.ops.tile(wide, cx.from_elements(counts, "int64"))


def widths_of(ndim: int, pad: Sequence[Size]) -> list[list[Size]]:
    """The widths before and after each axis; torch counts from the last one."""
    sides: list[list[Size]] = [[0, 0] for _ in range(ndim)]
    for k in range(len(pad) // 2):
        sides[ndim - 1 - k] = [pad[2 * k], pad[2 * k + 1]]
    return sides


def _cropped(cx: Context, x: Term, sides: list[list[Size]]) -> Term:
    """A tensor without what negative widths cut off; they are 0 then."""
    for axis, side in enumerate(sides):
        low, high = (min(w, 0) if isinstance(w, int) else 0 for w in side)
        if low or high:
            x = cx.part(x, axis, -low, x.shape[axis] + high)
            side[:] = [max(w, 0) if isinstance(w, int) else w for w in side]
    return x


@aten("constant_pad_nd")
def constant_pad(cx: Context, node: Node, x: Term, pad: list[Size], value: Number) -> Term:
    sides = widths_of(x.ndim, pad)
    x = cx.tensor(_cropped(cx, x, sides), "uint8" if x.dtype.is_bool else None)
    flat = [w for side in sides for w in side if isinstance(w, int)]
    if len(flat) < 2 * len(sides):
        before, after = (ShapeExpr([s[k] for s in sides]) for k in (0, 1))
        return op.nn.pad_by(x, before, after, float(value))
    return op.nn.pad(x, flat, "constant", float(value)) if any(flat) else x


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(cx: Context, node: Node, x: Term, pad: Sequence[Size]) -> Term:
    sides = widths_of(x.ndim, pad)
    x = _cropped(cx, x, sides)
    return op.nn.pad(x, [w for s in sides for w in s if isinstance(w, int)], "reflect")


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(cx: Context, node: Node, x: Term, pad: Sequence[Size]) -> Term:
    sides = widths_of(x.ndim, pad)
    widths = [w for side in sides for w in side if isinstance(w, int) and w >= 0]
    if len(widths) == 2 * x.ndim:
        return op.nn.pad(x, widths, "edge")
    for axis, (before, want) in enumerate(zip(sides, cx.dims(node.value), strict=True)):
        x = x.take(nearest_within(cx, x.shape[axis], want, before[0]), axis)
    return x


def nearest_within(cx: Context, have: Size, want: Size, before: Size) -> Term:
    """The indices of the elements of a padded axis in the axis, whose ends are repeated."""
    return (cx.line(want) - before).maximum(0).minimum(cx.tensor(have, "int64") - 1)


# ---------------------------------------------------------------- new tensors


@aten("full", "full_like", "fill.Scalar", "fill.Tensor")
def full(cx: Context, node: Node, like: object, value: Arg) -> Term:
    return op.full(cx.shape(node.value), cx.tensor(value, node.dtype), node.dtype)


@aten("arange.start_step", "arange.start")
def arange(cx: Context, node: Node, start: Arg, end: Arg, step: Arg = 1) -> Term:
    dtype = node.dtype
    bounds = [v for v in (start, end, step) if isinstance(v, (int, PrimExpr))]
    if "int" in dtype and len(bounds) == 3:
        return with_shape(cx, node.value, cx.value(op.arange(*bounds, dtype)))
    return cx.line(cx.dims(node.value)[0]).astype(dtype) * step + start


# The rest are formulas.
rows({
    "view view_copy _unsafe_view reshape flatten.using_ints squeeze squeeze.dim squeeze.dims unsqueeze "
    "prims.collapse.default prims.split_dim.default prims.collapse_view.default":
        lambda cx, node, x: x.reshape(cx.shape(node.value)),
    # Memory that is not defined is zero.
    "empty.memory_format empty_permuted empty_strided empty_like new_empty new_empty_strided zeros "
    "_efficientzerotensor zeros_like new_zeros": lambda cx, node: op.zeros(cx.shape(node.value), node.dtype),
    "expand expand_copy broadcast_to": lambda cx, node, x: x.broadcast_to(cx.shape(node.value)),
    "permute permute_copy": lambda cx, node, x, dims: x.permute_dims(dims),
    "t": lambda cx, node, x: x.permute_dims([*range(x.ndim)][::-1]),
    "flip": lambda cx, node, x, dims: reduce(lambda out, d: out.flip(d), dims, x),
    "stack": lambda cx, node, parts, dim: cx.stack([cx.tensor(v, node.dtype) for v in parts], dim),
    "unbind.int unbind_copy.int":
        lambda cx, node, x, dim: [select(cx, node, x, dim, k) for k in range(len(node.value))],
    "tril": lambda cx, node, x, diagonal: x.tril(diagonal),
    "triu": lambda cx, node, x, diagonal: x.triu(diagonal),
    "new_full": lambda cx, node, x, size, value: full(cx, node, x, value),
    "ones ones_like new_ones": lambda cx, node: op.ones(cx.shape(node.value), node.dtype),
    "scalar_tensor": lambda cx, node, value: cx.tensor(value, node.dtype),
    "arange": lambda cx, node, end: arange(cx, node, 0, end),
    "prims.iota.default": lambda cx, node, length, *, start, step:
        arange(cx, node, start, start + length * step, step),
    "eye": lambda cx, node, n: op.eye(n, n, 0, node.dtype),
    "eye.m": lambda cx, node, n, m: op.eye(n, m, 0, node.dtype),
})  # fmt: skip
