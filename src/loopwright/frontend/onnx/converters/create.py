"""Operators that make tensors, and those that pick elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import explain
from ....relax import op
from ....relax.expr import ShapeExpr
from ..context import Context
from ..reader import Node
from ..registry import converter
from ..tensors import dtype_of
from ..values import Value, literal

# ---------------------------------------------------------------- constants


@converter("Constant")
def constant(cx: Context, node: Node) -> Any:
    given = list(node.attributes)
    if len(given) != 1:
        raise ValueError(explain("Constant takes one attribute", got=", ".join(given) or "none"))
    readers: dict[str, Any] = {
        "value": lambda: node.tensor("value"),
        "value_float": lambda: np.float32(node.real("value_float")),
        "value_int": lambda: np.int64(node.integer("value_int")),
        "value_floats": lambda: np.asarray(node.reals("value_floats"), np.float32),
        "value_ints": lambda: np.asarray(node.integers("value_ints"), np.int64),
    }
    if given[0] not in readers:
        what = f"Constant by attribute {given[0]} is not supported"
        raise ValueError(explain(what, instead=f"use {', '.join(readers)}"))
    return cx.constant(readers[given[0]]())


@converter("ConstantOfShape", 9)
def constant_of_shape(cx: Context, node: Node, shape: Value) -> Any:
    fill = node.tensor("value", np.zeros(1, np.float32))
    if fill.size != 1:
        raise ValueError(explain("attribute value must hold one element", got=list(fill.shape)))
    dims = cx.integers(shape, "input")
    return op.full(ShapeExpr(dims), cx.constant(fill.reshape(())), fill.dtype.name)


@converter("Range", 11)
def arange(cx: Context, node: Node, start: Value, limit: Value, delta: Value) -> Any:
    bounds = []
    for v, name in ((start, "start"), (limit, "limit"), (delta, "delta")):
        elements = v.elements
        bounds.append(cx.number(v, name) if elements is None else literal(elements.reshape(())[()]))
    return op.arange(*bounds, str(start.dtype))


@converter("EyeLike", 9)
def eye_like(cx: Context, node: Node, x: Value) -> Any:
    dtype = str(x.dtype) if not node.has("dtype") else dtype_of(node.integer("dtype"))
    offset = node.integer("k", 0)
    rows, columns = (literal(d) for d in x.shape)
    row = op.reshape(cx.emit(op.arange(0, rows, 1, "int64")), ShapeExpr([rows, 1]))
    column = op.reshape(
        cx.emit(op.arange(offset, columns + offset, 1, "int64")), ShapeExpr([1, columns])
    )
    # The element (i, j) is on the diagonal k where j - i = k.
    shifted = op.subtract(column, cx.scalar(2 * offset, "int64")) if offset else column
    return op.astype(op.equal(row, shifted), dtype)


@converter("Trilu", 14)
def trilu(cx: Context, node: Node, x: Value, k: Value | None = None) -> Any:
    offset = int(cx.number(k, "k", 0))
    build = op.triu if node.integer("upper", 1) else op.tril
    return build(x.expr, offset)


# ---------------------------------------------------------------- picking


@converter("Gather")
def gather(cx: Context, node: Node, data: Value, indices: Value) -> Any:
    axis = node.integer("axis", 0)
    if not -data.ndim <= axis < data.ndim:
        what = "attribute axis is out of range"
        raise ValueError(explain(what, got=f"{axis} for rank {data.ndim}"))
    return op.take(data.expr, _wrapped(cx, indices, data.shape[axis]), axis)


def _wrapped(cx: Context, indices: Value, extent: Any) -> Any:
    """Indices of which negative ones count from the end, as non-negative ones."""
    known, size = indices.constant, literal(extent)
    if known is not None:
        if isinstance(size, int):
            if known.size and not (-size <= known.min() and known.max() < size):
                what = "an index is out of range"
                raise ValueError(explain(what, got=f"{known.min()} to {known.max()} of {size}"))
            return cx.constant(np.where(known < 0, known + size, known).astype(known.dtype))
        if not known.size or known.min() >= 0:
            return indices.expr
    kind = str(indices.dtype)
    length = cx.known([extent], "int64").expr if not isinstance(size, int) else None
    length = cx.scalar(size, kind) if length is None else op.astype(length, kind)
    below = op.astype(op.less(indices.expr, cx.scalar(0, kind)), kind)
    return op.add(indices.expr, op.multiply(below, length))
