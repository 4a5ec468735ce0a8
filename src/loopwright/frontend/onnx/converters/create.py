"""Operators that make tensors, and those that pick elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_expr import PrimExpr
from ....ir.prim_op import const, maximum, minimum
from ....relax import op
from ....relax.expr import ShapeExpr
from ...graph.values import Value, literal
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter, define
from ..tensors import dtype_of

_FAR = 1 << 62  # a diagonal that no matrix has; an index may be added to it

# ---------------------------------------------------------------- constants


@converter("Constant")
def constant(cx: Context, node: Node) -> Any:
    names = list(node.attributes)
    if len(names) != 1:
        raise ValueError(explain("Constant takes one attribute", got=", ".join(names) or "none"))
    readers: dict[str, Any] = {
        "value": lambda: node.tensor("value"),
        "value_float": lambda: np.float32(node.real("value_float")),
        "value_int": lambda: np.int64(node.integer("value_int")),
        "value_floats": lambda: np.asarray(node.reals("value_floats"), np.float32),
        "value_ints": lambda: np.asarray(node.integers("value_ints"), np.int64),
        "value_string": lambda: np.asarray(node.text("value_string"), object),
        "value_strings": lambda: np.asarray(node.texts("value_strings"), object),
    }
    if names[0] not in readers:
        what = f"Constant by attribute {names[0]} is not supported"
        raise ValueError(explain(what, instead=f"use {', '.join(readers)}"))
    return cx.literal(readers[names[0]]())


@converter("ConstantOfShape", 9)
def constant_of_shape(cx: Context, node: Node, shape: Value) -> Any:
    fill = node.tensor("value", np.zeros(1, np.float32))
    if fill.size != 1:
        raise ValueError(explain("attribute value must hold one element", got=list(fill.shape)))
    return cx.ops.full(shape, fill=fill)


define("Range", lambda cx, node, start, limit, delta: cx.ops.arange(start, limit, delta), 11)


@converter("EyeLike", 9)
def eye_like(cx: Context, node: Node, x: Value) -> Any:
    dtype = str(x.dtype) if not node.has("dtype") else dtype_of(node.integer("dtype"))
    offset = min(max(node.integer("k", 0), -_FAR), _FAR)
    rows, columns = (literal(d) for d in x.shape)
    row = op.reshape(cx.emit(op.arange(0, rows, 1, "int64")), ShapeExpr([rows, 1]))
    column = op.reshape(cx.emit(op.arange(0, columns, 1, "int64")), ShapeExpr([1, columns]))
    # The element (i, j) is on the diagonal k where i + k = j.
    shifted = op.add(row, cx.scalar(offset, "int64")) if offset else row
    return op.astype(op.equal(shifted, column), dtype)


@converter("Trilu", 14)
def trilu(cx: Context, node: Node, x: Value, k: Value | None = None) -> Any:
    build = op.triu if node.integer("upper", 1) else op.tril
    offset = 0 if k is None else cx.integers(k, "k", count=1)[0]
    if isinstance(offset, PrimExpr):
        offset = maximum(minimum(offset, const(_FAR, "int64")), const(-_FAR, "int64"))
    return build(x.expr, offset)


# ---------------------------------------------------------------- picking


@converter("Gather")
def gather(cx: Context, node: Node, data: Value, indices: Value) -> Any:
    return cx.ops.take(data, indices, axis=node.integer("axis", 0))


@converter("GatherElements", 11)
def gather_elements(cx: Context, node: Node, data: Value, indices: Value) -> Any:
    return op.gather_elements(data.expr, indices.expr, node.integer("axis", 0))


@converter("GatherND", 11)
def gather_nd(cx: Context, node: Node, data: Value, indices: Value) -> Any:
    return cx.ops.gather_nd(data, indices, batch_dims=node.integer("batch_dims", 0))


define("Where", lambda cx, node, condition, x, y: cx.ops.where(condition, x, y), 9)


@converter("OneHot", 9)
def one_hot(cx: Context, node: Node, indices: Value, depth: Value, values: Value) -> Any:
    return cx.ops.one_hot(indices, depth, values, axis=node.integer("axis", -1))
