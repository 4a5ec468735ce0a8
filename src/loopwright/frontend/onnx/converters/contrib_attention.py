"""com.microsoft's attention: projections, masks, caches of keys and values, rotary positions.

Inside, queries, keys and values are [batch, length, heads, size]; caches [batch, heads, length, size].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_expr import PrimExpr
from ....ir.prim_op import maximum
from ....relax import op
from ....relax.expr import PrimValue, ShapeExpr
from ...graph.values import Value, in_type, literal
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter
from .contrib import DOMAIN, counted, matmul_integer_to_float

_INT64 = 7  # TensorProto.INT64


def _shaped(cx: Context, x: Value, *dims: PrimExpr | int) -> Value:
    return cx.value(op.reshape(x.expr, ShapeExpr([cx.simplify(d) for d in dims])))


def _heads(cx: Context, x: Value, count: int) -> Value:
    """[batch, length, heads * size] as [batch, length, heads, size]."""
    batch, length, wide = x.shape
    width = literal(wide)
    if count < 1 or not isinstance(width, int) or width % count:
        what = "the heads must divide the last axis"
        raise ValueError(explain(what, got=f"{count} heads for {x.info}"))
    return _shaped(cx, x, batch, length, count, width // count)


def _swapped(cx: Context, x: Value) -> Value:
    """Length and heads exchanged."""
    return cx.onnx.Transpose(x, perm=[0, 2, 1, 3])


def _joined(cx: Context, x: Value) -> Value:
    """[batch, length, heads, size] as [batch, length, heads * size]."""
    batch, length, heads, size = x.shape
    return _shaped(cx, x, batch, length, heads * size)


def _key_mask(cx: Context, mask: Value, batch: PrimExpr, length: PrimExpr) -> Value:
    """Whether a key is seen, as it broadcasts to [batch, heads, rows, length]. A matrix (batch, length),
    (batch, rows, length), or where each batch's keys end, and then where they begin."""
    o = cx.onnx
    if mask.ndim == 2:
        return o.Cast(o.Unsqueeze(mask, [1, 2]), to=9)
    if mask.ndim in (3, 4):
        return o.Cast(mask if mask.ndim == 4 else o.Unsqueeze(mask, [1]), to=9)
    both = cx.equal(mask.shape[0], cx.simplify(batch * 2))
    if mask.ndim != 1 or not (both or cx.equal(mask.shape[0], batch)):
        raise ValueError(explain("a mask of this shape", got=str(mask.info)))
    at, wide = counted(cx, length), o.Cast(mask, to=_INT64)
    ends = cx.value(op.strided_slice(wide.expr, [0], [0], [batch]))
    seen = o.Less(at, o.Unsqueeze(ends, [1, 2, 3]))
    if both:
        starts = cx.value(op.strided_slice(wide.expr, [0], [batch], [batch * 2]))
        seen = o.And(seen, o.GreaterOrEqual(at, o.Unsqueeze(starts, [1, 2, 3])))
    return seen


def _attended(
    cx: Context, q: Value, k: Value, v: Value, bias: Value | None, node: Node, causal: bool
) -> Value:
    """[batch, rows, heads * size]."""
    scale = node.real("scale", 0.0) or None
    mask = "BottomRight" if causal else None
    added = None if bias is None else bias.expr
    return _joined(cx, cx.value(op.nn.attention(q.expr, k.expr, v.expr, added, scale, mask)))


def _bias(
    cx: Context, node: Node, x: Value, mask: Value | None, more: Value | None, length: PrimExpr
) -> Value | None:
    """The sum of all terms added to the scores: the mask's filter, and an input."""
    far = node.real("mask_filter_value", -10000.0)
    if mask is None:
        return more
    seen = _key_mask(cx, mask, x.shape[0], length)
    hidden = cx.onnx.Where(seen, in_type(0, x.dtype), in_type(far, x.dtype))
    return hidden if more is None else cx.onnx.Add(hidden, more)


def _extended(cx: Context, past: Value | None, new: Value) -> Value:
    """A cache with the keys or values (as inside) that come after it."""
    new = _swapped(cx, new)
    return new if past is None else cx.onnx.Concat(past, new, axis=2)


def _self_attention(
    cx: Context, node: Node, projected: Value, mask: Value | None, past: Value | None,
    more: Value | None,
) -> Any:  # fmt: skip
    """Attention of queries, keys and values that are concatenated along the last axis."""
    o, count = cx.onnx, node.integer("num_heads")
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.integer(name, 0):
            raise ValueError(explain(f"attribute {name} must be 0", got=1))
    node.skip("rotary_embedding_dim")
    if projected.ndim != 3:
        what = "the input must be (batch, length, width)"
        raise ValueError(explain(what, got=f"{projected.ndim} dimensions"))
    width = literal(projected.shape[2])
    sizes = node.integers("qkv_hidden_sizes", []) or [width // 3] * 3
    parts = o.Split(projected, np.asarray(sizes), axis=2, outputs=3)
    q, k, v = (_heads(cx, part, count) for part in parts)
    before = (None, None)
    if past is not None:
        before = tuple(o.Gather(past, np.asarray(n), axis=0) for n in (0, 1))
    keys, values = (_extended(cx, p, n) for p, n in zip(before, (k, v), strict=True))
    bias = _bias(cx, node, q, mask, more, keys.shape[2])
    present = None
    if len(node.outputs) > 1:
        present = o.Concat(o.Unsqueeze(keys, [0]), o.Unsqueeze(values, [0]), axis=0)
    k, v = _swapped(cx, keys), _swapped(cx, values)
    return [_attended(cx, q, k, v, bias, node, node.flag("unidirectional")), present]


@converter("Attention", 1, DOMAIN)
def attention(
    cx: Context, node: Node, x: Value, weights: Value, bias: Value | None = None,
    mask: Value | None = None, past: Value | None = None, more: Value | None = None,
    length: Value | None = None,
) -> Any:  # fmt: skip
    out = cx.onnx.MatMul(x, weights)
    out = out if bias is None else cx.onnx.Add(out, bias)
    return _self_attention(cx, node, out, mask, past, more)


@converter("QAttention", 1, DOMAIN)
def quantized_attention(
    cx: Context, node: Node, x: Value, weights: Value, bias: Value, x_scale: Value, w_scale: Value,
    mask: Value | None = None, x_zero: Value | None = None, w_zero: Value | None = None,
    past: Value | None = None,
) -> Any:  # fmt: skip
    inputs = (x, weights, x_scale, w_scale, x_zero, w_zero, bias)
    out = matmul_integer_to_float(cx, node, *inputs)
    return _self_attention(cx, node, out, mask, past, None)


@converter("MultiHeadAttention", 1, DOMAIN)
def multi_head_attention(
    cx: Context, node: Node, query: Value, key: Value | None = None, value: Value | None = None,
    bias: Value | None = None, mask: Value | None = None, more: Value | None = None,
    past_key: Value | None = None, past_value: Value | None = None,
) -> Any:  # fmt: skip
    o, count = cx.onnx, node.integer("num_heads")
    if query.ndim == 5:  # [batch, length, heads, 3, size]
        q, k, v = (o.Gather(query, np.asarray(n), axis=3) for n in range(3))
    else:
        q = _heads(cx, query, count)
        if key is None:
            raise ValueError(explain("input key is missing"))
        if key.ndim == 5:
            k, v = (o.Gather(key, np.asarray(n), axis=3) for n in range(2))
        elif value is None:
            raise ValueError(explain("input value is missing"))
        else:
            k, v = (_heads(cx, t, count) if t.ndim == 3 else _swapped(cx, t) for t in (key, value))
    if bias is not None:
        widths = [cx.simplify(t.shape[2] * t.shape[3]) for t in (q, k, v)]
        sizes = np.asarray([literal(w) for w in widths])
        parts = o.Split(bias, sizes, axis=0, outputs=3)
        q, k, v = (
            o.Add(t, _shaped(cx, part, *t.shape[2:]))
            for t, part in zip((q, k, v), parts, strict=True)
        )
    keys, values = _extended(cx, past_key, k), _extended(cx, past_value, v)
    added = _bias(cx, node, q, mask, more, keys.shape[2])
    k, v = _swapped(cx, keys), _swapped(cx, values)
    return [_attended(cx, q, k, v, added, node, node.flag("unidirectional")), keys, values]


# ---------------------------------------------------------------- positions


def _rotated(cx: Context, x: Value, positions: Value, cos: Value, sin: Value, mixed: bool) -> Value:
    """x (as inside) rotated by the angles of its positions (batch, length): pairs of the first elements
    of a head, neighbours if `mixed`, else half of them apart."""
    o, half = cx.onnx, literal(cos.shape[1])
    c, s = (o.Unsqueeze(o.Gather(table, positions), [2]) for table in (cos, sin))
    return rotated_by(cx, x, c, s, half, mixed)


def rotated_by(cx: Context, x: Value, c: Value, s: Value, half: int, mixed: bool) -> Value:
    """`_rotated` by the cosines and sines of the angles (batch, length, 1, half)."""
    o, size = cx.onnx, literal(x.shape[3])
    if not (isinstance(half, int) and isinstance(size, int)):
        raise ValueError(explain("the size of a head must be known", got=str(x.info)))
    upper = o.Slice(x, [0], [2 * half], [3])
    if mixed:
        pairs = _shaped(cx, upper, *x.shape[:3], half, 2)
        left, right = (o.Gather(pairs, np.asarray(n), axis=4) for n in (0, 1))
    else:
        left, right = o.Split(upper, axis=3, num_outputs=2, outputs=2)
    parts = o.Sub(o.Mul(left, c), o.Mul(right, s)), o.Add(o.Mul(right, c), o.Mul(left, s))
    if mixed:
        stacked = o.Concat(*(o.Unsqueeze(p, [4]) for p in parts), axis=4)
        out = _shaped(cx, stacked, *x.shape[:3], 2 * half)
    else:
        out = o.Concat(*parts, axis=3)
    if size == 2 * half:
        return out
    return o.Concat(out, o.Slice(x, [2 * half], [size], [3]), axis=3)


@converter("RotaryEmbedding", 1, DOMAIN)
def rotary_embedding(
    cx: Context, node: Node, x: Value, positions: Value, cos: Value, sin: Value
) -> Any:
    node.skip("is_packed_batching", "rotary_embedding_dim")
    count, scale = node.integer("num_heads", 0), node.real("scale", 1.0)
    flat = x.ndim == 3
    if flat:
        width, half = literal(x.shape[2]), literal(cos.shape[1])
        if not (isinstance(width, int) and isinstance(half, int)):
            raise ValueError(explain("the size of a head must be known", got=str(x.info)))
        count = count or width // (2 * half)
    inside = _heads(cx, x, count) if flat else _swapped(cx, x)
    if positions.ndim == 1:  # where the first element is
        positions = cx.onnx.Unsqueeze(cx.onnx.Add(positions, counted(cx, inside.shape[1])), [0])
    out = _rotated(cx, inside, positions, cos, sin, node.flag("interleaved"))
    out = _joined(cx, out) if flat else _swapped(cx, out)
    return out if scale == 1.0 else cx.onnx.Mul(out, scale)


@dataclass(frozen=True)
class _Blocks:
    """Which blocks of `size` keys rows of blocks of queries see, in layouts that heads take in turn, as CSR:
    ends (layouts, blocks + 1), columns (layouts, most), filled up with -1."""

    ends: Value
    columns: Value
    size: int

    def seen(self, cx: Context, queries: Value, keys: Value, heads: int) -> Value:
        """Positions of queries (batch, rows) and keys (length,): bool (batch, heads, rows, length)."""
        o = cx.onnx
        layouts, side = (literal(d) for d in self.ends.shape)
        ends = o.Unsqueeze(o.Slice(self.ends, np.array([1]), np.array([side]), np.array([1])), [2])
        positions = o.Cast(counted(cx, self.columns.shape[1]), to=6)
        rows = o.ReduceSum(o.Cast(o.LessOrEqual(ends, positions), to=_INT64), [1], keepdims=0)
        last = np.int64(side - 1)  # of the padded axis
        columns = o.Cast(self.columns, to=_INT64)
        columns = o.Where(o.Less(columns, np.int64(0)), last, columns)
        own = o.Expand(np.arange(layouts)[:, None], o.Shape(rows))
        index = o.Concat(*(o.Unsqueeze(v, [2]) for v in (own, rows, columns)), axis=2)
        none = np.zeros((layouts, side, side), np.float32)
        mask = o.ScatterND(none, index, o.Expand(np.float32(1), o.Shape(rows)))
        by_query = o.Gather(mask, o.Div(queries, np.int64(self.size)), axis=1)
        both = o.Gather(by_query, o.Div(keys, np.int64(self.size)), axis=3)
        allowed = o.Tile(
            o.Transpose(both, perm=[1, 0, 2, 3]), np.array([1, heads // layouts, 1, 1])
        )
        return o.Greater(allowed, np.float32(0))


@converter("SparseAttention", 1, DOMAIN)
def sparse_attention(
    cx: Context, node: Node, query: Value, key: Value | None, value: Value | None,
    past_key: Value, past_value: Value, ends: Value, columns: Value, total: Value, lengths: Value,
    cos: Value | None = None, sin: Value | None = None,
) -> Any:  # fmt: skip
    blocks = _Blocks(ends, columns, node.integer("sparse_block_size"))
    layouts = literal(ends.shape[0])
    if not isinstance(layouts, int) or node.integer("num_heads") % layouts:
        raise ValueError(explain("the layouts must divide num_heads", got=str(ends.info)))
    last, past = cx.onnx.Sub(lengths, np.int32(1)), (past_key, past_value)
    return group_query_attention(
        cx, node, query, key, value, *past, last, total, cos, sin, blocks=blocks
    )


@converter("GroupQueryAttention", 1, DOMAIN)
def group_query_attention(
    cx: Context, node: Node, query: Value, key: Value | None = None, value: Value | None = None,
    past_key: Value | None = None, past_value: Value | None = None, last: Value | None = None,
    total: Value | None = None, cos: Value | None = None, sin: Value | None = None,
    positions: Value | None = None, more: Value | None = None, *, blocks: _Blocks | None = None,
) -> Any:  # fmt: skip
    """last (batch,): each batch's number of keys, less 1; total: the greatest of these numbers; blocks: whose
    keys are seen."""
    o, count, groups = cx.onnx, node.integer("num_heads"), node.integer("kv_num_heads")
    window, softcap = node.integer("local_window_size", -1), node.real("softcap", 0.0)
    for name, off in (("smooth_softmax", (0, -1)), ("qk_output", (0,)), ("causal", (1,))):
        if node.integer(name, off[0]) not in off:
            raise ValueError(explain(f"attribute {name} must be {off[0]}"))
    node.skip("kv_cache_bit_width", "k_quant_type", "v_quant_type", "qk_norm_epsilon")
    if last is None or total is None:
        raise ValueError(explain("inputs seqlens_k and total_sequence_length are missing"))
    # one number each, as onnxruntime reads them
    flat: Value = last if last.ndim == 1 else o.Reshape(last, [-1])
    if key is None or value is None:  # side by side on the last axis
        wide = literal(query.shape[2])
        size = wide // (count + 2 * groups)
        sizes = np.asarray([count * size, groups * size, groups * size])
        parts = o.Split(query, sizes, axis=2, outputs=3)
    else:
        parts = query, key, value
    new = [_heads(cx, t, n) for t, n in zip(parts, (count, groups, groups), strict=True)]
    past = [] if past_key is None or past_value is None else [past_key, past_value]
    # batch, rows, groups, size of a head, cached length
    named = ["br-d", "brgd", "brgd", "b", *["bgcd"] * len(past)]
    axes = [[x.find(n) if n in x else None for x in named] for n in "brgdc" if n in "".join(named)]
    q, k, v, last, *past = cx.aligned([*new, flat, *past], axes)
    rows, length = q.shape[1], q.shape[1]
    if past:
        length = cx.integers(total, "total_sequence_length", dims=True)[0]
        length = cx.simplify(maximum(length, past[0].shape[2]))
    at, asked = counted(cx, length), cx.onnx.Cast(last, to=_INT64)
    outside = cx.value(op.subtract(asked.expr, PrimValue(length)))  # where negative ones are
    last = o.Gather(at, o.Where(o.Less(asked, np.int64(0)), outside, asked))  # which refuses others
    ends = o.Add(last, np.int64(1))
    before = o.Max(
        cx.value(op.subtract(ends.expr, PrimValue(rows))), np.int64(0)
    )  # the number of cached keys
    where = o.Add(o.Unsqueeze(before, [1]), counted(cx, rows))  # (batch, rows)
    if node.flag("do_rotary"):
        if cos is None or sin is None:
            raise ValueError(explain("inputs cos_cache and sin_cache are missing"))
        own = where if positions is None else positions
        mixed = node.flag("rotary_interleaved")
        q, k = (_rotated(cx, t, own, cos, sin, mixed) for t in (q, k))
    else:
        node.skip("rotary_interleaved")
    if past:
        keys, values = (
            cx.value(op.nn.append_cache(old.expr, new.expr, before.expr, length))
            for old, new in zip(past, (k, v), strict=True)
        )
    else:
        keys, values = _swapped(cx, k), _swapped(cx, v)
    if blocks is None and more is None:
        operands = [v.expr for v in (q, keys, values, ends)]
        limits = "BottomRight", window if window > 0 else None, softcap or None
        scale = node.real("scale", 0.0) or None
        out = cx.value(op.nn.attention_cached(*operands, scale, *limits))
        return [_joined(cx, out), keys, values]
    own = o.Unsqueeze(where, [2])  # (batch, rows, 1)
    seen = o.LessOrEqual(at, o.Min(own, o.Unsqueeze(last, [1, 2])))
    if window > 0:
        seen = o.And(seen, o.Greater(at, o.Sub(own, window)))
    seen = o.Unsqueeze(seen, [1])
    if blocks is not None:
        seen = o.And(seen, blocks.seen(cx, where, at, count))
    far = np.finfo(np.float16 if q.dtype == "float16" else np.float32).min
    bias = o.Where(seen, in_type(0, q.dtype), in_type(far, q.dtype))
    bias = bias if more is None else o.Add(bias, more)
    k, v = _swapped(cx, keys), _swapped(cx, values)
    if not softcap:
        return [_attended(cx, q, k, v, bias, node, False), keys, values]
    if groups != count:
        k, v = (cx.value(op.repeat(t.expr, count // groups, 2)) for t in (k, v))
    scale = node.real("scale", 0.0) or literal(q.shape[3]) ** -0.5
    products = o.MatMul(_swapped(cx, q), o.Transpose(k, perm=[0, 2, 3, 1]))
    scores = o.Mul(o.Tanh(o.Mul(products, scale / softcap)), softcap)
    weights = o.Softmax(o.Add(scores, bias), axis=-1)
    out = o.MatMul(weights, _swapped(cx, v))
    return [_joined(cx, _swapped(cx, out)), keys, values]
