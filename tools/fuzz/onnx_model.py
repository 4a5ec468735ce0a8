"""A case as an ONNX model, and what onnxruntime makes of it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from loopwright.ir.dtype import numpy_dtype

from .case import Case

IR_VERSION = 10


def element_type(dtype: str) -> int:
    """ONNX's number of a dtype."""
    return helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype))


def to_onnx(case: Case) -> onnx.ModelProto:
    """The model. Its outputs have no shapes, which importers are to find out."""
    nodes = [_node(number, *node) for number, node in enumerate(case.nodes)]
    ports = [port(name, spec) for name, spec in case.inputs.items()]
    stored = [numpy_helper.from_array(case.array(n, s), n) for n, s in case.weights.items()]
    results = [helper.make_empty_tensor_value_info(n) for n in case.outputs]
    graph = helper.make_graph(nodes, "fuzz", ports, results, stored)
    # Of the newest version of ai.onnx.ml other ensembles of trees are too old.
    trees = any(node[0] == "ai.onnx.ml::TreeEnsemble" for node in case.nodes)
    domains = {"": case.opset, "com.microsoft": 1, "ai.onnx.ml": 5 if trees else 4}
    domains |= {"ai.onnx.preview.training": 1, "ai.onnx.preview": 1}
    versions = [helper.make_opsetid(*entry) for entry in domains.items()]
    return helper.make_model(graph, opset_imports=versions, ir_version=IR_VERSION)


def port(name: str, spec: dict[str, Any]) -> onnx.ValueInfoProto:
    """The input of a graph that an entry of a case describes."""
    return helper.make_tensor_value_info(name, element_type(spec["dtype"]), spec["shape"])


def _node(
    number: int, op: str, inputs: list[str], outputs: list[str], attrs: dict[str, Any]
) -> Any:
    domain, _, op = op.rpartition("::")
    node = helper.make_node(op, inputs, outputs, f"{op}{number}", domain=domain)
    for name, value in attrs.items():  # any name: "opset" is one
        node.attribute.append(helper.make_attribute(name, _attribute(value)))
    return node


def _attribute(value: Any) -> Any:
    """{"tensor": [dtype, values]} is a tensor, {"graph": nodes} a branch that gives what its last
    node does (or "outputs") and may take "inputs", {"type": dtype} a number for it."""
    if isinstance(value, dict) and "graph" in value:
        inner = [_node(number, *node) for number, node in enumerate(value["graph"])]
        names = value.get("outputs", inner[-1].output)
        results = [helper.make_empty_tensor_value_info(n) for n in names]
        ports = [
            helper.make_tensor_value_info(name, element_type(dtype), shape)
            for name, dtype, shape in value.get("inputs", ())
        ]
        return helper.make_graph(inner, "branch", ports, results)
    if isinstance(value, dict) and "tensor" in value:
        dtype, values = value["tensor"]
        return numpy_helper.from_array(np.array(values, numpy_dtype(dtype)))
    if isinstance(value, dict):
        return element_type(value["type"])
    return value


def in_functions(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """The model with some of its nodes in functions of its own, and these in functions of the same name of
    another domain. What they compute is the same: see `_wrap`."""
    made = onnx.ModelProto.FromString(model.SerializeToString())
    for k, node in enumerate(made.graph.node):
        rng = random.Random(
            f"{seed} {node.output[0]}"
        )  # by name, so that smaller cases do the same
        if not any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute):
            for domain in ("inner", "outer")[: rng.randrange(3)]:
                made.functions.append(_wrap(node, domain, f"f{k}", made.opset_import, rng))
    made.opset_import.extend(helper.make_opsetid(d, 1) for d in ("inner", "outer"))
    return made


def _wrap(node: Any, domain: str, name: str, versions: Any, rng: random.Random) -> Any:
    """A function that is the node, which becomes a call of it. An attribute stays in the body, is the default
    of one of the function's, or is given by the call, over another default or none. The body may be in a
    branch."""
    body, call = onnx.NodeProto(), node
    body.CopyFrom(node)
    body.input[:] = [f"v{k}" for k in range(len(node.input))]
    body.output[:] = [n and f"w{k}" for k, n in enumerate(node.output)]
    results = [n for n in body.output if n]
    call.op_type, call.domain = name, domain
    call.output[:] = [n for n in node.output if n]
    del call.attribute[:]
    required, defaults = [], []
    for attribute in body.attribute:
        way = rng.choice(["kept", "default", "given", "required"])
        own = onnx.AttributeProto(name=f"own_{attribute.name}")
        if way != "kept":
            value = onnx.AttributeProto()
            value.CopyFrom(attribute)
            value.name = own.name
            attribute.Clear()
            attribute.name, attribute.type = value.name.removeprefix("own_"), value.type
            attribute.ref_attr_name = own.name
            own.type = value.type
            (defaults if way == "default" else call.attribute).append(value)
            required += [own.name] if way == "required" else []
            defaults += [own] if way == "given" else []
    nodes = [body]
    if rng.random() < 0.3:
        ports = [helper.make_empty_tensor_value_info(n) for n in results]
        way = helper.make_graph([body], "way", [], ports)
        yes = numpy_helper.from_array(np.array(True))
        nodes = [helper.make_node("Constant", [], ["v"], value=yes)]
        nodes += [helper.make_node("If", ["v"], results, then_branch=way, else_branch=way)]
    return helper.make_function(
        domain, name, [*body.input], results, nodes, versions, required, defaults
    )


def reference(model: onnx.ModelProto, feeds: list[list[np.ndarray]]) -> list[Any]:
    """onnxruntime's outputs of each run, its optimizations off."""
    return reference_of(model.SerializeToString(), feeds)


def reference_of(data: bytes, feeds: list[list[np.ndarray]]) -> list[Any]:
    """The same for a file's bytes."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return [session.run(None, dict(zip(names, f, strict=True))) for f in feeds]


def doubled(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with float64 for float32: what it takes, stores and casts to."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    short, long = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
    for port in model.graph.input:
        if port.type.tensor_type.elem_type == short:
            port.type.tensor_type.elem_type = long
    tensors = [*model.graph.initializer]
    for attribute in (a for n in model.graph.node for a in n.attribute):
        tensors += [attribute.t] if attribute.type == onnx.AttributeProto.TENSOR else []
        if attribute.name in ("to", "dtype") and attribute.i == short:
            attribute.i = long
    for tensor in tensors:
        if tensor.data_type == short:
            array = numpy_helper.to_array(tensor).astype("float64")
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return model
