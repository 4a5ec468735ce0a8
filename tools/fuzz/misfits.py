"""Models of one node that do not fit its operator: another rank or type, an attribute of another value, an
input too few. What a valid model nearly is finds more in converters than bytes at random do."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

from .build import NotHere, finish
from .onnx_build import OnnxBuilder
from .onnx_graphs import MAKERS, OPSETS
from .onnx_model import to_onnx

TYPES = [
    TensorProto.DataType.Value(name)
    for name in ("FLOAT", "DOUBLE", "FLOAT16", "INT64", "UINT8", "BOOL", "STRING", "COMPLEX64")
]
LISTS = {"INTS": "ints", "FLOATS": "floats", "STRINGS": "strings"}  # kind of attribute -> field
SINGLES: dict[str, tuple[str, list[Any]]] = {
    "INT": ("i", [-1, 0, 1, 3, 100, 2**31, -(2**63), 2**63 - 1]),
    "FLOAT": ("f", [float("nan"), 0.0, -1.0, 1e38]),
    "STRING": ("s", [b"", b"foo", b"\xff"]),
}


def misfit(rng: random.Random) -> ModelProto:
    """A node of a random operator with one or two things changed."""
    while True:
        g = OnnxBuilder(rng.randrange(2**31))
        g.case.opset = rng.choice(OPSETS)
        try:
            MAKERS[rng.choice(list(MAKERS))](g)
        except NotHere:
            continue
        if g.case.nodes:
            break
    model = to_onnx(finish(g))
    for _ in range(rng.choice([1, 1, 1, 2])):
        rng.choice(CHANGES)(rng, model.graph)
    return model


def _port(rng: random.Random, graph: Any) -> None:
    """Another shape or type of an input."""
    if not graph.input:
        return
    kind = rng.choice(graph.input).type.tensor_type
    dims = kind.shape.dim
    way = rng.randrange(6)
    if way == 0:
        kind.elem_type = rng.choice(TYPES)
    elif way == 1:
        kind.ClearField("shape")
    elif way == 2 or not dims:
        dims.add().dim_value = rng.choice([1, 3])
    elif way == 3:
        del dims[rng.randrange(len(dims))]
    else:
        rng.choice(dims).dim_value = rng.choice([0, 1, 2, 7])


def _weight(rng: random.Random, graph: Any) -> None:
    """Another shape, type or value of a weight; or it comes at run time."""
    if not graph.initializer:
        return
    weight = rng.choice(graph.initializer)
    old = numpy_helper.to_array(weight)
    new: list[Any] = [old[None], old[..., None], old.reshape(-1), old * 0]
    if old.ndim:
        new += [old[:0], old[:1], np.concatenate([old, old])]
    if old.size:
        new += [old[..., 0] if old.ndim else old, old.reshape(-1)[0]]
    if old.dtype.kind in "iu":
        ends = np.iinfo(old.dtype)
        new += [np.full_like(old, ends.max), np.full_like(old, ends.min), old.astype(np.float32)]
    elif old.dtype.kind == "f":
        new += [np.full_like(old, np.nan), old.astype(np.float64), np.sign(old).astype(np.int64)]
    made = rng.choice([None, *new])
    if made is not None:
        weight.CopyFrom(numpy_helper.from_array(np.asarray(made, order="C"), weight.name))
        return
    port = helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims)
    graph.input.append(port)
    graph.initializer.remove(weight)


def _inputs(rng: random.Random, graph: Any) -> None:
    """Inputs of a node left out, taken twice, or one more."""
    node = rng.choice(graph.node)
    place = rng.randrange(len(node.input) + 1)
    if place == len(node.input):
        node.input.append(rng.choice([*node.input, ""]))
    elif rng.random() < 0.4:
        del node.input[place:]
    else:
        node.input[place] = rng.choice([*node.input, ""])


def _attribute(rng: random.Random, graph: Any) -> None:
    """An attribute of a node left out or of another value."""
    node = rng.choice(graph.node)
    if not node.attribute:
        return
    attribute = rng.choice(node.attribute)
    kind = AttributeProto.AttributeType.Name(attribute.type)
    if kind in LISTS:
        values = getattr(attribute, LISTS[kind])
        old, one = list(values), rng.choice([0, 1, -1, 2**40])
        if kind == "STRINGS":
            one = b"foo"
        new = [old[:-1], [*old, one], [one] * len(old), old[::-1], []]
        del values[:]
        values.extend(rng.choice(new))
    elif kind in SINGLES and rng.random() < 0.8:
        field, values = SINGLES[kind]
        setattr(attribute, field, rng.choice(values))
    else:
        node.attribute.remove(attribute)


CHANGES: list[Callable[[random.Random, Any], None]] = [_port, _weight, _inputs, _attribute]
