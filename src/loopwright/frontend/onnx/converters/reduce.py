"""Reductions, and softmax, which is made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base.errors import explain
from ....relax import op
from ....relax.expr import PrimValue, ShapeExpr
from ...graph.context import Context, in_float32
from ...graph.run_time_axes import closed, known_numbers, length, opened
from ...graph.values import Value, object_array
from ..reader import Node
from ..registry import register_converter

Reduce = Callable[[Context, Value, Any, bool], Any]


def _plain(build: Callable[..., Any]) -> Reduce:
    return lambda cx, x, axes, keep: build(x.expr, axes, keep)


def _sum_square(cx: Context, x: Value, axes: Any, keep: bool) -> Any:
    return op.sum(op.multiply(x.expr, x.expr), axes, keep)


def _log_sum_exp(cx: Context, x: Value, axes: Any, keep: bool) -> Any:
    """log(sum(exp(x - max))) + max, so that no exponential overflows; an infinite maximum is not
    subtracted from itself."""
    top = cx.emit(op.max(x.expr, axes, True))
    top = cx.emit(op.where(op.isinf(top), cx.scalar(0, x.dtype), top))
    total = op.log(op.sum(op.exp(op.subtract(x.expr, top)), axes, True))
    total_log = cx.emit(op.add(total, top))
    if keep:
        return total_log
    return op.squeeze(total_log, list(range(x.ndim)) if axes is None else axes)


def _integer_max(build: Callable[..., Any]) -> Reduce:
    def run(cx: Context, x: Value, axes: Any, keep: bool) -> Any:
        if x.dtype.is_bool:  # opset 20 reduces bool as 0 and 1
            return op.astype(build(op.astype(x.expr, "uint8"), axes, keep), "bool")
        return build(x.expr, axes, keep)

    return run


def _of_reals(build: Reduce) -> Reduce:
    """A reduction to a root or a logarithm; of integers it is rounded down."""

    def run(cx: Context, x: Value, axes: Any, keep: bool) -> Any:
        if x.dtype.is_float:
            return in_float32(build)(cx, x, axes, keep)
        real = cx.value(op.astype(x.expr, "float64"))
        return op.astype(op.floor(build(cx, real, axes, keep)), x.dtype)

    return run


_REDUCTIONS: dict[str, tuple[int, Reduce]] = {
    # name: (the opset that made axes an input, how to reduce)
    "ReduceSum": (13, _plain(op.sum)),
    "ReduceMean": (18, _plain(op.mean)),
    "ReduceProd": (18, _plain(op.prod)),
    "ReduceMax": (18, _integer_max(op.max)),
    "ReduceMin": (18, _integer_max(op.min)),
    "ReduceSumSquare": (18, in_float32(_sum_square)),
    "ReduceL1": (18, lambda cx, x, a, k: op.sum(op.abs(x.expr), a, k)),
    "ReduceL2": (18, _of_reals(lambda cx, x, a, k: op.sqrt(_sum_square(cx, x, a, k)))),
    "ReduceLogSum": (18, _of_reals(lambda cx, x, a, k: op.log(op.sum(x.expr, a, k)))),
    "ReduceLogSumExp": (18, _of_reals(_log_sum_exp)),
}


def _reduction(name: str, by_input: int, build: Reduce) -> None:
    def by_attribute(cx: Context, node: Node, x: Value) -> Any:
        axes = node.integers("axes", None) or None  # an empty list is none
        return build(cx, x, axes, node.flag("keepdims", True))

    def convert(cx: Context, node: Node, x: Value, axes: Value | None = None) -> Any:
        keep = node.flag("keepdims", True)
        noop = node.flag("noop_with_empty_axes")
        which = None if axes is None else known_numbers(axes)
        if axes is not None and which is None and length(axes) != 0:
            view, inner = opened(cx, x, axes, noop)
            found = build(cx, view, inner, False)
            return found if keep else closed(cx, found, x, axes, noop)
        if not which and noop:
            # Nothing is reduced, but what is done to each element stays.
            return x if name in _IDENTITIES else build(cx, x, [], keep)
        return build(cx, x, which or None, keep)

    register_converter(name, 1, by_attribute)
    register_converter(name, by_input, convert)


_IDENTITIES = ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin")
for _name, (_since, _build) in _REDUCTIONS.items():
    _reduction(_name, _since, _build)


def _arg(name: str, build: Callable[..., Any]) -> None:
    def convert(cx: Context, node: Node, x: Value) -> Any:
        axis, keep = node.integer("axis", 0), node.flag("keepdims", True)
        axis = axis if x.info.ndim == -1 else _axis(axis, x.ndim)
        if not node.flag("select_last_index"):
            return build(x.expr, axis, keep)
        # The last of equal ones is the first of the turned axis.
        index = build(op.flip(x.expr, axis), axis, keep)
        last = cx.known(object_array([cx.simplify(x.shape[axis] - 1)], ()), "int64")
        return op.subtract(last.expr, index)

    register_converter(name, 1, convert)


_arg("ArgMax", op.argmax)
_arg("ArgMin", op.argmin)


# ---------------------------------------------------------------- softmax


def _hardmax(x: Any, axis: int) -> Any:
    info = x.struct_info
    extent = info.shape[axis]
    places = op.arange(0, PrimValue(extent), 1, "int64")
    row = ShapeExpr([extent if k == axis % info.ndim else 1 for k in range(info.ndim)])
    first = op.equal(op.argmax(x, axis, True), op.reshape(places, row))
    return op.astype(first, str(info.dtype))


def _softmax(name: str, build: Callable[..., Any]) -> None:
    def flattened(cx: Context, node: Node, x: Value) -> Any:
        """Before opset 13: over all axes from `axis` on together."""
        axis = _axis(node.integer("axis", 1), x.ndim)
        if axis == x.ndim - 1:
            return build(x.expr, -1)
        flat = ShapeExpr([cx.product(x.shape[:axis]), cx.product(x.shape[axis:])])
        matrix = cx.emit(op.reshape(x.expr, flat))
        return op.reshape(cx.emit(build(matrix, -1)), ShapeExpr(x.shape))

    def along_axis(cx: Context, node: Node, x: Value) -> Any:
        return build(x.expr, _axis(node.integer("axis", -1), x.ndim))

    register_converter(name, 1, flattened)
    register_converter(name, 13, along_axis)


def _axis(axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        what = "attribute axis is out of range"
        raise ValueError(explain(what, got=f"{axis} for rank {ndim}"))
    return axis % ndim


_softmax("Softmax", op.nn.softmax)
_softmax("LogSoftmax", op.nn.log_softmax)
_softmax("Hardmax", _hardmax)
