"""Single operators as models: what kernels reach beside those of the peers.

Weights are constants, as in a network, so each engine may pack them when it loads the model.
`python -m benchmarks.run softmax_1024 ...` measures them by name, `python -m benchmarks.kernels` puts
their kernels beside this machine's floor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]
# name: the operator, its attributes, the shape of the input, the shapes of the weights
_PLAIN: dict[str, tuple[str, dict[str, Any], Shape, tuple[Shape, ...]]] = {
    "gemm_1024": ("MatMul", {}, (1024, 1024), ((1024, 1024),)),
    "gemm_odd": ("MatMul", {}, (509, 1021), ((1021, 1031),)),
    "gemm_skinny": ("MatMul", {}, (8, 4096), ((4096, 4096),)),
    "matvec_4096": ("MatMul", {}, (1, 4096), ((4096, 4096),)),
    "conv_64_56": ("Conv", {"pads": [1] * 4}, (1, 64, 56, 56), ((64, 64, 3, 3),)),
    "conv_256_14": ("Conv", {"pads": [1] * 4}, (1, 256, 14, 14), ((256, 256, 3, 3),)),
    "conv_pointwise": ("Conv", {}, (1, 256, 28, 28), ((512, 256, 1, 1),)),
    "depthwise_32_112": (
        "Conv",
        {"pads": [1] * 4, "group": 32},
        (1, 32, 112, 112),
        ((32, 1, 3, 3),),
    ),
    "softmax_1024": ("Softmax", {"axis": -1}, (1024, 1024), ()),
    "layer_norm_768": ("LayerNormalization", {"axis": -1}, (128, 768), ((768,), (768,))),
    "gelu_3072": ("Gelu", {}, (128, 3072), ()),
}
OPERATORS = tuple(_PLAIN)


def operator(name: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model of one operator, and an input."""
    rng = np.random.default_rng(0)
    op_type, attrs, shape, weights = _PLAIN[name]
    given = [
        numpy_helper.from_array(rng.standard_normal(s).astype(np.float32) / s[0] ** 0.5, f"w{k}")
        for k, s in enumerate(weights)
    ]
    node = helper.make_node(op_type, ["x", *(w.name for w in given)], ["y"], **attrs)
    graph = helper.make_graph(
        [node],
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        given,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    x = rng.standard_normal(shape).astype(np.float32)
    return onnx.shape_inference.infer_shapes(model), {"x": x}


__all__ = ["OPERATORS", "operator"]
