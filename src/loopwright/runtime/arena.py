"""`Arena`: memory of a fixed size that a compiled model works in.

    Arena("sram", limit="256KiB"), Arena("dram")

Given in the order of preference to the memory planner (`tir.transform.PlanUnifiedMemory`,
`loopwright.compile(model, arenas=[...])`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from loopwright.base.errors import explain

KINDS = ("tensor", "scratch", "constant")
_UNITS = {
    "": 1,
    "b": 1,
    **{f"{p}b": 1000**k for k, p in enumerate("kmg", 1)},
    **{f"{p}ib": 1024**k for k, p in enumerate("kmg", 1)},
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def parse_bytes(size: int | str) -> int:
    """A number of bytes from itself or a text such as "256KiB". Raises ValueError, TypeError.

    >>> parse_bytes("256KiB"), parse_bytes("1.5 MB"), parse_bytes(64)
    (262144, 1500000, 64)
    """
    hint = 'a number of bytes, or a text such as "256KiB", "4MB"'
    if isinstance(size, bool) or not isinstance(size, int | str):
        raise TypeError(explain("this is not a size", got=repr(size), instead=hint))
    if isinstance(size, int):
        bytes_ = size
    else:
        match = _SIZE.fullmatch(size)
        unit = _UNITS.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise ValueError(explain("this is not a size", got=repr(size), instead=hint))
        bytes_ = int(float(match[1]) * unit)
    if bytes_ < 0:
        raise ValueError(explain("a size is not negative", got=repr(size), instead=hint))
    return bytes_


def format_bytes(size: int) -> str:
    """A size in the largest binary unit of which it is a multiple of a half.

    >>> format_bytes(262144), format_bytes(1000), format_bytes(1536)
    ('256KiB', '1000B', '1.5KiB')
    """
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size * 2 % factor == 0:
            return f"{size // factor}{'.5' if size % factor else ''}{unit}"
    return f"{size}B"


@dataclass(frozen=True)
class Arena:
    """Memory that a model's tensors are placed in at compile time.

    name: of the pointer parameter, of the macro in C.
    limit: its size in bytes (a number, or "256KiB"); None for no limit.
    alignment: of its beginning and of every tensor in it, in bytes: a power of two.
    kinds: the kinds placed in it: "tensor" (between kernels), "scratch" (in a kernel, and that of an
        external function), "constant".
    only: patterns of the names of tensors placed in it, as of files ("conv*").

    Raises ValueError for any other value.

    >>> lw.Arena("SRAM", limit="256KiB", alignment=64).limit
    262144
    """

    name: str
    limit: int | str | None = None
    alignment: int = 64
    kinds: tuple[str, ...] = ("tensor", "scratch")
    only: tuple[str, ...] = ("*",)

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name.isidentifier()):
            what = "an arena's name is an identifier: parameters and macros are called after it"
            raise ValueError(explain(what, got=repr(self.name)))
        if self.limit is not None:
            object.__setattr__(self, "limit", parse_bytes(self.limit))
        if self.alignment < 1 or self.alignment & (self.alignment - 1):
            what = f"the alignment of arena {self.name} is a power of two"
            raise ValueError(explain(what, got=self.alignment))
        for field in ("kinds", "only"):
            value = getattr(self, field)
            object.__setattr__(self, field, (value,) if isinstance(value, str) else tuple(value))
        for kind in self.kinds:
            if kind not in KINDS:
                what = f"arena {self.name} holds an unknown kind of memory"
                raise ValueError(explain(what, got=kind, instead=f"one of {', '.join(KINDS)}"))

    def takes(self, kind: str, name: str) -> bool:
        """Whether memory of a kind and name may be placed in it."""
        return kind in self.kinds and any(fnmatchcase(name, p) for p in self.only)


def as_arenas(value: Arena | str | Iterable[Arena | str] | None) -> tuple[Arena, ...]:
    """Arenas from arenas or their names; one without a limit for None.

    Raises ValueError where two have one name.
    """
    if value is None:
        return (Arena("workspace"),)
    listed = [value] if isinstance(value, Arena | str) else list(value)
    for a in listed:
        if not isinstance(a, Arena | str):
            what = "arenas are given as a list of Arena"
            raise TypeError(explain(what, got=type(a).__name__, instead='Arena("sram", "256KiB")'))
    arenas = tuple(Arena(a) if isinstance(a, str) else a for a in listed)
    if not arenas:
        raise ValueError(
            explain("the list of arenas is empty", instead='give one: [Arena("workspace")]')
        )
    names = [a.name for a in arenas]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(explain("two arenas have one name", got=name))
    return arenas
