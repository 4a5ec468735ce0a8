"""ONNX models without their weights, for reports of errors: `without_values`, and `with_values`, which draws others."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from ...ir.dtype import DataType, numpy_dtype
from .tensors import STRING, dtype_of

_FEW = 64  # elements of a tensor that stay: shapes, axes, scalars
_INDICES = 1 << 16  # the same of integers of 32 and 64 bits, which are indices
_MARK = "loopwright: values left out"


def _tensors(graph: Any) -> Iterator[Any]:
    """The tensors of a GraphProto, with those of its nodes and their graphs."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)


def without_values(proto: Any) -> Any:
    """A copy of a ModelProto with shapes and dtypes of large tensors, and not their values. Small ones,
    indices and texts that are names stay; texts of tensors do not."""
    bare = type(proto)()
    bare.CopyFrom(proto)
    for tensor in _tensors(bare.graph):
        indices = tensor.data_type in (type(tensor).INT32, type(tensor).INT64)
        few = prod(tensor.dims) <= (_INDICES if indices else _FEW)
        stays = few and tensor.data_type != STRING
        if stays and not tensor.external_data:
            continue
        empty = type(tensor)(name=tensor.name, data_type=tensor.data_type, doc_string=_MARK)
        empty.dims.extend(tensor.dims)
        tensor.CopyFrom(empty)
    return bare


def with_values(bare: Any, seed: int = 0) -> Any:
    """A copy of such a model with values drawn for the tensors that have none: floats of variance 1 / the
    elements of a row, bits for integers, empty texts."""
    rng = np.random.default_rng(seed)
    proto = type(bare)()
    proto.CopyFrom(bare)
    for tensor in _tensors(proto.graph):
        if tensor.doc_string == _MARK:
            count = prod(tensor.dims)
            if tensor.data_type == STRING:
                tensor.string_data.extend([b""] * count)
            else:
                tensor.raw_data = _drawn(
                    rng, DataType(dtype_of(tensor.data_type)), tuple(tensor.dims)
                )
    return proto


def _drawn(rng: np.random.Generator, dtype: DataType, shape: tuple[int, ...]) -> bytes:
    """The bytes of a tensor: elements of fewer than 8 bits share them."""
    if dtype.is_bool:
        return rng.integers(0, 2, shape, np.uint8).tobytes()
    if dtype.is_float and dtype.bits >= 8:
        values = rng.standard_normal(shape) / np.sqrt(max(prod(shape[1:]), 1))
        values = np.abs(values) if len(shape) == 1 else values  # it may be a variance
        return values.astype(numpy_dtype(dtype)).tobytes()
    return rng.bytes((prod(shape) * dtype.bits + 7) // 8)
