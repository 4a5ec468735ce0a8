"""The tutorial's network through the passes: every text is the tutorial's."""

from __future__ import annotations

import pytest

from loopwright import relax, tir
from loopwright.ir.module import IRModule
from loopwright.ir.transform import Sequential
from loopwright.relax import op
from loopwright.relax.transform import AnnotateTIROpPattern, FuseOps, FuseTIR, LegalizeOps


@pytest.fixture
def mlp() -> IRModule:
    n = tir.Var("n", "int64")
    shapes = {
        "x": (n, 784),
        "fc1_weight": (128, 784),
        "fc1_bias": (128,),
        "fc2_weight": (10, 128),
        "fc2_bias": (10,),
    }
    params = [relax.Var(k, relax.TensorStructInfo(s, "float32")) for k, s in shapes.items()]
    x, w1, b1, w2, b2 = params
    bb = relax.BlockBuilder()
    with bb.function("forward", params, attrs={"num_input": 1}):
        with bb.dataflow():
            for w, b in ((w1, b1), (w2, b2)):
                weight = bb.emit(op.permute_dims(w), "permute_dims")
                x = bb.emit(op.matmul(x, weight), "matmul")
                x = bb.emit(op.add(x, b), "add")
                if w is w1:
                    x = bb.emit(op.nn.relu(x), "relu")
            out = bb.emit_output(x)
        bb.emit_func_output(out)
    return bb.finalize()


def test_texts(mlp, golden):
    golden("seed2/export.txt", mlp.script())
    mod = LegalizeOps()(mlp)
    golden("seed2/legalized.txt", mod.script())
    mod = Sequential([AnnotateTIROpPattern(), FuseOps(), FuseTIR()])(mod)
    golden("seed2/fused.txt", mod.script())
