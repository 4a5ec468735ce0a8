"""Control flow."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import explain
from ....relax import op
from ...graph.branches import chosen
from ...graph.values import Value, literal
from ..context import OnnxContext as Context
from ..reader import Node, name_of
from ..registry import converter


@converter("If")
def branch(cx: Context, node: Node, condition: Value) -> Any:
    node.skip("then_branch", "else_branch")
    then, other = node.graph("then_branch"), node.graph("else_branch")
    return chosen(cx, condition, then, other)


def fed(graph: Any, values: list[Value]) -> dict[str, Value]:
    """Values by the names of a graph's inputs."""
    return dict(zip((name_of(port.name) for port in graph.input), values, strict=False))


@converter("Loop")
def loop(
    cx: Context, node: Node, limit: Value | None = None, go: Value | None = None, *state: Value
) -> Any:
    body = node.graph("body")
    collected = len(body.output) - 1 - len(state)
    if collected < 0:
        what = f"the body must give a condition and {len(state)} carried values"
        raise ValueError(explain(what, got=f"outputs: {len(body.output)}"))
    iterations = None if limit is None else limit.constant
    if (
        iterations is not None
        and iterations.max(initial=0) > _MOST_ITERATIONS
        and go is None
        and _goes_on(body)
    ):
        most = f"a condition, or at most {_MOST_ITERATIONS} iterations"
        raise ValueError(
            explain("nothing ends this loop", got=f"{iterations} iterations", instead=most)
        )
    iteration = lambda args: cx.walk.subgraph(body, fed(body, args))  # noqa: E731
    return cx.walk.loop(iteration, limit, go, list(state), collected)


_MOST_ITERATIONS = 1 << 40  # of a loop; even empty iterations take days


def _goes_on(body: Any) -> bool:
    """Whether a body returns its condition unchanged."""
    same = {n.output[0]: n.input[0] for n in body.node if n.op_type == "Identity"}
    condition = body.output[0].name
    while condition in same:
        condition = same.pop(condition)
    return condition == body.input[1].name


@converter("Scan", 9)
def scan(cx: Context, node: Node, *inputs: Value) -> Any:
    body, count = node.graph("body"), node.integer("num_scan_inputs")
    state, read = list(inputs[: len(inputs) - count]), list(inputs[len(inputs) - count :])
    if not 0 < count <= len(inputs):
        what = "attribute num_scan_inputs must be between 1 and the number of inputs"
        raise ValueError(explain(what, got=count))
    written = len(body.output) - len(state)
    if written < 0:
        what = f"the body must give {len(state)} carried values"
        raise ValueError(explain(what, got=f"outputs: {len(body.output)}"))
    back, back_out = _per(node, "scan_input", "directions", count), None
    axes = _per(node, "scan_input", "axes", count)
    back_out, axes_out = (_per(node, "scan_output", n, written) for n in ("directions", "axes"))
    results = _scanned(cx, body, state, _steps_first(cx, read, axes, back))
    outputs = results[len(state) :]
    for k, (axis, reverse) in enumerate(zip(axes_out, back_out, strict=True)):
        y = _flipped(cx, outputs[k]) if reverse else outputs[k]
        outputs[k] = cx.value(_moved(y, 0, axis % y.ndim)) if axis % y.ndim else y
    return [*results[: len(state)], *outputs]


def _per(node: Node, which: str, what: str, count: int) -> list[int]:
    """An attribute with a number for each tensor, 0 where it is left out."""
    values = node.integers(f"{which}_{what}", None) or [0] * count
    if len(values) != count:
        text = f"attribute {which}_{what} must have {count} numbers"
        raise ValueError(explain(text, got=len(values)))
    return values


def _moved(x: Value, source: int, target: int) -> Any:
    """x with one axis moved to another place."""
    order = [a for a in range(x.ndim) if a != source]
    order.insert(target, source)
    return op.permute_dims(x.expr, order)


def _flipped(cx: Context, x: Value) -> Value:
    return cx.value(op.flip(x.expr, 0))


def _steps_first(cx: Context, read: list[Value], axes: list[int], back: list[int]) -> list[Value]:
    """The scanned inputs with that axis first, in the order of the iterations."""
    results = []
    for x, axis, reverse in zip(read, axes, back, strict=True):
        axis = axis % x.ndim
        first = cx.value(_moved(x, axis, 0)) if axis else x
        results.append(_flipped(cx, first) if reverse else first)
    return results


def _scanned(cx: Context, body: Any, state: list[Value], read: list[Value]) -> list[Value]:
    """The state after the last iteration, and the scan outputs, along a new first axis. read: the inputs of which each
    iteration gets a part, along the first axis."""
    read = cx.aligned(read, [[0] * len(read)])
    names = [v.output for v in read]
    count = cx.value(cx.from_elements([read[0].shape[0]], "int64").expr)

    def iteration(args: list[Value]) -> list[Value]:
        number, go, *states = args
        parts = [cx.value(op.take(x, number.expr, 0)) for x in names]
        return [go, *cx.walk.subgraph(body, fed(body, [*states, *parts]))]

    return cx.walk.loop(iteration, count, None, state, len(body.output) - len(state))


@converter("Scan", 8)
def scan_of_batch(cx: Context, node: Node, lengths: Value | None, *inputs: Value) -> Any:
    """Of opset 8: a batch, each sequence of which is scanned on its own."""
    if lengths is not None:
        raise ValueError(explain("Scan of opset 8 with lengths of sequences is not supported"))
    body, count = node.graph("body"), node.integer("num_scan_inputs")
    state, read = list(inputs[: len(inputs) - count]), list(inputs[len(inputs) - count :])
    back = node.integers("directions", None) or [0] * count
    rows = literal(read[0].shape[0])
    if not isinstance(rows, int):
        what = "Scan of opset 8 needs a known batch"
        raise ValueError(explain(what, got=rows, instead="shape_dict, or a newer opset"))
    whole: list[list[Value]] = []
    for row in range(rows):
        pick = lambda v, row=row: cx.onnx.Gather(v, np.int64(row), axis=0)  # noqa: E731
        parts = _steps_first(cx, [pick(v) for v in read], [0] * count, back)
        whole.append(_scanned(cx, body, [pick(v) for v in state], parts))
    stack = lambda vs: cx.onnx.Concat(*(cx.onnx.Unsqueeze(v, [0]) for v in vs), axis=0)  # noqa: E731
    return [stack(vs) for vs in zip(*whole, strict=True)]
