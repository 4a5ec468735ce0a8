"""Operators that scatter elements to indices, and rows read backwards."""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ....relax import op
from ....relax.expr import ShapeExpr
from ...graph.values import Value
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter

# ONNX's names of reductions -> the operators' names of them.
_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def _reduction(node: Node) -> str:
    name = node.text("reduction", "none")
    if name not in _REDUCTIONS:
        what = "attribute reduction is not one of ONNX's"
        raise ValueError(explain(what, got=name, instead=", ".join(_REDUCTIONS)))
    return _REDUCTIONS[name]


@converter("Scatter", 9)
@converter("ScatterElements", 11)
@converter("ScatterElements", 16)
@converter("ScatterElements", 18)
def scatter_elements(cx: Context, node: Node, data: Value, indices: Value, updates: Value) -> Any:
    axis = node.integer("axis", 0)
    if not -data.ndim <= axis < data.ndim:
        what = "attribute axis is out of range"
        raise ValueError(explain(what, got=f"{axis} for rank {data.ndim}"))
    inputs = (data.expr, indices.expr, updates.expr)
    return op.scatter_elements(*inputs, axis, _reduction(node))


@converter("ScatterND", 11)
@converter("ScatterND", 16)
@converter("ScatterND", 18)
def scatter_nd(cx: Context, node: Node, data: Value, indices: Value, updates: Value) -> Any:
    return cx.ops.scatter_nd(data, indices, updates, reduction=_reduction(node))


@converter("ReverseSequence", 10)
def reverse_sequence(cx: Context, node: Node, data: Value, lengths: Value) -> Any:
    batch, time = node.integer("batch_axis", 1), node.integer("time_axis", 0)
    return cx.ops.reverse_sequence(data, lengths, batch_axis=batch, time_axis=time)


@converter("TensorScatter", 24)
def tensor_scatter(
    cx: Context, node: Node, data: Value, updates: Value, start: Value | None = None
) -> Any:
    axis, mode = node.integer("axis", -2), node.choice("mode", ("linear", "circular"))
    if start is None:
        starts = cx.emit(op.zeros(ShapeExpr([data.shape[0]]), "int64"))
    else:
        starts = start.expr
    return op.tensor_scatter(data.expr, updates.expr, starts, axis, mode == "circular")
