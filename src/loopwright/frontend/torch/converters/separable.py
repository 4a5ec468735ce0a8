"""Gradients of operators that work on one axis after another: products with the matrix of each axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

from ....ops.resizing import Style
from ....relax import op
from ..context import Size, Term
from ..context import TorchContext as Context
from ..model import TorchNode as Node
from .images import NEAREST, smooth_style
from .table import aten


def _along_axes(
    cx: Context, node: Node, grad: Term, rank: int, matrix: Callable[[int, Size, Size], Term]
) -> Term:
    """The product of the last axes with `matrix(axis, extent of the data, extent of the gradient)`, which says how much
    each element of the result of the operator has of each element of its data."""
    first = grad.ndim - rank
    for k, have in enumerate(cx.dims(node.value)[first:]):
        last = [*(a for a in range(grad.ndim) if a != first + k), first + k]
        weights = matrix(k, have, grad.shape[first + k])
        product = cx.value(cx.ops.matmul(grad.permute_dims(last), weights))
        grad = product.permute_dims([last.index(a) for a in range(grad.ndim)])
    return grad


def _within(cx: Context, begin: Term, end: Term, have: Size, dtype: str) -> Term:
    """1 where a column is from `begin` to `end` of its row, else 0."""
    column = cx.line(have)
    return ((begin.expand_dims([1]) <= column) & (column < end.expand_dims([1]))).astype(dtype)


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

    def matrix(k: int, have: Size, want: Size) -> Term:
        return _taps(cx, have, want, scales[k], style, node.dtype)

    return _along_axes(cx, node, grad, grad.ndim - 2, matrix)


def _taps(
    cx: Context, have: Size, want: Size, scale: float | None, style: Style, dtype: str
) -> Term:
    """The weights of the elements that a resize picks."""
    options = (style.method, style.coordinates, style.rounding, style.cubic_alpha)
    options = (*options, int(style.exclude), dtype)
    taps = cx.emit(op.image.resize_taps(have, want, None, scale, *options))
    if style.method == "nearest_neighbor":
        at, by = [cx.value(taps)], [cx.filled([want], 1, dtype)]
    else:
        parts = [cx.value(taps[k]) for k in range(2 * style.count)]
        at, by = parts[: style.count], parts[style.count :]
    return reduce(
        add,
        (
            _within(cx, k, k + 1, have, dtype) * w.expand_dims([1])
            for k, w in zip(at, by, strict=True)
        ),
    )


@aten("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(cx: Context, node: Node, grad: Term, x: Term) -> Term:
    """Each element of a part has the same share."""

    def matrix(k: int, have: Size, want: Size) -> Term:
        part = cx.line(want)
        begin, end = part * have // want, ((part + 1) * have - 1) // want + 1
        share = 1.0 / (end - begin).astype(node.dtype).expand_dims([1])
        return _within(cx, begin, end, have, node.dtype) * share

    return _along_axes(cx, node, grad, int(node.op_type.split("avg_pool")[1][0]), matrix)


@aten("replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward")
def replication_pad_backward(
    cx: Context, node: Node, grad: Term, x: Term, pad: Sequence[Size]
) -> Term:
    rank = len(pad) // 2

    def matrix(k: int, have: Size, want: Size) -> Term:
        last = cx.tensor(have, "int64") - 1
        at = (cx.line(want) - pad[2 * (rank - 1 - k)]).maximum(0).minimum(last)
        return _within(cx, at, at + 1, have, node.dtype)

    return _along_axes(cx, node, grad, rank, matrix)
