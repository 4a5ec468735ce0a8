"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import explain
from ....relax import op
from ..context import Context
from ..reader import Node
from ..registry import converter
from ..values import Value, literal


@converter("MatMul")
def matmul(cx: Context, node: Node, a: Value, b: Value) -> Any:
    a, b = _matched(cx, a, b)
    return op.matmul(a.expr, b.expr)


def _matched(cx: Context, a: Value, b: Value) -> list[Value]:
    """Both sides, the inner dimension and the batch dimensions aligned."""
    if a.ndim == 0 or b.ndim == 0:
        return [a, b]
    groups: list[list[int | None]] = [[a.ndim - 1, max(b.ndim - 2, 0)]]
    for back in range(3, min(a.ndim, b.ndim) + 1):
        if literal(a.shape[-back]) != 1 and literal(b.shape[-back]) != 1:
            groups.append([a.ndim - back, b.ndim - back])
    return cx.aligned([a, b], groups)


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
    a, b = _matched(cx, a, b)
    made = cx.value(op.matmul(a.expr, b.expr))
    if alpha != 1.0:
        made = cx.value(op.multiply(made.expr, cx.scalar(alpha, made.dtype)))
    if c is None or beta == 0.0:
        return made
    if beta != 1.0:
        c = cx.value(op.multiply(c.expr, cx.scalar(beta, c.dtype)))
    return op.add(*cx.broadcast(made, c))


def _transposed(cx: Context, b: Value) -> Any:
    """b transposed; a weight that is a literal constant is turned right here."""
    if b.is_constant:
        return cx.constant(np.ascontiguousarray(b.expr.data.view().T), str(b.dtype))
    return op.permute_dims(b.expr)
