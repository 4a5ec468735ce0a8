"""Networks of `relay.testing` through Relay and through ONNX: python -m benchmarks.relay_networks

Each network is written as ONNX node by node, with its parameters; onnxruntime and our ONNX importer
run that, `relay.build` runs the network itself. Largest differences, and medians of interleaved runs
as ratios to the time through ONNX.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import loopwright as lw
from loopwright import relay
from loopwright.base.names import free_name
from loopwright.relay import testing
from loopwright.relay.walk import post_order
from loopwright.tvm.graph_executor import GraphModule

from .run import RESULTS

NETWORKS: dict[str, Callable[[], Any]] = {
    "mlp": lambda: testing.mlp.get_workload(1),
    "lenet": lambda: testing.lenet.get_workload(1),
    "resnet-18": lambda: testing.resnet.get_workload(1, 1000, 18),
    "mobilenet": lambda: testing.mobilenet.get_workload(1),
    "squeezenet": lambda: testing.squeezenet.get_workload(1),
    "densenet": lambda: testing.densenet.get_workload(121),
    "inception_v3": lambda: testing.inception_v3.get_workload(1),
    "dcgan": lambda: testing.dcgan.get_workload(1),
    "dqn": lambda: testing.dqn.get_workload(1),
    "vgg": lambda: testing.vgg.get_workload(1),
    "lstm": lambda: testing.lstm.get_workload(4, 16),
}
# Operators that are one of ONNX with the same inputs and no attributes.
SAME = {"nn.relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "add": "Add", "multiply": "Mul"}
SAME |= {"nn.batch_flatten": "Flatten", "nn.global_avg_pool2d": "GlobalAveragePool"}


class Writer:
    """Writes a function of Relay as nodes of ONNX; a value is a name, or a list of names."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def node(self, kind: str, inputs: list[str], count: int = 1, **attrs: Any) -> Any:
        """The names of a new node's results; the one name if there is one."""
        names = [f"v{len(self.nodes)}_{n}" for n in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attrs))
        return names[0] if count == 1 else names

    def constant(self, array: Any) -> str:
        """The name of a stored tensor."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def function(self, func: relay.Function, args: list[Any]) -> Any:
        """The function's result for arguments."""
        values: dict[int, Any] = {id(p): a for p, a in zip(func.params, args, strict=True)}
        inside = lambda node: not isinstance(node, relay.Function)  # noqa: E731
        body = func.body
        while isinstance(body, relay.Let):
            values[id(body.var)] = body.value
            body = body.body
        for node in post_order(body, inside):
            if isinstance(node, relay.Call):
                given = [values.get(id(a)) for a in node.args]
                called = values.get(id(node.op), node.op)
                inline = isinstance(called, relay.Function)
                values[id(node)] = (
                    self.function(called, given) if inline else self.call(node, given)
                )
            elif isinstance(node, relay.Tuple):
                values[id(node)] = [values[id(f)] for f in node.fields]
            elif isinstance(node, relay.TupleGetItem):
                values[id(node)] = values[id(node.tuple_value)][node.index]
        return values[id(body)]

    def call(self, call: relay.Call, args: list[Any]) -> Any:
        """An operator's result."""
        name, at = call.op.name, call.attrs
        if name in SAME:
            return self.node(SAME[name], args)
        if name == "nn.bias_add":
            rank = len(call.args[0].checked_type.shape)
            after = rank - 1 - at.axis % rank
            shape = self.constant(np.array([-1] + [1] * after))
            return self.node("Add", [args[0], self.node("Reshape", [args[1], shape])])
        if name == "nn.dense":
            return self.node("Gemm", args, transB=1)
        if name == "nn.softmax":
            return self.node("Softmax", args, axis=at.axis)
        if name == "nn.dropout":
            return [args[0], None]
        if name == "concatenate":
            return self.node("Concat", args[0], axis=at.axis)
        if name == "nn.batch_norm":
            given = list(args)
            for k, used in ((1, at.scale), (2, at.center)):
                if not used:
                    channels = call.args[k].checked_type.concrete_shape[0]
                    given[k] = self.constant(np.full(channels, float(k == 1), np.float32))
            return [self.node("BatchNormalization", given, epsilon=at.epsilon), None, None]
        if name == "reshape":
            shape = self.constant(np.array([int(d) for d in at.newshape]))
            return self.node("Reshape", [args[0], shape])
        if name == "zeros":
            return self.constant(np.zeros([int(d) for d in at.shape], at.dtype))
        if name == "split":
            parts = int(at.indices_or_sections)
            return self.node("Split", args, parts, axis=at.axis, num_outputs=parts)
        return self.window(name, at, args)

    def window(self, name: str, at: Any, args: list[Any]) -> Any:
        """A convolution or pool."""
        given: dict[str, Any] = {"strides": at.strides, "pads": at.padding}
        given["dilations"] = at.dilation
        if "pool" in name:
            given |= {"kernel_shape": at.pool_size, "ceil_mode": int(at.ceil_mode)}
            if name == "nn.avg_pool2d":
                given["count_include_pad"] = int(at.count_include_pad)
            kind = {"nn.max_pool2d": "MaxPool", "nn.avg_pool2d": "AveragePool"}[name]
        else:
            given["group"] = at.groups
            if name == "nn.conv2d_transpose":
                given["output_padding"] = at.output_padding
            kind = {"nn.conv2d": "Conv", "nn.conv2d_transpose": "ConvTranspose"}[name]
        numbers = {k: [int(n) for n in v] if hasattr(v, "__len__") else v for k, v in given.items()}
        return self.node(kind, args, **numbers)


def as_onnx(mod: Any, params: dict[str, Any]) -> onnx.ModelProto:
    """A module of one graph function as ONNX; `params` are stored in it."""
    main, writer = mod["main"], Writer()
    names = [p.name_hint for p in main.params]
    result = writer.function(main, names)
    float32 = TensorProto.FLOAT
    shapes = {p.name_hint: p.checked_type.concrete_shape for p in main.params}
    inputs = [
        helper.make_tensor_value_info(n, float32, shapes[n]) for n in names if n not in params
    ]
    stored = [numpy_helper.from_array(v.numpy(), k) for k, v in params.items()]
    out = helper.make_tensor_value_info(result, float32, None)
    graph = helper.make_graph(writer.nodes, "net", inputs, [out], [*stored, *writer.constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def _named(func: relay.Function) -> relay.Function:
    """The function with a name of its own for each parameter: an LSTM's inputs share one."""
    taken: set[str] = set()
    new: dict[Any, Any] = {}
    for param in func.params:
        name = free_name(param.name_hint, taken)
        taken.add(name)
        new[param] = relay.Var(name, param.type_annotation)
    return relay.Function(list(new.values()), relay.bind(func.body, new))


def both(name: str) -> tuple[Any, Any, dict[str, np.ndarray], onnx.ModelProto]:
    """(the network built from Relay, from ONNX, inputs, the ONNX model)."""
    mod, params = NETWORKS[name]()
    mod = relay.transform.InferType()(lw.IRModule.from_expr(_named(mod["main"])))
    model = as_onnx(mod, params)
    rng = np.random.default_rng(0)
    feeds = {
        p.name_hint: rng.normal(size=p.checked_type.concrete_shape).astype("float32")
        for p in mod["main"].params
        if p.name_hint not in params
    }
    module = GraphModule(relay.build(mod, "llvm", params=params)["default"](lw.cpu()))
    module.set_input(**feeds)
    return module, lw.compile(model), feeds, model


def results(name: str) -> tuple[list[np.ndarray], np.ndarray, tuple[Any, Any]]:
    """([through Relay, through ONNX], onnxruntime's, what runs the first two)."""
    module, exe, feeds, model = both(name)
    module.run()
    mine = [module.get_output(0).numpy(), np.asarray(next(iter(exe.run(feeds).values())))]
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString())
    runs = (module.run, lambda: exe.run(feeds))
    return mine, session.run(None, feeds)[0], runs


def ratio(runs: tuple[Any, Any], seconds: float) -> float:
    """The median of interleaved times, the first to the second."""
    times: list[list[float]] = [[], []]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for kept, run in zip(times, runs, strict=True):
            start = time.perf_counter()
            run()
            kept.append(time.perf_counter() - start)
    return statistics.median(times[0]) / statistics.median(times[1])


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(NETWORKS), metavar="NETWORK")
    parser.add_argument("--seconds", type=float, default=5, help="of measuring for each network")
    args = parser.parse_args()
    rows = {}
    for name in args.names:
        mine, theirs, runs = results(name)
        scale = max(float(np.abs(theirs).max()), 1e-30)
        errors = [float(np.abs(m - theirs).max()) / scale for m in mine]
        rows[name] = {
            "error": errors[0],
            "onnx error": errors[1],
            "ratio": ratio(runs, args.seconds),
        }
        print(f"{name:14} error {errors[0]:.1e} (ONNX {errors[1]:.1e})  {rows[name]['ratio']:.3f}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "relay_networks.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
