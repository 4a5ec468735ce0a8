"""The code of loaded programs with its lines for `perf inject --jit`, which reads jit-PID.dump.

The format is perf's (tools/perf/Documentation/jitdump-specification.txt in Linux), the lines are those
of the objects' DWARF, version 4.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from ...base.config import knob
from ..objects import RELA, ElfObject
from .perf_map import loaded_functions

_MAGIC, _VERSION = 0x4A695444, 1
_CODE, _LINES = 0, 2  # kinds of records


def write_jitdump(folder: str, objects: Iterable[bytes], addresses: Mapping[str, int]) -> Path:
    """Add functions to the dump of this process in a folder. addresses: as for `write_perf_map`."""
    objects = list(objects)
    file, _ = _dump(folder, os.getpid(), ElfObject(objects[0]).machine[0])
    for data in objects:
        rows = sorted(line_rows(ElfObject(data)))
        for name, section, at, size, address in loaded_functions(data, addresses):
            begin, end = bisect_left(rows, (section, at)), bisect_right(rows, (section, at + size))
            if begin < end:
                lines = [
                    struct.pack("<QII", address + start - at, line, 0) + source.encode() + b"\0"
                    for _, start, source, line in rows[begin:end]
                ]
                _record(file, _LINES, struct.pack("<QQ", address, len(lines)) + b"".join(lines))
            head = (os.getpid(), threading.get_native_id(), address, address, size, file.tell())
            code = ctypes.string_at(address, size)
            _record(file, _CODE, struct.pack("<IIQQQQ", *head) + name.encode() + b"\0" + code)
    file.flush()
    return Path(file.name)


@cache
def _dump(folder: str, process: int, machine: int) -> tuple[BinaryIO, mmap.mmap]:
    """The file, and the part of it that is mapped as code: so perf learns of it."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    file = open(f"{folder}/jit-{process}.dump", "wb+")  # noqa: SIM115 - open as long as the process
    size = struct.calcsize("<IIIIIIQQ")
    now = time.monotonic_ns()
    file.write(struct.pack("<IIIIIIQQ", _MAGIC, _VERSION, size, machine, 0, process, now, 0))
    file.flush()
    return file, mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ | mmap.PROT_EXEC)


def _record(file: BinaryIO, kind: int, content: bytes) -> None:
    file.write(struct.pack("<IIQ", kind, 16 + len(content), time.monotonic_ns()) + content)


def line_rows(elf: ElfObject) -> Iterator[tuple[int, int, str, int]]:
    """(section, place, path, line) of an object's instructions with which a line begins."""
    for number, section in enumerate(elf.sections):
        if elf.section_name(section) == b".debug_line":
            moved: dict[int, tuple[int, int]] = {}
            for table in (s for s in elf.sections if s.kind == RELA and s.info == number):
                symbols = list(elf.entries(elf.sections[table.link]))
                for offset, what, addend in elf.relocations(table):
                    *_, where, value, _ = symbols[what >> 32]
                    moved[offset] = where, value + addend
            yield from _program(_Cursor(elf.content(section)), moved)


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> Any:
        (value,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def text(self) -> str:
        end = self.data.index(b"\0", self.at)
        text, self.at = self.data[self.at : end].decode(), end + 1
        return text

    def number(self, signed: bool = False) -> int:
        """A number in LEB128."""
        value = shift = 0
        while True:
            byte = self.take("B")
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value - (1 << shift) if signed and byte & 64 else value


def _program(
    cursor: _Cursor, moved: Mapping[int, tuple[int, int]]
) -> Iterator[tuple[int, int, str, int]]:
    """The rows of a line program. moved: section and place of the addresses in it."""
    end = cursor.take("I") + 4
    if cursor.take("H") != 4:
        return
    begin = cursor.take("I") + cursor.at
    step, _, _ = (cursor.take("B") for _ in range(3))
    least, count, special = cursor.take("b"), cursor.take("B"), cursor.take("B")
    operands = [0, *(cursor.take("B") for _ in range(special - 1))]
    # The folder of the unit, 0, is not listed here.
    folders, files = [os.path.abspath(knob("LOOPWRIGHT_DEBUG_INFO"))], [""]
    while folder := cursor.text():
        folders.append(folder)
    while name := cursor.text():
        files.append(f"{folders[cursor.number()]}/{name}")
        cursor.number(), cursor.number()
    cursor.at = begin
    section, address, file, line = 0, 0, 1, 1
    while cursor.at < end:
        op = cursor.take("B")
        if op >= special:
            address += (op - special) // count * step
            line += least + (op - special) % count
            yield section, address, files[file], line
        elif op == 0:
            stop = cursor.number() + cursor.at
            kind = cursor.take("B")
            if kind == 1:  # the end of a section
                section, address, file, line = 0, 0, 1, 1
            elif kind == 2:
                section, address = moved[cursor.at]
            cursor.at = stop
        elif op == 1:
            yield section, address, files[file], line
        elif op == 2:
            address += cursor.number() * step
        elif op == 3:
            line += cursor.number(signed=True)
        elif op == 4:
            file = cursor.number()
        elif op == 8:
            address += (255 - special) // count * step
        elif op == 9:
            address += cursor.take("H")
        else:  # columns, flags
            for _ in range(operands[op]):
                cursor.number()
