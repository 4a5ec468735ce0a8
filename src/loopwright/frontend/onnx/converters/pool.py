"""Pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ....base.errors import explain
from ....relax import op
from ....relax.expr import PrimValue, ShapeExpr
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
    return [most, _flat_indices(cx, x, window, bool(order), most.shape[2:])]


def _flat_indices(
    cx: Context, x: Value, window: Window, columns: bool, counts: Sequence[Any]
) -> Any:
    """The indices of the greatest elements in all of x."""
    inner = windows.greatest_at(cx, x, window, counts, columns)
    images = op.arange(0, PrimValue(cx.simplify(x.shape[0] * x.shape[1])), 1, "int64")
    first = op.reshape(cx.emit(images), ShapeExpr([*x.shape[:2], *[1] * len(counts)]))
    area = cx.from_elements(object_array([cx.product(x.shape[2:])], ()), "int64").expr
    return op.add(op.multiply(first, area), inner.expr)


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
