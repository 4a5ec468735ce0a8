"""Attention."""

from __future__ import annotations

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.prim_op import cast, const, multiply
from ..relax.struct_info import TensorStructInfo
from .common import broadcast_index, compute, rounded
from .core import OPAQUE, case, op
from .extents import differ
from .params import Tensor
from .reduce import softmax

MASKS = ("TopLeft", "BottomRight")


@op("relax.nn.attention", kind=OPAQUE, mixed="always")
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
):
    """softmax(query @ key^T * scale + bias) @ value for each head, in float32.

    query [batch, length, heads, size], key [batch, other, heads, size], value [batch, other,
    heads, size of a value], bias broadcast to [batch, heads, length, other]; scale: default
    1 / sqrt(size). causal_mask: later elements are masked; "TopLeft" aligns the sequences at their
    first elements, "BottomRight" at their last. window_size: number of visible preceding elements.
    """
    b, length, heads, size = query.shape
    other, width = key.shape[1], value.shape[3]
    factor = const(scale, "float32") if scale is not None else tir.rsqrt(cast("float32", size))
    k = te.reduce_axis((const(0, "int64"), size), name="k")
    j = te.reduce_axis((const(0, "int64"), other), name="j")

    def product(n, h, row, col):
        a, c = cast("float32", query(n, row, h, k)), cast("float32", key(n, col, h, k))
        return te.sum(multiply(a, c), axis=k)

    raw = compute([b, heads, length, other], product, "attention_product")

    def score(*i):
        scaled = raw(*i) * factor
        if bias is not None:
            scaled = scaled + cast("float32", bias(*broadcast_index(bias, i, raw.shape)))
        hidden = _hidden(i[2], i[3], length, other, causal_mask, window_size)
        return scaled if hidden is None else tir.Select(hidden, tir.min_value("float32"), scaled)

    weights = softmax(compute(raw.shape, score, "attention_score", tag="injective"), -1)

    def mixed(n, row, h, col):
        return te.sum(multiply(weights(n, h, row, j), cast("float32", value(n, j, h, col))), axis=j)

    attended = compute([b, length, heads, width], mixed, "attention_mixed")
    return rounded(attended, query.dtype)


def _hidden(row, col, length, other, causal_mask, window_size):
    """Whether the key at `col` is masked for the query at `row`; None if nothing is masked."""
    if causal_mask is None:
        return None
    last = row if causal_mask == "TopLeft" else row + (other - length)
    later = col > last
    if window_size is None:
        return later
    return tir.Or(later, col + window_size <= last)


@attention.build
def _(**values):
    if values["causal_mask"] not in (None, *MASKS):
        hint = f"use {' or '.join(MASKS)}"
        got = repr(values["causal_mask"])
        raise ValueError(explain("relax.nn.attention: unknown causal_mask", got=got, instead=hint))
    if values["window_size"] is not None and values["causal_mask"] is None:
        what = "relax.nn.attention: a window needs a causal_mask"
        raise ValueError(explain(what, got=f"window_size {values['window_size']}"))
    return values


@attention.infer
def _(query: TensorStructInfo, key, value, bias=None, **_):
    for name, info in (("query", query), ("key", key), ("value", value)):
        if info.ndim not in (-1, 4):
            what = f"{name} is of rank 4: [batch, length, heads, size]"
            raise ValueError(explain(what, got=f"rank {info.ndim}"))
    q, k, v = (t.get_shape() for t in (query, key, value))
    if q is None or k is None or v is None:
        return TensorStructInfo(dtype=query.dtype, ndim=4)
    pairs = [(q[0], k[0]), (q[0], v[0]), (q[2], k[2]), (q[2], v[2]), (q[3], k[3]), (k[1], v[1])]
    for x, y in pairs:
        if differ(y, x):
            got = "; ".join(f"({', '.join(map(str, s))})" for s in (q, k, v))
            raise ValueError(explain("query, key and value do not go together", got=got))
    return TensorStructInfo([q[0], q[1], q[2], v[3]], query.dtype)


@attention.numpy
def _(query, key, value, bias=None, scale=None, causal_mask=None, window_size=None):
    q, k, v = (t.astype(np.float32).transpose(0, 2, 1, 3) for t in (query, key, value))
    scores = (
        q @ k.transpose(0, 1, 3, 2) * np.float32(q.shape[-1] ** -0.5 if scale is None else scale)
    )
    if bias is not None:
        scores = scores + bias.astype(np.float32)
    if causal_mask is not None:
        rows, cols = np.indices(scores.shape[2:])
        last = rows + (cols.shape[1] - rows.shape[0] if causal_mask == "BottomRight" else 0)
        hidden = cols > last
        if window_size is not None:
            hidden |= cols + window_size <= last
        scores = np.where(hidden, np.finfo(np.float32).min, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    out = weights / weights.sum(-1, keepdims=True) @ v
    return np.ascontiguousarray(out.transpose(0, 2, 1, 3).astype(query.dtype))


attention.samples(
    case((2, 3, 2, 4), (2, 5, 2, 4), (2, 5, 2, 6)),
    case((1, "n", 2, 4), (1, "n", 2, 4), (1, "n", 2, 4), causal_mask="TopLeft"),
    case((1, 3, 2, 4), (1, 5, 2, 4), (1, 5, 2, 4), (1, 1, 3, 5), scale=0.25),
    case((1, 4, 1, 4), (1, 6, 1, 4), (1, 6, 1, 4), causal_mask="BottomRight", window_size=2),
)
