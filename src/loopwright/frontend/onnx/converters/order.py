"""Running sums, sorting, and what finds elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_expr import PrimExpr
from ....relax import op
from ....relax.expr import PrimValue, ShapeExpr
from ...graph.context import Context
from ...graph.run_time_axes import around, known_numbers, view
from ...graph.values import Value, literal
from ..reader import Node
from ..registry import converter, register_converter


def _running(name: str, since: int, build: Callable[..., Any]) -> None:
    def convert(cx: Context, node: Node, x: Value, axis: Value) -> Any:
        which = known_numbers(axis)
        if which is None:
            found = cx.value(_run(cx, node, around(cx, x, axis), 1))
            return view(cx, found, list(x.shape))
        return _run(cx, node, x, cx.numbers(axis, "axis")[0])

    def _run(cx: Context, node: Node, x: Value, which: int) -> Any:
        if not -x.ndim <= which < x.ndim:
            what = "input axis is out of range"
            raise ValueError(explain(what, got=f"{which} for rank {x.ndim}"))
        exclusive = node.flag("exclusive")
        if not node.flag("reverse"):
            return build(x.expr, which, None, exclusive)
        turned = cx.emit(op.flip(x.expr, which))
        return op.flip(cx.emit(build(turned, which, None, exclusive)), which)

    register_converter(name, since, convert)


_running("CumSum", 11, op.cumsum)
_running("CumProd", 26, op.cumprod)


@converter("TopK")
def top_k_attribute(cx: Context, node: Node, x: Value) -> Any:
    return _top_k(cx, node, x, node.integer("k"))


@converter("TopK", 10)
def top_k(cx: Context, node: Node, x: Value, k: Value) -> Any:
    return _top_k(cx, node, x, k)


def _top_k(cx: Context, node: Node, x: Value, given: int | Value) -> Any:
    axis, largest = node.integer("axis", -1), node.flag("largest", True)
    node.skip("sorted")  # sorted is one of the orders that sorted=0 allows
    if not -x.ndim <= axis < x.ndim:
        what = "attribute axis is out of range"
        raise ValueError(explain(what, got=f"{axis} for rank {x.ndim}"))
    extent = literal(x.shape[axis])
    known = known_numbers(given) if isinstance(given, Value) else [given]
    if known is None:  # all are sorted, the first k taken
        dims = cx.read("relax.run.within", 1, given.expr, PrimValue(extent), nonnegative=True)
        whole = cx.emit(op.topk(x.expr, 0, axis, "both", largest, "int64"))
        parts = [cx.emit(whole[n]) for n in (0, 1)]
        return [op.strided_slice(p, [axis % x.ndim], [0], dims, [1], True) for p in parts]
    (k,) = known
    if k < 0 or (not isinstance(extent, PrimExpr) and k > extent):
        raise ValueError(explain("input k must lie within the axis", got=f"{k} of {extent}"))
    if k == 0:  # to the operator 0 means all
        dims = ShapeExpr([*x.shape[: axis % x.ndim], 0, *x.shape[axis % x.ndim + 1 :]])
        return [op.zeros(dims, str(x.dtype)), op.zeros(dims, "int64")]
    results = cx.emit(op.topk(x.expr, k, axis, "both", largest, "int64"))
    return [results[0], results[1]]


@converter("NonZero", 9)
def non_zero(cx: Context, node: Node, x: Value) -> Any:
    return cx.found(cx.emit(op.nonzero(x.expr)), max(x.ndim, 1), None)


@converter("Compress", 9)
def compress(cx: Context, node: Node, data: Value, condition: Value) -> Any:
    chosen, axis = condition.constant, node.integer("axis", None)
    whole = op.reshape(data.expr, [-1]) if axis is None else data.expr
    if chosen is not None:
        return op.take(whole, cx.constant(np.flatnonzero(chosen)), axis)
    places = cx.found(cx.emit(op.nonzero(condition.expr)), 1, None)
    return op.take(whole, op.squeeze(places.expr, [0]), axis)


@converter("Unique", 11)
def unique(cx: Context, node: Node, x: Value) -> Any:
    in_order, axis = node.flag("sorted", True), node.integer("axis", None)
    asked = [k < len(node.outputs) and bool(node.outputs[k]) for k in (1, 2, 3)]
    results = cx.emit(op.unique(x.expr, in_order, *asked, axis=axis))
    fields = iter(range(1, 4))
    return [
        results if not any(asked) else results[0],
        *[results[next(fields)] if a else None for a in asked],
    ]
