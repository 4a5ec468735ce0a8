"""The code of one kernel at every level, each line with the line of TensorIR that it came from."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...script.printer.lines import Lines
from ...tir.function import PrimFunc
from . import jit
from .debug_info import DebugInfo
from .emit import add_function
from .module_text import ModuleText, text_of
from .program import LEVEL, compile_options

if TYPE_CHECKING:
    from .executable import Executable

_LOC = re.compile(r"\s+\.loc\s+\d+\s+(\d+)")
_DBG = re.compile(r"(?:,? )?!dbg !(\d+)")
_LOCATION = re.compile(r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+)(?:.*?inlinedAt: !(\d+))?")
# The lines of assembly other than instructions and labels: positions, sections, unwinding.
_DIRECTIVE = re.compile(r"\s+\.(?!byte|short|long|quad|zero|ascii|asciz)\w+|\s*#|\s*//")
_OWN_LABEL = re.compile(r"\.L(?:tmp|func|info|str|line|cu|debug|sec)\w*:")


@dataclass(frozen=True)
class Code:
    """Text by lines, each with a line of TensorIR; 0: none."""

    texts: list[str]
    lines: list[int]


@dataclass(frozen=True)
class Located:
    """A kernel: its TensorIR, its LLVM text after LLVM's passes, its assembly."""

    source: Lines
    llvm: Code
    assembly: Code


def located(exe: Executable, name: str) -> Located:
    """The code of a kernel, or of a native graph function, emitted again with lines."""
    text, source = located_text(exe, name)
    machine = compile_options(exe.target)
    optimized = jit.optimized_ir(text, *machine, opt=LEVEL)
    return Located(source, _llvm(optimized), _assembly(jit.assembly(text, *machine, opt=LEVEL)))


def located_text(exe: Executable, name: str) -> tuple[str, Lines]:
    """The LLVM text of a function with debug information, and its TensorIR."""
    functions = {
        g.name_hint: f for g, f in exe.lowered.functions.items() if isinstance(f, PrimFunc)
    }
    externs = {extern for library in exe.program.libraries for extern in library.prototypes}
    module = ModuleText(name, functions, exe.program.imports, externs, exe.program.target)
    module.debug = DebugInfo()
    add_function(module, name, functions[name])
    return text_of(module.code()), module.debug.sources[name]


def _llvm(text: str) -> Code:
    """The definitions in optimized text; inlined code counts for the line that calls it."""
    rows = text.splitlines()
    locations: dict[str, tuple[int, str | None]] = {}
    for row in rows:
        if match := _LOCATION.match(row):
            locations[match[1]] = int(match[2]), match[3]

    def line_of(ref: str) -> int:
        line, around = locations.get(ref, (0, None))
        return line_of(around) if around else line

    texts, lines = [], []
    inside = False
    for row in rows:
        inside = inside or row.startswith("define")
        if inside:
            match = None if row.startswith("define") else _DBG.search(row)
            texts.append(_DBG.sub("", row))
            lines.append(line_of(match[1]) if match else 0)
        inside = inside and row != "}"
    return Code(texts, _filled(texts, lines, lambda text: text.startswith("define")))


def _filled(
    texts: list[str], lines: list[int], begins_function: Callable[[str], bool]
) -> list[int]:
    """The lines, where an instruction without one (a spill, one that LLVM merged from several lines)
    has that of the instruction before it in its block, or the next one; of a block without any, in
    its function; a helper without any belongs to the whole kernel, its first line."""
    filled = list(lines)
    for ends in (lambda text: not _is_code(text), begins_function):
        begin = 0
        for at in range(len(texts) + 1):
            if at < len(texts) and not ends(texts[at]):
                continue
            part = [k for k in range(begin, at) if _is_code(texts[k])]
            for order in (part, reversed(part)):
                last = 0
                for k in order:
                    last = filled[k] = filled[k] or last
            begin = at + 1
    return [line or int(_is_code(text)) for text, line in zip(texts, filled, strict=True)]


def _is_code(text: str) -> bool:
    """Whether a line is an instruction: labels begin at the margin, data with a directive."""
    return text[:1].isspace() and not text.lstrip().startswith((".", ";"))


def _assembly(text: str) -> Code:
    """Instructions and labels of the code section, and its constants, without directives."""
    texts, lines, line, skipped = [], [], 0, False
    for row in text.splitlines():
        if match := _LOC.match(row):
            line = int(match[1])
        if row.lstrip().startswith(".section"):
            skipped = ".debug" in row or "note" in row
        elif row.strip() == ".text":
            skipped = False
        if skipped or not row.strip() or _DIRECTIVE.match(row) or _OWN_LABEL.match(row):
            continue
        texts.append(row.expandtabs(8).rstrip())
        lines.append(line if _is_code(row) else 0)
        if not row[0].isspace() and not row.startswith(".L"):
            line = 0  # another function
    return Code(texts, _filled(texts, lines, lambda text: text[0] not in " .\t"))
