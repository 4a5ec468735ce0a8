"""Folders of Hugging Face models: config.json, and tensors of safetensors files under GGUF's names.

The format of safetensors: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import re
from math import prod
from pathlib import Path
from typing import Any

from ..base.errors import LoopwrightError, explain
from .stored import GROUPS, MappedFile, Stored

_DTYPES = {"F32": "f32", "F16": "f16", "BF16": "bf16", "I32": "i32"}
_NAMES = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
    "gate_up_proj": "ffn_up",
    "w1": "ffn_gate",
    "w2": "ffn_down",
    "w3": "ffn_up",
}
_NAME = re.compile(
    r"(?:model\.|language_model\.)*(?:layers\.(?P<layer>\d+)\.)?"
    r"(?:(?P<experts>mlp\.experts\.)(?:(?P<expert>\d+)\.)?)?(?P<name>[\w.]+?)(?:\.(?P<kind>weight|bias|qweight|qzeros|scales|g_idx))?"
)


def read_folder(path: Path, post_norms: bool) -> dict[str, Stored]:
    """The tensors of a folder by GGUF's names. post_norms: see `Family`.

    Raises LoopwrightError for a broken file, and OSError.
    """
    index = path / "model.safetensors.index.json"
    names = ["model.safetensors"]
    if index.exists():
        table = read_json(index).get("weight_map")
        names = sorted(set(map(str, table.values()))) if isinstance(table, dict) else []
        if any(Path(name).name != name for name in names):
            what = "the index names files outside of the folder of the model"
            raise LoopwrightError(explain(what, got=str(names)[:200]))
    tensors: dict[str, Stored] = {}
    for name in names:
        for key, stored in _read_file(path / name).items():
            tensors[_renamed(key, post_norms)] = stored
    return tensors


def _renamed(name: str, post_norms: bool) -> str:
    """GGUF's name of a tensor; for one that it does not have the name itself."""
    match = _NAME.fullmatch(name.replace("block_sparse_moe.", "mlp."))
    own = match and _NAMES.get(match["name"])
    if not match or not own:
        return name
    if post_norms and match["name"] == "post_attention_layernorm":
        own = "post_attention_norm"
    expert = "" if not match["experts"] else f".{match['expert']}" if match["expert"] else "_exps"
    layer = "" if match["layer"] is None else f"blk.{match['layer']}."
    return f"{layer}{own}{expert}.{match['kind'] or 'weight'}"


def read_json(path: Path) -> dict[str, Any]:
    """An object of a JSON file. Raises LoopwrightError for another text, and OSError."""
    return _object(path.read_bytes(), path.name)


def _object(text: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise LoopwrightError(explain(f"{name} is not valid JSON", got=str(err)[:200])) from err
    if not isinstance(value, dict):
        raise LoopwrightError(explain(f"{name} has no table", got=type(value).__name__))
    return value


def _read_file(path: Path) -> dict[str, Stored]:
    """The tensors of a safetensors file, which is mapped."""

    def error(what: str, got: object) -> LoopwrightError:
        text = f"{path.name} is not a valid safetensors file: {what}"
        return LoopwrightError(explain(text, got=str(got)[:200]))

    file = MappedFile(path)
    data, size = file.data, file.size
    if size < 8:
        raise error("it ends too early", f"{size} bytes")
    start = 8 + int(data[:8].view("<u8")[0])
    if start > size:
        raise error("it ends too early", f"{size} of {start} bytes")
    tensors = {}
    for name, entry in _object(bytes(data[8:start]), path.name).items():
        if name == "__metadata__":
            continue
        try:
            dtype, dims = entry["dtype"], tuple(entry["shape"])
            first, end = (start + at for at in entry["data_offsets"])
        except (TypeError, KeyError, ValueError) as err:
            raise error(f"the entry of tensor {name[:80]}", entry) from err
        if dtype not in _DTYPES:
            what, hint = f"tensor {name[:80]} is of a dtype without products", ", ".join(_DTYPES)
            raise LoopwrightError(explain(what, got=dtype, instead=hint))
        if not dims or not all(type(d) is int and d > 0 for d in dims):
            raise error(f"the shape of tensor {name[:80]}", dims)
        row = dims[-1] * GROUPS[_DTYPES[dtype]][1]
        if (
            type(end) is not int
            or not start <= first <= end <= size
            or end - first != row * prod(dims[:-1])
        ):
            raise error(f"tensor {name[:80]} is not within it", entry)
        tensors[name] = Stored(name, _DTYPES[dtype], dims, data[first:end].reshape(-1, row), file)
    return tensors
