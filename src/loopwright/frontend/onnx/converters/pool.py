"""Pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_op import floordiv
from ....relax import op
from ....relax.expr import PrimValue, ShapeExpr
from ...common import padded
from ...graph.context import Context, in_float32
from ...graph.values import Value, object_array
from ..reader import Node
from ..registry import converter
from .nn import framed, per_axis, spatial_rank, window_padding

_MAX = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}
_MEAN = {1: op.nn.avg_pool1d, 2: op.nn.avg_pool2d, 3: op.nn.avg_pool3d}


Window = tuple[list[int], list[int], list[Any], list[int], bool]


def _window(node: Node, x: Value) -> Window:
    """(kernel, strides, padding, dilations, ceil_mode)"""
    rank = spatial_rank(x)
    kernel = per_axis(node, "kernel_shape", rank)
    strides = per_axis(node, "strides", rank, [1] * rank)
    dilations = per_axis(node, "dilations", rank, [1] * rank)
    pads = window_padding(node, x, kernel, strides, dilations)
    return kernel, strides, pads, dilations, node.flag("ceil_mode")


@converter("MaxPool")
def max_pool(cx: Context, node: Node, x: Value) -> Any:
    order = node.integer("storage_order", 0)
    window = _window(node, x)
    most = _pooled(cx, x, _MAX[x.ndim - 2], window, fill=_least(x))
    if len(node.outputs) < 2 or not node.outputs[1]:
        return [most]
    return [most, _places(cx, x, most.shape[2:], window, bool(order))]


def _places(cx: Context, x: Value, counts: Sequence[Any], window: Window, columns: bool) -> Any:
    """The index in all of x of the greatest element of each window, the first of equal ones: which
    element of the window it is, then where that lies. columns: the first spatial axis counts least."""
    kernel, strides, pads, dilations, _ = window
    rank, axes = len(kernel), list(range(2, x.ndim))
    after = [a + stride - 1 for a, stride in zip(pads[rank:], strides, strict=True)]
    whole = cx.emit(padded(x.expr, [0, 0, *pads[:rank]], [0, 0, *after], fill=_least(x)))
    parts = []
    for tap in np.ndindex(*kernel):
        begin = [t * d for t, d in zip(tap, dilations, strict=True)]
        end = [b + (n - 1) * s + 1 for b, n, s in zip(begin, counts, strides, strict=True)]
        part = op.strided_slice(whole, axes, begin, end, strides, assume_inbound=True)
        parts.append(cx.emit(op.expand_dims(part, [0])))
    chosen = cx.emit(op.argmax(op.concat(parts, 0), 0))
    images = op.arange(0, PrimValue(cx.simplify(x.shape[0] * x.shape[1])), 1, "int64")
    place = op.reshape(cx.emit(images), ShapeExpr([*x.shape[:2], *[1] * rank]))
    taps = np.array(list(np.ndindex(*kernel)), np.int64) * dilations
    for k, count in sorted(enumerate(counts), reverse=columns):
        ends = [PrimValue(cx.simplify(n * count * strides[k] - pads[k])) for n in (0, 1)]
        first = cx.emit(op.arange(ends[0], ends[1], strides[k]))
        first = op.reshape(first, ShapeExpr([count if a == k else 1 for a in range(rank)]))
        inner = op.take(cx.constant(np.ascontiguousarray(taps[:, k])), chosen)
        extent = cx.known(object_array([x.shape[2 + k]], ()), "int64").expr
        place = op.add(op.multiply(place, extent), op.add(first, inner))
    return place


def _least(x: Value) -> float:
    return -math.inf if x.dtype.is_float else float(np.iinfo(x.dtype.numpy()).min)


@converter("AveragePool")
def average_pool(cx: Context, node: Node, x: Value) -> Any:
    window, include = _window(node, x), node.flag("count_include_pad")
    pool = _MEAN[x.ndim - 2]
    if include or all(isinstance(p, int) for p in window[2]):
        return _pooled(cx, x, pool, window, include)
    ones = cx.value(op.ones(ShapeExpr([1, 1, *x.shape[2:]]), str(x.dtype)))
    inside = _pooled(cx, ones, pool, window, True)  # the part of each window that is no padding
    return op.divide(_pooled(cx, x, pool, window, True).expr, inside.expr)


def _pooled(
    cx: Context, x: Value, pool: Any, window: Window, *more: Any, fill: float = 0.0
) -> Value:
    """A pool by one of our operators. With ceil_mode, windows that would start in the trailing
    padding are left out. fill: what padding holds where it is made part of x."""
    kernel, strides, pads, dilations, ceil = window
    x, pads = framed(cx, x, pads, fill)
    out, rank = cx.value(pool(x.expr, kernel, strides, pads, dilations, ceil, *more)), len(kernel)
    for k in range(rank) if ceil else ():
        if pads[rank + k] + strides[k] > dilations[k] * (kernel[k] - 1) + 1:
            count = cx.simplify(floordiv(x.shape[2 + k] + (pads[k] - 1), strides[k]) + 1)
            if not cx.equal(count, out.shape[2 + k]):
                out = cx.value(op.strided_slice(out.expr, [2 + k], [0], [count], None, True))
    return out


@converter("GlobalAveragePool")
def global_average_pool(cx: Context, node: Node, x: Value) -> Any:
    return op.mean(x.expr, list(range(2, x.ndim)), True)


@converter("GlobalMaxPool")
def global_max_pool(cx: Context, node: Node, x: Value) -> Any:
    return op.max(x.expr, list(range(2, x.ndim)), True)


@converter("GlobalLpPool")
@in_float32
def global_lp_pool(cx: Context, node: Node, x: Value) -> Any:
    return _norm(cx, x, node.integer("p", 2), lambda v: op.sum(v, list(range(2, x.ndim)), True))


@converter("LpPool")
@in_float32
def lp_pool(cx: Context, node: Node, x: Value) -> Any:
    kernel, strides, pads, dilations, ceil = _window(node, x)
    rank, count = len(kernel), math.prod(kernel)

    def sums(v: Any, _kernel: Any, _strides: Any, pads: list[int], *_: Any) -> Any:
        # Rounding up adds zeros.
        more = [a + s - 1 if ceil else a for a, s in zip(pads[rank:], strides, strict=True)]
        mean = _MEAN[rank](v, kernel, strides, pads[:rank] + more, dilations, False, True)
        return op.multiply(mean, cx.scalar(count, x.dtype))

    window = kernel, strides, pads, dilations, ceil
    total = lambda v: _pooled(cx, cx.value(v), sums, window).expr  # noqa: E731
    return _norm(cx, x, node.integer("p", 2), total)


def _norm(cx: Context, x: Value, p: int, total: Any) -> Any:
    """The p-norm, its sum of powers made by `total`."""
    if p < 1:
        raise ValueError(explain("attribute p must be 1 or more", got=p))
    if p == 1:
        return total(cx.emit(op.abs(x.expr)))
    if p == 2:
        return op.sqrt(total(cx.emit(op.multiply(x.expr, x.expr))))
    powers = cx.emit(op.power(op.abs(x.expr), cx.scalar(p, x.dtype)))
    return op.power(total(powers), cx.scalar(1 / p, x.dtype))
