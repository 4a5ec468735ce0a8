"""Pooling."""

from __future__ import annotations

import math
from typing import Any

from ....base.errors import explain
from ....relax import op
from ..context import Context
from ..reader import Node
from ..registry import converter
from ..values import Value, literal
from .nn import per_axis, spatial_rank, window_padding

_MAX = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}
_MEAN = {1: op.nn.avg_pool1d, 2: op.nn.avg_pool2d, 3: op.nn.avg_pool3d}


def _window(node: Node, x: Value) -> tuple[list[int], list[int], list[int], list[int], bool]:
    """(kernel, strides, padding, dilations, ceil_mode)"""
    rank = spatial_rank(x)
    kernel = per_axis(node, "kernel_shape", rank)
    strides = per_axis(node, "strides", rank, [1] * rank)
    dilations = per_axis(node, "dilations", rank, [1] * rank)
    pads = window_padding(node, x, kernel, strides, dilations)
    return kernel, strides, pads, dilations, bool(node.integer("ceil_mode", 0))


@converter("MaxPool")
def max_pool(cx: Context, node: Node, x: Value) -> Any:
    node.skip("storage_order")
    kernel, strides, pads, dilations, ceil = _window(node, x)
    pads = _grown(x, kernel, strides, pads, dilations) if ceil else pads
    return [_MAX[len(kernel)](x.expr, kernel, strides, pads, dilations)]


@converter("AveragePool")
def average_pool(cx: Context, node: Node, x: Value) -> Any:
    kernel, strides, pads, dilations, ceil = _window(node, x)
    include = bool(node.integer("count_include_pad", 0))
    if ceil and not include:
        pads, ceil = _grown(x, kernel, strides, pads, dilations), False
    elif ceil:  # what rounding up adds is never counted
        ceil = _last_window_counts(x, kernel, strides, pads, dilations)
    return _MEAN[len(kernel)](x.expr, kernel, strides, pads, dilations, ceil, include)


def _grown(
    x: Value, kernel: list[int], strides: list[int], pads: list[int], dilations: list[int]
) -> list[int]:
    """The padding with which windows rounded down are those of ceil_mode."""
    missing = _missing(x, kernel, strides, pads, dilations)
    return pads[: len(kernel)] + [
        p + (m or 0) for p, m in zip(pads[len(kernel) :], missing, strict=True)
    ]


def _last_window_counts(
    x: Value, kernel: list[int], strides: list[int], pads: list[int], dilations: list[int]
) -> bool:
    """Whether rounding up adds a window. ValueError where that differs between axes, which cannot
    be said to the operator."""
    adds = {bool(m) for m in _missing(x, kernel, strides, pads, dilations) if m is not None}
    if len(adds) > 1:
        what = "ceil_mode with a last window in the padding of one axis is not supported"
        raise ValueError(explain(what, got=str(x.info), instead="give explicit pads"))
    return adds == {True}


def _missing(
    x: Value, kernel: list[int], strides: list[int], pads: list[int], dilations: list[int]
) -> list[int | None]:
    """By how much rounding up extends each axis: None where the windows end with it, 0 where the
    last one would start in the trailing padding and does not count."""
    rank, missing = len(kernel), []
    for k in range(rank):
        size = literal(x.shape[2 + k])
        if not isinstance(size, int):
            what = "ceil_mode needs known extents"
            raise ValueError(explain(what, got=str(x.info), instead="give them by shape_dict"))
        room = size + pads[k] + pads[rank + k] - dilations[k] * (kernel[k] - 1) - 1
        short = -room % strides[k]
        missing.append((short if room + short < size + pads[k] else 0) if short else None)
    return missing


@converter("GlobalAveragePool")
def global_average_pool(cx: Context, node: Node, x: Value) -> Any:
    return op.mean(x.expr, list(range(2, x.ndim)), True)


@converter("GlobalMaxPool")
def global_max_pool(cx: Context, node: Node, x: Value) -> Any:
    return op.max(x.expr, list(range(2, x.ndim)), True)


@converter("GlobalLpPool")
def global_lp_pool(cx: Context, node: Node, x: Value) -> Any:
    return _norm(cx, x, node.integer("p", 2), lambda v: op.sum(v, list(range(2, x.ndim)), True))


@converter("LpPool")
def lp_pool(cx: Context, node: Node, x: Value) -> Any:
    kernel, strides, pads, dilations, ceil = _window(node, x)
    pads = _grown(x, kernel, strides, pads, dilations) if ceil else pads
    count = math.prod(kernel)

    def total(v: Any) -> Any:
        mean = _MEAN[len(kernel)](v, kernel, strides, pads, dilations, False, True)
        return op.multiply(mean, cx.scalar(count, x.dtype))

    return _norm(cx, x, node.integer("p", 2), total)


def _norm(cx: Context, x: Value, p: int, total: Any) -> Any:
    """The p-norm, its sum of powers made by `total`."""
    if p == 1:
        return total(cx.emit(op.abs(x.expr)))
    if p == 2:
        return op.sqrt(total(cx.emit(op.multiply(x.expr, x.expr))))
    powers = cx.emit(op.power(op.abs(x.expr), cx.scalar(p, x.dtype)))
    return op.power(total(powers), cx.scalar(1 / p, x.dtype))
