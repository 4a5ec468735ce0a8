"""Object files: the symbols of ELF objects, and static libraries of them (`.a`)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ELF = b"\x7fELF"
SYMBOLS, RELA, NO_DATA, REL = 2, 4, 8, 9  # kinds of sections
FLAGS = 0xFF00  # from here on a symbol's section is a flag


class Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    start: int
    size: int
    link: int
    info: int
    align: int
    step: int


class ElfObject:
    """The sections of an ELF object. Raises ValueError where they lead out of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.wide = data[4:5] == b"\2"
        self.order = "<" if data[5:6] == b"\1" else ">"
        (table,) = self._read("Q" if self.wide else "I", 40 if self.wide else 32)
        width, count, names = self._read("HHH", 58 if self.wide else 46)
        head = "IIQQQQIIQQ" if self.wide else "10I"
        sections = [Section(*self._read(head, table + k * width)) for k in range(count)]
        self.sections, self.names = sections, names
        self.machine = self._read("H", 18)
        whole = all(s.kind == NO_DATA or s.start + s.size <= len(data) for s in sections)
        if not whole or max([names, *(s.link for s in sections)]) >= count:
            raise ValueError("the object's sections are not in it")
        if any(s.name >= sections[names].size for s in sections):
            raise ValueError("the name of a section is not in the object")

    def _read(self, form: str, at: int) -> tuple[Any, ...]:
        try:
            return struct.unpack_from(self.order + form, self.data, at)
        except (struct.error, OverflowError):
            raise ValueError("the object is truncated") from None

    def _entries(self, table: Section, wide: str, narrow: str) -> Iterator[tuple[Any, ...]]:
        form = self.order + (wide if self.wide else narrow)
        if table.step != struct.calcsize(form) or table.size % table.step:
            raise ValueError("a table of the object has entries of another size")
        part = self.data[table.start : table.start + table.size]
        return struct.iter_unpack(form, part)

    def content(self, section: Section) -> bytes:
        """The contents of a section in the file."""
        size = 0 if section.kind == NO_DATA else section.size
        return self.data[section.start : section.start + size]

    def section_name(self, section: Section) -> bytes:
        """The name of a section."""
        begin = self.sections[self.names].start + section.name
        return self.data[begin : self.data.index(b"\0", begin)]

    def entries(self, table: Section) -> Iterator[tuple[bytes, int, int, int, int, int]]:
        """(name, info, other, section, value, size) of a table's symbols."""
        strings = self.sections[table.link]
        for name, *entry in self._entries(table, "IBBHQQ", "IIIBBH"):
            info, other, where, at, size = entry if self.wide else (*entry[2:], *entry[:2])
            begin = strings.start + name
            end = self.data.index(b"\0", begin, strings.start + strings.size)
            if where < FLAGS and where >= len(self.sections):
                raise ValueError("a symbol is in no section of the object")
            if 0 < where < FLAGS and at + size > self.sections[where].size:
                raise ValueError("a symbol is not within its section")
            yield self.data[begin:end], info, other, where, at, size

    def relocations(self, table: Section) -> list[tuple[int, ...]]:
        """(place, what, maybe addend) of a table's entries."""
        forms = ("QQq", "IIi") if table.kind == RELA else ("QQ", "II")
        return list(self._entries(table, *forms))

    def symbols(self, table: Section) -> Iterator[tuple[str, bool]]:
        """(name, whether it is defined) of the symbols that others can see."""
        for name, info, _, where, *_ in self.entries(table):
            if name and info >> 4:  # 0 is a local symbol
                yield name.decode(), where != 0

    def check_relocations(self, table: Section) -> None:
        """Raise ValueError where the target of a relocation, or its symbol, is not in the object."""
        symbols, changed = self.sections[table.link], self.sections[table.info % len(self.sections)]
        for at, info, *_ in self.relocations(table):
            number = info >> (32 if self.wide else 8)
            if (number + 1) * symbols.step > symbols.size or at >= changed.size:
                raise ValueError("a relocation leads out of the object")


def symbols(data: bytes) -> Iterator[tuple[str, bool]]:
    """(name, whether it is defined) of the symbols of an ELF object that others can see; none of
    another format's. Raises ValueError for a damaged object."""
    if data[:4] != ELF:
        return
    elf = ElfObject(data)
    for section in elf.sections:
        if section.kind == SYMBOLS:
            yield from elf.symbols(section)
        elif section.kind in (RELA, REL):
            elf.check_relocations(section)


def is_sound(data: bytes) -> bool:
    """Whether an object may be given to LLVM, which ends the process on some that are damaged. One
    of another format than ELF passes: LLVM refuses what it does not know."""
    try:
        return all(True for _ in symbols(data))
    except ValueError:
        return False


def write_archive(objects: Sequence[bytes], path: str | Path) -> Path:
    """Write ELF objects as a static library with an index of their symbols, in the format of
    System V and GNU (ar(5)), which `ar`, linkers and compilers read."""
    index = [(k, name) for k, o in enumerate(objects) for name, defined in symbols(o) if defined]
    names = b"".join(name.encode() + b"\0" for _, name in index)
    names += bytes(len(names) % 2)
    wide = sum(map(len, objects)) + len(names) >= 1 << 31  # offsets beyond 32 bits
    number, index_name = ("Q", "/SYM64/") if wide else ("I", "/")
    offsets, end = [], 8 + 60 + struct.calcsize(number) * (1 + len(index)) + len(names)
    for data in objects:
        offsets.append(end)
        end += 60 + len(data) + len(data) % 2
    table = struct.pack(f">{len(index) + 1}{number}", len(index), *(offsets[k] for k, _ in index))
    members = [(index_name, 0, table + names)]
    members += [(f"{k}.o/", 644, data) for k, data in enumerate(objects)]
    with Path(path).open("wb") as file:
        file.write(b"!<arch>\n")
        for name, mode, data in members:
            head = f"{name:<16}{0:<12}{0:<6}{0:<6}{mode:<8}{len(data):<10}`\n"
            file.write(head.encode() + data + b"\n" * (len(data) % 2))
    return Path(path)
