"""Programs as files of LLVM: text (`.ll`) and bitcode (`.bc`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import llvmlite.binding as llvm

from ...base.errors import LoopwrightError, explain
from ...ir.target import Target
from ...runtime.library import LoadedLibrary
from . import abi
from .jit import compile_object
from .program import ENTRY_PREFIX, NativeProgram


def whole(texts: Iterable[str]) -> llvm.ModuleRef:
    """One module of several texts."""
    context = llvm.create_context()
    first, *others = (llvm.parse_assembly(text, context) for text in texts)
    for other in others:
        first.link_in(other)
    return first


def save(program: NativeProgram, path: Path, kind: str) -> None:
    """Write a program as one module: text without the constants ("ll"), or bitcode with them ("bc")."""
    if kind == "ll":
        path.write_text(str(whole(program.texts.values())), encoding="utf-8")
        return
    data = [abi.constant_bytes(n, c.tobytes(), 64) for n, c in program.constants.items()]
    path.write_bytes(whole([*program.texts.values(), *data]).as_bitcode())


def load(path: Path) -> LoadedLibrary:
    """The functions of a file that `save` wrote. Raises LoopwrightError for one that LLVM cannot read."""
    context = llvm.create_context()
    try:
        if path.suffix == ".bc":
            module = llvm.parse_bitcode(path.read_bytes(), context)
        else:
            module = llvm.parse_assembly(path.read_text(encoding="utf-8"), context)
    except RuntimeError as error:
        raise LoopwrightError(explain(f"LLVM cannot read {path.name}", got=str(error))) from None
    names = [f.name for f in module.functions if not f.is_declaration]
    entries = [n.removeprefix(ENTRY_PREFIX) for n in names if n.startswith(ENTRY_PREFIX)]
    text = str(module)
    program = NativeProgram({"": text}, {"": compile_object(text)}, {}, entries, Target("llvm"))
    return LoadedLibrary(program.load(), kind="llvm", sources={"ll": text}, keep_alive=program)
