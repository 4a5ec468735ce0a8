"""Reductions, and softmax, which is made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....relax import op
from ..context import Context
from ..run_time_axes import closed, known_numbers, length, opened
from ..values import Value, object_array
from .shapes import axis_of
from .table import FUNCTIONS, function

# (context, x, axes or None for all, whether they stay with extent 1) -> the result
Reduce = Callable[[Context, Value, list[int] | None, bool], Any]


def reduced(
    cx: Context, x: Value, axes: Value | None, keepdims: bool, noop: bool, build: Reduce
) -> Any:
    """x reduced over axes that may be an input. noop: no axes means none, else all."""
    which = None if axes is None else known_numbers(axes)
    if axes is not None and which is None and length(axes) != 0:
        split, inner = opened(cx, x, axes, noop)
        result = build(cx, split, inner, False)
        return result if keepdims else closed(cx, result, x, axes, noop)
    if not which and noop:
        return build(cx, x, [], keepdims)  # the function of each element remains
    return build(cx, x, which or None, keepdims)


def _bool_as_bytes(build: Callable[..., Any]) -> Reduce:
    def run(cx: Context, x: Value, axes: list[int] | None, keep: bool) -> Any:
        if x.dtype.is_bool:  # as 0 and 1
            return op.astype(build(op.astype(x.expr, "uint8"), axes, keep), "bool")
        return _plain(build)(cx, x, axes, keep)

    return run


def _plain(build: Callable[..., Any]) -> Reduce:
    return lambda cx, x, axes, keep: x if axes == [] else build(x.expr, axes, keep)


REDUCE: dict[str, Reduce] = {
    "sum": _plain(op.sum),
    "mean": _plain(op.mean),
    "prod": _plain(op.prod),
    "max": _bool_as_bytes(op.max),
    "min": _bool_as_bytes(op.min),
}


def _reduction(name: str, build: Reduce) -> None:
    def convert(cx: Context, x: Value, axes: Value | None = None, keepdims: bool = False) -> Any:
        return reduced(cx, x, axes, keepdims, axes is not None, build)

    FUNCTIONS.register(name, convert)


for _name, _build in REDUCE.items():
    _reduction(_name, _build)


def _extreme(build: Callable[..., Any]) -> None:
    def convert(
        cx: Context, x: Value, axis: int = 0, keepdims: bool = False, last: bool = False
    ) -> Any:
        axis = axis if x.info.ndim == -1 else axis_of(axis, x.ndim)
        if not last:
            return build(x.expr, axis, keepdims)
        # The last of equal ones is the first of the flipped axis.
        index = build(op.flip(x.expr, axis), axis, keepdims)
        end = cx.from_elements(object_array([cx.simplify(x.shape[axis] - 1)], ()), "int64")
        return op.subtract(end.expr, index)

    FUNCTIONS.register(build.__name__, convert)


_extreme(op.argmax)
_extreme(op.argmin)


@function
def softmax(cx: Context, x: Value, axis: int = -1) -> Any:
    """exp(x) / sum(exp(x)) along an axis."""
    return op.nn.softmax(x.expr, axis_of(axis, x.ndim))


@function
def log_softmax(cx: Context, x: Value, axis: int = -1) -> Any:
    """The logarithm of `softmax`."""
    return op.nn.log_softmax(x.expr, axis_of(axis, x.ndim))
