"""Pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....base.errors import explain
from ....relax import op
from ....relax.expr import PrimValue, ShapeExpr
from ...common import padded
from ...graph.context import in_float32
from ...graph.operators import windows
from ...graph.operators.windows import Window
from ...graph.values import Value, object_array
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter, define
from .nn import per_axis, window_padding


def _window(node: Node, x: Value) -> Window:
    """(kernel, strides, padding, dilations, ceil_mode)"""
    rank = windows.spatial_rank(x)
    kernel = per_axis(node, "kernel_shape", rank)
    strides = per_axis(node, "strides", rank, [1] * rank)
    dilations = per_axis(node, "dilations", rank, [1] * rank)
    pads = window_padding(node, x, kernel, strides, dilations)
    return kernel, strides, pads, dilations, node.flag("ceil_mode")


@converter("MaxPool")
def max_pool(cx: Context, node: Node, x: Value) -> Any:
    order = node.integer("storage_order", 0)
    window = _window(node, x)
    most = windows.pooled(cx, x, windows.MAX_POOL[x.ndim - 2], window, fill=windows.least(x))
    if len(node.outputs) < 2 or not node.outputs[1]:
        return [most]
    return [most, _flat_indices(cx, x, most.shape[2:], window, bool(order))]


def _flat_indices(
    cx: Context, x: Value, counts: Sequence[Any], window: Window, columns: bool
) -> Any:
    """The index in all of x of the greatest element of each window, the first of equal ones: which
    element of the window it is, then its index. columns: the first spatial axis counts least."""
    kernel, strides, pads, dilations, _ = window
    rank, axes = len(kernel), list(range(2, x.ndim))
    after = [a + stride - 1 for a, stride in zip(pads[rank:], strides, strict=True)]
    whole = cx.emit(padded(x.expr, [0, 0, *pads[:rank]], [0, 0, *after], fill=windows.least(x)))
    parts = []
    for tap in np.ndindex(*kernel):
        begin = [t * d for t, d in zip(tap, dilations, strict=True)]
        end = [b + (n - 1) * s + 1 for b, n, s in zip(begin, counts, strides, strict=True)]
        part = op.strided_slice(whole, axes, begin, end, strides, assume_inbound=True)
        parts.append(cx.emit(op.expand_dims(part, [0])))
    chosen = cx.emit(op.argmax(op.concat(parts, 0), 0))
    images = op.arange(0, PrimValue(cx.simplify(x.shape[0] * x.shape[1])), 1, "int64")
    index = op.reshape(cx.emit(images), ShapeExpr([*x.shape[:2], *[1] * rank]))
    taps = np.array(list(np.ndindex(*kernel)), np.int64) * dilations
    for k, count in sorted(enumerate(counts), reverse=columns):
        ends = [PrimValue(cx.simplify(n * count * strides[k] - pads[k])) for n in (0, 1)]
        first = cx.emit(op.arange(ends[0], ends[1], strides[k]))
        first = op.reshape(first, ShapeExpr([count if a == k else 1 for a in range(rank)]))
        inner = op.take(cx.constant(np.ascontiguousarray(taps[:, k])), chosen)
        extent = cx.from_elements(object_array([x.shape[2 + k]], ()), "int64").expr
        index = op.add(op.multiply(index, extent), op.add(first, inner))
    return index


@converter("AveragePool")
def average_pool(cx: Context, node: Node, x: Value) -> Any:
    return windows.averaged(cx, x, _window(node, x), node.flag("count_include_pad"))


define("GlobalAveragePool", lambda cx, node, x: op.mean(x.expr, list(range(2, x.ndim)), True))
define("GlobalMaxPool", lambda cx, node, x: op.max(x.expr, list(range(2, x.ndim)), True))


@converter("GlobalLpPool")
@in_float32
def global_lp_pool(cx: Context, node: Node, x: Value) -> Any:
    return _norm(cx, x, node.integer("p", 2), lambda v: op.sum(v, list(range(2, x.ndim)), True))


@converter("LpPool")
@in_float32
def lp_pool(cx: Context, node: Node, x: Value) -> Any:
    kernel, strides, pads, dilations, ceil = _window(node, x)
    rank, count = len(kernel), math.prod(kernel)

    def sums(
        v: Any,
        _kernel: Sequence[int],
        _strides: Sequence[int],
        pads: list[int],
        *_: bool | Sequence[int],
    ) -> Any:
        # Rounding up adds zeros.
        more = [a + s - 1 if ceil else a for a, s in zip(pads[rank:], strides, strict=True)]
        mean = windows.MEAN_POOL[rank](
            v, kernel, strides, pads[:rank] + more, dilations, False, True
        )
        return op.multiply(mean, cx.scalar(count, x.dtype))

    window = kernel, strides, pads, dilations, ceil
    total = lambda v: windows.pooled(cx, cx.value(v), sums, window).expr  # noqa: E731
    return _norm(cx, x, node.integer("p", 2), total)


def _norm(cx: Context, x: Value, p: int, total: Callable[..., Any]) -> Any:
    """The p-norm, its sum of powers made by `total`."""
    if p < 1:
        raise ValueError(explain("attribute p must be 1 or more", got=p))
    if p == 1:
        return total(cx.emit(op.abs(x.expr)))
    if p == 2:
        return op.sqrt(total(cx.emit(op.multiply(x.expr, x.expr))))
    powers = cx.emit(op.power(op.abs(x.expr), cx.scalar(p, x.dtype)))
    return op.power(total(powers), cx.scalar(1 / p, x.dtype))
