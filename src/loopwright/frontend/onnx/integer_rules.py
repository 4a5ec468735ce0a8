"""ONNX's operators on known integers: which rule (`graph.operators.integers`) computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph.context import Context
from ..graph.operators.integers import evaluated
from ..graph.values import Value
from .reader import Node
from .tensors import DTYPES

Inputs = list[Value | None]
# The rule of a node, its inputs and its attributes; None for a form that has none.
Form = tuple[str, Inputs, dict[str, Any]]


def apply_rule(cx: Context, node: Node, inputs: Inputs) -> Any:
    """The known outputs of a node, or None where its converter is to emit it."""
    if not has_rule(node, inputs):
        return None
    form = _FORMS[node.op_type](cx, node, inputs)
    if form is None:
        return None
    name, values, attributes = form
    return evaluated(cx, name, values, **attributes)


def has_rule(node: Node, inputs: Inputs) -> bool:
    """Whether a node has a rule and its inputs are known integers, or it asks for a shape."""
    if node.domain or node.op_type not in _FORMS:
        return False
    given = [v for v in inputs if v is not None]
    if any(not v.is_tensor for v in given):
        return False
    if node.op_type in ("Shape", "Size"):
        return True
    return bool(given) and all(v.elements is not None for v in given)


def _list(cx: Context, numbers: list[int]) -> Value:
    return cx.from_elements(numbers, "int64")


def _named(name: str) -> Callable[[Context, Node, Inputs], Form | None]:
    """An operator without attributes; before opset 7 it says how it broadcasts."""
    return lambda cx, node, inputs: None if "broadcast" in node.attributes else (name, inputs, {})


def _shape(cx: Context, node: Node, inputs: Inputs) -> Form:
    return "shape_of", inputs, {"start": node.integer("start", 0), "end": node.integer("end", None)}


def _cast(cx: Context, node: Node, inputs: Inputs) -> Form:
    node.skip("saturate", "round_mode")
    return "astype", inputs, {"dtype": DTYPES.get(node.integer("to"), "")}


def _gather(cx: Context, node: Node, inputs: Inputs) -> Form:
    return "take", inputs, {"axis": node.integer("axis", 0)}


def _slice(cx: Context, node: Node, inputs: Inputs) -> Form:
    if len(inputs) == 1:
        starts, ends = node.integers("starts"), node.integers("ends")
        axes = node.integers("axes", list(range(len(starts))))
        inputs = [*inputs, *(_list(cx, v) for v in (starts, ends, axes))]
    return "strided_slice", inputs, {}


def _concat(cx: Context, node: Node, inputs: Inputs) -> Form:
    return "concat", inputs, {"axis": node.integer("axis", 1)}


def _split(cx: Context, node: Node, inputs: Inputs) -> Form:
    node.skip("num_outputs")
    sizes = node.integers("split", None)
    inputs = inputs if sizes is None else [*inputs, _list(cx, sizes)]
    return "split", inputs, {"axis": node.integer("axis", 0), "count": len(node.outputs)}


def _with_axes(name: str) -> Callable[[Context, Node, Inputs], Form]:
    """axes: an attribute before opset 13, an input since."""

    def form(cx: Context, node: Node, inputs: Inputs) -> Form:
        axes = node.integers("axes", None)
        return name, inputs if axes is None else [*inputs, _list(cx, axes)], {}

    return form


def _reshape(cx: Context, node: Node, inputs: Inputs) -> Form:
    return "reshape", inputs, {"allow_zero": bool(node.integer("allowzero", 0))}


def _transpose(cx: Context, node: Node, inputs: Inputs) -> Form:
    return "permute_dims", inputs, {"axes": node.integers("perm", None)}


def _constant_of_shape(cx: Context, node: Node, inputs: Inputs) -> Form:
    return "full", inputs, {"fill": node.tensor("value", np.zeros(1, np.float32))}


def _mod(cx: Context, node: Node, inputs: Inputs) -> Form | None:
    return None if node.integer("fmod", 0) else ("floor_mod", inputs, {})


def _reduce(name: str) -> Callable[[Context, Node, Inputs], Form | None]:
    def form(cx: Context, node: Node, inputs: Inputs) -> Form | None:
        axes, keep = node.integers("axes", None), node.flag("keepdims", True)
        if len(inputs) > 1 and inputs[1] is not None:
            axes = list(inputs[1].integers.flat)
        if not axes and node.integer("noop_with_empty_axes", 0):
            return None
        which = _list(cx, axes) if axes else None
        return name, [inputs[0], which], {"keepdims": keep}

    return form


_FORMS: dict[str, Callable[[Context, Node, Inputs], Form | None]] = {
    "Shape": _shape,
    "Cast": _cast,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Split": _split,
    "Unsqueeze": _with_axes("expand_dims"),
    "Squeeze": _with_axes("squeeze"),
    "Reshape": _reshape,
    "Transpose": _transpose,
    "ConstantOfShape": _constant_of_shape,
    "Mod": _mod,
    "ReduceProd": _reduce("prod"),
    "ReduceSum": _reduce("sum"),
    **{
        theirs: _named(name)
        for theirs, name in {
            "Size": "size",
            "Identity": "identity",
            "Expand": "broadcast_to",
            "Tile": "tile",
            "Range": "arange",
            "Add": "add",
            "Sub": "subtract",
            "Mul": "multiply",
            "Div": "divide",
            "Max": "maximum",
            "Min": "minimum",
            "Neg": "negative",
            "Equal": "equal",
            "Less": "less",
            "Greater": "greater",
            "LessOrEqual": "less_equal",
            "GreaterOrEqual": "greater_equal",
            "Not": "logical_not",
            "Where": "where",
        }.items()
    },
}
