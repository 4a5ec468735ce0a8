"""Operators that make tensors, and those that pick elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_expr import PrimExpr
from ....ir.prim_op import const, maximum, minimum
from ....relax import op
from ....relax.expr import PrimValue, ShapeExpr
from ...graph.context import Context
from ...graph.values import Value, literal
from ..reader import Node
from ..registry import converter
from ..tensors import dtype_of

_FAR = 1 << 62  # a diagonal that no matrix has; an index may be added to it

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
        "value_string": lambda: np.asarray(node.text("value_string"), object),
        "value_strings": lambda: np.asarray(node.texts("value_strings"), object),
    }
    if given[0] not in readers:
        what = f"Constant by attribute {given[0]} is not supported"
        raise ValueError(explain(what, instead=f"use {', '.join(readers)}"))
    return cx.literal(readers[given[0]]())


@converter("ConstantOfShape", 9)
def constant_of_shape(cx: Context, node: Node, shape: Value) -> Any:
    fill = node.tensor("value", np.zeros(1, np.float32))
    if fill.size != 1:
        raise ValueError(explain("attribute value must hold one element", got=list(fill.shape)))
    dims = cx.integers(shape, "input", dims=True)
    return op.full(ShapeExpr(dims), cx.constant(fill.reshape(())), fill.dtype.name)


@converter("Range", 11)
def arange(cx: Context, node: Node, start: Value, limit: Value, delta: Value) -> Any:
    parts = (start, limit, delta)
    if all(v.elements is not None or v.constant is not None for v in parts):
        bounds = [
            cx.integers(v, "bound")[0] if v.elements is not None else cx.number(v, "bound")
            for v in parts
        ]
        if isinstance(bounds[2], (int, float)) and bounds[2] == 0:
            raise ValueError("input delta may not be 0")
        row = cx.value(op.arange(*bounds, dtype=str(start.dtype)))
        count = cx.simplify(row.shape[0])  # sizes are not negative
        return cx.with_dims(row, {0: count} if isinstance(count, PrimExpr) else {})
    given = [v.expr for v in parts]
    (count,) = cx.read("relax.run.range_count", 1, *given, nonnegative=True)
    kind = str(start.dtype)
    wide = "float32" if start.dtype.is_float and start.dtype.bits < 32 else kind
    first, _, step = (op.astype(op.reshape(v, ShapeExpr([])), wide) for v in given)
    places = op.astype(cx.emit(op.arange(0, PrimValue(count), 1, "int64")), wide)
    return op.astype(op.add(op.multiply(places, step), first), kind)


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
    axis = node.integer("axis", 0)
    if not -data.ndim <= axis < data.ndim:
        what = "attribute axis is out of range"
        raise ValueError(explain(what, got=f"{axis} for rank {data.ndim}"))
    extent = literal(data.shape[axis])
    if isinstance(extent, int) and indices.constant is not None:
        return op.take(data.expr, _wrapped(cx, indices, extent), axis)
    return op.take(data.expr, indices.expr, axis)


def _wrapped(cx: Context, indices: Value, extent: int, checked: bool = True) -> Any:
    """Indices of which negative ones count from the end, as non-negative ones."""
    known = indices.constant
    if known is not None:
        if checked and known.size and not (-extent <= known.min() and known.max() < extent):
            what = "an index is out of range"
            raise ValueError(explain(what, got=f"{known.min()} to {known.max()} of {extent}"))
        wide = known.astype(np.int64)  # an extent may be larger than the indices' type
        kind = known.dtype if extent <= np.iinfo(known.dtype).max else np.int64
        return cx.constant(np.where(wide < 0, wide + extent, wide).astype(kind))
    kind = str(indices.dtype)
    below = op.astype(op.less(indices.expr, cx.scalar(0, kind)), kind)
    return op.add(indices.expr, op.multiply(below, cx.scalar(extent, kind)))


@converter("GatherElements", 11)
def gather_elements(cx: Context, node: Node, data: Value, indices: Value) -> Any:
    return op.gather_elements(data.expr, indices.expr, node.integer("axis", 0))


@converter("GatherND", 11)
def gather_nd(cx: Context, node: Node, data: Value, indices: Value) -> Any:
    return op.gather_nd(data.expr, indices.expr, node.integer("batch_dims", 0))


@converter("Where", 9)
def where(cx: Context, node: Node, condition: Value, x: Value, y: Value) -> Any:
    return op.where(*cx.broadcast(condition, x, y))


@converter("OneHot", 9)
def one_hot(cx: Context, node: Node, indices: Value, depth: Value, values: Value) -> Any:
    axis = node.integer("axis", -1)
    known = depth.constant
    size = (
        cx.integers(depth, "depth", dims=True, count=1)[0] if known is None else int(known.item())
    )
    if not -indices.ndim - 1 <= axis <= indices.ndim:
        what = "attribute axis is out of range"
        raise ValueError(explain(what, got=f"{axis} for rank {indices.ndim + 1}"))
    if indices.dtype.is_float:
        indices = cx.value(op.astype(indices.expr, "int64"))
    if isinstance(size, int):
        places = _wrapped(cx, indices, size, checked=False)
        lit = op.one_hot(places, PrimValue(True), PrimValue(False), size, axis)
    else:
        places = op.expand_dims(op.astype(indices.expr, "int64"), [axis])
        row = [size if a == axis % (indices.ndim + 1) else 1 for a in range(indices.ndim + 1)]
        numbers = cx.emit(op.reshape(op.arange(0, PrimValue(size), 1, "int64"), ShapeExpr(row)))
        back = op.subtract(numbers, _tensor(cx, size))  # negative indices count from the end
        lit = op.logical_or(op.equal(places, numbers), op.equal(places, back))
    off, on = (op.squeeze(cx.emit(v), [0]) for v in _halves(values))
    return op.where(lit, on, off)


def _tensor(cx: Context, size: Any) -> Any:
    return cx.known([size], "int64").expr


def _halves(values: Value) -> list[Any]:
    return [op.strided_slice(values.expr, [0], [k], [k + 1]) for k in (0, 1)]
