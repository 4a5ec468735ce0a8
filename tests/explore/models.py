"""A model of many nodes, in named blocks."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_BLOCK = ("MatMul", "Add", "Relu", "Mul", "Sigmoid", "Add", "Tanh", "Add")


def large(blocks: int = 625) -> onnx.ModelProto:
    """Blocks of eight nodes each: a product, activations, a residual sum."""
    rng = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    for b in range(blocks):
        start = value
        for k, op in enumerate(_BLOCK):
            name = f"/stage.{b // 25}/block.{b}/{op}_{k}"
            second = {1: f"bias{b % 5}", 3: "scale", 5: f"bias{b % 5}", 7: start}.get(k)
            reads = [value, f"w{b % 5}"] if k == 0 else [value, second] if second else [value]
            nodes.append(helper.make_node(op, reads, [name], name=name))
            value = name
    for k in range(5):
        weights.append((f"w{k}", rng.standard_normal((16, 16)) / 4))
        weights.append((f"bias{k}", rng.standard_normal(16)))
    weights.append(("scale", np.full(16, 0.5)))
    nodes[-1].output[0] = "y"
    made = [numpy_helper.from_array(a.astype("float32"), n) for n, a in weights]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 16])
    graph = helper.make_graph(nodes, "large", [x], [y], made)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)
