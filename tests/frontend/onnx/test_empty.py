"""Models over empty tensors, against onnxruntime: nothing to reduce is the reduction's start."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from loopwright.driver import compile
from loopwright.frontend.onnx import from_onnx
from loopwright.relax.transform import LegalizeOps

from .support import close, floats, interpreted, ints, operator, reference

pytestmark = pytest.mark.no_roundtrip

CASES = {
    "sum": operator("ReduceSum", floats(0), keepdims=0),
    "sum of one axis": operator("ReduceSum", floats(3, 0, 4), ints(1), fed=1, opset=18),
    "product": operator("ReduceProd", floats(3, 0, 4), ints(0, 1), fed=1, opset=18),
    "norm": operator("ReduceL2", floats(0, 5), ints(0), fed=1, opset=18),
    "no rows to sum": operator("ReduceSum", floats(3, 0, 4), ints(0), fed=1, opset=18),
    "matmul": operator("MatMul", floats(4, 0), floats(0, 5)),
    "matmul in tiles": operator("MatMul", floats(64, 0), floats(0, 64)),
    "matmul of no rows": operator("MatMul", floats(0, 3), floats(3, 5)),
    "einsum": operator("Einsum", floats(4, 0), floats(0, 5), equation="ij,jk->ik"),
    "conv of no channels": operator("Conv", floats(1, 0, 4, 4), floats(2, 0, 3, 3)),
    "conv of no images": operator("Conv", floats(0, 3, 4, 4), floats(2, 3, 3, 3), fed=1),
    "softmax": operator("Softmax", floats(3, 0)),
    "log_softmax": operator("LogSoftmax", floats(3, 0)),
    "cumsum": operator("CumSum", floats(3, 0), np.array(1), fed=1),
    "topk": operator("TopK", floats(3, 0), ints(0), fed=1, outputs=2),
    "reshape": operator("Reshape", floats(0, 4), ints(-1, 2), fed=1),
    "flatten": operator("Flatten", floats(3, 0, 4)),
    "transpose": operator("Transpose", floats(3, 0, 4)),
    "tile": operator("Tile", floats(0, 3), ints(2, 2), fed=1),
    "depth_to_space": operator("DepthToSpace", floats(1, 4, 0, 2), blocksize=2),
    "cut and padded": operator("Pad", floats(0, 3), ints(1, 0, -1, 2), fed=1),
    "more cut than there is": operator("Pad", floats(1, 3), ints(-2, 0, 3, 0), fed=1),
    "window one larger": operator("MaxPool", floats(1, 3, 4, 4), kernel_shape=[5, 5]),
}


@pytest.mark.sample(8)
@pytest.mark.parametrize("target", ["interpreter", "llvm", "llvm, symbolic", "c"])
@pytest.mark.parametrize("name", CASES)
def test_nothing_to_compute(name, target):
    model, feeds = CASES[name]
    expected = reference(model, feeds)
    if target == "llvm, symbolic":
        model = copy.deepcopy(model)
        for port in model.graph.input:
            for dim in port.type.tensor_type.shape.dim:
                if dim.dim_value == 0:
                    dim.dim_param = "n"
    if target == "interpreter":
        close(interpreted(LegalizeOps()(from_onnx(model)), feeds), expected)
        return
    exe = compile(model, target.split(",")[0])
    run = exe.build() if target == "c" else exe["main"]
    got = run(*feeds.values())
    parts = list(got) if len(expected) > 1 else [got]
    close([np.asarray(p) for p in parts], expected)
