"""com.microsoft's mixtures of experts, streams and states of language models, and small others."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_expr import PrimExpr
from ....ir.prim_op import floordiv
from ....relax import op
from ....relax.expr import ShapeExpr
from ...graph.values import Value, literal
from ..context import OnnxContext as Context
from ..reader import Node
from .block_quantized import unpacked
from .contrib import _FLOAT, _all_of, _contrib, _root_mean_square, counted, numbered
from .contrib_attention import _heads, _joined, _swapped, multi_head_attention, rotated_by
from .contrib_gated import _as_shaped, _float, _grouped

_INT64, _UINT32 = 7, 12  # TensorProto's data types


def _refused(node: Node, *names: str) -> None:
    """Raise ValueError for forms that onnxruntime has on other devices only."""
    for name in names:
        if node.integer(name, 0) > 0:
            raise ValueError(explain(f"attribute {name}", instead="leave it out"))


# ---------------------------------------------------------------- experts


def _fixed_extents(x: Value, *axes: int) -> list[int]:
    if x.ndim <= (most := max(axes)):
        raise ValueError(explain(f"an input needs {most + 1} dimensions or more", got=str(x.info)))
    dims = [literal(x.shape[a]) for a in axes]
    if not all(isinstance(d, int) for d in dims):
        raise ValueError(explain("the extents of weights must be known", got=str(x.info)))
    return dims


def _gates(cx: Context, logits: Value, k: int, normalized: bool, weights: Value | None) -> Value:
    """[tokens, experts]: how much each expert counts, 0 for those not among the k greatest;
    of equal ones the last is the greater."""
    o = cx.onnx

    def reversed_last(v: Value) -> Value:
        return o.Slice(v, [-1], [-(2**63)], [1], [-1])

    chances = reversed_last(o.Softmax(logits, axis=-1))
    best, which = o.TopK(chances, np.array([k]), axis=-1, outputs=2)
    if weights is not None:
        best = o.GatherElements(reversed_last(weights), which, axis=1)
    elif normalized:
        best = o.Div(best, o.ReduceSum(best, np.array([-1])))
    return reversed_last(o.ScatterElements(o.Mul(chances, 0.0), which, best, axis=1))


def _activated(cx: Context, node: Node, x: Value, gate: Value | None) -> Value:
    """x after the activation of the experts; swiglu: of two parts, concatenated or interleaved."""
    o, kind, fusion = (
        cx.onnx,
        node.text("activation_type", "relu"),
        node.integer("swiglu_fusion", 0),
    )
    alpha, beta = node.real("activation_alpha", 1.0), node.real("activation_beta", 0.0)
    limit = node.real("swiglu_limit", float("inf"))
    if kind == "silu":
        return o.Mul(x, o.Sigmoid(x))
    if kind == "gelu":
        return o.Gelu(x, approximate="tanh")
    if kind in ("relu", "identity"):
        return getattr(o, kind.capitalize())(x)
    if kind != "swiglu":
        what = "activation_type must be relu, gelu, silu, swiglu or identity"
        raise ValueError(explain(what, got=kind))
    if fusion == 1:
        (width,) = _fixed_extents(x, -1)
        pairs = cx.value(op.reshape(x.expr, ShapeExpr([*x.shape[:-1], width // 2, 2])))
        x, gate = (o.Gather(pairs, np.array(n), axis=-1) for n in (0, 1))
    elif fusion == 2:
        x, gate = o.Split(x, axis=-1, num_outputs=2, outputs=2)
    if gate is None:
        raise ValueError(explain("swiglu without fusion has fc3_experts_weights"))
    if np.isfinite(limit):
        x, gate = o.Min(x, limit), o.Clip(gate, -limit, limit)
    return o.Mul(o.Mul(x, o.Sigmoid(o.Mul(x, alpha))), o.Add(gate, beta))


def _mixed(cx: Context, node: Node, x: Value, gates: Value, layers: list[Any]) -> Any:
    """All experts on all tokens, added up by their gates. layers: weights [experts, to, from] and a bias
    or None, three times."""
    _refused(node, "use_sparse_mixer", "swiglu_limit_after_activation")
    o = cx.onnx
    (width,) = _fixed_extents(x, -1)
    tokens = o.Reshape(x, [1, -1, width])
    gates = o.Unsqueeze(o.Transpose(gates, perm=[1, 0]), [2])

    def linear(v: Value, layer: tuple[Value, Value | None]) -> Value:
        out = o.MatMul(v, o.Transpose(layer[0], perm=[0, 2, 1]))
        return out if layer[1] is None else o.Add(out, o.Unsqueeze(layer[1], [1]))

    first, second, third = layers
    gate = None if third[0] is None else linear(tokens, third)
    out = linear(_activated(cx, node, linear(tokens, first), gate), second)
    return _as_shaped(cx, o.ReduceSum(o.Mul(out, gates), np.array([0]), keepdims=0), x)


@_contrib("MoE")
def mixture_of_experts(
    cx: Context, node: Node, x: Value, logits: Value, w1: Value, b1: Value | None, w2: Value,
    b2: Value | None = None, w3: Value | None = None, b3: Value | None = None,
) -> Any:  # fmt: skip
    gates = _gates(cx, logits, node.integer("k", 1), node.flag("normalize_routing_weights"), None)
    return _mixed(cx, node, x, gates, [(w1, b1), (w2, b2), (w3, b3)])


@_contrib("QMoE")
def quantized_experts(
    cx: Context, node: Node, x: Value, logits: Value, w1: Value, s1: Value, b1: Value | None, w2: Value,
    s2: Value, b2: Value | None = None, w3: Value | None = None, s3: Value | None = None,
    b3: Value | None = None, z1: Value | None = None, z2: Value | None = None,
    z3: Value | None = None, weights: Value | None = None,
) -> Any:  # fmt: skip
    """Weights of 4 or 8 bits, [experts, to, bytes], with a scale for each row or block of it. The gates
    of a token add up to 1, whatever normalize_routing_weights says, as in onnxruntime."""
    node.skip("block_size", "accuracy_level", "weights_prepacked", "normalize_routing_weights")
    bits, kind, o = node.integer("expert_weight_bits", 4), node.text("quant_type", "int"), cx.onnx
    if kind != "int" or bits not in (4, 8):
        raise ValueError(explain("quant_type must be int, of 4 or 8 bits", got=f"{kind}, {bits}"))

    def real(w: Value | None, scale: Value | None, zero: Value | None) -> Value | None:
        if w is None or scale is None:
            return None
        wide = o.CastLike(unpacked(cx, w, bits), scale)
        experts, rows, columns = _fixed_extents(wide, 0, 1, 2)
        blocks = 1 if scale.ndim == 2 else _fixed_extents(scale, 2)[0]
        parts = o.Reshape(wide, [experts, rows, blocks, columns // blocks])
        middle: Any = float(1 << bits - 1)
        if zero is not None:
            middle = o.Slice(
                unpacked(cx, zero, bits), [0], [rows if scale.ndim == 2 else blocks], [-1]
            )
            middle = o.CastLike(o.Reshape(middle, [experts, rows, blocks, 1]), scale)
        scales = o.Reshape(scale, [experts, rows, blocks, 1])
        return o.Reshape(o.Mul(o.Sub(parts, middle), scales), [experts, rows, columns])

    layers = [(real(w1, s1, z1), b1), (real(w2, s2, z2), b2), (real(w3, s3, z3), b3)]
    return _mixed(cx, node, x, _gates(cx, logits, node.integer("k", 1), True, weights), layers)


# ---------------------------------------------------------------- states and streams


@_contrib("LinearAttention")
def linear_attention(cx: Context, node: Node, *inputs: Value | None) -> Any:
    _refused(node, "state_window")
    return cx.onnx.LinearAttention(*inputs, outputs=2, **_all_of(node, "state_window"))


@_contrib("CausalConvWithState")
def causal_conv_with_state(
    cx: Context, node: Node, x: Value, w: Value, b: Value | None = None, past: Value | None = None
) -> Any:
    _refused(node, "state_window", "state_update_capacity", "state_length", "input_channels")
    node.skip("state_channels_last", "input_channel_offset")
    o, act, last = (
        cx.onnx,
        node.choice("activation", ("none", "silu", "swish")),
        node.flag("channels_last"),
    )
    if node.integer("ndim", 1) != 1 or (last and x.ndim != 3):
        raise ValueError(explain("a convolution along one axis", got=str(x.info)))
    channels, taps = _fixed_extents(w, 0, 2)
    step = node.integer("dilation", 1)
    size = (taps - 1) * step
    inputs: list[Any] = [None if v is None else o.Transpose(v, perm=[0, 2, 1]) for v in (x, past)]
    rows, before = inputs if last else (x, past)
    if before is None:
        dims = ShapeExpr([rows.shape[0], channels, size])
        before = cx.value(op.zeros(dims, str(x.dtype)))
    whole = o.Concat(before, rows, axis=2)
    out = o.Conv(whole, w, b, group=channels, dilations=[step])
    out = out if act == "none" else o.Mul(out, o.Sigmoid(out))
    start = cx.simplify(whole.shape[2] - size)
    state = cx.value(op.strided_slice(whole.expr, [2], [start], [whole.shape[2]]))
    return [o.Transpose(v, perm=[0, 2, 1]) if last else v for v in (out, state)]


@_contrib("EngramGate")
def engram_gate(
    cx: Context, node: Node, key: Value, query: Value, value: Value, key_scale: Value,
    query_scale: Value, conv_scale: Value | None = None,
) -> Any:  # fmt: skip
    o, epsilon = cx.onnx, node.real("epsilon", 1e-5)
    (width,) = _fixed_extents(key, -1)

    def norm(x: Value, scale: Value) -> Value:
        return _root_mean_square(cx, _float(cx, x), _float(cx, scale), -1, epsilon)[0]

    both = o.Mul(norm(key, key_scale), norm(query, query_scale))
    dot = o.Div(o.ReduceSum(both, np.array([-1])), float(np.sqrt(width)))
    gate = o.Sigmoid(o.Mul(o.Sign(dot), o.Sqrt(o.Max(o.Abs(dot), 1e-6))))
    out = o.Mul(gate, o.Unsqueeze(_float(cx, value), [2]))
    normed = None if conv_scale is None else o.CastLike(norm(out, conv_scale), key)
    return [o.CastLike(out, key), normed]


def _streams(cx: Context, node: Node, x: Value) -> Value:
    """[..., branches, width] in float32."""
    branches, wide = node.integer("num_branches", 0), _float(cx, x)
    return _grouped(cx, wide, _fixed_extents(x, -1)[0] // branches) if branches else wide


def _for_streams(cx: Context, mix: Value, streams: Value) -> Value:
    """Gates as they broadcast to [..., branches, width]."""
    branches, width = _fixed_extents(streams, -2, -1)
    mix = _float(cx, mix)
    if mix.ndim == streams.ndim:
        return mix
    return _grouped(cx, mix, width if literal(mix.shape[-1]) == branches * width != branches else 1)


@_contrib("HyperConnectionPreMix")
def hyper_connection_pre_mix(cx: Context, node: Node, x: Value, mix: Value) -> Any:
    o, streams = cx.onnx, _streams(cx, node, x)
    total = o.ReduceSum(o.Mul(streams, _for_streams(cx, mix, streams)), np.array([-2]), keepdims=0)
    return o.CastLike(o.Mul(total, node.real("reduction_scale", 1.0)), x)


@_contrib("HyperConnectionPostMix")
def hyper_connection_post_mix(
    cx: Context, node: Node, x: Value, block: Value, mix: Value, between: Value | None = None
) -> Any:
    o, streams = cx.onnx, _streams(cx, node, x)
    added = o.Mul(_for_streams(cx, mix, streams), o.Unsqueeze(_float(cx, block), [-2]))
    if between is not None:
        order = [*range(between.ndim - 2), between.ndim - 1, between.ndim - 2]
        streams = o.MatMul(o.Transpose(_float(cx, between), perm=order), streams)
    return o.CastLike(_as_shaped(cx, o.Add(streams, added), x), x)


@_contrib("MRotaryEmbedding")
def multimodal_rotary_embedding(
    cx: Context, node: Node, x: Value, positions: Value, cos: Value, sin: Value
) -> Any:
    """Each pair of a head is rotated by the position in time, of the row or of the column."""
    node.skip("is_packed_batching", "rotary_embedding_dim")
    sections, (half,) = node.integers("mrope_section"), _fixed_extents(cos, 1)
    if len(sections) != 3 or min(sections) < 0 or sum(sections) != half:
        what = "mrope_section must be three numbers that fill half of the rotated part"
        raise ValueError(explain(what, got=f"{sections} for {half}"))
    which = np.repeat(np.arange(3), sections)
    if node.integer("mrope_layout", 0) == 1:
        which = np.zeros(half, np.int64)
        for k in (1, 2):
            which[k : 3 * sections[k] : 3] = k
    o, flat = cx.onnx, x.ndim == 3
    count = node.integer("num_heads", 0)
    inside = (
        _heads(cx, x, count or _fixed_extents(x, 2)[0] // (2 * half)) if flat else _swapped(cx, x)
    )

    def angles(table: Value) -> Value:
        time, row, column = (o.Gather(table, o.Gather(positions, np.array(k))) for k in range(3))
        chosen = o.Where(which == 1, row, o.Where(which == 2, column, time))
        return o.Unsqueeze(chosen, [2])

    out = rotated_by(cx, inside, angles(cos), angles(sin), half, node.flag("interleaved"))
    out, scale = (_joined(cx, out) if flat else _swapped(cx, out)), node.real("scale", 1.0)
    return out if scale == 1.0 else o.Mul(out, scale)


@_contrib("DecoderMaskedMultiHeadAttention")
def decoder_masked_attention(
    cx: Context, node: Node, query: Value, key: Value | None = None, value: Value | None = None,
    mask: Value | None = None, more: Value | None = None, past_key: Value | None = None,
    past_value: Value | None = None, length: Value | None = None, beams: Value | None = None,
    indirect: Value | None = None, bias: Value | None = None,
) -> Any:  # fmt: skip
    _refused(node, "output_qk")
    if beams is not None or indirect is not None:
        raise ValueError(explain("a cache of beams", instead="a cache for each sequence"))
    if not node.flag("past_present_share_buffer"):
        inputs = query, key, value, bias, mask, more, past_key, past_value
        return multi_head_attention(cx, node, *inputs)
    # The caches have room for all later tokens; the new key and value are written behind the old ones.
    if mask is not None or more is not None or bias is not None or key is None or key.ndim != 3:
        raise ValueError(explain("a shared cache together with a mask or bias"))
    if value is None or past_key is None or past_value is None or length is None:
        what = "a shared cache needs value, past_key, past_value and past_sequence_length"
        raise ValueError(explain(what, instead="give all four"))
    o, count = cx.onnx, node.integer("num_heads")
    positions = cx.value(op.broadcast_to(length.expr, ShapeExpr([query.shape[0]])))
    caches = [
        o.TensorScatter(past, _swapped(cx, _heads(cx, new, count)), o.Cast(positions, to=_INT64))
        for past, new in ((past_key, key), (past_value, value))
    ]
    room = counted(cx, caches[0].shape[2])
    seen = o.Cast(o.LessOrEqual(room, o.Cast(length, to=_INT64)), to=6)
    mask = cx.value(op.broadcast_to(seen.expr, ShapeExpr([query.shape[0], caches[0].shape[2]])))
    return [multi_head_attention(cx, node, query, *caches, None, mask)[0], *caches]


# ---------------------------------------------------------------- others


@_contrib("NGramRepeatBlock")
def ngram_repeat_block(cx: Context, node: Node, ids: Value, scores: Value) -> Any:
    """-inf for what would make a group of tokens appear again."""
    o, size = cx.onnx, node.integer("ngram_size")
    (length,) = _fixed_extents(ids, 1)
    if length < size:
        return scores
    last = o.Slice(ids, [length - size + 1], [length], [1])
    starts = numbered(length - size + 1)[:, None] + numbered(size - 1)
    same = o.Equal(o.Gather(ids, starts, axis=1), o.Unsqueeze(last, [1]))
    all_same = o.ReduceMin(o.Cast(same, to=_FLOAT), np.array([2]), keepdims=0)
    updates = o.Where(o.Cast(all_same, to=9), np.float32("-inf"), np.float32("inf"))
    follows = o.Slice(ids, [size - 1], [length], [1])
    return o.ScatterElements(scores, follows, updates, axis=1, reduction="min")


@_contrib("CropAndResize")
def crop_and_resize(
    cx: Context, node: Node, x: Value, rois: Value, images: Value, size: Value
) -> Any:
    o, mode = cx.onnx, node.choice("mode", ("bilinear", "nearest"))
    for name, value, rank in (("X", x, 4), ("rois", rois, 2)):
        if value.ndim != rank:
            raise ValueError(explain(f"{name} must have {rank} dimensions", got=str(value.info)))
    rows, columns = cx.numbers(size, "crop_size")

    def along(low: int, count: int, axis: int) -> tuple[Value, Value]:
        """Where an axis is read, [boxes, count], as a part of it, and whether that is inside."""
        begin, end = (o.Slice(rois, [n], [n + 1], [1]) for n in (low, low + 2))
        if count > 1:
            at = o.Add(begin, o.Mul(o.Sub(end, begin), (numbered(count) / (count - 1)).astype("f")))
        else:
            at = o.Mul(o.Add(begin, end), 0.5)
        # In pixels: of an image of one, all positions are inside. Rounding may move others inside.
        last = o.Sub(o.Cast(o.Slice(o.Shape(x), [axis], [axis + 1], [0]), to=1), 1.0)
        pixel = o.Mul(at, last)
        inside = o.And(o.GreaterOrEqual(pixel, 0.0), o.LessOrEqual(pixel, last))
        if mode == "nearest":
            most = _number(x.shape[axis]) - 1
            at = o.Div(o.Floor(o.Add(o.Mul(at, float(most)), 0.5)), float(max(most, 1)))
        return at, inside

    (y, y_in), (x_at, x_in) = along(0, rows, 2), along(1, columns, 3)
    boxes = rois.shape[0]

    def spread(v: Value, axis: int) -> Value:
        wide = o.Unsqueeze(v, [3 - axis, 3])
        return cx.value(op.broadcast_to(wide.expr, ShapeExpr([boxes, rows, columns, 1])))

    grid = o.Sub(o.Mul(o.Concat(spread(x_at, 2), spread(y, 1), axis=3), 2.0), 1.0)
    how = {"mode": "nearest" if mode == "nearest" else "linear", "padding_mode": "border"}
    read = o.GridSample(o.Gather(x, images), grid, align_corners=1, **how)
    inside = o.And(o.Unsqueeze(y_in, [1, 3]), o.Unsqueeze(x_in, [1, 2]))
    return o.Where(inside, read, node.real("extrapolation_value", 0.0))


def _number(extent: PrimExpr) -> int:
    number = literal(extent)
    if not isinstance(number, int):
        raise ValueError(explain("mode nearest needs known extents", got=str(extent)))
    return number


@_contrib("MurmurHash3")
def murmur_hash(cx: Context, node: Node, x: Value) -> Any:
    """MurmurHash3_x86_32 (A. Appleby) of the bytes of each number."""
    o, kinds = (
        cx.onnx,
        {"int32": 1, "uint32": 1, "float32": 1, "int64": 2, "uint64": 2, "float64": 2},
    )
    words = kinds.get(str(x.dtype))
    if words is None:
        raise ValueError(explain("numbers of 4 or 8 bytes", got=str(x.dtype)))
    bits = "uint32" if words == 1 else "uint64"
    whole = x if x.dtype == bits else cx.value(op.reinterpret(x.expr, bits))

    def u(number: int) -> np.ndarray:
        return np.array(number, np.uint32)

    def rotated_left(v: Value, by: int) -> Value:
        left, right = (
            o.BitShift(v, u(n), direction=d) for n, d in ((by, "LEFT"), (32 - by, "RIGHT"))
        )
        return o.BitwiseOr(left, right)

    def mixed(v: Value, by: int) -> Value:
        return o.BitwiseXor(v, o.BitShift(v, u(by), direction="RIGHT"))

    state: Any = u(node.integer("seed", 0) & 0xFFFFFFFF)
    for k in range(words):
        part = whole
        if words == 2:
            shifted = o.BitShift(whole, np.array(32 * k, np.uint64), direction="RIGHT")
            part = o.Cast(o.BitwiseAnd(shifted, np.array(0xFFFFFFFF, np.uint64)), to=_UINT32)
        part = o.Mul(rotated_left(o.Mul(part, u(0xCC9E2D51)), 15), u(0x1B873593))
        state = o.Add(o.Mul(rotated_left(o.BitwiseXor(part, state), 13), u(5)), u(0xE6546B64))
    state = o.BitwiseXor(state, u(4 * words))
    state = mixed(o.Mul(mixed(o.Mul(mixed(state, 16), u(0x85EBCA6B)), 13), u(0xC2B2AE35)), 16)
    return state if node.flag("positive", True) else o.Cast(state, to=6)


@_contrib("GatedDeltaNet")
def gated_delta_net(
    cx: Context, node: Node, query: Value, key: Value | None, value: Value | None,
    lengths: Value | None = None, decay: Value | None = None, beta: Value | None = None,
    state: Value | None = None, a_log: Value | None = None, dt_bias: Value | None = None,
    count: Value | None = None, active: Value | None = None,
) -> Any:  # fmt: skip
    """`LinearAttention` on heads that are axes of their own, [..., length, heads, size], with states
    [batch, heads, size of a value, size of a key]."""
    o, act = cx.onnx, node.choice("gate_activation", ("none", "softplus"))
    _refused(node, "state_update_capacity")
    node.skip("gate_lower_bound", "chunk_size")
    if key is None or value is None or lengths is not None or count is not None:
        raise ValueError(explain("packed or ragged inputs", instead="query, key and value"))
    (heads, size), (own, width) = _fixed_extents(key, -2, -1), _fixed_extents(value, -2, -1)
    if own % heads:
        what = "the number of value heads must be a multiple of the number of key heads"
        raise ValueError(explain(what, got=f"{own} and {heads}"))
    if query.ndim == 4:
        batch, length = query.shape[:2]
    elif state is None:
        raise ValueError(explain("input initial_state is missing"))
    else:
        batch = state.shape[0]
        length = cx.simplify(floordiv(query.shape[0], batch))

    def packed(v: Value, *dims: int) -> Value:
        return cx.value(op.reshape(v.expr, ShapeExpr([batch, length, *dims])))

    def of_each(v: Value) -> Value:
        """A head of queries or keys for each head of values."""
        if node.flag("qk_l2_norm"):
            whole = o.ReduceSumSquare(v, np.array([-1]))
            v = o.Div(v, o.Sqrt(o.Add(whole, 1e-12)))  # onnxruntime 1.32's epsilon
        wide = o.Gather(v, np.arange(own) // (own // heads), axis=v.ndim - 2)
        return packed(wide, own * size)

    if act == "softplus" and decay is not None:
        if a_log is None or dt_bias is None:
            raise ValueError(explain("input a_log or dt_bias is missing"))
        decay = o.Mul(o.Neg(o.Exp(a_log)), o.Softplus(o.Add(_float(cx, decay), dt_bias)))
    if node.text("beta_activation", "none") == "sigmoid" and beta is not None:
        beta = o.Sigmoid(beta)
    gates = [None if v is None else packed(v, own) for v in (decay, beta)]
    transposed = None if state is None else o.Transpose(state, perm=[0, 1, 3, 2])
    out, last = o.LinearAttention(
        of_each(query), of_each(key), packed(value, own * width), transposed, *gates, outputs=2,
        q_num_heads=own, kv_num_heads=own, scale=node.real("scale", 0.0),
        update_rule=node.text("update_rule", "gated_delta"),
    )  # fmt: skip
    return [_as_shaped(cx, out, value), o.Transpose(last, perm=[0, 1, 3, 2])]


@_contrib("MoEGroupRouter")
def group_router(
    cx: Context, node: Node, logits: Value, bias: Value, weight: Value | None = None
) -> Any:
    """log of the chances of the experts chosen: the best groups, then the best of these, which may be
    fewer than top_k."""
    o, groups, top = cx.onnx, node.integer("n_group", 1), node.integer("topk_group", 1)
    if weight is not None or len(node.outputs) > 1:
        raise ValueError(explain("the scores of all experts", instead="router_probs alone"))
    (experts,) = _fixed_extents(logits, -1)
    size, missing = experts // groups, node.real("router_sentinel", -1e4)
    most = min(node.integer("group_topk", 2), size)
    chances = o.Sigmoid(_float(cx, o.Reshape(logits, [-1, experts])))
    scores = o.Add(chances, bias)
    best, _ = o.TopK(o.Reshape(scores, [-1, groups, size]), np.array([most]), outputs=2)
    _, chosen = o.TopK(o.ReduceSum(best, np.array([2]), keepdims=0), np.array([top]), outputs=2)
    whole = o.Mul(scores, 0.0)
    none = o.ReduceSum(o.Reshape(whole, [-1, groups, size]), np.array([2]), keepdims=0)
    ones = o.Add(o.Mul(o.Cast(chosen, to=_FLOAT), 0.0), 1.0)
    open_groups = o.ScatterElements(none, chosen, ones, axis=1)
    is_open = o.Gather(open_groups, np.arange(experts) // size, axis=1)
    allowed = o.Where(o.Greater(is_open, 0.0), scores, np.float32("-inf"))
    _, which = o.TopK(allowed, np.array([node.integer("top_k")]), outputs=2)
    logs = o.Log(o.Max(o.GatherElements(chances, which, axis=1), 1e-20))
    logs = o.Where(o.Greater(o.GatherElements(is_open, which, axis=1), 0.0), logs, missing)
    return o.CastLike(o.ScatterElements(o.Add(whole, missing), which, logs, axis=1), logits)


@_contrib("NGramHashMapping")
def ngram_hash_mapping(
    cx: Context, node: Node, ids: Value, factors: Value, sizes: Value, past: Value | None = None,
    offsets: Value | None = None, end: Value | None = None, segments: Value | None = None,
) -> Any:  # fmt: skip
    """For groups of 2 to most tokens, a number for each head: their products xored, modulo
    the size of each head's table."""
    o, most, heads = cx.onnx, node.integer("max_ngram_size"), node.integer("n_head_per_ngram")
    if end is not None or segments is not None:
        raise ValueError(explain("an end of text or segments", instead="one text in each row"))
    node.skip("reset_on_eos", "pad_id")
    batch, length = ids.shape
    if past is None:
        fill = cx.constant(np.array(node.integer("pad_id", 0), ids.dtype.numpy()))
        past = cx.value(op.broadcast_to(fill, ShapeExpr([batch, most - 1])))
    whole = o.Concat(past, ids, axis=1)
    mixed: Any = None
    hashes = []
    for k in range(most):  # the tokens k before
        first = most - 1 - k
        moved = cx.value(op.strided_slice(whole.expr, [1], [first], [cx.simplify(length + first)]))
        product = o.Mul(moved, o.Slice(factors, [k], [k + 1], [0]))
        mixed = product if mixed is None else o.BitwiseXor(mixed, product)
        if k:
            tables = o.Slice(sizes, [(k - 1) * heads], [k * heads], [0])
            hashes.append(o.Mod(o.Unsqueeze(mixed, [2]), tables))
    out = o.Concat(*hashes, axis=2)
    out = out if offsets is None else o.Add(out, offsets)
    ends = cx.simplify(length + (most - 1))
    last = cx.value(op.strided_slice(whole.expr, [1], [length], [ends]))
    return [out, last]
