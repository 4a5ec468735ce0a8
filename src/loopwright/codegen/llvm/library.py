"""Compiled models as files: shared library, static library, object file, each with a C header.

`exe.export_library("model.so")` writes a library that `loopwright.runtime.load_module` and tvm-ffi
load without the compiler, and that C programs link with:

    int32_t model_main(const float* x, float* out, int64_t n);   /* 0, or see model_last_error() */

The suffix selects the kind of file: `.so`, `.dylib`, `.dll` a shared library, `.a` a static one,
`.o` one object file, `.tar` the objects of a shared library, which `load_module` links where it is
loaded. `model.h` is written next to it.
"""

from __future__ import annotations

import base64
import io
import json
import re
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...base.progress import step
from ...runtime.library import BYTECODE_SYMBOL, METADATA_SYMBOL, NEEDS_SYMBOL, THREADS_SYMBOL
from ...runtime.vm.saved import to_bytes
from ..lowered import refuse_machine
from . import export
from .executable import Executable
from .machine import resolve
from .program import ENTRY_PREFIX, compile_options, needs_of
from .types import symbol

_SHARED = (".so", ".dylib", ".dll")
_KINDS = (*_SHARED, ".a", ".o", ".tar")
_LLVM = {
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "i1": "uint8_t",
    "half": "uint16_t",
    "bfloat": "uint16_t",
    "float": "float",
    "double": "double",
}
_C_TYPES = {
    "float32": "float",
    "float64": "double",
    "bool": "uint8_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    **{f"{u}int{b}": f"{u}int{b}_t" for u in ("", "u") for b in (8, 16, 32, 64)},
}


def export_library(
    exe: Executable, file_name: str | Path, *, header: bool = True, loadable: bool = False,
    linker: Sequence[str] | None = None, fcompile: Callable[..., object] | None = None,
    workspace_dir: str | Path | None = None, **options: Sequence[str],
) -> Path:  # fmt: skip
    """Write an executable as a library; see the module's docstring.

    header: also write a C header of the same name.
    loadable: an object, or those of a static library, have what `load_module` calls, too: a shared
        library that is linked of some is loaded.
    linker: the command that links a shared library; `-o PATH OBJECTS` is appended.
    fcompile: makes the file instead (`contrib.cc.create_shared`): called with its path, those of the
        objects and the options.
    workspace_dir: an existing folder for files on the way.

    Raises LoopwrightError for an unknown suffix, for functions that are not native code, for
    what exists only in this process, and without a linker or with its output.
    """
    path = Path(file_name)
    if fcompile is None and options:
        what = "export_library has no options of these names"
        hint = "header, linker, workspace_dir; others are those of fcompile="
        raise TypeError(explain(what, got=", ".join(options), instead=hint))
    if path.suffix not in _KINDS and fcompile is None:
        what = "the file's suffix selects the kind of export"
        raise LoopwrightError(explain(what, got=path.name, instead=f"one of {', '.join(_KINDS)}"))
    shared = path.suffix not in (".a", ".o")
    listed = shared and not exe.imported_modules
    shared = shared or loadable
    _check(exe, shared)
    prefix = c_name(path.name.split(".")[0])
    with step("model", "export"):
        objects, flags = _objects(exe, prefix, shared, listed)
        triple = compile_options(exe.program.target)[0]
        if fcompile is not None:
            written = export.exported_by(fcompile, objects, path, options, workspace_dir)
        elif path.suffix in _SHARED:
            written = export.link_shared(objects, path, linker, flags, triple, workspace_dir)
        elif path.suffix == ".a":
            written = export.archive(objects, path)
        elif path.suffix == ".tar":
            written = _packed(objects, flags, path)
        else:
            written = export.link_relocatable(objects, path, triple)
        if header:
            path.with_suffix(".h").write_text(header_text(exe, prefix), encoding="utf-8")
    return written


def _packed(objects: Sequence[bytes], flags: Sequence[str], path: Path) -> Path:
    """Write objects to a tar file. Raises LoopwrightError where they are linked with libraries."""
    if flags:
        what = "a .tar has the objects of a library alone"
        raise LoopwrightError(explain(what, got=" ".join(flags), instead="export a .so"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for number, data in enumerate(objects):
            entry = tarfile.TarInfo(f"lib{number}.o")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


def _check(exe: Executable, shared: bool) -> None:
    """Reject executables that depend on this process."""
    if not shared:
        refuse_machine("only native functions are in such a library", exe.mod, exe.machine)
    if exe.program.imports:
        what = "functions of this Python process cannot be exported"
        hint = "offload to C functions (ExternLibrary) instead"
        raise LoopwrightError(explain(what, got=", ".join(exe.program.imports), instead=hint))
    for library in exe.program.libraries:
        if library.addresses:
            what = f"external library {library.name} has addresses of this process"
            hint = "give its library= or sources="
            raise LoopwrightError(explain(what, got=", ".join(library.addresses), instead=hint))


def public_text(exe: Executable, prefix: str, shared: bool, listed: bool = True) -> str:
    """LLVM text of a library's interface: its functions to C; if shared, to `load_module`, too.
    listed: see `export.exports_text`."""
    program = exe.program
    public = export.wrappers_text(
        {
            f"{prefix}_{c_name(name)}": (
                f"{prefix}.lw.{name}",
                ", ".join(p.kind for p in _params(exe, name)),
            )
            for name in program.entries
        }
    )
    if not shared:
        return public
    entries = {name: f"{prefix}.{ENTRY_PREFIX}{name}" for name in program.entries}
    public += export.exports_text(entries, listed=listed)
    public += export.public_string(METADATA_SYMBOL, json.dumps(metadata_of(exe)))
    public += export.public_string(NEEDS_SYMBOL, needs_of(program.target))
    if program.threads is not None:
        public += f"@{THREADS_SYMBOL} = weak constant i32 {program.threads}\n"
    if exe.machine_runner is not None:
        bytecode = base64.b85encode(to_bytes(exe.machine_runner.program)).decode()
        public += export.public_string(BYTECODE_SYMBOL, bytecode)
    return public


def _objects(
    exe: Executable, prefix: str, shared: bool, listed: bool
) -> tuple[list[bytes], list[str]]:
    """All objects of a library, and flags for the linker."""
    program = exe.program
    machine = resolve(*compile_options(program.target))
    compiler = export.cross_compiler(machine[0])
    more, flags = [module.object(compiler) for module in exe.imported_modules], []
    for library in program.libraries:
        if library.library is None:
            more += library.objects(compiler)
        flags += library.linker_flags()
    # A kernel that an earlier program compiled has no text here: it keeps its name.
    more += [data for name, data in program.objects.items() if name not in program.texts]
    objects = export.library_objects(
        list(program.texts.values()),
        program.constants,
        prefix,
        public_text(exe, prefix, shared, listed),
        machine,
        shared=shared,
        threads=program.threads,
    )
    return [*objects, *more], flags


# --- the C side ------------------------------------------------------------------


def c_name(name: str) -> str:
    """A C identifier derived from a name."""
    identifier = re.sub(r"\W", "_", name)
    return f"_{identifier}" if identifier[:1].isdigit() else identifier or "model"


@dataclass(frozen=True)
class _Param:
    """A parameter of a native function: its LLVM type, C declaration and description."""

    kind: str
    declared: str
    meaning: str


def _params(exe: Executable, name: str) -> list[_Param]:
    """The parameters of a native function, parsed from its LLVM text."""
    entry, pattern = (
        exe.entries[name],
        re.compile(rf"define i32 @{re.escape(symbol(name))}\((.*?)\)"),
    )
    head = next(m for text in exe.program.texts.values() if (m := pattern.search(text)))
    tensors = [(p, not entry.results) for p in entry.params if p.is_tensor]
    tensors = [(p, writes) for p, writes in tensors] + [(r, True) for r in entry.results]
    pointers = iter(tensors)
    params = []
    for text in filter(None, head[1].split(", ")):
        words = text.split()
        kind, label = words[0], c_name(re.sub(r"\.\d+$", "", words[-1].strip('%"')))
        if kind != "ptr":
            params.append(_Param(kind, f"{_LLVM[kind]} {label}", "extent or scalar"))
            continue
        spec, writes = next(pointers)
        element = _C_TYPES.get(spec.dtype, "uint8_t")
        shown = f"{spec.dtype}[{', '.join(map(str, spec.shape()))}]"
        params.append(_Param(kind, f"{'' if writes else 'const '}{element}* {label}", shown))
    return params


def header_text(exe: Executable, prefix: str) -> str:
    """The C header of an exported library."""
    guard = f"{prefix.upper()}_H"
    lines = [
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "/* The error message of the last call that returned non-zero. */",
        f"const char* {prefix}_last_error(void);",
        "/* How many threads the parallel loops use; 1: only the calling thread. */",
        f"void {prefix}_set_num_threads(int32_t threads);",
    ]
    for name in exe.program.entries:
        params = _params(exe, name)
        tensors = ", ".join(
            f"{p.declared.split()[-1]} {p.meaning}" for p in params if p.kind == "ptr"
        )
        declared = ", ".join(p.declared for p in params) or "void"
        lines += [
            "",
            f"/* {tensors}; in row-major order. Returns 0, or another value on an error. */",
        ]
        lines.append(f"int32_t {prefix}_{c_name(name)}({declared});")
    lines += ["", "#ifdef __cplusplus", "}", "#endif", "", f"#endif  /* {guard} */", ""]
    return "\n".join(lines)


def metadata_of(exe: Executable) -> dict[str, Any]:
    """The metadata of a loaded library's functions: inputs and outputs with dtypes and shapes."""
    metadata = {}
    for name in exe.function_names():
        lists = exe.described(name).as_lists()
        metadata[name] = {"inputs": lists["params"], "outputs": lists["results"]}
        metadata[name] |= {"tree": lists["tree"]} if "tree" in lists else {}
    if exe.graph_name and "main" in metadata:
        metadata["main"]["graph"] = exe.graph_name
    return metadata
