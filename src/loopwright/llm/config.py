"""The configuration of a model, read from the keys of a GGUF file or from a config.json.

A family is a row of FAMILIES: what its models do that no key says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import LoopwrightError, explain, suggest
from .rope import Rope
from .stored import Stored


@dataclass(frozen=True)
class Family:
    """All that the models of one architecture have in common, and no key says.

    interleaved: GGUF files have rows of queries and keys in the order of pairs (2c, 2c + 1).
    offset: what Hugging Face's files leave out of the weights of norms.
    scaled: embeddings are multiplied by the root of their width.
    activation: of the gate, "silu" or "gelu" (by tanh).
    full_every: with a sliding window, every n-th layer sees all; 0: none does.
    post_norms: Hugging Face's post_attention_layernorm comes behind attention, not before the gate.
    wide: numbers of layers whose scale is by width / heads instead of the size of a head.
    """

    interleaved: bool = False
    offset: float = 0.0
    scaled: bool = False
    activation: str = "silu"
    full_every: int = 0
    post_norms: bool = False
    local_theta: float = 0.0
    wide: tuple[int, ...] = ()


_GEMMA = {"offset": 1.0, "scaled": True, "activation": "gelu", "post_norms": True}
FAMILIES: dict[str, Family] = {
    "llama": Family(interleaved=True),
    "mistral": Family(),
    "mixtral": Family(),
    "qwen2": Family(),
    "qwen3": Family(),
    "qwen3moe": Family(),
    "phi3": Family(),
    "gemma2": Family(**_GEMMA, full_every=2, wide=(46,)),
    "gemma3": Family(**_GEMMA, full_every=6, local_theta=10_000.0, wide=(62,)),
}
_HF_FAMILIES = {"qwen3_moe": "qwen3moe", "gemma3_text": "gemma3"}


@dataclass(frozen=True)
class Config:
    """A decoder. windows: per layer, how many tokens it sees; 0: all. local_rope: of layers with a window.

    width: of embeddings; hidden, expert_hidden: of the gated part of a layer and of an expert. scale: of
    attention's scores.
    attention_cap, logit_cap: c of c * tanh(x / c), 0: none. epsilon: of norms.

    >>> config = llm.read("tiny-llama").config
    >>> config.heads, config.width
    (4, 64)
    """

    family: Family
    layers: int
    width: int
    hidden: int
    expert_hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int
    epsilon: float
    rope: Rope
    local_rope: Rope
    windows: tuple[int, ...]
    scale: float
    attention_cap: float
    logit_cap: float
    experts: int
    experts_used: int
    normalized: bool


# A field's keys: in GGUF behind the name of the architecture, and in config.json; the first there is.
_KEYS: dict[str, tuple[str, str]] = {
    "layers": ("block_count", "num_hidden_layers"),
    "width": ("embedding_length", "hidden_size"),
    "hidden": ("feed_forward_length", "intermediate_size"),
    "expert_hidden": ("expert_feed_forward_length", "moe_intermediate_size"),
    "heads": ("attention.head_count", "num_attention_heads"),
    "kv_heads": ("attention.head_count_kv", "num_key_value_heads"),
    "head_dim": ("attention.key_length", "head_dim"),
    "vocabulary": ("vocab_size", "vocab_size"),
    "context": ("context_length", "max_position_embeddings"),
    "epsilon": ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    "window": ("attention.sliding_window", "sliding_window"),
    "attention_cap": ("attn_logit_softcapping", "attn_logit_softcapping"),
    "logit_cap": ("final_logit_softcapping", "final_logit_softcapping"),
    "experts": ("expert_count", "num_local_experts num_experts"),
    "experts_used": ("expert_used_count", "num_experts_per_tok"),
    "scale_size": ("", "query_pre_attn_scalar"),
    "theta": ("rope.freq_base", "rope_theta"),
    "rotary": ("rope.dimension_count", ""),
}
_MOST = {"layers": 1024, "experts": 1024, "vocabulary": 1 << 22}


class _Reader:
    """Numbers by field. Raises LoopwrightError where one is missing or out of range."""

    def __init__(self, find: Callable[[str], Any], column: int) -> None:
        self.find, self.column = find, column

    def number(self, name: str, default: float | None = None) -> Any:
        """A positive number, an integer unless the default is a float."""
        keys = _KEYS[name][self.column].split()
        value = next((v for v in map(self.find, keys) if v is not None), default)
        if value is default is not None:
            return value
        if value is None:
            what = "the configuration of the model is incomplete"
            raise LoopwrightError(explain(what, got=f"no {' or '.join(keys)}"))
        kind = (int, float) if isinstance(default, float) else int
        most = _MOST.get(name, 1 << 40)
        if isinstance(value, bool) or not isinstance(value, kind) or not 0 < value <= most:
            got, hint = f"{keys[0]}: {str(value)[:80]}", f"a number from 1 to {most}"
            what = "the configuration of the model has an unsupported value"
            raise LoopwrightError(explain(what, got=got, instead=hint))
        return value

    def config(
        self, family: Family, rope: Callable[[int, bool], Rope], local: Callable[[int], bool | None],
        vocabulary: int | None = None, **options: Any,
    ) -> Config:  # fmt: skip
        """The configuration. rope: of the size of a head and whether layers with a window are meant. local:
        whether a layer has the window, where the file says so."""
        get = self.number
        layers, width, heads = get("layers"), get("width"), get("heads")
        dim, kv_heads = get("head_dim", width // heads), get("kv_heads", heads)
        experts, window = get("experts", 0), get("window", 0)
        hidden = get("hidden")
        base = rope(dim, False)
        local_rope = rope(dim, True) if family.local_theta else base
        if heads % kv_heads or any(
            r.rotary not in range(2, dim + 1, 2) for r in (base, local_rope)
        ):
            what = "the configuration has heads that do not fit each other, or their rotation"
            got = f"{heads} by {kv_heads} of {dim} channels, {base.rotary} of them rotated"
            raise LoopwrightError(explain(what, got=got))

        def of_layer(k: int) -> int:
            stated = local(k)
            every = family.full_every
            return window if (not every or (k + 1) % every if stated is None else stated) else 0

        size = get("scale_size", width // heads if layers in family.wide else dim)
        return Config(
            family, layers, width, hidden, get("expert_hidden", hidden), heads, kv_heads, dim,
            get("vocabulary", vocabulary), get("context"), get("epsilon", 1e-6),
            base, local_rope, tuple(map(of_layer, range(layers))),
            size**-0.5, get("attention_cap", 0.0), get("logit_cap", 0.0), experts,
            min(get("experts_used", 0), experts), **{"normalized": True, **options},
        )  # fmt: skip


def _family(name: object) -> Family:
    if name not in FAMILIES:
        what = "models of this architecture are not supported"
        raise LoopwrightError(explain(what, got=name, instead=suggest(name, FAMILIES)))
    return FAMILIES[str(name)]


def from_gguf(fields: Mapping[str, Any], tensors: Mapping[str, Stored]) -> Config:
    """The configuration by the keys of a GGUF file. Raises LoopwrightError."""
    name = fields.get("general.architecture")
    family, find = _family(name), lambda key: fields.get(f"{name}.{key}")
    reader = _Reader(find, 0)
    tables = {
        key: tensors[f"rope_{tensor}.weight"].values().reshape(-1)
        for key, tensor in (
            ("factors", "freqs"), ("long_factor", "factors_long"), ("short_factor", "factors_short")
        )
        if f"rope_{tensor}.weight" in tensors
    }  # fmt: skip

    def rope(dim: int, local: bool) -> Rope:
        theta, rotary = reader.number("theta", 10_000.0), reader.number("rotary", dim)
        if local and family.local_theta:
            return Rope(rotary, find("rope.freq_base_swa") or family.local_theta)
        context, factor = reader.number("context"), find("rope.scaling.factor")
        original = find("rope.scaling.original_context_length") or context
        options = {
            "original_max_position_embeddings": original,
            "factor": factor or context / original,
            "attention_factor": find("rope.scaling.attn_factor"),
            "beta_fast": find("rope.scaling.yarn_beta_fast"),
            "beta_slow": find("rope.scaling.yarn_beta_slow"),
            **tables,
        }
        kind = str(find("rope.scaling.type") or "default")
        kind = "table" if "factors" in tables else "longrope" if tables else kind
        return Rope(rotary, theta, kind, options)

    tokens = fields.get("tokenizer.ggml.tokens")
    count = len(tokens) if isinstance(tokens, list) else None
    if count is None and "token_embd.weight" in tensors:
        count = tensors["token_embd.weight"].rows
    return reader.config(family, rope, lambda k: None, count)


def from_json(config: Mapping[str, Any]) -> Config:
    """The configuration by a config.json of Hugging Face. Raises LoopwrightError."""
    config = config.get("text_config") or config
    name = config.get("model_type")
    family = _family(_HF_FAMILIES.get(str(name), name))
    reader = _Reader(config.get, 1)
    kinds = config.get("layer_types")

    def rope(dim: int, local: bool) -> Rope:
        options = dict(config.get("rope_scaling") or {})
        newer = config.get("rope_parameters") or {}
        if "full_attention" in newer:
            options = dict(newer["sliding_attention" if local else "full_attention"])
        elif local and family.local_theta:
            options = {"rope_theta": config.get("rope_local_base_freq", family.local_theta)}
        else:
            options |= newer
        theta = options.get("rope_theta") or reader.number("theta", 10_000.0)
        share = options.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1.0
        kind = str(options.get("rope_type") or options.get("type") or "default")
        context = reader.number("context")
        original = config.get("original_max_position_embeddings") or context
        original = options.setdefault("original_max_position_embeddings", original)
        options["factor"] = options.get("factor") or context / original
        return Rope(int(dim * share), theta, kind, options)

    def local(k: int) -> bool | None:
        if config.get("use_sliding_window") is False:
            return False
        return kinds[k] == "sliding_attention" if kinds and k < len(kinds) else None

    return reader.config(
        family, rope, local, normalized=bool(config.get("norm_topk_prob", name != "qwen3_moe"))
    )


def pairs_first(heads: int, dim: int) -> np.ndarray:
    """The order of rows that makes pairs (2c, 2c + 1) of each head pairs (c, c + dim // 2)."""
    order = np.arange(heads * dim).reshape(heads, dim // 2, 2)
    return order.transpose(0, 2, 1).reshape(-1)
