"""Operators that work on one axis after another, most of them gradients: each element of
a result is a sum of elements of the data by weights, its taps, or the maximum of some of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....base.errors import explain
from ...graph.operators.windows import MEAN_POOL, Window, pooled
from ...graph.values import literal
from ..context import Size, Term, op
from ..context import TorchContext as Context
from ..model import TorchNode as Node
from .images import NEAREST, smooth_style
from .nn import Numbers, batched, rank_of, window_of
from .shapes import nearest_within
from .table import aten

Array = np.ndarray[Any, Any]

# Of an axis by its number, and its extents in the data and in the result: the indices in the data that each element
# of the result is of, and their weights, both with a row for each element.
Taps = Callable[[int, Size, Size], tuple[Term, Term]]


def _gathered(cx: Context, node: Node, x: Term, rank: int, taps: Taps) -> Term:
    """The sums along each of the last axes."""
    first, dtype = x.ndim - rank, _sum_dtype(node)
    x = cx.tensor(x, dtype)
    for k, want in enumerate(cx.dims(node.value)[-rank:]):
        at, weights = taps(k, x.shape[first + k], want)
        x = (x.take(at, first + k) * _shares(x, weights, first + k)).sum([first + k + 1])
    return cx.tensor(x, node.dtype)


def _along_axes(cx: Context, node: Node, grad: Term, rank: int, taps: Taps) -> Term:
    """The gradient of `_gathered`: added along each of the last axes where its elements are from, so that one that is
    not finite stays among these."""
    first, dtype = grad.ndim - rank, _sum_dtype(node)
    grad = cx.tensor(grad, dtype)
    for axis, have in enumerate(cx.dims(node.value)[first:], first):
        at, weights = taps(axis - first, have, grad.shape[axis])
        grads = grad.expand_dims([axis + 1]) * _shares(grad, weights, axis)
        zeros = cx.filled([*grad.shape[:axis], have, *grad.shape[axis + 1 :]], 0, dtype)
        grad = op.grad.take_backward(grads, zeros, at, axis)
    return cx.tensor(grad, node.dtype)


def _shares(x: Term, weights: Term, axis: int) -> Term:
    """Weights with a row for each element of an axis, about to multiply its taps."""
    return weights.astype(str(x.dtype)).expand_dims([*range(2, x.ndim + 1 - axis)])


def _sum_dtype(node: Node) -> str:
    return "float32" if "float" in node.dtype and node.dtype != "float64" else "float64"


@aten("upsample_nearest1d_backward", "upsample_nearest2d_backward", "upsample_nearest3d_backward",
      "upsample_linear1d_backward", "upsample_bilinear2d_backward", "upsample_trilinear3d_backward",
      "upsample_bicubic2d_backward")  # fmt: skip
def upsample_backward(
    cx: Context, node: Node, grad: Term, size: object, image: object, *more: Any
) -> Term:
    style = NEAREST
    if "nearest" not in node.op_type:
        style, more = smooth_style(node, more[0]), more[1:]
    scales = more if more and style.coordinates != "align_corners" else [None] * 3

    def taps(k: int, have: Size, want: Size) -> tuple[Term, Term]:
        options = (style.method, style.coordinates, style.rounding, style.cubic_alpha)
        resize = op.image.resize_taps(have, want, None, scales[k], *options, 0, "float64")
        picks, count = cx.emit(resize), style.count
        if count == 1:
            return cx.value(picks).expand_dims([1]), cx.filled([want, 1], 1, "float64")
        parts = [cx.value(picks[k]) for k in range(2 * count)]
        return cx.stack(parts[:count], 1), cx.stack(parts[count:], 1)

    return _along_axes(cx, node, grad, grad.ndim - 2, taps)


@aten("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(cx: Context, node: Node, grad: Term, x: Term) -> Term:
    """Each element of a part has the same share."""

    def taps(k: int, have: Size, want: Size) -> tuple[Term, Term]:
        part = cx.line(want)
        begin, end = part * have // want, ((part + 1) * have - 1) // want + 1
        at, (begin, end) = part_indices(cx, have, want), (v.expand_dims([1]) for v in (begin, end))
        own = begin + cx.line(at.shape[1]) < end
        return at, cx.where(own, 1.0 / (end - begin).astype("float64"), 0.0)

    return _along_axes(cx, node, grad, rank_of(node), taps)


def _means(cx: Context, window: Window, count_include_pad: bool, divisor: int | None) -> Taps:
    """The elements of a window, each with the same share; 1 with a divisor, by which all are divided later."""
    size, strides, pads, _, _ = window

    def taps(k: int, have: Size, want: Size) -> tuple[Term, Term]:
        begin = (cx.line(want) * strides[k] - pads[k]).expand_dims([1])
        end, at = begin + size[k], begin + cx.line(size[k])
        inside = at.maximum(0).minimum(cx.tensor(have, "int64") - 1)
        edge = 0 if not count_include_pad else pads[k]
        count = end.minimum(cx.tensor(have, "int64") + edge) - begin.maximum(-edge)
        share = 1.0 / (cx.filled([1, 1], 1, "float64") if divisor else count.astype("float64"))
        return inside, cx.where(at.equal(inside), share, 0.0)

    return taps


@aten("avg_pool1d", "avg_pool2d", "avg_pool3d")
@batched
def avg_pool(
    cx: Context, node: Node, x: Term, kernel: Numbers, stride: Numbers, padding: Numbers, ceil_mode: bool,
    count_include_pad: bool, divisor: int | None = None,
) -> Term:  # fmt: skip
    rank = rank_of(node)
    window = window_of(rank, kernel, stride, padding, 1, ceil_mode)
    if divisor:
        return (
            _gathered(cx, node, x, rank, _means(cx, window, count_include_pad, divisor)) / divisor
        )
    return cx.tensor(pooled(cx, x, MEAN_POOL[rank], window, count_include_pad))


@aten("avg_pool2d_backward", "avg_pool3d_backward")
def avg_pool_backward(
    cx: Context, node: Node, grad: Term, x: Term, kernel: Numbers, stride: Numbers, padding: Numbers,
    ceil_mode: bool, count_include_pad: bool, divisor: int | None,
) -> Term:  # fmt: skip
    rank = rank_of(node)
    window = size, strides, pads, _, _ = window_of(rank, kernel, stride, padding, 1, ceil_mode)
    if rank == 2 and not (ceil_mode or divisor) and (count_include_pad or not any(pads)):
        pair = (v.reshape([1, cx.product(v.shape[:-2]), *v.shape[-2:]]) for v in (grad, x))
        out = op.grad.avg_pool2d_backward(*pair, size, strides, pads, (1, 1), False, True)
        return out.reshape(cx.shape(node.value))
    grad = _along_axes(cx, node, grad, rank, _means(cx, window, count_include_pad, divisor))
    return grad / float(divisor) if divisor else grad


@aten("replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward")
def replication_pad_backward(
    cx: Context, node: Node, grad: Term, x: Term, pad: Sequence[Size]
) -> Term:
    rank = len(pad) // 2

    def taps(k: int, have: Size, want: Size) -> tuple[Term, Term]:
        at = nearest_within(cx, have, want, pad[2 * (rank - 1 - k)])
        return at.expand_dims([1]), cx.filled([want, 1], 1, "float64")

    return _along_axes(cx, node, grad, rank, taps)


# ---------------------------------------------------------------- resizing with antialiasing


def _smooth_taps(cx: Context, node: Node, corners: bool, scales: Sequence[float | None]) -> Taps:
    """The elements under a triangle, or a cubic, as wide as the part of the data that becomes one element of a
    smaller image. Raises ValueError for symbolic extents, which decide their number."""
    radius, weight = (2, _cubic) if "bicubic" in node.op_type else (1, _triangle)

    def taps(k: int, have: Size, want: Size) -> tuple[Term, Term]:
        have, want, scale = literal(have), literal(want), scales[k] if scales else None
        if not isinstance(have, int) or not isinstance(want, int):
            raise ValueError(explain("images of symbolic extents with antialiasing"))
        factor = have / want if scale is None else 1 / scale
        if corners:
            factor = (have - 1) / (want - 1) if want > 1 else 0.0
        width = max(factor, 1.0)
        centers = factor * (np.arange(want)[:, None] + 0.5)
        begin, end = (np.trunc(centers + side * radius * width + 0.5) for side in (-1, 1))
        begin, end = np.maximum(begin, 0), np.minimum(end, have)
        at = begin + np.arange(math.ceil(radius * width) * 2 + 1)
        weights = np.where(at < end, weight(np.abs(at - centers + 0.5) / width), 0.0)
        inside = np.minimum(at, end - 1).astype(np.int64)
        shares = weights / weights.sum(1, keepdims=True)
        return cx.value(cx.literal(inside)), cx.value(cx.literal(shares))

    return taps


def _triangle(x: Array) -> Array:
    return np.maximum(1 - x, 0)


def _cubic(x: Array) -> Array:
    inner, outer = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, inner, np.where(x < 2, outer, 0.0))


@aten("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
def upsample_smooth(
    cx: Context, node: Node, x: Term, size: object, corners: bool, *scales: float | None
) -> Term:
    if not x.dtype.is_float:
        raise ValueError(explain("images of integers with antialiasing"))
    return _gathered(cx, node, x, 2, _smooth_taps(cx, node, corners, scales))


@aten("_upsample_bilinear2d_aa_backward", "_upsample_bicubic2d_aa_backward")
def upsample_smooth_backward(
    cx: Context, node: Node, grad: Term, size: object, image: object, corners: bool, *scales: float | None
) -> Term:  # fmt: skip
    return _along_axes(cx, node, grad, 2, _smooth_taps(cx, node, corners, scales))


# ---------------------------------------------------------------- pools of parts


@aten("adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(cx: Context, node: Node, x: Term, size: list[Size]) -> list[Term]:
    """The maximum of each part, and its index in the image, flattened. The last axis is reduced first: to the
    first maximum of each row, then to the first row that has it."""
    rank = rank_of(node)
    dims, counts = x.shape[x.ndim - rank :], cx.dims(node.value[0])[-rank:]
    best, at = x, cx.line(cx.product(dims)).reshape(dims).broadcast_to(x.shape)
    for axis in range(x.ndim - 1, x.ndim - rank - 1, -1):
        table = part_indices(cx, x.shape[axis], counts[axis - x.ndim + rank])
        windows = [v.take(table, axis) for v in (best, at)]
        which = windows[0].argmax(axis + 1, True)
        best, at = (v.gather_elements(which, axis + 1).squeeze([axis + 1]) for v in windows)
    return [best, at]


def part_indices(cx: Context, extent: Size, parts: Size) -> Term:
    """The indices of the elements of each part, from floor(i d / n) up to ceil((i + 1) d / n) for part i of n. All
    are as long as the longest one; shorter ones repeat their last element."""
    d, n = literal(extent), literal(parts)
    if isinstance(d, int) and isinstance(n, int):
        longest = max((-(-(i + 1) * d // n) - i * d // n for i in range(n)), default=1)
    else:
        longest = cx.simplify(d // n + 2)
    part = cx.line(n).expand_dims([1])
    last = ((part + 1) * d - 1) // n
    return (part * d // n + cx.line(longest)).minimum(last)


@aten("adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward",
      "max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")  # fmt: skip
def max_pool_backward(cx: Context, node: Node, grad: Term, x: Term, *more: Any) -> Term:
    """The gradient of each maximum, added where it was: the last argument has the indices."""
    rank = rank_of(node)
    lead, indices = list(x.shape[: x.ndim - rank]), more[-1]
    zeros = cx.filled([*lead, cx.product(x.shape[-rank:])], 0, node.dtype)
    count = [*lead, cx.product(indices.shape[-rank:])]
    at, new = (v.reshape(count) for v in (indices, grad))
    return zeros.scatter_elements(at, new, len(lead), "add").reshape(x.shape)
