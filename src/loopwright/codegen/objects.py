"""Object files: the symbols of ELF objects, and static libraries of them (`.a`)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

ELF = b"\x7fELF"
_SYMBOL_TABLE = 2  # SHT_SYMTAB; its sh_link names the section with the strings


def symbols(data: bytes) -> Iterator[tuple[str, bool]]:
    """(name, whether it is defined) of the symbols of an ELF object that others can see; none of
    another format's."""
    if data[:4] != ELF:
        return
    wide, order = data[4] == 2, "<" if data[5] == 1 else ">"
    (table,) = struct.unpack_from(f"{order}{'Q' if wide else 'I'}", data, 40 if wide else 32)
    width, count = struct.unpack_from(f"{order}HH", data, 58 if wide else 46)
    head = f"{order}{'IIQQQQIIQQ' if wide else '10I'}"
    sections = [struct.unpack_from(head, data, table + i * width) for i in range(count)]
    for _, kind, _, _, start, size, link, *_ in sections:
        step = 24 if wide else 16
        for at in range(start, start + size, step) if kind == _SYMBOL_TABLE else ():
            if wide:
                name, info, _, where = struct.unpack_from(f"{order}IBBH", data, at)
            else:
                name, _, _, info, _, where = struct.unpack_from(f"{order}IIIBBH", data, at)
            if name and info >> 4:  # 0 is a local symbol
                begin = sections[link][4] + name
                yield data[begin : data.index(b"\0", begin)].decode(), where != 0


def write_archive(objects: Sequence[bytes], path: str | Path) -> Path:
    """Write ELF objects as a static library with an index of their symbols, in the format of
    System V and GNU (ar(5)), which `ar`, linkers and compilers read."""
    index = [(k, name) for k, o in enumerate(objects) for name, known in symbols(o) if known]
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


__all__ = ["ELF", "symbols", "write_archive"]
