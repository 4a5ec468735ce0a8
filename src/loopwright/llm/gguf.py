"""GGUF files: a mapped file's values by key and tensors by name, each checked against the file's size.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import LoopwrightError, explain
from .stored import GROUPS, MappedFile, Stored

# Scalars by the number of their type; 8 is a string, 9 an array.
_SCALARS = dict(enumerate("BbHhIif?", 0)) | {10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
# Tensors' types by number: name, elements of a block. Of others only the number is reported.
_TYPES = {
    0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 12: "q4_K",
    13: "q5_K", 14: "q6_K", 30: "bf16",
}  # fmt: skip
_MOST_DIMS = 4


class _Cursor:
    """Reads little-endian values of a mapped file in order."""

    def __init__(self, file: MappedFile, name: str) -> None:
        self.file, self.data, self.at, self.name = file, memoryview(file.data.data), 0, name

    def error(self, what: str, got: object) -> LoopwrightError:
        return LoopwrightError(explain(f"{self.name} is not a valid GGUF file: {what}", got=got))

    def bytes(self, count: int) -> memoryview:
        end = self.at + count
        if end > len(self.data):
            got = f"{count} bytes at {self.at} of {len(self.data)}"
            raise self.error("it ends too early", got)
        part, self.at = self.data[self.at : end], end
        return part

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.bytes(struct.calcsize("<" + code)))[0]

    def text(self) -> str:
        size = int.from_bytes(self.bytes(8), "little")  # of many: `number` takes twice as long
        return str(self.bytes(size), "utf-8", "replace")

    def value(self, kind: int) -> Any:
        """A value: arrays of numbers as numpy's, of strings as lists."""
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            return self.number(self.scalar(kind))
        kind, count = self.number("I"), self.number("Q")
        if kind == _STRING:
            # Every string has a length of 8 bytes, so a count beyond the file ends in an error early.
            return [self.text() for _ in range(count)]
        dtype = np.dtype(self.scalar(kind)).newbyteorder("<")
        return np.frombuffer(self.bytes(count * dtype.itemsize), dtype)

    def scalar(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise self.error("a value has an unknown type", kind)
        return _SCALARS[kind]


def read_gguf(path: Path) -> tuple[dict[str, Any], dict[str, Stored]]:
    """The values and the tensors of a file, which is mapped, not read.

    Raises LoopwrightError for a file that is broken, of another byte order, or has tensors of a
    type without products, and OSError.
    """
    file = MappedFile(path)
    cursor = _Cursor(file, path.name)
    if (magic := bytes(cursor.bytes(4))) != b"GGUF":
        raise cursor.error("it begins with other bytes", magic)
    if (version := cursor.number("I")) not in (2, 3):
        raise cursor.error("its version is not 2 or 3", version)
    tensors, values = cursor.number("Q"), cursor.number("Q")
    fields: dict[str, Any] = {}
    _unique(cursor, fields, values, lambda: cursor.value(cursor.number("I")))
    entries: dict[str, tuple[list[int], int, int]] = {}
    _unique(cursor, entries, tensors, lambda: _entry(cursor))
    alignment = fields.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20:
        raise cursor.error("general.alignment is not a number of bytes", alignment)
    start = -(-cursor.at // alignment) * alignment
    return fields, {n: _tensor(cursor, start, n, *e) for n, e in entries.items()}


def _unique(cursor: _Cursor, table: dict[str, Any], count: int, read: Callable[[], Any]) -> None:
    """Read entries of a table. Raises LoopwrightError for a name that is there twice."""
    for _ in range(count):
        name = cursor.text()
        if name in table:
            raise cursor.error("a name is there twice", name[:80])
        table[name] = read()


def _entry(cursor: _Cursor) -> tuple[list[int], int, int]:
    """A tensor's extents, the last one first; the number of its type; its offset."""
    rank = cursor.number("I")
    if not 1 <= rank <= _MOST_DIMS:
        raise cursor.error(f"a tensor has not 1 to {_MOST_DIMS} dimensions", rank)
    return [cursor.number("Q") for _ in range(rank)], cursor.number("I"), cursor.number("Q")


def _tensor(
    cursor: _Cursor, start: int, name: str, dims: list[int], kind: int, offset: int
) -> Stored:
    """Checked against the size of the file."""
    where = f"tensor {name[:80]}"
    if kind not in _TYPES:
        what, hint = f"{where} is of a type without products", f"one of {', '.join(GROUPS)}"
        raise LoopwrightError(explain(what, got=f"number {kind} of ggml's types", instead=hint))
    block, size = GROUPS[_TYPES[kind]]
    depth, *others = dims
    if depth % block or not prod(dims):
        raise cursor.error(f"{where} is not of whole blocks of {block} elements", dims)
    row = depth // block * size
    first, total = start + offset, prod(others) * row
    if first + total > cursor.file.size:
        got = f"{total} bytes at {first} of {cursor.file.size}"
        raise cursor.error(f"{where} is not within it", got)
    raw = cursor.file.data[first : first + total].reshape(-1, row)
    return Stored(name, _TYPES[kind], (*others[::-1], depth), raw, cursor.file)
