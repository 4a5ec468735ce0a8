"""Operators of sliding windows: convolutions and pools, channels first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import add
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_op import floordiv
from ....relax import op
from ....relax.expr import Expr, PrimValue, ShapeExpr
from ...common import padded, same_padding, same_padding_transposed
from ..context import Context
from ..values import Value, literal, object_array
from .table import function

_CONV = {1: op.nn.conv1d, 2: op.nn.conv2d, 3: op.nn.conv3d}
MAX_POOL = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}
MEAN_POOL = {1: op.nn.avg_pool1d, 2: op.nn.avg_pool2d, 3: op.nn.avg_pool3d}
# All widths before, then all after, of the spatial axes; or as much as is needed for extent / stride
# results, an odd element behind ("SAME_UPPER") or in front ("SAME_LOWER"); "VALID" means no padding.
Padding = Sequence[int] | str
# (kernel, strides, padding, dilations, whether the last window may be partial)
Window = tuple[list[int], list[int], list[Any], list[int], bool]


def spatial_rank(x: Value) -> int:
    """The number of axes after batch and channel. Raises ValueError unless it is 1 to 3."""
    rank = x.ndim - 2
    if rank not in (1, 2, 3):
        what = "the input must be [N, C, ...] with 1 to 3 spatial axes"
        raise ValueError(explain(what, got=str(x.info)))
    return rank


def window_padding(
    x: Value, kernel: list[int], strides: list[int], dilations: list[int], padding: Padding
) -> list[Any]:
    """The padding of a sliding window: all before, then all after, of the spatial axes; expressions
    where a symbolic extent decides."""
    if not isinstance(padding, str):
        return list(padding)
    if padding == "VALID":
        return [0] * (2 * len(kernel))
    windows = zip(x.shape[2:], known_window(kernel), strides, dilations, strict=True)
    sides = [same_padding(*w, upper=padding == "SAME_UPPER") for w in windows]
    return [b for b, _ in sides] + [a for _, a in sides]


def framed(cx: Context, x: Value, pads: list[Any], fill: float = 0.0) -> tuple[Value, list[int]]:
    """(x, its padding), with a padding known only at run time made part of x."""
    if all(isinstance(p, int) for p in pads):
        return x, pads
    rank = len(pads) // 2
    lead = [0] * (x.ndim - rank)
    grown = padded(x.expr, lead + pads[:rank], lead + pads[rank:], fill=fill)
    return cx.value(grown), [0] * len(pads)


def known_window(kernel: list[Any]) -> list[int]:
    """The window as numbers. Raises ValueError where it is known only at run time."""
    if not all(isinstance(k, int) for k in kernel):
        what = "auto_pad and output_shape need the weight's window"
        hint = "give attribute kernel_shape, or the weight's extents by shape_dict"
        raise ValueError(explain(what, got=", ".join(map(str, kernel)), instead=hint))
    return kernel


@function
def conv(
    cx: Context, x: Value, weight: Value, bias: Value | None = None, *, strides: list[int],
    padding: Padding, dilations: list[int], groups: int = 1,
) -> Any:  # fmt: skip
    """A convolution of [N, C, ...] by [O, I, ...]."""
    rank, kernel = spatial_rank(x), [literal(d) for d in weight.shape[2:]]
    x, pads = framed(cx, x, window_padding(x, kernel, strides, dilations, padding))
    out = _CONV[rank](x.expr, weight.expr, strides, pads, dilations, groups)
    return with_bias(cx, out, bias, rank)


def with_bias(cx: Context, out: Value | Expr, bias: Value | None, rank: int) -> Any:
    if bias is None:
        return out
    out = cx.emit(out)
    shape = [1, -1, *[1] * rank]
    return op.add(out, vector_as(cx, bias, shape))


def vector_as(cx: Context, value: Value, shape: list[int]) -> Any:
    """A vector in another shape; a literal constant is reshaped right here."""
    if value.is_constant and not value.expr.is_weight:
        return cx.constant(value.expr.data.view().reshape(shape), str(value.dtype))
    return op.reshape(value.expr, shape)


@function
def conv_transpose(
    cx: Context, x: Value, weight: Value, bias: Value | None = None, *, strides: list[int],
    padding: Padding, dilations: list[int] | None = None, output_padding: list[int] | None = None,
    groups: int = 1,
) -> Any:  # fmt: skip
    """A transposed convolution of [N, C, ...] by [I, O, ...]."""
    rank = spatial_rank(x)
    dilations = [1] * rank if dilations is None else dilations
    extra = [0] * rank if output_padding is None else output_padding
    pads = transposed_padding([literal(d) for d in weight.shape[2:]], strides, dilations, padding)
    if rank == 3:
        out = _transposed_3d(cx, x, weight, strides, pads, extra, dilations, groups)
        return with_bias(cx, out, bias, rank)
    if rank == 2:
        out = op.nn.conv2d_transpose(x.expr, weight.expr, strides, pads, extra, dilations, groups)
        return with_bias(cx, out, bias, rank)
    # One spatial axis is two of which the first has extent 1.
    wide = op.nn.conv2d_transpose(
        op.expand_dims(x.expr, [2]),
        op.expand_dims(weight.expr, [2]),
        [1, *strides],
        [0, pads[0], 0, pads[1]],
        [0, *extra],
        [1, *dilations],
        groups,
    )
    return with_bias(cx, op.squeeze(cx.emit(wide), [2]), bias, rank)


def transposed_padding(
    kernel: list[int], strides: list[int], dilations: list[int], padding: Padding
) -> list[int]:
    """The widths that are cut from a transposed convolution."""
    if not isinstance(padding, str):
        return list(padding)
    if padding == "VALID":
        return [0] * (2 * len(kernel))
    windows = zip(known_window(kernel), strides, dilations, strict=True)
    sides = [same_padding_transposed(*w, upper=padding == "SAME_UPPER") for w in windows]
    return [b for b, _ in sides] + [a for _, a in sides]


def _transposed_3d(
    cx: Context, x: Value, weight: Value, strides: list[int], pads: list[int], extra: list[int],
    dilations: list[int], group: int,
) -> Any:  # fmt: skip
    """The convolution of the data, with zeros between its elements, by the flipped weight."""
    kernel, axes = [literal(d) for d in weight.shape[2:]], [2, 3, 4]
    wide = x
    for axis, stride in zip(axes, strides, strict=True):
        if stride > 1:  # a new axis of which the element is the first, zeros the others
            split = op.expand_dims(wide.expr, [axis + 1])
            width = [0] * 2 * (axis + 1) + [0, stride - 1] + [0] * 2 * (4 - axis)
            dims = [d * stride if a == axis else d for a, d in enumerate(wide.shape)]
            dims = ShapeExpr([cx.simplify(d) for d in dims])
            spread = op.reshape(cx.emit(op.nn.pad(split, width)), dims)
            end = cx.simplify(dims[axis] - (stride - 1))
            wide = cx.value(op.strided_slice(spread, [axis], [0], [end], assume_inbound=True))
    # Zeros around, as wide as the window less its center, less the widths that pads cut.
    extent = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
    sides = [r - p for r, p in zip(extent, pads[:3], strict=True)]
    sides += [r - p + e for r, p, e in zip(extent, pads[3:], extra, strict=True)]
    if not all(isinstance(s, int) for s in sides):  # pad in full, cut afterwards
        wide = cx.value(padded(wide.expr, [0, 0, *extent], [0, 0, *map(add, extent, extra)]))
        sides = [-p for p in pads]
    ends = [cx.simplify(d + min(s, 0)) for d, s in zip(wide.shape[2:], sides[3:], strict=True)]
    if min(sides) < 0:
        starts = [max(-s, 0) for s in sides[:3]]
        wide = cx.value(op.strided_slice(wide.expr, axes, starts, ends, assume_inbound=True))
    inner, outer = literal(weight.shape[0]) // group, literal(weight.shape[1])
    flipped = op.reshape(weight.expr, ShapeExpr([group, inner, outer, *kernel]))
    flipped = op.reshape(
        cx.emit(op.permute_dims(flipped, [0, 2, 1, 3, 4, 5])),
        ShapeExpr([group * outer, inner, *kernel]),
    )
    for axis in axes:
        flipped = op.flip(cx.emit(flipped), axis)
    padding = [max(s, 0) for s in sides]
    return op.nn.conv3d(wide.expr, cx.emit(flipped), [1, 1, 1], padding, dilations, group)


def _pool(name: str, doc: str, by: Callable[[Context, Value, Window], Any]) -> None:
    def pool(
        cx: Context, x: Value, *, kernel: list[int], strides: list[int], padding: Padding,
        dilations: list[int] | None = None,
    ) -> Any:  # fmt: skip
        dilations = [1] * len(kernel) if dilations is None else dilations
        pads = window_padding(x, kernel, strides, dilations, padding)
        return by(cx, x, (kernel, strides, pads, dilations, False))

    pool.__name__, pool.__doc__ = name, doc
    function(pool)


def averaged(cx: Context, x: Value, window: Window, include_padding: bool = False) -> Any:
    """The means of windows. include_padding: padding counts as elements that are 0."""
    pool = MEAN_POOL[spatial_rank(x)]
    if include_padding or all(isinstance(p, int) for p in window[2]):
        return pooled(cx, x, pool, window, include_padding)
    ones = cx.value(op.ones(ShapeExpr([1, 1, *x.shape[2:]]), str(x.dtype)))
    inside = pooled(cx, ones, pool, window, True)  # the part of each window that is not padding
    return op.divide(pooled(cx, x, pool, window, True).expr, inside.expr)


def least(x: Value) -> float:
    """The value of padding that no maximum takes."""
    return -math.inf if x.dtype.is_float else float(np.iinfo(x.dtype.numpy()).min)


def pooled(
    cx: Context, x: Value, pool: Callable[..., Any], window: Window, *more: Any, fill: float = 0.0
) -> Value:
    """A pool by one of our operators. With ceil_mode, windows that would start in the trailing
    padding are left out. fill: the value of padding that is made part of x."""
    kernel, strides, pads, dilations, ceil = window
    x, pads = framed(cx, x, pads, fill)
    out, rank = cx.value(pool(x.expr, kernel, strides, pads, dilations, ceil, *more)), len(kernel)
    for k in range(rank) if ceil else ():
        if pads[rank + k] + strides[k] > dilations[k] * (kernel[k] - 1) + 1:
            count = cx.simplify(floordiv(x.shape[2 + k] + (pads[k] - 1), strides[k]) + 1)
            if not cx.equal(count, out.shape[2 + k]):
                out = cx.value(op.strided_slice(out.expr, [2 + k], [0], [count], None, True))
    return out


def greatest_at(
    cx: Context, x: Value, window: Window, counts: Sequence[Any], columns: bool = False
) -> Value:
    """The index in its image, flattened, of the greatest element of each window, the first of equal ones: which element
    of the window it is, then its index. counts: the results along each axis. columns: the first axis counts least."""
    kernel, strides, pads, dilations, _ = window
    rank, first = len(kernel), x.ndim - len(kernel)
    axes, lead = [*range(first, x.ndim)], [0] * first
    # The last window may reach beyond the padding.
    after = [a + stride - 1 for a, stride in zip(pads[rank:], strides, strict=True)]
    whole = cx.emit(padded(x.expr, lead + pads[:rank], lead + after, fill=least(x)))
    parts = []
    for tap in np.ndindex(*kernel):
        begin = [t * d for t, d in zip(tap, dilations, strict=True)]
        end = [b + (n - 1) * s + 1 for b, n, s in zip(begin, counts, strides, strict=True)]
        parts.append(cx.emit(op.strided_slice(whole, axes, begin, end, strides, True)))
    chosen = cx.emit(op.argmax(cx.emit(op.stack(parts, 0)), 0))
    taps = np.array(list(np.ndindex(*kernel)), np.int64) * dilations
    index: Any = cx.scalar(0, "int64")
    for k, count in sorted(enumerate(counts), reverse=columns):
        ends = [PrimValue(cx.simplify(n * count * strides[k] - pads[k])) for n in (0, 1)]
        start = cx.emit(op.arange(ends[0], ends[1], strides[k]))
        start = op.reshape(start, ShapeExpr([count if a == k else 1 for a in range(rank)]))
        inner = op.take(cx.constant(np.ascontiguousarray(taps[:, k])), chosen)
        extent = cx.from_elements(object_array([x.shape[first + k]], ()), "int64").expr
        index = op.add(op.multiply(index, extent), op.add(start, inner))
    return cx.value(index)


def _greatest(cx: Context, x: Value, window: Window) -> Any:
    return pooled(cx, x, MAX_POOL[spatial_rank(x)], window, fill=least(x))


_pool("max_pool", "The maximum of each window.", _greatest)
_pool("avg_pool", "The mean of the elements of each window that are not padding.", averaged)
