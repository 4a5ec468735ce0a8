"""A cache of the keys and values of attention, in pages that the sequences of a batch share.

    cache = TIRPagedKVCache(...)                      # in the method that makes it
    out = cache.attention_with_fused_qkv(layer, qkv, heads, sm_scale=head_dim**-0.5)

The object lives at run time (`runtime.vm.paged_cache`); the functions `vm.builtin.kv_state_*` add
sequences to it and say which of them the next call of the model is about. Its two kernels are
functions of the model, compiled with it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from .... import relax, te, tir
from ....base.errors import explain
from ....ir.prim_expr import PrimExpr
from ....relax.expr import Call, Expr, PrimValue
from ....relax.struct_info import ObjectStructInfo, TensorStructInfo
from ..core import Object, Tensor, exporting

_CACHE = "vm.builtin.attention_kv_cache_"


class AttnKind(enum.IntEnum):
    """The kind of attention of a layer."""

    MHA = 0
    MLA = 1
    LINEAR_ATTN = 2
    MHA_SLIDING = 3


class RopeMode(enum.IntEnum):
    """When queries and keys are rotated by their positions: never, before keys are cached, or when read."""

    NONE = 0
    NORMAL = 1
    INLINE = 2


class PagedKVCache(Object):
    """A cache made by one of the functions of a model and passed to the others."""

    def attention_with_fused_qkv(
        self, layer_id: int, qkv: Tensor, num_qo_heads: int, sm_scale: float
    ) -> Tensor:
        """Keep the keys and values of a layer and attend to all that the sequences have.

        qkv: (batch, length, heads of q, k and v, head_dim); the result has the heads of q.
        """
        b, s, heads, d = qkv.shape
        flat = qkv.reshape(b * s, heads, d)
        args = [self._expr, relax.PrimValue(layer_id), relax.PrimValue(sm_scale), flat._expr]
        info = TensorStructInfo((b * s, num_qo_heads, d), qkv.dtype)
        call = relax.call_dps_packed(f"{_CACHE}attention_with_fused_qkv", args, info)
        return _emitted(call).reshape(b, s, num_qo_heads, d)

    def get_query_positions(self, total_length: PrimExpr | int) -> Tensor:
        """The place of each query in its sequence, int32; total_length: of all together."""
        info = TensorStructInfo((total_length,), "int32")
        name = f"{_CACHE}get_query_positions"
        return _emitted(relax.op.call_pure_packed(name, self._expr, sinfo_args=info))


class TIRPagedKVCache(PagedKVCache):
    """Makes a cache with kernels of our own, for any target.

    max_batch_size, max_total_seq_len, prefill_chunk_size, page_size, support_sliding_window: known
        when the cache is made.
    layer_partition: the first layer of each stage and, last, the number of layers.
    rotary_dim: the channels that positions turn, by angles to the base rope_theta.

    Raises ValueError for variants without a kernel: latent or sliding attention, and angles
    that are scaled by parts (`rope_scaling`).
    """

    def __init__(
        self, attn_kind: str | Sequence[str], max_batch_size: PrimExpr | int,
        max_total_seq_len: PrimExpr | int, prefill_chunk_size: PrimExpr | int,
        page_size: PrimExpr | int, support_sliding_window: int, layer_partition: Expr,
        num_hidden_layers: int, num_attention_heads: int, num_key_value_heads: int,
        qk_head_dim: int, v_head_dim: int, mla_original_qk_head_dim: int,
        mla_original_v_head_dim: int, rope_mode: int, rope_scale: float, rope_theta: float,
        rope_scaling: Mapping[str, Any], rope_ext_factors: PrimValue, rotary_dim: int,
        enable_disaggregation: bool, dtype: str, target: Any = None, name: str = "paged_kv_cache",
    ) -> None:  # fmt: skip
        kinds = [attn_kind] * num_hidden_layers if isinstance(attn_kind, str) else list(attn_kind)
        unsupported = {"attention": set(kinds) - {"mha"}, "rope_scaling": dict(rope_scaling)}
        for what, rest in unsupported.items():
            if rest:
                what = f"the kernels of the cache do not compute this {what}"
                raise ValueError(explain(what, got=rest, instead='"mha" and {}'))
        if v_head_dim != qk_head_dim:
            what = "the kernels of the cache take heads of one size"
            raise ValueError(explain(what, got=f"{qk_head_dim} and {v_head_dim}"))
        heads, kv_heads, dim = num_attention_heads, num_key_value_heads, qk_head_dim
        rotated = 0 if rope_mode == RopeMode.NONE else rotary_dim
        split = _split_rotary(heads, kv_heads, dim, rotated, rope_theta, rope_scale, dtype)
        attend = _attention(heads, kv_heads, dim, dtype)
        builder = exporting()
        room = [max_batch_size, max_total_seq_len, prefill_chunk_size, page_size]
        call = relax.op.call_pure_packed(
            "vm.builtin.paged_attention_kv_cache_create",
            relax.ShapeExpr([*room, support_sliding_window]),
            layer_partition,
            *map(relax.PrimValue, (heads, kv_heads, dim)),
            relax.DataTypeImm(dtype),
            builder.add_func(split, "kv_cache_split_rotary"),
            builder.add_func(attend, "kv_cache_attention"),
            sinfo_args=ObjectStructInfo(),
        )
        super().__init__(_expr=call, _name=name)


def _emitted(call: Call) -> Tensor:
    return Tensor(_expr=exporting().emit(call))


def _split_rotary(
    heads: int, kv_heads: int, dim: int, rotary: int, theta: float, scale: float, dtype: str
) -> tir.PrimFunc:
    """Queries, keys and values out of qkv: (n, heads, dim); positions (n) rotate the first `rotary`
    channels of queries and keys. Source of the formula: Su et al., RoFormer, 2021."""
    n = te.var("n", "int64")
    qkv = te.placeholder((n, heads + 2 * kv_heads, dim), dtype, name="qkv")
    positions = te.placeholder((n,), "int32", name="positions")

    def rotated(i: PrimExpr, h: PrimExpr, c: PrimExpr) -> Any:
        half = rotary // 2
        exponent = (c % max(half, 1)).astype("float32") * (2.0 / max(rotary, 1))
        angle = (
            positions[i].astype("float32") * scale / te.power(tir.const(theta, "float32"), exponent)
        )
        other = tir.if_then_else(c < half, -qkv[i, h, c + half], qkv[i, h, c - half])
        value = te.cos(angle) * qkv[i, h, c].astype("float32")
        value += te.sin(angle) * other.astype("float32")
        return tir.if_then_else(c < rotary, value.astype(dtype), qkv[i, h, c])

    def part(name: str, first: int, count: int, turn: bool) -> te.Tensor:
        def value(i: PrimExpr, h: PrimExpr, c: PrimExpr) -> Any:
            return rotated(i, h + first, c) if turn else qkv[i, h + first, c]

        return te.compute((n, count, dim), value, name=name)

    parts = [
        part("q", 0, heads, rotary > 0),
        part("k", heads, kv_heads, rotary > 0),
        part("v", heads + kv_heads, kv_heads, False),
    ]
    return te.create_prim_func([qkv, positions, *parts]).without_attr("global_symbol")


def _attention(heads: int, kv_heads: int, dim: int, dtype: str) -> tir.PrimFunc:
    """Attention of the last n of m tokens of a sequence to those up to each.

    q: (n, heads, dim); pages: (pages, keys or values, kv_heads, page_size, dim); slots: (m), where
    in the pages each token is; scale: of the products.
    """
    n, m, pages, size = (te.var(name, "int64") for name in ("n", "m", "pages", "page_size"))
    scale = te.var("scale", "float32")
    q = te.placeholder((n, heads, dim), dtype, name="q")
    cached = te.placeholder((pages, 2, kv_heads, size, dim), dtype, name="kept")
    slots = te.placeholder((m,), "int64", name="slots")
    group = heads // kv_heads
    c, j, r, t = (te.reduce_axis((0, extent)) for extent in (dim, m, m, m))

    def entry(which: int, h: PrimExpr, token: PrimExpr, channel: PrimExpr) -> Any:
        slot = slots[token]
        return cached[slot // size, which, h // group, slot % size, channel].astype("float32")

    scores = te.compute(
        (n, heads, m),
        lambda i, h, k: te.sum(q[i, h, c].astype("float32") * entry(0, h, k, c), axis=c),
        name="scores",
    )
    seen = te.compute(
        (n, heads, m),
        lambda i, h, k: tir.if_then_else(
            k <= m - n + i, scores[i, h, k] * scale, tir.min_value("float32")
        ),
        name="seen",
    )
    top = te.compute((n, heads), lambda i, h: te.max(seen[i, h, j], axis=j), name="top")
    weight = te.compute(
        (n, heads, m), lambda i, h, k: te.exp(seen[i, h, k] - top[i, h]), name="weight"
    )
    total = te.compute((n, heads), lambda i, h: te.sum(weight[i, h, r], axis=r), name="total")
    mixed = te.compute(
        (n, heads, dim),
        lambda i, h, k: te.sum(weight[i, h, t] * entry(1, h, t, k), axis=t),
        name="mixed",
    )
    out = te.compute(
        (n, heads, dim), lambda i, h, k: (mixed[i, h, k] / total[i, h]).astype(dtype), name="out"
    )
    return te.create_prim_func([q, cached, slots, scale, out]).without_attr("global_symbol")
