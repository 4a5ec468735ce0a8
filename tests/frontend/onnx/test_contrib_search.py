"""com.microsoft's greedy search beside onnxruntime, around small decoders with keys and values."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

from loopwright.base.errors import LoopwrightError
from loopwright.driver import compile
from loopwright.frontend.onnx import from_onnx

from .support import reference, value

HEADS, SIZE = 2, 4
INPUTS = (
    "input_ids", "max_length", "min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask",
)  # fmt: skip


def decoder(words, filled, layers, seed, name="decoder"):
    """Each layer adds the mean of the values of all tokens that the mask shows."""
    rng, width = np.random.default_rng(seed), HEADS * SIZE
    weights = {
        **{n: rng.normal(size=s).astype(np.float32) for n, s in (
            ("words", (words, width)), ("places", (32, width)), ("last", (width, filled)))},
        **{n: np.array(v) for n, v in (
            ("split", [0, 0, HEADS, SIZE]), ("flat", [0, 1, -1]), ("0", [0]), ("1", [1]), ("2", [2]), ("13", [1, 3]))},
    }  # fmt: skip
    nodes = []

    def add(kind, given, out, **attributes):
        nodes.append(helper.make_node(kind, given.split(), [out], **attributes))

    add("Gather", "words input_ids", "word")
    add("Gather", "places position_ids", "place")
    add("Add", "word place", "x0")
    add("Cast", "attention_mask", "shown", to=1)
    add("Unsqueeze", "shown 13", "seen")
    add("ReduceSum", "seen 2", "count", keepdims=1)
    for k in range(layers):
        add("Reshape", f"x{k} split", f"heads{k}")
        add("Transpose", f"heads{k}", f"turned{k}", perm=[0, 2, 1, 3])
        add("Unsqueeze", f"turned{k} 0", f"one{k}")
        add("Concat", f"one{k} one{k}", f"pair{k}", axis=0)
        add("Concat", f"past_{k} pair{k}", f"present_{k}", axis=3)
        add("Slice", f"present_{k} 0 1 0", f"first{k}")
        add("Squeeze", f"first{k} 0", f"values{k}")
        add("Mul", f"values{k} seen", f"kept{k}")
        add("ReduceSum", f"kept{k} 2", f"sum{k}", keepdims=1)
        add("Div", f"sum{k} count", f"mean{k}")
        add("Reshape", f"mean{k} flat", f"row{k}")
        add("Add", f"x{k} row{k}", f"x{k + 1}")
    add("MatMul", f"x{layers} last", "logits")
    steps = (("input_ids", "s"), ("position_ids", "s"), ("attention_mask", "l"))
    given = [value(n, ["b", d], np.int32) for n, d in steps]
    given += [value(f"past_{k}", [2, "b", HEADS, "p", SIZE]) for k in range(layers)]
    made = [value("logits", ["b", "s", filled])]
    made += [value(f"present_{k}", [2, "b", HEADS, "q", SIZE]) for k in range(layers)]
    stored = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    return helper.make_graph(nodes, name, given, made, stored)


def search(feeds, symbolic, **attributes):
    names = [n if n in feeds else "" for n in INPUTS]
    node = helper.make_node("GreedySearch", names, ["y"], domain="com.microsoft", **attributes)
    dims = lambda n, a: [f"{n}{k}" for k in range(a.ndim)] if symbolic else a.shape  # noqa: E731
    ports = [value(n, dims(n, a) if a.ndim > 1 else a.shape, a.dtype) for n, a in feeds.items()]
    graph = helper.make_graph([node], "g", ports, [value("y", ["b", "l"], np.int32)])
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=8)


@pytest.mark.sample(20)
@pytest.mark.parametrize("seed", range(20))
def test_the_likeliest_tokens(seed):
    rng = np.random.default_rng(seed)
    words, rows, length = (int(rng.integers(*r)) for r in ((5, 14), (1, 4), (1, 6)))
    if seed % 5 == 0:
        rows = length = 1
    whole = length + int(rng.integers(1, 9))
    pad, end = (int(n) for n in rng.integers(0, words, 2))
    feeds = {
        "input_ids": rng.integers(0, words, (rows, length)).astype(np.int32),
        "max_length": np.array([whole], np.int32),
        "min_length": rng.integers(1, whole + 1, 1).astype(np.int32),
        "repetition_penalty": rng.uniform(0.5, 2, 1).astype(np.float32),
        "vocab_mask": (rng.random(words) < 0.7).astype(np.int32),
        "prefix_vocab_mask": (rng.random((rows, words)) < 0.7).astype(np.int32),
        "attention_mask": (np.arange(length) >= rng.integers(0, length, (rows, 1))).astype(
            np.int32
        ),
    }
    feeds = {n: a for k, (n, a) in enumerate(feeds.items()) if k < 2 or rng.random() < 0.45}
    # Of longer prompts, onnxruntime reads another token's scores where the last layer is filled up.
    filled = words + 3 * (rows == length == 1)
    layers = 1 + seed % 2
    graphs = {"decoder": decoder(words, filled, layers, seed)}
    if seed % 4 == 1:
        graphs["init_decoder"] = decoder(words, filled, layers, seed + 1, "init")
    numbers = {"eos_token_id": end, "pad_token_id": pad, "no_repeat_ngram_size": seed % 5 % 4}
    made = search(feeds, bool(seed % 2), **graphs, **numbers, model_type=0, vocab_size=words)
    (got,) = (a.numpy() for a in compile(made).run(feeds).values())
    (want,) = reference(made, feeds)
    # What onnxruntime gives for the turns after all rows have ended is whatever was in memory.
    ended = (got == pad).all(0)[::-1].argmin() if (got != pad).any() else whole
    known = min(whole, max(whole - ended, length))
    assert got.shape == want.shape == (rows, whole) and got.dtype == want.dtype
    np.testing.assert_array_equal(got[:, :known], want[:, :known])
    assert (got[:, known:] == pad).all()


def test_what_is_no_decoder_is_refused():
    feeds = {"input_ids": np.ones((1, 2), np.int32), "max_length": np.array([4], np.int32)}
    numbers = {"eos_token_id": 1, "pad_token_id": 0}
    graph = decoder(5, 5, 1, 0)
    made = search(feeds, False, decoder=graph, model_type=1, **numbers)
    with pytest.raises(LoopwrightError, match=r"decoder alone, model_type 0\n  got: 1"):
        from_onnx(made)
    graph = decoder(5, 5, 0, 0)
    made = search(feeds, False, decoder=graph, **numbers)
    with pytest.raises(LoopwrightError, match="takes tokens, positions, a mask, then keys"):
        from_onnx(made)
