"""Reductions, and softmax, which is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....relax import op
from ....relax.expr import Expr, PrimValue, ShapeExpr
from ...graph.context import Context, in_float32
from ...graph.operators.integers import evaluated
from ...graph.operators.reductions import REDUCE, Reduce, reduced
from ...graph.operators.shapes import axis_of
from ...graph.run_time_axes import known_numbers
from ...graph.values import Value
from ..context import OnnxContext
from ..reader import Node
from ..registry import register_converter


def _sum_square(cx: Context, x: Value, axes: Sequence[int] | None, keep: bool) -> Any:
    return op.sum(op.multiply(x.expr, x.expr), axes, keep)


def _log_sum_exp(cx: Context, x: Value, axes: Sequence[int] | None, keep: bool) -> Any:
    """log(sum(exp(x - max))) + max, so that no exponential overflows; an infinite maximum is not
    subtracted from itself."""
    top = cx.emit(op.max(x.expr, axes, True))
    top = cx.emit(op.where(op.isinf(top), cx.scalar(0, x.dtype), top))
    total = op.log(op.sum(op.exp(op.subtract(x.expr, top)), axes, True))
    total_log = cx.emit(op.add(total, top))
    if keep:
        return total_log
    return op.squeeze(total_log, list(range(x.ndim)) if axes is None else axes)


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
    "ReduceSum": (13, REDUCE["sum"]),
    "ReduceMean": (18, REDUCE["mean"]),
    "ReduceProd": (18, REDUCE["prod"]),
    "ReduceMax": (18, REDUCE["max"]),
    "ReduceMin": (18, REDUCE["min"]),
    "ReduceSumSquare": (18, in_float32(_sum_square)),
    "ReduceL1": (18, lambda cx, x, a, k: op.sum(op.abs(x.expr), a, k)),
    "ReduceL2": (18, _of_reals(lambda cx, x, a, k: op.sqrt(_sum_square(cx, x, a, k)))),
    "ReduceLogSum": (18, _of_reals(lambda cx, x, a, k: op.log(op.sum(x.expr, a, k)))),
    "ReduceLogSumExp": (18, _of_reals(_log_sum_exp)),
}


def _reduction(name: str, by_input: int, build: Reduce) -> None:
    def _reduced(cx: Context, x: Value, axes: Value | None, keep: bool, noop: bool) -> Any:
        operator = {"ReduceSum": "sum", "ReduceProd": "prod"}.get(name)
        which = None if axes is None or known_numbers(axes) == [] else axes  # [] means no axes
        if operator is not None and (which is not None or not noop):
            folded = evaluated(cx, operator, [x, which], keepdims=keep)
            if folded is not None:
                return folded
        return reduced(cx, x, axes, keep, noop, build)

    def by_attribute(cx: Context, node: Node, x: Value) -> Any:
        axes = node.integers("axes", None) or None  # an empty list means all
        which = None if axes is None else cx.from_elements(axes, "int64")
        return _reduced(cx, x, which, node.flag("keepdims", True), False)

    def convert(cx: Context, node: Node, x: Value, axes: Value | None = None) -> Any:
        keep = node.flag("keepdims", True)
        noop = node.flag("noop_with_empty_axes")
        return _reduced(cx, x, axes, keep, noop)

    register_converter(name, 1, by_attribute)
    register_converter(name, by_input, convert)


for _name, (_since, _build) in _REDUCTIONS.items():
    _reduction(_name, _since, _build)


def _arg(name: str, operator: str) -> None:
    def convert(cx: OnnxContext, node: Node, x: Value) -> Any:
        axis, keep = node.integer("axis", 0), node.flag("keepdims", True)
        return getattr(cx.ops, operator)(
            x, axis=axis, keepdims=keep, last=node.flag("select_last_index")
        )

    register_converter(name, 1, convert)


_arg("ArgMax", "argmax")
_arg("ArgMin", "argmin")


# ---------------------------------------------------------------- softmax


def _hardmax(x: Expr, axis: int) -> Expr:
    info = x.struct_info
    extent = info.shape[axis]
    indices = op.arange(0, PrimValue(extent), 1, "int64")
    row = ShapeExpr([extent if k == axis % info.ndim else 1 for k in range(info.ndim)])
    first = op.equal(op.argmax(x, axis, True), op.reshape(indices, row))
    return op.astype(first, str(info.dtype))


def _softmax(name: str, build: Callable[..., Any]) -> None:
    def flattened(cx: Context, node: Node, x: Value) -> Any:
        """Before opset 13: over all axes from `axis` on together."""
        axis = axis_of(node.integer("axis", 1), x.ndim)
        if axis == x.ndim - 1:
            return build(x.expr, -1)
        flat = ShapeExpr([cx.product(x.shape[:axis]), cx.product(x.shape[axis:])])
        matrix = cx.emit(op.reshape(x.expr, flat))
        return op.reshape(cx.emit(build(matrix, -1)), ShapeExpr(x.shape))

    def along_axis(cx: Context, node: Node, x: Value) -> Any:
        return build(x.expr, axis_of(node.integer("axis", -1), x.ndim))

    register_converter(name, 1, flattened)
    register_converter(name, 13, along_axis)


_softmax("Softmax", op.nn.softmax)
_softmax("LogSoftmax", op.nn.log_softmax)
_softmax("Hardmax", _hardmax)
