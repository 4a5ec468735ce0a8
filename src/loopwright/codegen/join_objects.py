"""One relocatable ELF object of several, as by `ld -r`, without a linker: all sections follow one
another, those of frames are merged, and symbols that others can see are one for each name."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..base.errors import explain
from .objects import FLAGS, NO_DATA, REL, RELA, SYMBOLS, ElfObject, Section

_STRINGS, _GROUP, _ADDRESSES = 3, 17, 0x6FFF4C03  # the last are LLVM's notes on symbols
_REBUILT = (0, SYMBOLS, _STRINGS, _ADDRESSES, RELA, REL)
_WEAK = 2  # STB_WEAK
_FRAMES = b".eh_frame"


@dataclass(frozen=True)
class _Symbol:
    name: bytes
    info: int
    other: int
    where: int  # the number of its section, 0 where it is undefined
    at: int
    size: int


class _Strings:
    """A table of names."""

    def __init__(self) -> None:
        self.data = bytearray(1)
        self.offsets: dict[bytes, int] = {b"": 0}

    def at(self, name: bytes) -> int:
        if name not in self.offsets:
            self.offsets[name] = len(self.data)
            self.data += name + b"\0"
        return self.offsets[name]


class _Joined:
    """The sections, symbols and relocations of all objects."""

    def __init__(self, first: ElfObject) -> None:
        self.first, self.wide, self.order = first, first.wide, first.order
        self.names = _Strings()
        empty = Section(*[0] * 10)
        self.sections: list[tuple[Section, bytes]] = [(empty, b"")]
        self.local = [_Symbol(b"", 0, 0, 0, 0, 0)]
        self.visible: dict[bytes, _Symbol] = {}
        self.frames: int | None = None  # the number of their section
        # by the section that they change: their header, and (an entry, its symbol's new number or name)
        self.changes: dict[int, tuple[Section, list[tuple[tuple[int, ...], int | bytes]]]] = {}

    def add(self, elf: ElfObject) -> None:
        if (elf.wide, elf.order, elf.machine) != (self.wide, self.order, self.first.machine):
            raise ValueError("the objects are for different machines")
        if any(s.kind == _GROUP for s in elf.sections):
            raise ValueError("an object has groups of sections")
        offsets: dict[int, int] = {}
        starts: dict[int, int] = {}  # of sections not at the start of their new one
        for k, section in enumerate(elf.sections):
            if section.kind in _REBUILT:
                continue
            name, data = elf.section_name(section), elf.content(section)
            if name == _FRAMES and self.frames is not None:
                head, before = self.sections[self.frames]
                offsets[k], starts[k] = self.frames, len(before)
                self.sections[self.frames] = head, before + data
                continue
            offsets[k] = len(self.sections)
            self.frames = offsets[k] if name == _FRAMES else self.frames
            self.sections.append((section._replace(name=self.names.at(name)), data))
        for k, new in offsets.items():
            section, data = self.sections[new]
            self.sections[new] = section._replace(link=offsets.get(elf.sections[k].link, 0)), data
        became = [
            self.symbol(
                replace(s, where=offsets.get(s.where, s.where), at=s.at + starts.get(s.where, 0))
            )
            for table in elf.sections
            if table.kind == SYMBOLS
            for s in (_Symbol(*entry) for entry in elf.entries(table))
        ]
        for section in elf.sections:
            if section.kind in (RELA, REL) and section.info in offsets:
                new = section._replace(name=self.names.at(elf.section_name(section)))
                start, bits = starts.get(section.info, 0), 32 if self.wide else 8
                entries = [
                    ((p + start, *e), became[e[0] >> bits]) for p, *e in elf.relocations(section)
                ]
                self.changes.setdefault(offsets[section.info], (new, []))[1].extend(entries)

    def symbol(self, new: _Symbol) -> int | bytes:
        """Add a symbol: the number of a local one, the name of another."""
        if not new.info >> 4:
            if (new.name, new.where) == (b"", 0):
                return 0
            self.local.append(new)
            return len(self.local) - 1
        old = self.visible.get(new.name)
        self.visible[new.name] = new if old is None else _united(old, new)
        return new.name

    def bytes(self) -> bytes:
        """The object."""
        names, symbols = _Strings(), [*self.local, *self.visible.values()]
        numbers = {name: len(self.local) + k for k, name in enumerate(self.visible)}
        form = self.order + ("IBBHQQ" if self.wide else "IIIBBH")
        table = b"".join(
            struct.pack(form, names.at(s.name), *(rest if self.wide else (*rest[3:], *rest[:3])))
            for s in symbols
            for rest in [(s.info, s.other, s.where, s.at, s.size)]
        )
        at = len(self.sections)  # of the table of symbols
        word, step = (8, 24) if self.wide else (4, 16)
        own = Section(
            self.names.at(b".symtab"), SYMBOLS, 0, 0, 0, 0, at + 1, len(self.local), word, step
        )
        sections = [*self.sections, (own, table)]
        strings = Section(self.names.at(b".strtab"), _STRINGS, 0, 0, 0, 0, 0, 0, 1, 0)
        sections.append((strings, bytes(names.data)))
        for where, (head, entries) in self.changes.items():
            data = b"".join(self.change(*entry, numbers) for entry in entries)
            sections.append((head._replace(link=at, info=where), data))
        last = self.names.at(b".shstrtab")
        sections.append((strings._replace(name=last), bytes(self.names.data)))
        return self.laid_out(sections)

    def change(self, entry: tuple[int, ...], new: int | bytes, numbers: dict[bytes, int]) -> bytes:
        """A relocation that names a symbol by its new number."""
        bits = 32 if self.wide else 8
        offset, info, *addend = entry
        number = numbers[new] if isinstance(new, bytes) else new
        form = ("QQq" if self.wide else "IIi")[: len(entry)]
        return struct.pack(self.order + form, offset, number << bits | info % (1 << bits), *addend)

    def laid_out(self, sections: list[tuple[Section, bytes]]) -> bytes:
        """The file: its header, the contents of the sections, and their table."""
        if len(sections) >= FLAGS:
            raise ValueError(f"{len(sections)} sections are more than an object can have")
        start, width = (64, 64) if self.wide else (52, 40)
        body, heads = bytearray(start), []
        for section, data in sections:
            body += bytes(-len(body) % max(section.align, 1))
            size = section.size if section.kind == NO_DATA else len(data)
            heads.append(section._replace(start=len(body), size=size))
            body += data
        body += bytes(-len(body) % 8)
        head = self.order + ("IIQQQQIIQQ" if self.wide else "10I")
        table = b"".join(struct.pack(head, *h) for h in heads)
        body[:start] = self.first.data[:start]
        struct.pack_into(
            self.order + ("Q" if self.wide else "I"), body, 40 if self.wide else 32, len(body)
        )
        counts = (width, len(heads), len(heads) - 1)
        struct.pack_into(self.order + "HHH", body, 58 if self.wide else 46, *counts)
        return bytes(body + table)


def _united(old: _Symbol, new: _Symbol) -> _Symbol:
    """What two symbols of a name become: the definition, a weak one only without another; hidden
    where one of them is. Raises ValueError where both define it."""
    seen = {s.other & 3 for s in (old, new)} - {0}
    first, second = (new, old) if new.where and not old.where else (old, new)
    if first.where and second.where:
        weak = [s.info >> 4 == _WEAK for s in (first, second)]
        if not any(weak):
            what = "two objects define a function or constant of one name"
            raise ValueError(explain(what, got=new.name.decode(errors="replace")))
        first = second if weak == [True, False] else first
    elif not first.where and second.info >> 4 != _WEAK:
        first = second
    return replace(first, other=first.other & ~3 | min(seen, default=0))


def join_objects(objects: Sequence[bytes]) -> bytes:
    """One relocatable ELF object of several. Raises ValueError for objects of different machines,
    with groups of sections, or that define the same name."""
    parts = [ElfObject(data) for data in objects]
    joined = _Joined(parts[0])
    for part in parts:
        joined.add(part)
    return joined.bytes()
