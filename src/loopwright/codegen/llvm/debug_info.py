"""Debug information: instructions carry the line of the TensorIR statement that they implement.

A kernel's source is its lowered TensorIR as it is printed, one file each. LLVM keeps the lines in
its optimized text and writes them as `.loc` into assembly and as DWARF into objects, which gdb and
perf read. Only lines are described, no variables, so the instructions are those without it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextvars import ContextVar
from itertools import pairwise
from pathlib import Path

from ...base.config import knob
from ...script.printer.lines import Lines, numbered
from ...tir.function import PrimFunc

# Set in the context of a compilation whose code is discarded and never debugged.
SHORT_LIVED = ContextVar("short-lived code", default=False)

_UNIT, _FILES = 0, 4  # metadata: the unit, two flags, the type of all functions, then files
_HEAD = (
    "!llvm.dbg.cu = !{!0}",
    "!llvm.module.flags = !{!1, !2}",
    "!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !4, "
    'producer: "loopwright", isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)',
    '!1 = !{i32 2, !"Debug Info Version", i32 3}',
    '!2 = !{i32 2, !"Dwarf Version", i32 4}',
    "!3 = !DISubroutineType(types: !{})",
)


class DebugInfo:
    """The debug information of a module. `folder`: where its source files are; "" for none that is
    written."""

    def __init__(self, folder: str = "") -> None:
        self.folder = folder
        self.sources: dict[str, Lines] = {}
        self.numbers: dict[int, int] = {}  # the line of each statement, by its id
        self.line = 1
        self._rows: list[str] = []
        self._locations: dict[tuple[int, int], int] = {}
        self._file = _FILES

    def begin(self, name: str, func: PrimFunc) -> None:
        """A function of the program, and its parallel parts, follow."""
        lines = self.sources[name] = numbered(func, name)
        self.numbers, self.line = lines.numbers(), 1
        digest = hashlib.blake2b(lines.text.encode(), digest_size=4).hexdigest()
        stem = "".join(c if c.isalnum() or c in "_." else "_" for c in name[:200])
        file = f"{stem}-{digest}.py" if self.folder else f"{stem}.py"
        if self.folder:
            with open(f"{self.folder}/{file}", "w", encoding="utf-8") as source:
                source.write(lines.text + "\n")
        where = _quoted(self.folder or ".")
        self._file = self._add(f"!DIFile(filename: {_quoted(file)}, directory: {where})")

    def function(self, symbol: str) -> int:
        """The number of a function's description."""
        return self._add(
            f"distinct !DISubprogram(name: {_quoted(symbol)}, scope: !{self._file}, "
            f"file: !{self._file}, line: 1, type: !3, scopeLine: 1, "
            f"spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !{_UNIT})"
        )

    def placed(self, lines: list[str], marks: list[tuple[int, int]], scope: int) -> list[str]:
        """Instructions with their lines. marks: (first instruction, line), in order."""
        placed = []
        for (begin, line), (end, _) in pairwise([*marks, (len(lines), 0)]):
            if begin < end:
                suffix = f", !dbg !{self._location(line, scope)}"
                part = lines[begin:end]
                placed += [t + suffix if t[:2] == "  " and t[2:3] != ";" else t for t in part]
        return placed

    def text(self) -> list[str]:
        """The metadata."""
        return [*_HEAD, *self._rows]

    def _location(self, line: int, scope: int) -> int:
        key = (line, scope)
        if key not in self._locations:
            self._locations[key] = self._add(
                f"!DILocation(line: {line}, column: 1, scope: !{scope})"
            )
        return self._locations[key]

    def _add(self, row: str) -> int:
        number = _FILES + len(self._rows)
        self._rows.append(f"!{number} = {row}")
        return number


def asked() -> Callable[[], DebugInfo | None]:
    """The builder of a module's debug information, by the knob LOOPWRIGHT_DEBUG_INFO."""
    folder = "" if SHORT_LIVED.get() else knob("LOOPWRIGHT_DEBUG_INFO")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
    return lambda: DebugInfo(folder) if folder else None


def _quoted(text: str) -> str:
    """An LLVM string."""
    plain = (
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\{b:02X}" for b in text.encode()
    )
    return '"' + "".join(plain) + '"'
