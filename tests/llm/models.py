"""Tiny random models of all families: their configurations and weights in Hugging Face's form, as a folder or
a GGUF file, and a plain evaluation in numpy.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

_BASE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 96,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10_000.0,
}
_GEMMA = {
    "query_pre_attn_scalar": 16,
    "sliding_window": 9,
    "hidden_activation": "gelu_pytorch_tanh",
}
# A family's own keys; layer_types decides which layers slide.
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": 9},
    "qwen2": {"use_sliding_window": False, "sliding_window": 9},
    "qwen3": {"head_dim": 32, "tie_word_embeddings": True},
    "gemma2": {**_GEMMA, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0},
    "gemma3_text": {**_GEMMA, "num_hidden_layers": 6, "rope_local_base_freq": 100.0},
    "phi3": {"partial_rotary_factor": 0.5},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "norm_topk_prob": False,
    },
}


def config(family: str, **other: Any) -> dict[str, Any]:
    return {**_BASE, "model_type": family, **CONFIGS[family], **other}


def windows(c: dict[str, Any]) -> list[int]:
    """Of each layer; 0: it sees all."""
    every = {"gemma2": 2, "gemma3_text": 6}.get(c["model_type"], 0)
    window = 0 if c.get("use_sliding_window") is False else c.get("sliding_window", 0)
    return [0 if every and (k + 1) % every == 0 else window for k in range(c["num_hidden_layers"])]


def random_weights(c: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Tensors by Hugging Face's names."""
    rng, family = np.random.default_rng(seed), c["model_type"]
    width, hidden, dim = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    rows, groups = c["num_attention_heads"] * dim, c["num_key_value_heads"] * dim
    weights: dict[str, np.ndarray] = {}

    def put(name: str, *shape: int) -> None:
        weights[f"{name}.weight"] = (rng.standard_normal(shape) * 0.3).astype(np.float32)

    put("model.embed_tokens", c["vocab_size"], width)
    for k in range(c["num_hidden_layers"]):
        at = f"model.layers.{k}."
        own = {"q_proj": rows, "k_proj": groups, "v_proj": groups}
        for name, count in (
            {"qkv_proj": rows + 2 * groups}.items() if family == "phi3" else own.items()
        ):
            put(f"{at}self_attn.{name}", count, width)
            if family == "qwen2":
                weights[f"{at}self_attn.{name}.bias"] = rng.standard_normal(count).astype(
                    np.float32
                )
        put(f"{at}self_attn.o_proj", width, rows)
        if family in ("qwen3", "qwen3_moe", "gemma3_text"):
            put(f"{at}self_attn.q_norm", dim)
            put(f"{at}self_attn.k_norm", dim)
        count = c.get("num_local_experts") or c.get("num_experts") or 0
        names, where = ("gate_proj", "up_proj", "down_proj"), f"{at}mlp."
        if family == "mixtral":
            names, where = ("w1", "w3", "w2"), f"{at}block_sparse_moe."
        if count:
            put(f"{where}gate", count, width)
        size = c.get("moe_intermediate_size", hidden)
        for inner in [f"{where}experts.{e}." for e in range(count)] or [where]:
            if family == "phi3":
                put(f"{inner}gate_up_proj", 2 * size, width)
            else:
                put(f"{inner}{names[0]}", size, width)
                put(f"{inner}{names[1]}", size, width)
            put(f"{inner}{names[2]}", width, size)
        put(f"{at}input_layernorm", width)
        put(f"{at}post_attention_layernorm", width)
        if "gemma" in family:
            put(f"{at}pre_feedforward_layernorm", width)
            put(f"{at}post_feedforward_layernorm", width)
    put("model.norm", width)
    if not c.get("tie_word_embeddings"):
        put("lm_head", c["vocab_size"], width)
    return weights


# ---------------------------------------------------------------- meaning


def evaluate(c: dict[str, Any], weights: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    """The logits behind each token, float32 (tokens, vocabulary)."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    gemma, dim, heads = "gemma" in c["model_type"], c["head_dim"], c["num_attention_heads"]
    groups, n = c["num_key_value_heads"], len(ids)
    cap = lambda x, limit: limit * np.tanh(x / limit) if limit else x  # noqa: E731

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        scale = np.sqrt(np.mean(x * x, -1, keepdims=True) + c["rms_norm_eps"])
        return x / scale * (w[f"{name}.weight"] + gemma)

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)

    def rotated(x: np.ndarray, theta: float) -> np.ndarray:
        rotary = int(dim * c.get("partial_rotary_factor", 1.0))
        angles = np.arange(n)[:, None] * theta ** (-np.arange(0, rotary, 2) / rotary)
        turn = np.exp(1j * angles)[:, None]
        pairs = (x[..., : rotary // 2] + 1j * x[..., rotary // 2 : rotary]) * turn
        return np.concatenate([pairs.real, pairs.imag, x[..., rotary:]], -1)

    def attention(x: np.ndarray, at: str, window: int) -> np.ndarray:
        if f"{at}qkv_proj.weight" in w:
            qkv = linear(x, f"{at}qkv_proj")
        else:
            qkv = np.concatenate([linear(x, f"{at}{p}_proj") for p in "qkv"], 1)
        q, k, v = np.split(qkv.reshape(n, -1, dim), [heads, heads + groups], 1)
        if f"{at}q_norm.weight" in w:
            q, k = norm(q, f"{at}q_norm"), norm(k, f"{at}k_norm")
        local = window and c.get("rope_local_base_freq")
        q, k = (rotated(t, local or c["rope_theta"]) for t in (q, k))
        k, v = (np.repeat(t, heads // groups, 1) for t in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) * c.get("query_pre_attn_scalar", dim) ** -0.5
        scores = cap(scores, c.get("attn_logit_softcapping"))
        ahead = np.arange(n)[:, None] - np.arange(n)
        seen = (ahead >= 0) & (ahead < (window or n))
        p = np.exp(np.where(seen, scores, -np.inf) - scores.max(-1, keepdims=True))
        out = np.einsum("hij,jhd->ihd", p / p.sum(-1, keepdims=True), v)
        return linear(out.reshape(n, -1), f"{at}o_proj")

    def gated(x: np.ndarray, at: str) -> np.ndarray:
        if f"{at}gate_up_proj.weight" in w:
            gate, up = np.split(linear(x, f"{at}gate_up_proj"), 2, 1)
        else:
            names = ("w1", "w3") if f"{at}w1.weight" in w else ("gate_proj", "up_proj")
            gate, up = (linear(x, f"{at}{name}") for name in names)
        if gemma:
            act = gate / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        else:
            act = gate / (1 + np.exp(-gate))
        return linear(act * up, f"{at}w2" if f"{at}w2.weight" in w else f"{at}down_proj")

    def mixture(x: np.ndarray, at: str) -> np.ndarray:
        p = np.exp(linear(x, f"{at}gate"))
        p /= p.sum(1, keepdims=True)
        least = np.sort(p, 1)[:, [-c["num_experts_per_tok"]]]
        p = np.where(p >= least, p, 0)
        if c.get("norm_topk_prob", True):
            p /= p.sum(1, keepdims=True)
        return sum(p[:, [e]] * gated(x, f"{at}experts.{e}.") for e in range(p.shape[1]))

    x = w["model.embed_tokens.weight"][ids] * (c["hidden_size"] ** 0.5 if gemma else 1)
    for k, window in enumerate(windows(c)):
        at = f"model.layers.{k}."
        y = attention(norm(x, f"{at}input_layernorm"), f"{at}self_attn.", window)
        before = f"{at}post_attention_layernorm"
        if gemma:
            y, before = norm(y, before), f"{at}pre_feedforward_layernorm"
        x = x + y
        y = norm(x, before)
        experts = f"{at}block_sparse_moe." if c["model_type"] == "mixtral" else f"{at}mlp."
        y = mixture(y, experts) if f"{experts}gate.weight" in w else gated(y, f"{at}mlp.")
        x = x + (norm(y, f"{at}post_feedforward_layernorm") if gemma else y)
    head = "lm_head" if "lm_head.weight" in w else "model.embed_tokens"
    logits = linear(norm(x, "model.norm"), head)
    return cap(logits, c.get("final_logit_softcapping")).astype(np.float32)


def greedy(
    c: dict[str, Any], weights: dict[str, np.ndarray], ids: list[int], count: int
) -> list[int]:
    """The most probable tokens behind a sequence."""
    ids = list(ids)
    for _ in range(count):
        ids.append(int(evaluate(c, weights, ids)[-1].argmax()))
    return ids[-count:]


# ---------------------------------------------------------------- files


def write_folder(path: Path, c: dict[str, Any], weights: dict[str, np.ndarray]) -> Path:
    """config.json and model.safetensors."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(c))
    entries, at = {}, 0
    kinds = {"float32": "F32", "float16": "F16", "int32": "I32"}
    for name, value in weights.items():
        entries[name] = {
            "dtype": kinds[str(value.dtype)],
            "shape": value.shape,
            "data_offsets": [at, at := at + value.nbytes],
        }
    header = json.dumps(entries).encode()
    data = (
        len(header).to_bytes(8, "little") + header + b"".join(v.tobytes() for v in weights.values())
    )
    (path / "model.safetensors").write_bytes(data)
    return path


_KEYS = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "head_count": "num_attention_heads",
    "head_count_kv": "num_key_value_heads",
    "layer_norm_rms_eps": "rms_norm_eps",
    "key_length": "head_dim",
    "value_length": "head_dim",
    "rope_freq_base": "rope_theta",
    "sliding_window": "sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "vocab_size": "vocab_size",
}


def write_gguf(
    path: Path, c: dict[str, Any], weights: dict[str, np.ndarray],
    forms: dict[str, str] | None = None,
    fields: dict[str, Any] | None = None,
) -> Path:  # fmt: skip
    """A GGUF file by the package `gguf`: matrices in formats by a part of their name, names by its tables."""
    import gguf

    family = c["model_type"]
    arch = {
        "mistral": "llama",
        "mixtral": "llama",
        "qwen3_moe": "qwen3moe",
        "gemma3_text": "gemma3",
    }
    arch = arch.get(family, family)
    writer = gguf.GGUFWriter(path, arch)
    if family == "qwen2" or not windows(c)[0]:
        c = {k: v for k, v in c.items() if k != "sliding_window"}
    for name, key in _KEYS.items():
        if c.get(key):
            getattr(writer, f"add_{name}")(c[key])
    count = c.get("num_local_experts") or c.get("num_experts") or 0
    if count:
        writer.add_expert_count(count)
    writer.add_rope_dimension_count(int(c["head_dim"] * c.get("partial_rotary_factor", 1)))
    if "rope_local_base_freq" in c:
        writer.add_float32(f"{arch}.rope.freq_base_swa", c["rope_local_base_freq"])
    for key, value in (fields or {}).items():
        add = writer.add_array if isinstance(value, list) else writer.add_string
        {bool: writer.add_bool, int: writer.add_uint32}.get(type(value), add)(key, value)
    architecture = next(a for a, n in gguf.MODEL_ARCH_NAMES.items() if n == arch)
    names = gguf.get_tensor_name_map(architecture, c["num_hidden_layers"])
    experts: dict[str, list[np.ndarray]] = {}
    tensors: dict[str, np.ndarray] = {}
    for name, value in weights.items():
        if ".experts." in name:
            before, _, after = name.partition(".experts.")
            experts.setdefault(f"{before}.experts.{after.partition('.')[2]}", []).append(value)
        else:
            tensors[name] = value
    for name, value in {**tensors, **{n: np.stack(v) for n, v in experts.items()}}.items():
        if arch == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = c["num_attention_heads" if "q_proj" in name else "num_key_value_heads"]
            value = value.reshape(heads, 2, -1, value.shape[1]).swapaxes(1, 2).reshape(value.shape)
        if "gemma" in family and "norm" in name:
            value = value + 1
        own = names.get_name(name, try_suffixes=(".weight", ".bias"))
        form = next((f for part, f in (forms or {}).items() if part in name), "F32")
        kind = gguf.GGMLQuantizationType[form]
        if value.ndim == 1 or form == "F32":
            writer.add_tensor(own, value)
        else:
            writer.add_tensor(own, gguf.quantize(value, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
