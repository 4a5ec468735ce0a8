"""Attention in trees of tokens, at TVM's path: see `attention_kernels`."""

from __future__ import annotations

from .attention_kernels import tree_attn as tree_attn
from .attention_kernels import tree_attn_cpu as tree_attn_cpu
from .attention_kernels import tree_attn_with_paged_kv_cache as tree_attn_with_paged_kv_cache
from .attention_kernels import (
    tree_attn_with_paged_kv_cache_cpu as tree_attn_with_paged_kv_cache_cpu,
)
