"""Broken files: each a clear error, none a crash."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from loopwright import llm
from loopwright.base.errors import LoopwrightError
from loopwright.llm.gguf import read_gguf

from .models import config, random_weights, write_folder, write_gguf


def _read(path, data):
    path.write_bytes(data)
    return read_gguf(path)


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    pytest.importorskip("gguf")
    c = config("llama", num_hidden_layers=1, hidden_size=32, intermediate_size=32, head_dim=8)
    fields = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": [chr(33 + k) for k in range(c["vocab_size"])],
        "tokenizer.ggml.merges": ["a b"],
    }
    path = tmp_path_factory.mktemp("gguf") / "valid.gguf"
    return write_gguf(path, c, random_weights(c), {"ffn": "Q4_0"}, fields).read_bytes()


def _header(magic=b"GGUF", version=3, tensors=0, values=0):
    return magic + struct.pack("<IQQ", version, tensors, values)


def _text(text):
    return struct.pack("<Q", len(text)) + text


_TENSOR = _text(b"t") + struct.pack("<IQQIQ", 2, 32, 2, 0, 0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a valid GGUF file"),
        (b"GG", "ends too early"),
        (_header(b"XXXX"), "begins with other bytes"),
        (_header(version=9), "version"),
        (_header(tensors=1 << 60), "ends too early"),
        (_header(values=1 << 60), "ends too early"),
        (_header(values=1) + _text(b"k") + struct.pack("<I", 77), "unknown type"),
        (_header(values=1) + _text(b"k") + struct.pack("<IIQ", 9, 4, 1 << 50), "ends too early"),
        (_header(values=1) + _text(b"k") + struct.pack("<IIQ", 9, 8, 1 << 50), "ends too early"),
        (_header(values=1) + _text(b"k") + struct.pack("<IIQ", 9, 9, 2), "unknown type"),
        (_header(values=2) + 2 * (_text(b"k") + struct.pack("<II", 4, 1)), "twice"),
        (_header(tensors=1) + _TENSOR, "not within it"),
        (_header(tensors=1) + _text(b"t") + struct.pack("<I", 9), "dimensions"),
        (_header(tensors=1) + _text(b"t") + struct.pack("<IQQIQ", 2, 32, 2, 16, 0), "type without"),
        (_header(tensors=1) + _text(b"t") + struct.pack("<IQQIQ", 2, 33, 2, 2, 0), "whole blocks"),
        (
            _header(tensors=1) + _text(b"t") + struct.pack("<IQQIQ", 2, 1 << 63, 8, 0, 0),
            "not within",
        ),
    ],
)
def test_header(data, message, tmp_path):
    with pytest.raises(LoopwrightError, match=message):
        _read(tmp_path / "m.gguf", data)


@pytest.mark.budget(12)
def test_mutations(valid, tmp_path):
    """Bytes changed at random, mostly of the header, and files cut: read, or an error of ours."""
    rng = np.random.default_rng(7)
    end = valid.index(b"token_embd") + 2000
    errors = 0
    for k in range(500):
        data = bytearray(valid)
        if k % 5 == 0:
            data = data[: rng.integers(len(data))]
        for _ in range(int(rng.integers(1, 4)) if data else 0):
            data[rng.integers(min(end, len(data)))] = rng.choice(
                [0, 1, 127, 128, 255, rng.integers(256)]
            )
        path = tmp_path / "m.gguf"
        path.write_bytes(data)
        try:
            llm.read(path)
        except LoopwrightError as err:
            errors += 1
            assert str(err)
    assert errors > 150


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bert"}, "architecture"),
        ({"num_hidden_layers": None}, "incomplete"),
        ({"num_hidden_layers": 1 << 40}, "unsupported value"),
        ({"num_hidden_layers": 3}, "no tensor"),
        ({"hidden_size": "big"}, "unsupported value"),
        ({"num_key_value_heads": 3}, "do not fit"),
        ({"intermediate_size": 95}, "does not fit the configuration"),
        ({"rope_scaling": {"type": "dynamic"}}, "not scaled by this rule"),
        ({"rope_scaling": {"type": "longrope"}}, "invalid"),
        ({"rope_scaling": 5}, "invalid"),
        ({"rope_scaling": {"type": ["yarn"]}}, "not scaled by this rule"),
        ({"rope_scaling": {"rope_theta": "x"}}, "invalid"),
        ({"rope_scaling": {"type": "yarn", "factor": "x"}}, "invalid"),
        ({"partial_rotary_factor": 2}, "rotation"),
        ({"layer_types": 5}, "invalid"),
        ({"text_config": [1]}, "invalid"),
        ({"quantization_config": {"quant_method": "other"}}, "by this method"),
    ],
)
def test_configurations(change, message, tmp_path):
    c = config("llama")
    folder = write_folder(tmp_path / "m", c, random_weights(c))
    (folder / "config.json").write_text(json.dumps({**c, **change}))
    with pytest.raises(LoopwrightError, match=message):
        llm.load(folder)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "ends too early"),
        (struct.pack("<Q", 1 << 60), "ends too early"),
        (struct.pack("<Q", 2) + b"[]", "no table"),
        (struct.pack("<Q", 2) + b"{x", "not valid JSON"),
        *(
            (struct.pack("<Q", len(t)) + t, m)
            for t, m in (
                (b'{"t": 5}', "entry of tensor"),
                (b'{"t": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}', "not within"),
                (b'{"t": {"dtype": "F32", "shape": [-4], "data_offsets": [0, 0]}}', "shape"),
                (b'{"t": {"dtype": "F32", "shape": [1], "data_offsets": ["a", 0]}}', "entry"),
                (b'{"t": {"dtype": "I64", "shape": [4], "data_offsets": [0, 0]}}', "dtype"),
            )
        ),
    ],
)
def test_safetensors(data, message, tmp_path):
    c = config("llama")
    folder = write_folder(tmp_path / "m", c, {})
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(LoopwrightError, match=message):
        llm.read(folder)


def test_an_index_names_files_of_its_folder(tmp_path):
    folder = write_folder(tmp_path / "m", config("llama"), {})
    (folder / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "../x.safetensors"}}'
    )
    with pytest.raises(LoopwrightError, match="outside of the folder"):
        llm.read(folder)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    c = config("llama", num_hidden_layers=1)
    path = write_folder(tmp_path_factory.mktemp("llm") / "m", c, random_weights(c))
    return llm.load(path, context=48)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [([], "one token or more"), ([96], "96 tokens"), ([-1], "96 tokens"), ([1.5], "one token"),
     ([1] * 65, "pages of the model are in use"), ("text", "no tokenizer")],
)  # fmt: skip
def test_prompts(prompt, message, tiny):
    with pytest.raises(LoopwrightError, match=message):
        tiny.generate(prompt)
    assert len(tiny.pages.free) == len(tiny.pages.users)


@pytest.mark.budget(8)
def test_values_of_other_kinds(tmp_path):
    """Each value of a configuration as something else: read, or an error of ours."""
    rope = {
        "rope_type": "yarn",
        "factor": 2.0,
        "original_max_position_embeddings": 64,
        "beta_fast": 32,
    }
    c = config(
        "qwen3_moe", rope_scaling=rope, layer_types=["full_attention"] * 2, norm_topk_prob=True
    )
    folder = write_folder(tmp_path / "m", c, random_weights(c))
    errors = 0
    for key in c:
        for value in (None, "x", [], {}, {"a": 1}, -1, 0, 1e300, 3.5, 1 << 70, True, [None]):
            for where in (c, rope) if key == "rope_scaling" else (c,):
                for inner in [key] if where is c else rope:
                    own = {**where, inner: value}
                    changed = own if where is c else {**c, key: own}
                    (folder / "config.json").write_text(json.dumps(changed))
                    try:
                        llm.read(folder).config.rope.frequencies(64)
                    except LoopwrightError:
                        errors += 1
    assert errors > 100
