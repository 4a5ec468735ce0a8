"""ONNX element types and tensors as Loopwright dtypes and numpy arrays."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import explain
from ...ir.dtype import numpy_dtype
from .stored import Stored, StoredTensor

STRING = 8  # TensorProto.STRING
_TYPES = """
    undefined float32 uint8 int8 uint16 int16 int32 int64 string bool float16 float64 uint32
    uint64 complex64 complex128 bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2
    float8_e5m2fnuz uint4 int4 float4_e2m1fn float8_e8m0fnu uint2 int2 float6_e2m3fn
    float6_e3m2fn
""".split()  # noqa: SIM905
_REFUSED = {0: "undefined", STRING: "string"}
# TensorProto.DataType -> dtype.
DTYPES = {number: name for number, name in enumerate(_TYPES) if number not in _REFUSED}
_PACKED = ("uint4", "int4", "uint2", "int2", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")
EXTERNAL = 1  # TensorProto.EXTERNAL


def dtype_of(elem_type: int) -> str:
    """The dtype of an ONNX element type's number. Raises ValueError for a type without one."""
    dtype = DTYPES.get(elem_type)
    if dtype is None:
        name = _REFUSED.get(elem_type, f"number {elem_type}")
        hint = "numbers, bool and strings"
        raise ValueError(explain("element type is not supported", got=name, instead=hint))
    return dtype


def array_of(tensor: Any, folder: Path | None, stored: Stored | None = None) -> np.ndarray:
    """The numpy array of a TensorProto; `folder` is the directory of external data, `stored` its raw data
    if that was left in the file.

    Types below a byte come one element per byte (int4 as int8), texts as objects.
    """
    if tensor.data_type == STRING:
        return _texts_of(tensor)
    dtype = dtype_of(tensor.data_type)
    dims = tuple(tensor.dims)
    if any(d < 0 for d in dims):
        raise ValueError(explain("a tensor has a negative dimension", got=list(dims)))
    if tensor.data_location == EXTERNAL:
        tensor = _with_external_data(tensor, folder)
    if dtype in _PACKED:
        if stored is not None:
            tensor.raw_data = stored.read().tobytes()
    elif stored is not None or tensor.HasField("raw_data"):
        kind = numpy_dtype(dtype)
        raw = np.frombuffer(tensor.raw_data, np.uint8) if stored is None else stored.read()
        if raw.nbytes != prod(dims) * kind.itemsize:
            got = f"{raw.nbytes} bytes for {list(dims)} of {dtype}"
            raise ValueError(explain("a tensor's data does not fill its shape", got=got))
        return raw.view(kind).reshape(dims)
    return _by_onnx(tensor, dtype, dims)


def stored_tensor(tensor: Any, stored: Stored) -> StoredTensor | None:
    """The tensor of a TensorProto whose raw data was left in the file, without reading it; None where its
    bytes are not its values unchanged, or not all of them."""
    dtype = DTYPES.get(tensor.data_type)
    dims = tuple(tensor.dims)
    if (
        dtype is None
        or dtype in _PACKED
        or tensor.data_location == EXTERNAL
        or min(dims, default=0) < 0
    ):
        return None
    kind = numpy_dtype(dtype)
    whole = kind.name == dtype and stored.size == prod(dims) * kind.itemsize
    return StoredTensor(stored, dims, kind) if whole else None


def _texts_of(tensor: Any) -> np.ndarray:
    dims, data = tuple(tensor.dims), tensor.string_data
    if len(data) != prod(dims):
        got = f"{len(data)} strings for {list(dims)}"
        raise ValueError(explain("a tensor's data does not fill its shape", got=got))
    array = np.empty(len(data), object)
    array[:] = [text.decode("utf-8", "replace") for text in data]
    return array.reshape(dims)


def _by_onnx(tensor: Any, dtype: str, dims: tuple[int, ...]) -> np.ndarray:
    from onnx import numpy_helper

    try:
        array = np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, OverflowError) as error:
        what = "a tensor's data does not fill its shape"
        raise ValueError(explain(what, got=f"{list(dims)} of {dtype}: {error}")) from error
    return array.astype(numpy_dtype(dtype), copy=False)


def _with_external_data(tensor: Any, folder: Path | None) -> Any:
    from onnx import TensorProto, external_data_helper

    info = {entry.key: entry.value for entry in tensor.external_data}
    location = info.get("location", "")
    if folder is None:
        what = "the data of a tensor is in another file"
        hint = "give the model's path, or onnx.load it with its data"
        raise ValueError(explain(what, got=location, instead=hint))
    copy = TensorProto()
    copy.CopyFrom(tensor)
    try:
        external_data_helper.load_external_data_for_tensor(copy, str(folder))
    except Exception as error:  # the package raises its own classes for paths out of the folder
        what = "the external data of a tensor cannot be read"
        raise ValueError(explain(what, got=f"{folder / location}: {error}")) from error
    return copy
