"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_expr import IntImm, PrimExpr
from ....relax import op
from ....relax.expr import PrimValue, ShapeExpr
from ...graph.context import size_of
from ...graph.values import Value, literal
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter, define
from . import block_quantized


@converter("MatMul")
def matmul(cx: Context, node: Node, a: Value, b: Value) -> Any:
    dequantized = cx.dequantized.get(b.expr)
    weight = (
        block_quantized.dequantized(*dequantized)
        if dequantized and a.ndim and a.dtype == "float32"
        else None
    )
    if weight is not None and literal(a.shape[-1]) == weight.rows:
        return block_quantized.product(cx, a, weight)
    return cx.ops.matmul(a, b)


@converter("Gemm")
def gemm(cx: Context, node: Node, a: Value, b: Value, c: Value | None = None) -> Any:
    node.skip("broadcast")  # opset 6: c broadcasts always since
    alpha, beta = node.real("alpha", 1.0), node.real("beta", 1.0)
    for side, name in ((a, "A"), (b, "B")):
        if side.ndim != 2:
            raise ValueError(explain(f"input {name} must be a matrix", got=str(side.info)))
    if node.integer("transA", 0):
        a = cx.value(op.permute_dims(a.expr))
    if node.integer("transB", 0):
        b = cx.value(_transposed(cx, b))
    out = cx.ops.matmul(a, b)
    if alpha != 1.0:
        out = cx.value(op.multiply(out.expr, cx.scalar(alpha, out.dtype)))
    if c is None or beta == 0.0:
        return out
    if beta != 1.0:
        c = cx.value(op.multiply(c.expr, cx.scalar(beta, c.dtype)))
    pairs = zip(reversed(c.shape), reversed(out.shape), strict=False)
    if not all(isinstance(d, IntImm) or cx.equal(d, have) for d, have in pairs):
        c = cx.value(op.broadcast_to(c.expr, ShapeExpr(out.shape)))  # not the product to its shape
    return op.add(*cx.broadcast(out, c))


def _transposed(cx: Context, b: Value) -> Any:
    """b transposed; a weight that is a literal constant is transposed here, once."""
    if b.is_constant:
        return cx.once(
            (_transposed, b.expr),
            lambda: cx.constant(np.ascontiguousarray(b.expr.data.view().T), str(b.dtype)),
        )
    return op.permute_dims(b.expr)


@converter("Einsum", 12)
def einsum(cx: Context, node: Node, *inputs: Value) -> Any:
    """Pairs are multiplied as matrices: the labels both have are batch or summed over."""
    terms, result = _equation(node.text("equation"), [v.ndim for v in inputs])
    inputs, terms = zip(*(_diagonal(cx, *v) for v in zip(inputs, terms, strict=True)), strict=True)
    product, labels = _summed(cx, inputs[0], terms[0], "".join(terms[1:]) + result)
    for k, (v, term) in enumerate(zip(inputs[1:], terms[1:], strict=True)):
        later = "".join(terms[k + 2 :]) + result
        other, own = _summed(cx, v, term, labels + later)
        product, labels = _contracted(cx, product, labels, other, own, later)
    product, labels = _summed(cx, product, labels, result)
    order = [labels.index(c) for c in result]
    return product if order == sorted(order) else op.permute_dims(product.expr, order)


def _equation(text: str, ranks: list[int]) -> tuple[list[str], str]:
    """The labels of the inputs and of the output; "..." becomes capital Greek letters."""
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        what = f"the equation has {len(terms)} terms"
        raise ValueError(explain(what, got=f"{len(ranks)} inputs, {text}"))
    wide = [
        r - len(t.replace("...", "")) if "..." in t else 0
        for t, r in zip(terms, ranks, strict=True)
    ]
    most = "ΑΒΓΔΕΖΗΘ"[: max(wide, default=0)]
    terms = [t.replace("...", most[len(most) - w :]) for t, w in zip(terms, wide, strict=True)]
    if arrow:
        result = right.replace("...", most)
    else:
        every = "".join(terms)
        result = most + "".join(sorted(c for c in set(every) - set(most) if every.count(c) == 1))
    fits = all(len(t) == r for t, r in zip(terms, ranks, strict=True))
    double = len(set(result)) != len(result)
    if not fits or double or not set(result) <= set("".join(terms)):
        what = "the labels of this equation do not fit"
        hint = "one for each axis of an input; in the result each once, and only those of inputs"
        raise ValueError(explain(what, got=f"{text} for ranks {ranks}", instead=hint))
    return terms, result


def _diagonal(cx: Context, v: Value, labels: str) -> tuple[Value, str]:
    """The elements whose indices agree on the axes of one label, which become one axis."""
    for c in [c for c in dict.fromkeys(labels) if labels.count(c) > 1]:
        own = [k for k, other in enumerate(labels) if other == c]
        rest = [k for k, other in enumerate(labels) if other != c]
        extent = min((v.shape[k] for k in own), key=size_of)
        v = cx.with_dims(v, {k: extent for k in own if not cx.equal(v.shape[k], extent)})
        row = cx.emit(op.arange(0, PrimValue(extent), 1, "int64"))
        column = cx.emit(op.reshape(row, ShapeExpr([extent, 1])))
        indices = op.broadcast_to(column, ShapeExpr([extent, len(own)]))
        transposed = cx.emit(op.permute_dims(v.expr, [*own, *rest]))
        v, labels = (
            cx.value(op.gather_nd(transposed, indices)),
            c + "".join(labels[k] for k in rest),
        )
    return v, labels


def _summed(cx: Context, v: Value, labels: str, needed: str) -> tuple[Value, str]:
    """The value summed over its unused labels."""
    summed = [k for k, c in enumerate(labels) if c not in needed]
    if not summed:
        return v, labels
    return cx.value(op.sum(v.expr, summed)), "".join(c for c in labels if c in needed)


def _contracted(
    cx: Context, a: Value, left: str, b: Value, right: str, later: str
) -> tuple[Value, str]:
    """The product of two values, summed over the labels both have and that are not used later."""
    shared = [c for c in left if c in right]
    (a, b), extents = cx.broadcast_groups([a, b], [[left.index(c), right.index(c)] for c in shared])
    batch = [c for c in shared if c in later]
    inner = [c for c in shared if c not in later]
    rows, columns = [c for c in left if c not in right], [c for c in right if c not in left]
    sizes = {**dict(zip(right, b.shape, strict=True)), **dict(zip(left, a.shape, strict=True))}
    sizes |= dict(zip(shared, extents, strict=True))
    x = _matrix(cx, a, left, batch, rows, inner, sizes)
    y = _matrix(cx, b, right, batch, inner, columns, sizes)
    product = cx.emit(op.matmul(x, y))
    labels = "".join([*batch, *rows, *columns])
    return cx.value(op.reshape(product, ShapeExpr([sizes[c] for c in labels]))), labels


def _matrix(
    cx: Context,
    v: Value,
    labels: str,
    batch: list[str],
    rows: list[str],
    columns: list[str],
    sizes: Mapping[str, PrimExpr],
) -> Any:
    """The value as [batch, rows, columns], the groups flattened."""
    order = [labels.index(c) for c in [*batch, *rows, *columns]]
    matrix = v.expr if order == sorted(order) else op.permute_dims(v.expr, order)
    full = [sizes[c] for c in [*batch, *rows, *columns]]
    if [literal(v.shape[k]) for k in order] != [literal(d) for d in full]:
        matrix = op.broadcast_to(cx.emit(matrix), ShapeExpr(full))
    dims = [_extent(cx, [sizes[c] for c in group]) for group in (batch, rows, columns)]
    return op.reshape(cx.emit(matrix), ShapeExpr(dims))


def _extent(cx: Context, dims: list[Any]) -> Any:
    size: Any = 1
    for d in dims:
        size = size * literal(d)
    return cx.simplify(size)


define("Det", lambda cx, node, x: op.linalg.det(x.expr), 11)
