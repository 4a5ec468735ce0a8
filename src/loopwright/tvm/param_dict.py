"""Parameters by name as bytes, in TVM's format (`tvm.runtime.save_param_dict`).

All numbers are little-endian. The list: 8 bytes that mark it, 8 reserved, the count and the names
(each a length of 8 bytes and its text), the count again and the tensors. A tensor: 8 bytes that mark
it, 8 reserved, its device (two int32), rank (int32), dtype (code and bits, a byte each, lanes in two),
extents (int64), the count of its bytes (int64), and these.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from loopwright.base.errors import explain
from loopwright.runtime.dtype import numpy_dtype
from loopwright.runtime.tensor import Tensor, tensor

LIST_MARK = 0xF7E58D4F05049CB7
TENSOR_MARK = 0xDD5E40F096B4A13F
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4}
_KINDS = {code: name for name, code in _CODES.items()}


def save_param_dict(params: Mapping[str, Any]) -> bytearray:
    """The bytes of arrays by name."""
    names = [name.encode() for name in params]
    out = bytearray(struct.pack("<QQQ", LIST_MARK, 0, len(names)))
    for name in names:
        out += struct.pack("<Q", len(name)) + name
    out += struct.pack("<Q", len(names))
    for name, value in params.items():
        array = value if isinstance(value, Tensor) else tensor(value)
        dtype, data = array.dtype, array.numpy()
        kind = dtype.rstrip("0123456789")
        code, bits = (1, 1) if dtype == "bool" else (_CODES.get(kind), int(dtype[len(kind) :] or 0))
        if code is None:
            what = f"the parameter {name} has a dtype that the format does not have"
            raise ValueError(explain(what, got=dtype, instead="cast it to float32"))
        out += struct.pack("<QQiiiBBH", TENSOR_MARK, 0, 1, 0, data.ndim, code, bits, 1)
        out += struct.pack(f"<{data.ndim}qq", *data.shape, data.nbytes)
        out += data.astype(data.dtype.newbyteorder("<"), copy=False).tobytes()
    return out


class _Bytes:
    """Reads the format; what ends too early is an error."""

    def __init__(self, data: bytes | bytearray) -> None:
        self.data, self.at = memoryview(data), 0

    def take(self, count: int) -> memoryview:
        if count < 0 or self.at + count > len(self.data):
            what = "the bytes end before the parameters do"
            raise ValueError(explain(what, got=f"{len(self.data)} bytes"))
        self.at += count
        return self.data[self.at - count : self.at]

    def read(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))

    def mark(self, expected: int, what: str) -> None:
        (mark, _) = self.read("QQ")
        if mark != expected:
            hint = "bytes that save_param_dict wrote"
            raise ValueError(explain(f"the bytes are not a {what}", got=f"{mark:#x}", instead=hint))


def load_param_dict(param_bytes: bytes | bytearray | str) -> dict[str, Tensor]:
    """The tensors by name that `save_param_dict` wrote. Raises ValueError for other bytes."""
    data = param_bytes.encode("latin-1") if isinstance(param_bytes, str) else param_bytes
    source = _Bytes(data)
    source.mark(LIST_MARK, "list of parameters")
    (count,) = source.read("Q")
    names = []
    for _ in range(min(count, len(data))):
        names.append(bytes(source.take(source.read("Q")[0])).decode())
    (again,) = source.read("Q")
    if again != len(names):
        raise ValueError(explain("names and parameters differ in number", got=f"{again}"))
    return {name: _tensor(source) for name in names}


def save_param_dict_to_file(params: Mapping[str, Any], path: str | PathLike[str]) -> None:
    """Write the bytes of `save_param_dict` to a file."""
    Path(path).write_bytes(save_param_dict(params))


def load_param_dict_from_file(path: str | PathLike[str]) -> dict[str, Tensor]:
    """The tensors of a file that `save_param_dict_to_file` wrote. Raises ValueError for another."""
    return load_param_dict(Path(path).read_bytes())


def _tensor(source: _Bytes) -> Tensor:
    source.mark(TENSOR_MARK, "tensor")
    _, _, rank, code, bits, lanes = source.read("iiiBBH")
    if rank < 0 or lanes != 1 or code not in _KINDS:
        what = "a tensor of this kind cannot be read"
        raise ValueError(explain(what, got=f"rank {rank}, type code {code}, {lanes} lanes"))
    dtype = "bool" if (code, bits) == (1, 1) else f"{_KINDS[code]}{bits}"
    *shape, size = source.read(f"{rank}qq")
    stored = np.dtype(numpy_dtype(dtype))
    if min(shape, default=0) < 0 or size != stored.itemsize * int(np.prod(shape, dtype=object)):
        what = "the size of a tensor does not match its shape"
        raise ValueError(explain(what, got=f"{size} bytes for {shape} of {dtype}"))
    data = np.frombuffer(source.take(size), stored.newbyteorder("<"))
    return tensor(data.astype(stored).reshape(shape))
