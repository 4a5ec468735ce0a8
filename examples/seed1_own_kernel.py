"""HardSwish of an ONNX model by a hand-written kernel: python -m examples.seed1_own_kernel"""

import numpy as np

import loopwright as lw
from loopwright.frontend.onnx import from_onnx
from loopwright.relax.dpl import is_const, is_op, rewrite_call, wildcard
from loopwright.script import tir as T
from tools.zoo import MODELS, fetch


def my_hardswish(call: lw.relax.Call) -> lw.tir.PrimFunc:  # one for each rank
    dims = [lw.tir.Var(f"d{k}", "int64") for k in range(call.args[0].struct_info.ndim)]

    @T.prim_func
    def my_hardswish(x: T.handle, y: T.handle):
        X, Y, gate = T.match_buffer(x, dims), T.match_buffer(y, dims), T.alloc_buffer(dims)
        for axes in T.grid(*dims):
            with T.block("gate"):
                v = T.axis.remap("S" * len(dims), axes)
                gate[v] = T.max(T.min(X[v] + 3.0, 6.0), 0.0)
        for axes in T.grid(*dims):
            with T.block("product"):
                v = T.axis.remap("S" * len(dims), axes)
                Y[v] = X[v] * gate[v] / 6.0

    return my_hardswish


def main() -> None:
    from onnxruntime import InferenceSession

    path, feeds, x = str(fetch("ppocr-cls")), MODELS["ppocr-cls"].cases()[1], wildcard()
    want = lw.compile(path)["main"](feeds["x"]).numpy(), InferenceSession(path).run(None, feeds)[0]
    gate = is_op("relax.clip")(is_op("relax.add")(x, is_const()), wildcard(), wildcard())
    chain = is_op("relax.divide")(is_op("relax.multiply")(x, gate), is_const())
    graph = from_onnx(path)["main"]
    graph = rewrite_call(chain, lambda _, found: lw.relax.op.nn.hardswish(found[x]), graph)
    lw.register_legalize("relax.nn.hardswish", tir=my_hardswish)
    with lw.trace() as trace:
        got = lw.compile(graph)["main"](feeds["x"]).numpy()
    print(trace.explain("relax.nn.hardswish"))
    print("as by default, as ONNX Runtime:", [np.allclose(got, w, atol=1e-6) for w in want])


if __name__ == "__main__":
    main()
