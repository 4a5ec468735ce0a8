"""The large weights of an ONNX file, left where they are until they are read.

Protobuf copies every weight into its message, and from there to Python once more; models are mostly
weights. So the message is read without the `raw_data` of large initializers, and each of these from its
place in the file straight into the memory of its constant. This takes a walk over the file's fields
(https://protobuf.dev/programming-guides/encoding): a tag, `number << 3 | wire type`, then a varint (0),
eight bytes (1), a length and that number of bytes (2), or four bytes (5).
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...ir.serialize import register_codec
from ...runtime.tensor import Tensor, aligned_empty, row_major, tensor

# Bytes from which a weight is left in the file; smaller ones are copied with the message.
LEAST = 1 << 16
_GRAPH, _INITIALIZER, _RAW_DATA, _NAME = 7, 5, 9, 8  # numbers of fields
_BYTES = 2  # the wire type of a field with a length
_FIXED = {1: 8, 5: 4}  # wire type -> its number of bytes


@dataclass(frozen=True)
class Stored:
    """The bytes of a weight: `size` bytes of a file from an offset on."""

    path: Path
    state: tuple[int, int]  # of the file: its length and time of change
    offset: int
    size: int

    def read(self) -> np.ndarray:
        """The bytes, 64-byte aligned and read-only. Raises ValueError where the file has changed,
        OSError where it cannot be read."""
        data: Any = aligned_empty((self.size,), np.dtype(np.uint8))
        with open(self.path, "rb") as stream:
            stream.seek(self.offset)
            got = stream.readinto(data)
            same = _state(stream) == self.state
        if got != self.size or not same:
            what = f"{self.path} has changed while it was read"
            hint = "import the model again"
            raise ValueError(explain(what, got=f"{got} bytes of {self.size}", instead=hint))
        data.flags.writeable = False
        return data


def _state(stream: BinaryIO) -> tuple[int, int]:
    status = os.fstat(stream.fileno())
    return status.st_size, status.st_mtime_ns


class StoredTensor(Tensor):
    """A weight that stays in its file: its values are read at each use, and not cached. So a
    weight and its packed copy need not be in memory at the same time."""

    __slots__ = ("_dims", "_kind", "_stored", "_view")

    def __init__(self, stored: Stored, dims: tuple[int, ...], kind: np.dtype[Any]) -> None:
        self._array = self._ffi = None
        self._stored, self._dims, self._kind = stored, dims, kind
        self._view: Any = lambda: None

    @property
    def shape(self) -> tuple[int, ...]:
        return self._dims

    @property
    def strides(self) -> tuple[int, ...]:
        return row_major(self._dims)

    @property
    def dtype(self) -> str:
        return self._kind.name

    def view(self) -> np.ndarray:
        """The values, read-only. Raises LoopwrightError where the file has changed."""
        values = self._view() if self._array is None else self._array
        if values is None:
            try:
                values = self._stored.read().view(self._kind).reshape(self._dims)
            except (OSError, ValueError) as error:
                raise LoopwrightError(f"a weight of {self._stored.path}: {error}") from error
            self._view = weakref.ref(values)
        return values

    def data_ptr(self) -> int:
        """The address of the first element, in memory that this tensor keeps from now on."""
        self._array = self.view()
        return super().data_ptr()

    def __tvm_ffi_object__(self) -> Any:
        """A tvm-ffi tensor that has the values."""
        return Tensor(self.view()).__tvm_ffi_object__()


register_codec(StoredTensor, "tensor", Tensor.numpy, tensor)


def without_weights(path: Path) -> tuple[bytes, dict[str, Stored]]:
    """The bytes of a model without those of its large weights, and where these are, by name. All bytes
    where they are not of the expected form: protobuf then reports the error."""
    with open(path, "rb") as stream:
        try:
            return _Walk(path, stream).model()
        except _UnexpectedError:
            stream.seek(0)
            return stream.read(), {}


class _UnexpectedError(Exception):
    """Bytes that this walk does not follow."""


class _Walk:
    def __init__(self, path: Path, stream: BinaryIO) -> None:
        self.path, self.stream, self.state = path, stream, _state(stream)
        self.end = stream.seek(0, 2)
        stream.seek(0)
        self.stored: dict[str, Stored] = {}

    def model(self) -> tuple[bytes, dict[str, Stored]]:
        message = self.message(self.end, _GRAPH, self.graph)
        return message, self.stored

    def graph(self, end: int) -> bytes:
        return self.message(end, _INITIALIZER, self.tensor)

    def message(self, end: int, inner: int, of_inner: Callable[..., Any]) -> bytes:
        """A message up to `end`, with what `of_inner` makes of the large fields number `inner`."""
        parts = []
        for head, number, wire, size in self.fields(end):
            if number == inner and wire == _BYTES and size >= LEAST:
                data = of_inner(self.stream.tell() + size)
                parts += [_varint(number << 3 | _BYTES), _varint(len(data)), data]
            else:
                parts += [head, self.stream.read(size)]
        return b"".join(parts)

    def tensor(self, end: int) -> bytes:
        """A tensor without its raw data, if that is long."""
        parts, names, offsets = [], [], []
        for head, number, wire, size in self.fields(end):
            if number == _RAW_DATA and wire == _BYTES and size >= LEAST:
                offsets.append(Stored(self.path, self.state, self.stream.tell(), size))
                self.stream.seek(size, 1)
                continue
            data = self.stream.read(size)
            parts += [head, data]
            if number == _NAME and wire == _BYTES:
                names.append(data.decode("utf-8", "backslashreplace"))
        if offsets:
            if len(offsets) > 1 or len(names) != 1 or names[0] in self.stored:
                raise _UnexpectedError
            self.stored[names[0]] = offsets[0]
        return b"".join(parts)

    def fields(self, end: int) -> Iterator[tuple[bytes, int, int, int]]:
        """Each field up to `end`: the bytes before its value, its number, wire type, and the size of
        its value, where the stream is positioned."""
        while (start := self.stream.tell()) < end:
            tag, head = self.varint()
            number, wire = tag >> 3, tag & 7
            size = _FIXED.get(wire, 0)
            if wire == _BYTES:
                size, more = self.varint()
                head += more
            elif wire == 0:
                head += self.varint()[1]
            elif wire not in _FIXED:
                raise _UnexpectedError
            if start + len(head) + size > end:
                raise _UnexpectedError
            yield head, number, wire, size

    def varint(self) -> tuple[int, bytes]:
        """A number of seven bits a byte, the last of which has no eighth; and its bytes."""
        value, text = 0, b""
        while len(text) < 10:
            byte = self.stream.read(1)
            if not byte:
                break
            value |= (byte[0] & 127) << 7 * len(text)
            text += byte
            if byte[0] < 128:
                return value, text
        raise _UnexpectedError


def _varint(value: int) -> bytes:
    text = bytearray()
    while value > 127:
        text.append(value & 127 | 128)
        value >>= 7
    return bytes([*text, value])
