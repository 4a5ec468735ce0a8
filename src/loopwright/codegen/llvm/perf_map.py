"""The functions of a loaded program for `perf report`, which reads /tmp/perf-PID.map."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ..objects import FLAGS, SYMBOLS, ElfObject

_FUNCTION, _LOCAL = 2, 0  # kind and binding of a symbol


def functions_of(data: bytes) -> Iterator[tuple[str, int, int, int, bool]]:
    """(name, section, place, size, whether others can see it) of each function of an object."""
    elf = ElfObject(data)
    for table in (s for s in elf.sections if s.kind == SYMBOLS):
        for name, info, _, where, at, size in elf.entries(table):
            if info & 15 == _FUNCTION and 0 < where < FLAGS:
                yield name.decode(), where, at, size, info >> 4 != _LOCAL


def visible_functions(objects: Iterable[bytes]) -> list[str]:
    """The functions whose addresses can be looked up."""
    return [name for data in objects for name, *_, seen in functions_of(data) if seen]


def loaded_functions(
    data: bytes, addresses: Mapping[str, int]
) -> Iterator[tuple[str, int, int, int, int]]:
    """(name, section, offset, size, address) of each function of a loaded object. addresses: of those
    that others can see; those of others follow, for a section is loaded as one."""
    functions = list(functions_of(data))
    bases = {s: addresses[n] - at for n, s, at, _, seen in functions if seen}
    for name, section, at, size, _ in functions:
        if section in bases:
            yield name, section, at, size, bases[section] + at


def write_perf_map(objects: Iterable[bytes], addresses: Mapping[str, int]) -> Path:
    """Add the functions to the map of this process. addresses: see `loaded_functions`."""
    lines = [
        f"{address:x} {size:x} {name}\n"
        for data in objects
        for name, _, _, size, address in loaded_functions(data, addresses)
    ]
    file = Path(f"/tmp/perf-{os.getpid()}.map")
    with file.open("a", encoding="utf-8") as out:
        out.write("".join(lines))
    return file
