"""ONNX's types of values that are not tensors of numbers, and its operators that move texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import explain
from ...relax.struct_info import TensorStructInfo
from ..graph.object_values import (
    Map,
    ObjectValue,
    Optional,
    Sequence,
    Texts,
    called,
    indices_of,
    tensor_form,
    texts_at,
)
from ..graph.values import Value
from .context import OnnxContext as Context
from .reader import Node
from .tensors import STRING, dtype_of


def declared(kind: Any) -> Any:
    """The form of a TypeProto. Raises ValueError for a type that is not supported."""
    which = kind.WhichOneof("value")
    if which == "tensor_type":
        tensor = kind.tensor_type
        rank = len(tensor.shape.dim) if tensor.HasField("shape") else -1
        if tensor.elem_type == STRING:
            return Texts(rank)
        dims = [
            d.dim_value if d.WhichOneof("value") == "dim_value" else None for d in tensor.shape.dim
        ]
        dtype = dtype_of(tensor.elem_type)
        return tensor_form(dtype, dims) if rank >= 0 else TensorStructInfo(dtype=dtype)
    if which == "sequence_type":
        return Sequence(declared(kind.sequence_type.elem_type))
    if which == "optional_type":
        return Optional(declared(kind.optional_type.elem_type))
    if which == "map_type":
        return Map()
    raise ValueError(explain("this kind of value is not supported", got=which))


# Operators that move texts, or compare them for equality: which of their outputs are texts (None:
# all). They work on indices into a pool of the texts, where the order is that of the texts.
_MOVE = (
    "Compress Concat Expand Flatten Gather GatherElements GatherND Pad Reshape Scatter "
    "ScatterElements ScatterND Slice SpaceToDepth DepthToSpace Split Squeeze Tile Transpose "
    "Unsqueeze Where ReverseSequence CenterCropPad ArrayFeatureExtractor"
)
_ON_INDICES: dict[str, tuple[int, ...] | None] = dict.fromkeys(_MOVE.split())
_ON_INDICES |= {"Equal": (), "Shape": (), "Size": (), "Unique": (0,)}


def moving_texts(node: Node, convert: Callable[..., Any], inputs: list[Value | None]) -> Any:
    """The converter of a node, or where it moves texts that converter on indices into a pool."""
    texts = [v for v in inputs if isinstance(v, ObjectValue) and isinstance(v.form, Texts)]
    if not texts or node.op_type not in _ON_INDICES:
        return convert

    def run(cx: Context, node: Node, *inputs: Value | None) -> list[Any]:
        table = called(cx, "pool", *texts)
        args = [
            indices_of(cx, table, v)
            if isinstance(v, ObjectValue) and isinstance(v.form, Texts)
            else v
            for v in inputs
        ]
        result = cx.walk.part(node, args)
        positions = _ON_INDICES[node.op_type]
        return [
            v
            if v is None or (positions is not None and k not in positions)
            else texts_at(cx, table, v)
            for k, v in enumerate(result)
        ]

    return run
