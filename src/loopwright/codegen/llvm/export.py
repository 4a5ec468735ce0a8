"""Shared libraries from compiled objects, for `loopwright.runtime.load_module` and C programs.

A library holds the kernels, the support code (its own thread pool), and for each function `f` the
symbol `__tvm_ffi_f` with tvm-ffi's calling convention; `lw_exports` lists the names. If tvm-ffi's
library is loaded in the process, its errors and tensors are used; without it, a C program calls the
functions with bare pointers and reads error messages from `lw_last_error`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from loopwright.codegen.llvm import abi, support
from loopwright.codegen.llvm.compiler import host_triple, resolve
from loopwright.codegen.llvm.jit import compile_objects
from loopwright.runtime.module import ENTRY_PREFIX, EXPORTS_SYMBOL


def public_string(name: str, value: str) -> str:
    """LLVM text of a C string that other libraries can link to."""
    return abi.c_string("lw.text", value).replace("@lw.text = private unnamed_addr", f"@{name} =")


def exports_text(entries: Mapping[str, str]) -> str:
    """LLVM text that exports entries (public name -> symbol) from a library."""
    text = public_string(EXPORTS_SYMBOL, "".join(f"{name}\0" for name in entries))
    for name, symbol in entries.items():
        if symbol == f"{ENTRY_PREFIX}{name}":  # already has its public name
            continue
        text += (
            f"declare i32 @{symbol}(ptr, ptr, i32, ptr)\n"
            f'define i32 @"{ENTRY_PREFIX}{name}"(ptr %self, ptr %args, i32 %n, ptr %ret) {{\n'
            f"  %rc = tail call i32 @{symbol}(ptr %self, ptr %args, i32 %n, ptr %ret)\n"
            f"  ret i32 %rc\n}}\n"
        )
    return text


@contextmanager
def constants_text(constants: Mapping[str, np.ndarray], triple: str | None = None) -> Iterator[str]:
    """LLVM text that defines constant arrays; while the context is open it may refer to a file."""
    triple = resolve(triple, None, None)[0]
    if triple != host_triple():  # LLVM's assembler is initialized for the host only
        yield "".join(
            abi.constant_bytes(name, data.tobytes(), 64) for name, data in constants.items()
        )
        return
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        lines = [".section .rodata"]
        for name, data in constants.items():
            start, raw = file.tell(), np.ascontiguousarray(data).tobytes()
            file.write(raw)
            lines += [".balign 64", f'.globl "{name}"', f'"{name}":']
            lines += [f'.incbin "{file.name}", {start}, {len(raw)}'] if raw else [".byte 0"]
        file.flush()
        quoted = (line.replace('"', "\\22") for line in lines)
        yield "".join(f'module asm "{line}"\n' for line in quoted)


def wrappers_text(names: Mapping[str, tuple[str, str]]) -> str:
    """LLVM text of wrappers with public names: name -> (symbol, its LLVM parameter types)."""
    text = ""
    for name, (called, kinds) in names.items():
        parts = [k.strip() for k in kinds.split(",") if k.strip()]
        given = ", ".join(f"{k} %a{i}" for i, k in enumerate(parts))
        text += (
            f"declare i32 @{called}({kinds})\n"
            f"define i32 @{name}({given}) {{\n"
            f"  %rc = tail call i32 @{called}({given})\n  ret i32 %rc\n}}\n"
        )
    return text


def library_objects(
    objects: Sequence[bytes],
    entries: Mapping[str, str],
    triple: str | None = None,
    cpu: str | None = None,
    features: str | None = None,
    extra: Sequence[str] = (),
) -> list[bytes]:
    """The objects of a whole library: the given ones, the support code, the table of entries, and
    those compiled from more LLVM text."""
    triple, cpu, features = resolve(triple, cpu, features)
    texts = [support.pool_text(triple), support.helpers_text(triple), support.read("alone")]
    texts += [exports_text(entries), *extra]
    compiled = compile_objects(texts, triple=triple, cpu=cpu, features=features, jobs=1)
    return [*objects, *compiled]


def _linkers(triple: str | None = None) -> list[list[str]]:
    """Commands that link a shared library, in order of preference."""
    commands = [[tool, "-shared"] for tool in _tools(("cc", "gcc", "clang", "ld"), triple)]
    if shutil.which("ld.lld"):
        commands.append(["ld.lld", "-shared"])
    if find_spec("ziglang"):
        commands.append([sys.executable, "-m", "ziglang", "ld.lld", "-shared"])
    return commands


def _tools(names: Sequence[str], triple: str | None) -> list[str]:
    """The tools that are installed; for another machine with its prefix: aarch64-linux-gnu-ld."""
    if triple is not None and triple.split("-")[0] != host_triple().split("-")[0]:
        names = [f"{_prefix(triple)}-{name}" for name in names if name not in ("cc", "clang")]
    return [name for name in names if shutil.which(name)]


def cross_compiler(triple: str) -> str | None:
    """The name of the C compiler for another machine's triple; None for this machine."""
    if triple.split("-")[0] == host_triple().split("-")[0]:
        return None
    return f"{_prefix(triple)}-gcc"


def _prefix(triple: str) -> str:
    return "-".join(p for p in triple.split("-") if p not in ("unknown", "pc"))


def link_shared(
    objects: Sequence[bytes],
    path: str | Path,
    linker: Sequence[str] | None = None,
    more: Sequence[str] = (),
    triple: str | None = None,
) -> Path:
    """Link objects to a shared library at `path`.

    `linker` is a command that `-o PATH OBJECTS` and `more` are appended to; by default the system's
    compiler or linker for the triple, else that of the `ziglang` package. Raises RuntimeError
    with the linker's output.
    """
    commands = _linkers(triple) if linker is None else [list(linker)]
    if not commands:
        raise RuntimeError(
            f"no linker found to make a shared library{_for(triple)}; install one (binutils, gcc, "
            "clang) or `pip install ziglang`"
        )
    return _combined(objects, path, [*commands[0], "-o"], more)


def archive(objects: Sequence[bytes], path: str | Path) -> Path:
    """Write a static library. Raises RuntimeError without `ar`, or with its output."""
    tool = next((t for t in ("ar", "llvm-ar") if shutil.which(t)), None)
    command = [tool] if tool else [sys.executable, "-m", "ziglang", "ar"]
    if tool is None and not find_spec("ziglang"):
        raise RuntimeError("no `ar` found to make a static library; install binutils")
    return _combined(objects, path, [*command, "rcs"])


def link_relocatable(objects: Sequence[bytes], path: str | Path, triple: str | None = None) -> Path:
    """Combine objects into one relocatable object file."""
    linkers = [*_tools(("ld",), triple), *(t for t in ("ld.lld",) if shutil.which(t))]
    command = linkers[:1] or [sys.executable, "-m", "ziglang", "ld.lld"]
    if not linkers and not find_spec("ziglang"):
        raise RuntimeError(f"no `ld` found to join object files{_for(triple)}; install binutils")
    return _combined(objects, path, [*command, "-r", "-o"])


def _for(triple: str | None) -> str:
    return "" if triple is None else f" for {triple}"


def _combined(
    objects: Sequence[bytes], path: str | Path, command: list[str], more: Sequence[str] = ()
) -> Path:
    """Run `command OUT OBJECTS more`; its output is moved to `path`."""
    target = Path(path)
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for i, data in enumerate(objects):
            file = Path(folder, f"{i}.o")
            file.write_bytes(data)
            files.append(str(file))
        output = Path(folder, "output")
        done = subprocess.run(
            [*command, str(output), *files, *more], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} could not link {target}:\n{done.stderr.strip()}")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(output, target)
    return target
