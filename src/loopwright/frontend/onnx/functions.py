"""Operators that the ONNX standard defines by others: imported through their definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import explain
from ...relax.struct_info import TensorStructInfo
from ..graph.registry import Entry
from ..graph.values import Value
from .context import OnnxContext as Context
from .expansion import bind
from .reader import Node, domain_name, graphs_of, node_of
from .tensors import DTYPES

Convert = Callable[[Node, list[Value | None]], list[Value]]
_NUMBERS = {name: number for number, name in DTYPES.items()}


_FLAGS = {"interleaved", "is_causal", "keepdims"}


def expanding(node: Node) -> Entry | None:
    """A converter that converts the nodes of an operator's definition, or None for an operator that has
    none."""
    schema = _schema(node)
    if node.source is None:
        node.source = _proto_of(node)
    if schema is None or any(graphs_of(a) for a in node.source.attribute):
        return None
    if not (schema.has_function or schema.has_context_dependent_function):
        return None

    def run(cx: Context, _: Node, *inputs: Value | None) -> list[Value | None]:
        for name in _FLAGS.intersection(node.attributes):
            node.flag(name)  # definitions take any number that is not 0 for 1
        node.skip(*node.attributes)
        return _expanded(schema, node, list(inputs), cx.walk.part)

    return Entry(schema.since_version, run, schema.min_input, None, ())


def _proto_of(node: Node) -> Any:
    """The NodeProto of a node that is not of the file."""
    from onnx import helper

    return helper.make_node(node.op_type, node.inputs, node.outputs, **node.attributes)


def _schema(node: Node) -> Any:
    from onnx import defs

    try:
        return defs.get_schema(node.op_type, node.opset, node.domain)
    except defs.SchemaError:
        return None


def _expanded(
    schema: Any, node: Node, inputs: list[Value | None], convert: Convert
) -> list[Value | None]:
    body = _body(schema, node, inputs)
    attrs = {a.name: a for a in node.source.attribute}
    attr_defaults = {name: a.default_value for name, a in schema.attributes.items()}
    defaults = {name: a for name, a in attr_defaults.items() if a.type}
    opsets = {domain_name(o.domain): o.version for o in body.opset_import}
    values: dict[str, Value | None] = dict(zip(body.input, inputs, strict=False))
    for part in body.node:
        bind(part, {**defaults, **attrs})
        bound = node_of(part, opsets, None)
        bound.name = f"{node.title.removeprefix('onnx:')}/{bound.op_type}"
        results = convert(bound, [values.get(name) if name else None for name in bound.inputs])
        values.update(zip(bound.outputs, results, strict=False))
    return [values.get(name) for name in body.output]


def _body(schema: Any, node: Node, inputs: list[Value | None]) -> Any:
    from onnx import FunctionProto

    by_inputs = schema.has_context_dependent_function
    known_types = (
        schema.context_dependent_function_opset_versions
        if by_inputs
        else schema.function_opset_versions
    )
    # The newest definition; it names the version of the operators that it is made of.
    version = max((v for v in known_types if v <= node.opset), default=node.opset)
    if by_inputs:
        types = [_type_of(v).SerializeToString() for v in inputs]
        data = schema.get_context_dependent_function_with_opset_version(
            version, node.source.SerializeToString(), types
        )
    else:
        data = schema.get_function_with_opset_version(version)
    if not data:
        what = f"the definition of {node.op_type} does not hold at opset {node.opset}"
        raise ValueError(explain(what, instead="register_converter for it"))
    function = FunctionProto()
    function.ParseFromString(data)
    return function


def _type_of(value: Value | None) -> Any:
    from onnx import TypeProto, helper

    if value is None:
        return TypeProto()
    info = value.info
    assert isinstance(info, TensorStructInfo)
    dims = info.get_shape()
    shape = None if dims is None else [getattr(d, "value", None) for d in dims]
    return helper.make_tensor_type_proto(_NUMBERS[str(info.dtype)], shape)
