"""Greedy decoding with an ONNX export of a language model, as onnxruntime-genai's builder writes it; keys and values
are written in place, because the caches are inputs and outputs at once.

python examples/onnx_decoder.py [model.onnx [TOKEN ...]]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import loopwright as lw


def generate(exe: Any, ids: Sequence[int], room: int, vocabulary: int) -> Iterator[int]:
    """The tokens after `ids`, until there are `room` tokens."""
    tokens, mask, *pasts = exe.names["input_names"]
    logits, *presents = exe.names["output_names"]
    (*_, groups, _, size), dtype = exe.outputs()[1][2], exe.outputs()[1][1]
    caches = {name: np.zeros((1, groups, room, size), dtype) for name in pasts}
    same = {out: caches[out.replace("present", "past_key_values")] for out in presents}
    new, total = np.array([ids]), 0
    while (total := total + new.size) <= room:
        feeds = {tokens: new, mask: np.ones((1, total), np.int64), **caches}
        scores = np.empty((1, new.size, vocabulary), np.float32)
        exe.run(feeds, out={logits: scores, **same})
        new = scores[:, -1:].argmax(-1)
        yield int(new[0, 0])


def tiny() -> ModelProto:
    """A decoder of one layer with random weights: a vocabulary of 40, 4 heads of 8 in 2 groups."""
    rng = np.random.default_rng(0)
    shapes = {"embedding": (40, 32), "qkv": (32, 64), "output": (32, 40)}
    weights = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    angles = np.arange(64, dtype=np.float32)[:, None] / 10.0 ** np.arange(4, dtype=np.float32)
    weights |= {"cos": np.cos(angles), "sin": np.sin(angles)}
    weights |= {"one": np.array([1]), "axis": np.array(1)}
    node, heads = helper.make_node, {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}
    caches = ("past_key_values.0.key", "past_key_values.0.value")
    attended = ["mixed", "present.0.key", "present.0.value"]
    nodes = [
        node("ReduceSum", ["attention_mask", "one"], ["lengths"], keepdims=0),
        node("Sub", ["lengths", "one"], ["last"]),
        node("Cast", ["last"], ["last32"], to=TensorProto.INT32),
        node("Shape", ["attention_mask"], ["shape"]),
        node("Gather", ["shape", "axis"], ["total"]),
        node("Cast", ["total"], ["total32"], to=TensorProto.INT32),
        node("Gather", ["embedding", "input_ids"], ["x"]),
        node("MatMul", ["x", "qkv"], ["projected"]),
        node(
            "GroupQueryAttention",
            ["projected", "", "", *caches, "last32", "total32", "cos", "sin"],
            attended,
            domain="com.microsoft",
            **heads,
        ),
        node("MatMul", ["mixed", "output"], ["logits"]),
    ]
    port, real, whole = helper.make_tensor_value_info, TensorProto.FLOAT, TensorProto.INT64
    inputs = [port("input_ids", whole, ["b", "s"]), port("attention_mask", whole, ["b", "t"])]
    inputs += [port(name, real, ["b", 2, "p", 8]) for name in caches]
    outputs = [port("logits", real, ["b", "s", 40])]
    outputs += [port(name, real, ["b", 2, "t", 8]) for name in attended[1:]]
    stored = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def main() -> None:
    """Generate from tokens; without a model from a tiny one, twice: alone, and after its own tokens."""
    path, ids = sys.argv[1:2], [int(token) for token in sys.argv[2:]] or [1, 2, 3]
    exe = lw.compile(path[0] if path else tiny())
    vocabulary = exe.outputs()[0][2][-1]
    made = list(generate(exe, ids, len(ids) + 20, vocabulary))
    print(*made)
    if not path:  # the next tokens do not depend on what was read at once
        again = list(generate(exe, [*ids, *made[:10]], len(ids) + 20, vocabulary))
        assert again == made[10:], again


if __name__ == "__main__":
    main()
