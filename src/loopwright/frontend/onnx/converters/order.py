"""Running sums, sorting, and what finds elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....relax import op
from ...graph.values import Value
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter, define, register_converter


def _running(name: str, since: int, operator: str) -> None:
    def convert(cx: Context, node: Node, x: Value, axis: Value) -> Any:
        flags = {name: node.flag(name) for name in ("exclusive", "reverse")}
        return getattr(cx.ops, operator)(x, axis, **flags)

    register_converter(name, since, convert)


_running("CumSum", 11, "cumsum")
_running("CumProd", 26, "cumprod")


@converter("TopK")
def top_k_attribute(cx: Context, node: Node, x: Value) -> Any:
    node.skip("sorted")
    return top_k(cx, node, x, cx.from_elements([node.integer("k")], "int64"))


@converter("TopK", 10)
def top_k(cx: Context, node: Node, x: Value, k: Value) -> Any:
    node.skip("sorted")  # sorted is one of the orders that sorted=0 allows
    return cx.ops.topk(x, k, axis=node.integer("axis", -1), largest=node.flag("largest", True))


define("NonZero", lambda cx, node, x: cx.ops.nonzero(x), 9)


@converter("Compress", 9)
def compress(cx: Context, node: Node, data: Value, condition: Value) -> Any:
    chosen, axis = condition.constant, node.integer("axis", None)
    whole = op.reshape(data.expr, [-1]) if axis is None else data.expr
    if chosen is not None:
        return op.take(whole, cx.constant(np.flatnonzero(chosen)), axis)
    indices = cx.of_shape(cx.emit(op.nonzero(condition.expr)), 1, None)
    return op.take(whole, op.squeeze(indices.expr, [0]), axis)


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
