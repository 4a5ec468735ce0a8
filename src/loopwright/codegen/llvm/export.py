"""Shared libraries from compiled objects, for `loopwright.runtime.load_module` and C programs.

A library holds the kernels, the support code (its own thread pool), and for each function `f` the
symbol `__tvm_ffi_f` with tvm-ffi's calling convention; `lw_exports` lists the names. It needs
tvm-ffi's library in the process that loads it, and no Python.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from loopwright.codegen.llvm import abi, threadpool
from loopwright.codegen.llvm.compiler import resolve
from loopwright.codegen.llvm.jit import compile_objects
from loopwright.runtime.module import ENTRY_PREFIX, EXPORTS_SYMBOL


def exports_text(entries: Mapping[str, str]) -> str:
    """LLVM text that makes entries (public name -> symbol) findable in a library."""
    names = "".join(f"{name}\0" for name in entries)
    text = abi.c_string("lw.names", names).replace(
        "@lw.names = private unnamed_addr", f"@{EXPORTS_SYMBOL} ="
    )
    for name, symbol in entries.items():
        text += (
            f"declare i32 @{symbol}(ptr, ptr, i32, ptr)\n"
            f'define i32 @"{ENTRY_PREFIX}{name}"(ptr %self, ptr %args, i32 %n, ptr %ret) {{\n'
            f"  %rc = tail call i32 @{symbol}(ptr %self, ptr %args, i32 %n, ptr %ret)\n"
            f"  ret i32 %rc\n}}\n"
        )
    return text


def library_objects(
    objects: Sequence[bytes],
    entries: Mapping[str, str],
    triple: str | None = None,
    cpu: str | None = None,
    features: str | None = None,
) -> list[bytes]:
    """The objects of a whole library: the given ones, the support code, and the table of entries."""
    triple, cpu, features = resolve(triple, cpu, features)
    texts = [threadpool.text(triple), abi.text(triple), exports_text(entries)]
    support = compile_objects(texts, triple=triple, cpu=cpu, features=features, jobs=1)
    return [*objects, *support]


def _linkers() -> list[list[str]]:
    """Commands that link a shared library, by preference."""
    found = []
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            found.append([name, "-shared"])
    for name in ("ld", "ld.lld"):
        if shutil.which(name):
            found.append([name, "-shared"])
    if find_spec("ziglang"):
        found.append([sys.executable, "-m", "ziglang", "ld.lld", "-shared"])
    return found


def link_shared(
    objects: Sequence[bytes], path: str | Path, linker: Sequence[str] | None = None
) -> Path:
    """Link objects to a shared library at `path`.

    `linker` is a command to which `-o PATH OBJECTS` is added; by default the system's compiler or
    linker, else the one of the `ziglang` package. Raises RuntimeError with the linker's words.
    """
    commands = _linkers() if linker is None else [list(linker)]
    if not commands:
        raise RuntimeError(
            "no linker found to make a shared library; install one (binutils, gcc, clang) "
            "or `pip install ziglang`"
        )
    target = Path(path)
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for i, data in enumerate(objects):
            file = Path(folder, f"{i}.o")
            file.write_bytes(data)
            files.append(str(file))
        made = Path(folder, "library.so")
        done = subprocess.run(
            [*commands[0], "-o", str(made), *files], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{commands[0][0]} could not link {target}:\n{done.stderr.strip()}")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made, target)
    return target
