"""A cache of the keys and values of attention, in pages that the sequences of a batch share.

    cache = TIRPagedKVCache(...)                      # in the method that makes it
    out = cache.attention_with_fused_qkv(layer, qkv, heads, sm_scale=head_dim**-0.5)

The object lives at run time (`runtime.vm.paged_cache`); the functions `vm.builtin.kv_state_*` add
sequences to it and say which of them the next call of the model is about. Its kernels are
functions of the model, compiled with it (`attention_kernels`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from .... import relax, tir
from ....base.errors import explain
from ....ir.expr import GlobalVar
from ....ir.prim_expr import PrimExpr
from ....relax.expr import Call, Expr
from ....relax.struct_info import ObjectStructInfo, TensorStructInfo
from ..core import Object, Tensor, exporting
from .attention_kernels import _attention_decode as _attention_decode
from .attention_kernels import _attention_decode_cpu as _attention_decode_cpu
from .attention_kernels import _attention_prefill as _attention_prefill
from .attention_kernels import _attention_prefill_cpu as _attention_prefill_cpu
from .attention_kernels import _attention_prefill_ragged as _attention_prefill_ragged
from .attention_kernels import _attention_prefill_ragged_cpu as _attention_prefill_ragged_cpu
from .attention_kernels import _compact_kv_copy as _compact_kv_copy
from .attention_kernels import _compact_kv_copy_cpu as _compact_kv_copy_cpu
from .attention_kernels import _copy_single_page as _copy_single_page
from .attention_kernels import _copy_single_page_cpu as _copy_single_page_cpu
from .attention_kernels import _kv_cache_debug_get_kv as _kv_cache_debug_get_kv
from .attention_kernels import _kv_cache_transpose_append as _kv_cache_transpose_append
from .attention_kernels import _merge_state_inplace as _merge_state_inplace
from .attention_kernels import _merge_state_inplace_cpu as _merge_state_inplace_cpu
from .attention_kernels import tree_attn as tree_attn
from .attention_kernels import tree_attn_cpu as tree_attn_cpu
from .attention_kernels import tree_attn_with_paged_kv_cache as tree_attn_with_paged_kv_cache
from .attention_kernels import (
    tree_attn_with_paged_kv_cache_cpu as tree_attn_with_paged_kv_cache_cpu,
)
from .position_embedding import kind_of
from .position_embedding import llama_rope_with_position_map as llama_rope_with_position_map

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
    """Makes a cache with kernels of our own, for any CPU.

    max_batch_size, max_total_seq_len, prefill_chunk_size, page_size, support_sliding_window,
        layer_sliding_window_size: known when the cache is made.
    attn_kind: "mha", "mha_sliding", or one for each layer.
    layer_partition: the first layer of each stage and, last, the number of layers.
    rotary_dim: the channels that positions turn, by angles to the base rope_theta, changed by `rope_scaling`
        (see `position_embedding`); rope_ext_factors: a tensor of factors for "longrope".

    Raises ValueError for latent or linear attention, and heads of two sizes.
    """

    def __init__(
        self, attn_kind: str | Sequence[str], max_batch_size: PrimExpr | int,
        max_total_seq_len: PrimExpr | int, prefill_chunk_size: PrimExpr | int,
        page_size: PrimExpr | int, support_sliding_window: int, layer_partition: Expr,
        num_hidden_layers: int, num_attention_heads: int, num_key_value_heads: int,
        qk_head_dim: int, v_head_dim: int, mla_original_qk_head_dim: int,
        mla_original_v_head_dim: int, rope_mode: int, rope_scale: float, rope_theta: float,
        rope_scaling: Mapping[str, Any], rope_ext_factors: Expr, rotary_dim: int,
        enable_disaggregation: bool, dtype: str, target: Any = None, name: str = "paged_kv_cache",
        layer_sliding_window_size: int = 1024,
    ) -> None:  # fmt: skip
        kinds = [attn_kind] * num_hidden_layers if isinstance(attn_kind, str) else list(attn_kind)
        unsupported = set(kinds) - {"mha", "mha_sliding"}
        if unsupported:
            what = "the kernels of the cache do not compute this attention"
            raise ValueError(explain(what, got=unsupported, instead='"mha", "mha_sliding"'))
        if v_head_dim != qk_head_dim:
            what = "the kernels of the cache take heads of one size"
            raise ValueError(explain(what, got=f"{qk_head_dim} and {v_head_dim}"))
        heads, kv_heads, dim = num_attention_heads, num_key_value_heads, qk_head_dim
        scaling = dict(rope_scaling)
        kind_of(scaling)
        rotated = 0 if rope_mode == RopeMode.NONE else rotary_dim
        kernels = _kernels(
            (kv_heads, heads, dim, dtype), num_hidden_layers, scaling,
            llama_rope_with_position_map(
                rope_theta, rope_scale, dim, heads, kv_heads, dtype, scaling, rotated
            ),
            page_size if isinstance(page_size, int) else None, layer_sliding_window_size,
        )  # fmt: skip
        room = [max_batch_size, max_total_seq_len, prefill_chunk_size, page_size]
        numbers = (int(rope_mode), float(rope_scale), float(rope_theta))
        call = relax.op.call_pure_packed(
            "vm.builtin.paged_attention_kv_cache_create",
            relax.ShapeExpr([*room, support_sliding_window, layer_sliding_window_size]),
            layer_partition,
            *map(relax.PrimValue, (heads, kv_heads, dim, dim)),
            relax.ShapeExpr([AttnKind[kind.upper()] for kind in kinds]),
            relax.PrimValue(int(enable_disaggregation)),
            *map(relax.PrimValue, numbers),
            rope_ext_factors,
            relax.op.zeros((), dtype),
            *kernels,
            sinfo_args=ObjectStructInfo(),
        )
        super().__init__(_expr=call, _name=name)


def _emitted(call: Call) -> Tensor:
    return Tensor(_expr=exporting().emit(call))


def _kernels(
    form: tuple[int, int, int, str], layers: int, scaling: dict[str, Any], split: tir.PrimFunc,
    page_size: int | None, window: int,
) -> list[Any]:  # fmt: skip
    """The kernels of a cache, added to the module, in the order of `paged_attention_kv_cache_create`."""
    kv_heads, _, dim, dtype = form
    builder = exporting()

    def added(func: tir.PrimFunc) -> GlobalVar:
        name = func.attrs["global_symbol"]
        return builder.add_func(func.without_attr("global_symbol"), f"kv_cache_{name}")

    def backend(func: tir.PrimFunc) -> Expr:
        return relax.Tuple([relax.StringImm("tirx"), added(func)])

    def attention(sliding: bool, **options: int) -> list[Expr]:
        args = (*form, sliding, scaling)
        prefill = _attention_prefill_cpu(*args, page_size=page_size, **options)
        decode = _attention_decode_cpu(*args, page_size=page_size)
        return [backend(prefill), backend(decode)]

    none, empty = relax.PrimValue(0), relax.Tuple([])
    return [
        added(_kv_cache_transpose_append(kv_heads, dim, dtype, page_size)),
        none,
        empty,  # the rows of a call are in pages before they are attended to
        *attention(False),
        *attention(True, sliding_window_size=window),
        backend(tree_attn_with_paged_kv_cache_cpu(*form, scaling, page_size=page_size)),
        *(empty, empty),
        relax.Tuple([added(_merge_state_inplace_cpu(dtype))]),
        added(split),
        added(_copy_single_page_cpu(kv_heads, page_size, dim, dtype)),
        added(_kv_cache_debug_get_kv(layers, kv_heads, dim, dtype)),
        added(_compact_kv_copy_cpu(kv_heads, dim, dtype, page_size)),
    ]
