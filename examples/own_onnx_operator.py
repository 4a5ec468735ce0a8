"""An ONNX operator that the importer does not know, added by a function.

python examples/own_onnx_operator.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

import loopwright as lw
from loopwright import relax
from loopwright.frontend.onnx import register_converter


def model() -> ModelProto:
    """y = Swish(x), an operator of the domain `my.domain`."""
    node = helper.make_node("Swish", ["x"], ["y"], "/act/Swish", domain="my.domain", beta=2.0)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.domain", 1)]
    graph = helper.make_graph([node], "swish", [x], [y])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def swish(cx: Any, node: Any, x: Any) -> relax.Expr:
    """x * sigmoid(beta x)."""
    beta = relax.const(node.real("beta", 1.0), "float32")
    return relax.op.multiply(x.expr, relax.op.sigmoid(relax.op.multiply(x.expr, beta)))


def main() -> None:
    try:
        lw.compile(model())
    except Exception as error:
        print(f"before: {error}\n")
    register_converter("Swish", 1, swish, domain="my.domain")
    exe = lw.compile(model())
    x = np.linspace(-2, 2, 24, dtype="float32").reshape(3, 8)
    y = exe.run({"x": x})["y"].numpy()
    print("after: right", np.allclose(y, x / (1 + np.exp(-2 * x)), atol=1e-6))


if __name__ == "__main__":
    main()
