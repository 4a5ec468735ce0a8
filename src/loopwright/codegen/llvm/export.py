"""Shared libraries from compiled objects, for `loopwright.runtime.load_module` and C programs.

A library holds the kernels, the support code (its own thread pool), and for each function `f` the
symbol `__tvm_ffi_f` with tvm-ffi's calling convention; `lw_exports` lists the names. If tvm-ffi's
library is loaded in the process, its errors and tensors are used; without it, a C program calls the
functions with bare pointers and reads error messages from `MODEL_last_error`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from loopwright.base.errors import LoopwrightError, explain
from loopwright.codegen.join_objects import join_objects
from loopwright.codegen.llvm import abi, support
from loopwright.codegen.llvm.jit import compile_objects
from loopwright.codegen.llvm.machine import host_triple, resolve
from loopwright.codegen.objects import ELF, write_archive
from loopwright.runtime.library import ENTRY_PREFIX, EXPORTS_SYMBOL

# The directive that keeps a symbol inside the library that defines it.
_HIDDEN = ".private_extern" if sys.platform == "darwin" else ".hidden"


def public_string(name: str, value: str) -> str:
    """LLVM text of a C string that other libraries can link to; of several objects the first's."""
    text = abi.c_string("lw.text", value)
    return text.replace("@lw.text = private unnamed_addr", f"@{name} = weak")


def exports_text(entries: Mapping[str, str], *, listed: bool = True) -> str:
    """LLVM text that exports entries (public name -> symbol) from a library. listed: with their names,
    as a library has that is not linked with others."""
    names = public_string(EXPORTS_SYMBOL, "".join(f"{name}\0" for name in entries))
    calls = {
        f"{ENTRY_PREFIX}{name}": (called, "ptr, ptr, i32, ptr") for name, called in entries.items()
    }
    return (names if listed else "") + wrappers_text(calls)


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
            lines += [".balign 64", f'.globl "{name}"', f'{_HIDDEN} "{name}"', f'"{name}":']
            lines += [f'.incbin "{file.name}", {start}, {len(raw)}'] if raw else [".byte 0"]
        file.flush()
        quoted = (line.replace('"', "\\22") for line in lines)
        yield "".join(f'module asm "{line}"\n' for line in quoted)


def wrappers_text(
    names: Mapping[str, tuple[str, str]], result: str = "i32", linkage: str = ""
) -> str:
    """LLVM text of wrappers with public names: name -> (symbol, its LLVM parameter types)."""
    text = ""
    for name, (called, kinds) in names.items():
        parts = [k.strip() for k in kinds.split(",") if k.strip()]
        args = ", ".join(f"{k} %a{i}" for i, k in enumerate(parts))
        assigned = "" if result == "void" else "%rc = "
        text += (
            f'declare {result} @"{called}"({kinds})\n'
            f'define {linkage}{result} @"{name}"({args}) {{\n'
            f'  {assigned}tail call {result} @"{called}"({args})\n'
            f"  ret {result}{' %rc' if assigned else ''}\n}}\n"
        )
    return text


_NAME = r'@(?:"([^"]+)"|([-$.\w]+))'
_TOKEN = re.compile(rf'{_NAME}|c"[^"]*"')  # an @ inside a string is not a name
_FUNCTION = re.compile(
    rf"^define (weak |linkonce_odr )?(?!internal|private)([^@\n]*?){_NAME}", re.M
)
_GLOBAL = re.compile(rf"^{_NAME} = (weak )?(?=constant|global)", re.M)


def apart(texts: Sequence[str], constants: Iterable[str], prefix: str, keep: str) -> list[str]:
    """The modules with all that they define, and the constants, hidden and named after the model, so
    that the code of two models can meet in one program. Names that start with `keep` stay."""
    own = set(constants)
    for text in texts:
        own |= {m[3] or m[4] for m in _FUNCTION.finditer(text)}
        own |= {m[1] or m[2] for m in _GLOBAL.finditer(text)}
    own = {name for name in own if not (keep and name.startswith(keep))}

    def hidden(match: re.Match[str]) -> str:
        head = f"define {match[1] or ''}"
        shown = "hidden " if (match[3] or match[4]) in own else ""
        return f"{head}{shown}{match[0][len(head) :]}"

    def hidden_global(match: re.Match[str]) -> str:
        return match[0] + ("hidden " if (match[1] or match[2]) in own else "")

    def renamed(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return f'@"{prefix}.{name}"' if name in own else match[0]

    return [
        _TOKEN.sub(renamed, _GLOBAL.sub(hidden_global, _FUNCTION.sub(hidden, text)))
        for text in texts
    ]


# What `runtime.load_module` calls of the thread pool: name -> (result, parameters).
_POOL = {
    "lw_set_num_threads": ("void", "i32"),
    "lw_num_threads": ("i32", ""),
    "lw_pool_reset": ("void", ""),
    "lw_pool_set_pinning": ("void", "i32"),
}


def _api(prefix: str, shared: bool) -> Iterator[str]:
    """Modules with what every library offers: to C under the model's name, and to `load_module`."""
    yield wrappers_text({f"{prefix}_last_error": (f"{prefix}.lw_last_error", "")}, "ptr")
    yield wrappers_text(
        {f"{prefix}_set_num_threads": (f"{prefix}.lw_set_num_threads", "i32")}, "void"
    )
    for name, (result, kinds) in _POOL.items() if shared else ():
        yield wrappers_text({name: (f"{prefix}.{name}", kinds)}, result, "weak ")


def library_modules(
    texts: Sequence[str], constants: Iterable[str], prefix: str, public: str, triple: str, *,
    shared: bool = True, threads: int | None = None,
) -> list[str]:  # fmt: skip
    """The modules of a whole library except `prefix.NAME`, its constants; see `library_objects`."""
    modules = [*texts, support.pool_text(triple, threads or 1), support.helpers_text(triple)]
    modules.append(support.read("alone"))
    modules = apart(modules, constants, prefix, "TVMFFI" if shared else "")
    return [*modules, public, *_api(prefix, shared)]


def library_objects(
    texts: Sequence[str], constants: Mapping[str, np.ndarray], prefix: str, public: str = "",
    machine: tuple[str | None, str | None, str | None] = (None, None, None), *, shared: bool = True,
    threads: int | None = None,
) -> list[bytes]:  # fmt: skip
    """The objects of a whole library: modules, their constants and the support code, hidden under a
    prefix, and `public`, LLVM text that calls them by it.

    shared: the functions of tvm-ffi stay visible, so that its own library can take their place, and
    those that `runtime.load_module` calls are added.
    threads: the size of its thread pool until another one is set.
    """
    triple, cpu, features = resolve(*machine)
    modules = library_modules(
        texts, constants, prefix, public, triple, shared=shared, threads=threads
    )
    named = {f"{prefix}.{name}": data for name, data in constants.items()}
    with constants_text(named, triple) as data:
        return compile_objects([*modules, data], triple=triple, cpu=cpu, features=features)


def linkers(triple: str | None = None) -> list[list[str]]:
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
    workspace: str | Path | None = None,
) -> Path:
    """Link objects to a shared library at `path`; workspace: where files on the way are written.

    `linker` is a command that `-o PATH OBJECTS` and `more` are appended to; by default the system's
    compiler or linker for the triple, else that of the `ziglang` package. Raises LoopwrightError
    without any, or with the linker's output.
    """
    commands = linkers(triple) if linker is None else [list(linker)]
    if not commands:
        raise _no_tool("no linker to make a shared library", triple)
    return _combined(objects, path, [*commands[0], "-o"], more, workspace)


def exported_by(
    fcompile: Callable[..., object],
    objects: Sequence[bytes],
    path: Path,
    options: Mapping[str, object],
    workspace: str | Path | None = None,
) -> Path:
    """The file that a function like `contrib.cc.create_shared` makes of objects."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=workspace) as folder:
        files = [Path(folder, f"lib{number}.o") for number in range(len(objects))]
        for file, data in zip(files, objects, strict=True):
            file.write_bytes(data)
        fcompile(str(path), [str(file) for file in files], **options)
    return path


def archive(objects: Sequence[bytes], path: str | Path) -> Path:
    """Write a static library. Raises LoopwrightError for objects of a format other than ELF where
    no `ar` is installed."""
    if all(data[:4] == ELF for data in objects):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return write_archive(objects, path)
    tool = next((t for t in ("ar", "llvm-ar") if shutil.which(t)), None)
    if tool is None:
        raise _no_tool("no `ar` to make a static library of objects that are not ELF", None)
    return _combined(objects, path, [tool, "rcs"])


def link_relocatable(objects: Sequence[bytes], path: str | Path, triple: str | None = None) -> Path:
    """Combine objects into one relocatable object file. Raises LoopwrightError for those of a format
    other than ELF without a linker, or with its output."""
    what = "no linker to join object files"
    if all(data[:4] == ELF for data in objects):
        try:
            joined = join_objects(objects)
        except ValueError as error:
            what = f"{what}: {error}"
        else:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(joined)
            return Path(path)
    linkers = [*_tools(("ld",), triple), *(t for t in ("ld.lld",) if shutil.which(t))]
    command = linkers[:1] or [sys.executable, "-m", "ziglang", "ld.lld"]
    if not linkers and not find_spec("ziglang"):
        raise _no_tool(what, triple)
    return _combined(objects, path, [*command, "-r", "-o"])


def _no_tool(what: str, triple: str | None) -> LoopwrightError:
    """The error about a missing tool, with the packages that have it."""
    foreign = triple is not None and cross_compiler(triple) is not None
    package = f"binutils-{_prefix(str(triple))}" if foreign else "binutils"
    what = f"{what} for {triple}" if foreign else what
    hint = f"apt install {package}, or pip install ziglang; for ELF .a and .o files need no tool"
    return LoopwrightError(explain(what, got="none on PATH", instead=hint))


def _combined(
    objects: Sequence[bytes],
    path: str | Path,
    command: list[str],
    more: Sequence[str] = (),
    workspace: str | Path | None = None,
) -> Path:
    """Run `command OUT OBJECTS more`; its output is moved to `path`."""
    target = Path(path)
    with tempfile.TemporaryDirectory(dir=workspace) as folder:
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
            what = f"{command[0]} could not link {target}"
            raise LoopwrightError(explain(what, got=done.stderr.strip()[:4000]))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(output, target)
    return target
