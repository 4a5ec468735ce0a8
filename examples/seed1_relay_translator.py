"""An ONNX model through Relay to Relax, one operator by hand: python -m examples.seed1_relay_translator"""

import numpy as np
import onnx
import onnxruntime

import loopwright as lw
from loopwright import relay
from loopwright.relax.testing.relay_translator import from_relay
from loopwright.script import tir as T
from tools.zoo import MODELS, fetch


@T.prim_func
def my_relu(x: T.handle, y: T.handle):
    n, c, h, w = T.int64(), T.int64(), T.int64(), T.int64()
    X, Y = T.match_buffer(x, (n, c, h, w)), T.match_buffer(y, (n, c, h, w))
    for i, j, k, m in T.grid(n, c, h, w):
        with T.block("my_relu"):
            v = T.axis.remap("SSSS", [i, j, k, m])
            Y[v] = T.max(X[v], T.float32(0))


def main() -> None:
    path, feeds = str(fetch("centerface")), MODELS["centerface"].cases()[1]
    shapes = {name: value.shape for name, value in feeds.items()}
    mod, params = relay.frontend.from_onnx(onnx.load(path), shape=shapes)
    print(mod["main"].astext(show_meta_data=False)[:300], "...")
    graph = from_relay(
        mod["main"], "llvm", relay_params=params, translate_op_with_tir={"nn.relu": my_relu}
    )
    print("calls of the kernel by hand:", graph.script().count("R.call_tir(cls.nn_relu"))
    machine = lw.relax.VirtualMachine(lw.relax.build(graph, "llvm"), lw.cpu())
    got = machine["main"](
        *[lw.nd.array(feeds[p.name_hint.replace("_", ".")]) for p in graph["main"].params]
    )
    onnxruntime.set_default_logger_severity(3)  # the model lists its weights as inputs
    want = onnxruntime.InferenceSession(path).run(None, feeds)
    errors = [float(np.abs(a.numpy() - b).max()) for a, b in zip(got, want, strict=True)]
    print("as ONNX Runtime:", all(e < 1e-4 for e in errors), "largest difference", max(errors))


if __name__ == "__main__":
    main()
