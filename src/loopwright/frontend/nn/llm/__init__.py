"""What language models add to `nn`: a paged cache of keys and values."""

from __future__ import annotations

from . import kv_cache, position_embedding, tree_attn
