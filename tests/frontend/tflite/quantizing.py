"""The zoo's networks in int8, made on the spot by Google's quantizer (the package ai-edge-quantizer)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def quantized(path: Path, cases: list[dict[str, np.ndarray]]) -> bytes:
    """A float network with int8 activations and weights, calibrated with inputs."""
    from ai_edge_quantizer import quantizer, recipe

    plain = _plain(path, list(cases[0].values()))
    work = quantizer.Quantizer(plain)
    work.load_quantization_recipe(recipe.static_wi8_ai8())
    rows = [{f"in{k}": x for k, x in enumerate(feeds.values())} for feeds in cases]
    return bytes(work.quantize(work.calibrate({"main": rows})).quantized_model)


def _plain(path: Path, feeds: list[np.ndarray]) -> bytearray:
    """The network with its weights in dense float32 (they are stored short or sparse), with what older
    files lack: numbers of operators in the newer field, a signature."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_litert.interpreter import Interpreter, OpResolverType
    from ai_edge_quantizer.utils.tfl_flatbuffer_utils import read_model

    run = Interpreter(
        model_path=str(path),
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,  # a delegate would not write them
    )
    run.allocate_tensors()
    for detail, feed in zip(run.get_input_details(), feeds, strict=True):
        run.set_tensor(detail["index"], feed)
    run.invoke()
    model: Any = read_model(str(path))
    graph = model.subgraphs[0]
    for code in model.operatorCodes:
        code.builtinCode = max(code.builtinCode, code.deprecatedBuiltinCode)
    unpack = (schema.BuiltinOperator.DEQUANTIZE, schema.BuiltinOperator.DENSIFY)
    kept = []
    for node in graph.operators:
        sources = [graph.tensors[k] for k in node.inputs]
        constant = all(model.buffers[t.buffer].data is not None for t in sources)
        if not constant or model.operatorCodes[node.opcodeIndex].builtinCode not in unpack:
            kept.append(node)
            continue
        buffer, out = schema.BufferT(), node.outputs[0]
        buffer.data = run.get_tensor(out).reshape(-1).view(np.uint8).copy()
        graph.tensors[out].buffer = len(model.buffers)
        model.buffers.append(buffer)
    graph.operators = kept
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = b"main", 0
    signature.inputs = _named(schema, graph.inputs, "in")
    signature.outputs = _named(schema, graph.outputs, "out")
    model.signatureDefs = [signature]
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytearray(builder.Output())


def _named(schema: Any, tensors: Any, name: str) -> list[Any]:
    made = []
    for k, tensor in enumerate(tensors):
        entry = schema.TensorMapT()
        entry.name, entry.tensorIndex = f"{name}{k}".encode(), int(tensor)
        made.append(entry)
    return made


def codes_of(data: bytes, feeds: list[np.ndarray]) -> list[np.ndarray]:
    """Real inputs as the integers that a network takes."""
    from ai_edge_litert.interpreter import Interpreter

    made = []
    for detail, feed in zip(
        Interpreter(model_content=data).get_input_details(), feeds, strict=True
    ):
        scale, zero = detail["quantization"]
        kind = np.iinfo(detail["dtype"])
        made.append(np.clip(np.round(feed / scale) + zero, kind.min, kind.max).astype(kind.dtype))
    return made
