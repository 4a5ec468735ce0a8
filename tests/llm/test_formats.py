"""Models whose weights are packed: as numpy computes with what the package `gguf` dequantizes."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import llm
from loopwright.base.errors import LoopwrightError
from loopwright.llm import formats
from loopwright.ops import OPERATORS

from .models import config, evaluate, random_weights, write_folder, write_gguf

IDS = [3, 40, 77, 21, 8, 8, 60]


def _model(path, forms, family="llama", **other):
    """A model with matrices in formats by part of their name, and its weights dequantized."""
    gguf = pytest.importorskip("gguf")
    other |= {"norm_topk_prob": True} if family == "qwen3_moe" else {}  # which a GGUF file means
    c = config(family, intermediate_size=128, num_hidden_layers=1, **other)
    weights = random_weights(c)
    write_gguf(path, c, weights, forms)
    for name, value in weights.items():
        kind = gguf.GGMLQuantizationType[next(f for part, f in forms.items() if part in name)]
        if value.ndim > 1 and kind != gguf.GGMLQuantizationType.F32:
            weights[name] = gguf.dequantize(gguf.quantize(value, kind), kind)
    return c, weights


@pytest.mark.budget(12)
@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("family", "forms"),
    [
        ("llama", {"": "Q4_0"}),
        ("llama", {"v_proj": "Q8_0", "": "Q5_1"}),
        ("llama", {"up": "F32", "down": "F16", "": "BF16"}),
        ("mixtral", {"": "Q4_1"}),
        ("qwen3_moe", {"up": "Q8_0", "down": "BF16", "": "Q4_0"}),
    ],
    ids=str,
)
def test_formats(family, forms, tmp_path):
    path = tmp_path / "m.gguf"
    c, weights = _model(path, forms, family)
    expected = evaluate(c, weights, IDS)
    for exact, most in ((True, 1e-5), (False, 3e-2)):
        model = llm.load(path, context=64, exact=exact)
        state = model.prefill(IDS[:-1])
        got = [state.logits, model.decode(state, IDS[-1])]
        error = np.linalg.norm(got - expected[-2:]) / np.linalg.norm(expected[-2:])
        assert error < most


def _words(numbers):
    """Eight numbers of four bits a word, along the last axis."""
    parts = numbers.astype(np.uint32).reshape(*numbers.shape[:-1], -1, 8) << np.arange(
        0, 32, 4, dtype=np.uint32
    )
    return np.bitwise_or.reduce(parts, -1).view(np.int32)


def _integers(c, weights, method, options):
    """Tensors of a folder with products in integers of groups of 32 rows, and the values that these mean."""
    rng, stored, meant = np.random.default_rng(2), {}, {}
    place = [0, 2, 4, 6, 1, 3, 5, 7] if method == "awq" else range(8)  # columns of a word
    shuffled = lambda a: a.reshape(len(a), -1, 8)[..., list(place)].reshape(a.shape)  # noqa: E731
    for name, value in weights.items():
        if "proj" not in name or value.ndim == 1:
            stored[name] = meant[name] = value
            continue
        columns, depth = value.shape
        numbers = rng.integers(0, 16, (depth, columns))
        zeros = rng.integers(1, 15, (depth // 32, columns))
        scale = rng.uniform(0.02, 0.08, zeros.shape).astype(np.float16)
        repeated = (np.repeat(a, 32, 0) for a in (zeros, scale.astype(np.float32)))
        meant[name] = np.ascontiguousarray(
            ((numbers - next(repeated)) * next(repeated)).T, np.float32
        )
        base = name.removesuffix("weight")
        words = _words(shuffled(numbers)) if method == "awq" else _words(numbers.T).T
        less = method == "gptq" and "checkpoint_format" not in options
        parts = {
            "qweight": np.ascontiguousarray(words),
            "qzeros": _words(shuffled(zeros - less)),
            "scales": scale,
        }
        if method == "gptq":
            parts["g_idx"] = np.arange(depth, dtype=np.int32) // 32
        stored |= {f"{base}{part}": array for part, array in parts.items()}
    return stored, meant


@pytest.mark.budget(8)
@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("method", "options"), [("awq", {}), ("gptq", {}), ("gptq", {"checkpoint_format": "gptq_v2"})]
)
def test_integers(method, options, tmp_path):
    c = config("llama", intermediate_size=128, num_hidden_layers=1)
    stored, meant = _integers(c, random_weights(c), method, options)
    c["quantization_config"] = {"quant_method": method, "bits": 4, "group_size": 32, **options}
    model = llm.load(write_folder(tmp_path / "m", c, stored), context=64, exact=True)
    expected = evaluate(c, meant, IDS)[-1]
    got = model.prefill(IDS).logits
    assert np.linalg.norm(got - expected) / np.linalg.norm(expected) < 5e-3  # zeros as float16


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"g_idx": np.arange(64, dtype=np.int32)[::-1] // 32}, {}, "another order"),
        ({"qzeros": None}, {}, "no zeros"),
        ({"scales": np.ones((3, 64), np.float16)}, {}, "scales"),
        ({}, {"bits": 3}, "3 bits"),
        ({}, {"quant_method": "exl2"}, "by this method"),
    ],
)
def test_integers_that_do_not_fit(change, options, message, tmp_path):
    c = config("llama", intermediate_size=128, num_hidden_layers=1)
    stored, _ = _integers(c, random_weights(c), "gptq", {})
    for part, array in change.items():
        name = f"model.layers.0.self_attn.q_proj.{part}"
        stored.pop(name)
        if array is not None:
            stored[name] = np.ascontiguousarray(array)
    c["quantization_config"] = {"quant_method": "gptq", "bits": 4, **options}
    with pytest.raises(LoopwrightError, match=message):
        llm.read(write_folder(tmp_path / "m", c, stored))


@pytest.mark.parametrize("name", formats.FORMATS)
def test_blocks(name):
    """Blocks of random bytes mean what the package `gguf` says, and a product by their parts is one by that."""
    gguf = pytest.importorskip("gguf")
    form, rng = formats.format_of(name), np.random.default_rng(len(name))
    raw = rng.integers(0, 256, (70, 512 // form.group, form.size)).astype(np.uint8)
    for at in (208,) if name == "q6_K" else (0, 2) if form.least else (0,):  # floats of 16 bits
        half = rng.uniform(-0.1, 0.1, (70, 512 // form.group, 1)).astype(np.float16)
        raw[:, :, at : at + 2] = half.view(np.uint8)
    raw = raw.reshape(70, -1)
    meant = gguf.dequantize(raw, gguf.GGMLQuantizationType[name.upper()])
    np.testing.assert_array_equal(formats.dequantized(name, raw), meant)

    parts = formats.pack(name, [raw[:5], raw[5:]])  # of two tensors
    assert [(p.shape, str(p.dtype)) for p in parts] == formats.part_infos(name, 70, 512)
    cut, count = len(form.bits), 1 + (form.steps > 1)
    x = rng.standard_normal((3, 512)).astype(np.float32)
    sums = x.reshape(3, -1, form.block).sum(2)
    product = OPERATORS["relax.nn.matmul_packed"].op.get_attr("FNumpy")
    rest = parts[cut : cut + count], parts[cut + count :], None, form.bits, form.block, form.zero
    got = product([x, sums], parts[:cut], *rest).reshape(3, -1)
    np.testing.assert_allclose(got[:, :70], x @ meant.T, rtol=1e-4, atol=1e-4 * np.abs(meant).max())


def test_refused_formats():
    with pytest.raises(ValueError, match="(?s)this format are not read.*q3_K"):
        formats.format_of("q3_K")
    with pytest.raises(ValueError, match="(?s)blocks of 256 rows.*96 rows"):
        formats.part_infos("q4_K", 4, 96)
    with pytest.raises(ValueError, match="(?s)blocks of 18 bytes.*19 bytes"):
        formats.dequantized("q4_0", np.zeros((2, 19), np.uint8))
