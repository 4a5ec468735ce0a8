"""Attention by states, and attention whose scores and weights graphs change."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ....base.errors import explain
from ....relax import op
from ....relax.expr import ShapeExpr
from ...graph.values import Value, literal
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter
from ..tensors import dtype_of

_PREVIEW = "ai.onnx.preview"


def _heads(cx: Context, x: Value, heads: int) -> Value:
    """(batch, length, heads * size) as (batch, length, heads, size)."""
    batch, length, total = x.shape
    size = literal(total)
    if isinstance(size, int) and size % heads:
        raise ValueError(explain("the heads do not divide an input", got=f"{heads} of {size}"))
    dims = ShapeExpr([batch, length, heads, cx.simplify(total // heads)])
    return cx.value(op.reshape(x.expr, dims))


@converter("LinearAttention", 26)
def linear_attention(
    cx: Context, node: Node, query: Value, key: Value, value: Value, state: Value | None = None,
    decay: Value | None = None, beta: Value | None = None,
) -> Any:  # fmt: skip
    node.skip("chunk_size")
    heads, groups = node.integer("q_num_heads"), node.integer("kv_num_heads")
    rule = node.text("update_rule", "gated_delta")
    if heads < 1 or groups < 1 or heads % groups:
        what = "q_num_heads must be a multiple of kv_num_heads"
        raise ValueError(explain(what, got=f"{heads} and {groups}"))
    required = ["decay"] * ("gated" in rule) + ["beta"] * ("delta" in rule)
    present = [n for n, v in (("decay", decay), ("beta", beta)) if v is not None]
    if required != present:
        what = f"update_rule {rule} has the inputs: {', '.join(required) or 'none of decay, beta'}"
        raise ValueError(explain(what, got=", ".join(present) or "none"))
    q, k, v = (_heads(cx, x, n) for x, n in ((query, heads), (key, groups), (value, groups)))
    size = q.shape[3]
    gates = [] if decay is None else [_heads(cx, decay, groups).expr]
    if beta is not None:
        gates.append(beta.expr)
    scale = node.real("scale", 0.0) or None  # 0 means the default
    if state is None:
        dims = ShapeExpr([q.shape[0], groups, size, v.shape[3]])
        state = cx.value(op.zeros(dims, str(query.dtype)))
    tensors = (q.expr, k.expr, v.expr, state.expr, gates)
    result = cx.emit(op.nn.linear_attention(*tensors, rule, scale))
    out = cx.value(result[0])
    total = cx.simplify(out.shape[2] * out.shape[3])
    flat = op.reshape(out.expr, ShapeExpr([*out.shape[:2], total]))
    return [flat, result[1]]


@converter("FlexAttention", 1, _PREVIEW)
def flex_attention(cx: Context, node: Node, query: Value, key: Value, value: Value) -> Any:
    if any(v.ndim != 4 for v in (query, key, value)):
        raise ValueError(explain("Q, K and V have 4 axes", got=str(query.info)))
    heads, groups = literal(query.shape[1]), literal(key.shape[1])
    if not (isinstance(heads, int) and isinstance(groups, int)) or heads % groups:
        what = "the heads of Q must be a multiple of those of K"
        raise ValueError(explain(what, got=f"{heads} and {groups}"))
    own = "float64" if query.dtype == "float64" else "float32"
    kind = dtype_of(node.integer("softmax_precision")) if node.has("softmax_precision") else own
    size = literal(query.shape[3])
    if not node.has("scale") and not isinstance(size, int):
        raise ValueError(explain("scale needs a known size of heads", got=str(size)))
    scale = node.real("scale") if node.has("scale") else 1 / sqrt(size)

    def wide(v: Value, repeats: int = 1) -> Any:
        expr = v.expr if v.dtype == kind else cx.emit(op.astype(v.expr, kind))
        return expr if repeats == 1 else cx.emit(op.repeat(expr, repeats, 1))

    each = heads // groups
    transposed = cx.emit(op.permute_dims(wide(key, each), [0, 1, 3, 2]))
    product = cx.emit(op.matmul(wide(query), transposed))
    scores = cx.value(op.multiply(product, cx.scalar(scale, kind)))
    scores = _changed(cx, node, "score_mod", scores)
    weights = cx.value(op.nn.softmax(scores.expr, -1))
    weights = _changed(cx, node, "prob_mod", weights)
    out = cx.emit(op.matmul(weights.expr, wide(value, each)))
    return out if query.dtype == kind else op.astype(out, str(query.dtype))


def _changed(cx: Context, node: Node, name: str, value: Value) -> Value:
    """The value mapped by a graph of the node, if it has one of that name."""
    if not node.has(name):
        return value
    graph = node.graph(name)
    if len(graph.input) != 1 or len(graph.output) != 1:
        what = f"{name} has one input and one output"
        raise ValueError(explain(what, got=f"{len(graph.input)} and {len(graph.output)}"))
    (changed,) = cx.walk.subgraph(graph, {graph.input[0].name: value})
    return changed
