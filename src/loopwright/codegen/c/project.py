"""The files next to a model's C source: those of external libraries, and a project around it:
`main.c`, `CMakeLists.txt`, and `README.md` with the memory that the model takes."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from ...arith import Analyzer
from ...base.errors import LoopwrightError, explain
from ...base.host import host
from ...ir.prim_expr import IntImm, PrimExpr, Var
from ...ir.prim_op import const
from ...ir.target import Target
from ...ir.variables import substitute
from ...runtime.dtype import elements_per_byte, numpy_dtype
from ...runtime.extern import ExternLibrary
from .program import CFiles, Entry, Field, in_struct

# ---------------------------------------------------------------------- external libraries


def copied(library: ExternLibrary, folder: Path, there: Sequence[Path]) -> list[Path]:
    """Copy a library's sources and the headers that they and the model include; there: files of the folder
    that stay."""
    if not library.sources and library.library is None:
        what = f"external library {library.name} has no C sources to write"
        hint = "give its sources= (or library=, to link with)"
        raise LoopwrightError(explain(what, instead=hint))
    folders = [*library.include_dirs, *(s.parent for s in library.sources)]
    todo = [(s, s.name) for s in library.sources]
    for name in re.findall(r'"([^"]+)"', "\n".join(library.headers)):
        header = _found(name, folders)
        if header is None:
            what = f"external library {library.name}: no header of this name"
            hint = "give its path, or its folder in include_dirs=; <NAME> is one of the system"
            raise LoopwrightError(explain(what, got=name, instead=hint))
        todo.append((header, name))
    copies: dict[str, Path] = {}
    while todo:
        source, name = todo.pop()
        if name in copies:
            continue
        copies[name] = target = folder / name
        content = source.read_bytes()
        if ".." in Path(name).parts or (target in there and target.read_bytes() != content):
            what = f"external library {library.name}: a file of this name cannot be in the folder"
            hint = "rename it, or write the model under another name; put headers in include_dirs="
            raise LoopwrightError(explain(what, got=str(source), instead=hint))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        text = content.decode(errors="replace")
        for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
            if (source.parent / included).is_file():  # compilers look there first
                todo.append((source.parent / included, str(Path(name).parent / included)))
            elif (header := _found(included, folders)) is not None:
                todo.append((header, included))
    return list(copies.values())


def _found(name: str, folders: Sequence[Path]) -> Path | None:
    return next((d / name for d in folders if (d / name).is_file()), None)


# ---------------------------------------------------------------------- compilers

# Microcontrollers that mostly come with a floating-point unit.
_WITH_FPU = ("m4", "m7", "m33", "m35p", "m52", "m55", "m85")


def compiler_of(target: Target) -> tuple[str, list[str]]:
    """The C compiler for a target, and its flags for the processor."""
    cpu = target.mcpu
    if cpu.startswith("cortex-m"):
        has_fpu = cpu.removeprefix("cortex-").split("+")[0] in _WITH_FPU
        flags = [f"-mcpu={cpu}", "-mthumb", f"-mfloat-abi={'hard' if has_fpu else 'soft'}"]
        return "arm-none-eabi-gcc", flags
    if target.is_native or target.arch == "x86_64":
        first = host().c_flag if target.is_native else f"-march={cpu}" if cpu else ""
        more = (f"-m{'no-' if a[0] == '-' else ''}{a.lstrip('+-')}" for a in target.mattr)
        return "cc", [*filter(None, [first]), *more]
    added = "".join(f"+{a[1:]}" for a in target.mattr if a[0] == "+" and a[1:] != "neon")
    own = f"-mcpu={cpu}{added}" if cpu else f"-march=armv8-a{added}" if added else ""
    prefix = "-".join(p for p in target.mtriple.split("-") if p not in ("", "unknown"))
    return f"{prefix}-gcc" if prefix else "cc", own.split()


@dataclass(frozen=True)
class Figures:
    """Bytes that a model takes, and how they were measured, or why not."""

    how: str
    code: int | str = "?"
    stack: int | str = "?"


def measured(files: CFiles, folder: Path, compiler: str, flags: Sequence[str]) -> Figures:
    """The code and the deepest stack of a model in a folder."""
    tool = shutil.which(compiler)
    if tool is None:
        return Figures(f"Not measured: {compiler} is not installed")
    command = [compiler, *flags, "-O3", "-std=c99", "-fstack-usage", "-fcallgraph-info=su", "-c"]
    command += [f"{files.prefix}.c"]
    with tempfile.TemporaryDirectory(prefix="loopwright-c-") as build:
        source = str((folder / f"{files.prefix}.c").resolve())
        done = subprocess.run(
            [*command[:-1], source], cwd=build, capture_output=True, text=True, check=False
        )
        calls = next(Path(build).glob("*.ci"), None)
        if done.returncode or calls is None:
            said = (done.stderr.strip() or "it writes no call graph").splitlines()[0]
            return Figures(f"Not measured: {said}")
        listed = f"{tool.removesuffix('gcc').removesuffix('cc')}size"
        sizes = subprocess.run(
            [listed, f"{files.prefix}.o"], cwd=build, capture_output=True, text=True, check=True
        )
        code = int(sizes.stdout.splitlines()[1].split()[0])
        stack = max(deepest(calls.read_text(), e.symbol + "_run") for e in files.entries.values())
    return Figures(f"Measured by `{' '.join(command)}`", code, stack)


def deepest(graph: str, start: str) -> int:
    """The most bytes of stack that a function and those that it calls take, by the call graph that gcc
    writes; functions from outside count as none."""
    bytes_of = {
        name: int(size)
        for name, size in re.findall(r'title: "([^"]+)" label: "[^"]*?(\d+) bytes \(', graph)
    }
    calls: dict[str, list[str]] = {}
    for caller, callee in re.findall(r'sourcename: "([^"]+)" targetname: "([^"]+)"', graph):
        calls.setdefault(caller, []).append(callee)

    def depth(name: str) -> int:
        return bytes_of.get(name, 0) + max(map(depth, calls.get(name, ())), default=0)

    return depth(start)


# ---------------------------------------------------------------------- the files

MARK = "Written by loopwright, again at each export: delete this line to keep your changes."


def write_project(
    files: CFiles, folder: Path, target: Target, libraries: Sequence[ExternLibrary]
) -> list[Path]:
    """Write `main.c`, `CMakeLists.txt` and `README.md` into the folder of a model's files; those that are there
    without our mark stay. Returns the written ones."""
    compiler, flags = compiler_of(target)
    entry = files.entries.get("main") or next(iter(files.entries.values()))
    figures = measured(files, folder, compiler, flags)
    texts = {
        "main.c": f"/* {MARK} */\n{_main(files, entry)}",
        "CMakeLists.txt": f"# {MARK}\n{_cmake(files, flags, libraries)}",
        "README.md": f"<!-- {MARK} -->\n"
        + _readme(files, entry, compiler, flags, figures, libraries),
    }
    written = [folder / name for name in texts if _is_ours(folder / name)]
    for path in written:
        path.write_text(texts[path.name], encoding="utf-8")
    return written


def _is_ours(path: Path) -> bool:
    """Whether a file is not there, or still has our mark."""
    return not path.is_file() or MARK in path.read_text(errors="replace").split("\n", 1)[0]


def _sizes(entry: Entry, bounds: Mapping[str, int]) -> dict[Var, int]:
    """A size for each symbolic one: its upper bound, else 1."""
    return {v: bounds.get(v.name, 1) for v in entry.symbols}


def _count(arg: Field, sizes: Mapping[Var, int]) -> int:
    """The elements of an argument in memory."""
    return -(-prod(size_of(d, sizes) for d in arg.dims or ()) // elements_per_byte(arg.dtype))


def size_of(dim: int | PrimExpr, sizes: Mapping[Var, int]) -> int:
    """The value of a dimension, by the symbolic sizes."""
    if isinstance(dim, int):
        return dim
    if not isinstance(dim, IntImm):
        table = {v: const(n, v.dtype) for v, n in sizes.items()}
        dim = Analyzer().simplify(substitute(dim, table))
    assert isinstance(dim, IntImm)
    return dim.value


def _main(files: CFiles, entry: Entry) -> str:
    """A program that reads the inputs, one behind the other, and writes the outputs."""
    p, m, sizes = files.prefix, files.prefix.upper(), _sizes(entry, files.bounds)
    arrays, reads, writes = [], [], []
    for side, fields, moves, call, status in (
        ("inputs", entry.inputs, reads, "fread({}, 1, stdin)", 1),
        ("outputs", entry.outputs, writes, "fwrite({}, 1, stdout)", 3),
    ):
        for arg in fields:
            own, name = f"{side}.{arg.field}", f"{side}_{arg.field}"
            what = f"&{own}, sizeof {own}"
            if arg.dims is not None:
                arrays.append(
                    f"static {in_struct(arg.dtype)} {name}[{max(_count(arg, sizes), 1)}];"
                )
                reads.append(f"  {own} = {name};")
                what = f"{name}, sizeof {name}"
            moves.append(f"  if ({call.format(what)} != 1) return {status};")
    reads += [f"  inputs.{f} = {n};" for f, n in zip(entry.fields, sizes.values(), strict=True)]
    args = ["&inputs", "&outputs", *("NULL" for _ in entry.areas)]
    if files.weights:
        reads.append(f"  static uint8_t room[{m}_WEIGHTS_BYTES + 63];")
        reads.append("  uint8_t* weights = room + (64 - (uintptr_t)room % 64) % 64;")
        reads.append(f'  FILE* file = fopen("{p}.weights", "rb");')
        reads.append(f"  if (!file || fread(weights, {m}_WEIGHTS_BYTES, 1, file) != 1) return 4;")
        args.append("weights")
    body = "\n".join([*reads, f"  if ({entry.symbol}_run({', '.join(args)}) != 0) return 2;"])
    newline = "\n"
    return f"""/* Reads the inputs of {entry.name} from the standard input, one behind the other, and writes the outputs. */
#include <stdio.h>
#include <string.h>
#include "{p}.h"

{newline.join(arrays)}

int main(void) {{
  struct {entry.symbol}_inputs inputs;
  struct {entry.symbol}_outputs outputs;
  memset(&inputs, 0, sizeof inputs);
  memset(&outputs, 0, sizeof outputs);
{body}
{newline.join(writes)}
  return 0;
}}
"""


def _cmake(files: CFiles, flags: Sequence[str], libraries: Sequence[ExternLibrary]) -> str:
    """A library of the model, those from outside with flags of their own, and the program."""
    p, m = files.prefix, files.prefix.upper()
    sources = f"{p}.c" + (f" {p}_weights.c" if files.weights_source else "")
    lines, links = [], ["m"]
    for library in libraries:
        if library.sources:
            name = f"{p}_{re.sub(r'[^A-Za-z0-9_]', '_', library.name)}"
            lines.append(f"add_library({name} STATIC {' '.join(s.name for s in library.sources)})")
            if library.flags:
                lines.append(f"target_compile_options({name} PRIVATE {' '.join(library.flags)})")
            links = [name, *library.link, *links]
        else:
            links = [*library.linker_flags(), *links]
    more = "".join(f"{line}\n" for line in lines)
    return f"""cmake_minimum_required(VERSION 3.13)
project({p} C)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release) # -O3
endif()
set({m}_CPU_FLAGS "{";".join(flags)}" CACHE STRING "The compiler's flags for the processor")
add_compile_options(${{{m}_CPU_FLAGS}})

{more}add_library({p} STATIC {sources})
set_target_properties({p} PROPERTIES C_STANDARD 99)
target_compile_options({p} PRIVATE -ffp-contract=off)
target_include_directories({p} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
target_link_libraries({p} PUBLIC {" ".join(links)})

add_executable({p}_main main.c)
target_link_libraries({p}_main {p})
"""


def _readme(
    files: CFiles,
    entry: Entry,
    compiler: str,
    flags: Sequence[str],
    figures: Figures,
    libraries: Sequence[ExternLibrary],
) -> str:
    p, m, sizes = files.prefix, files.prefix.upper(), _sizes(entry, files.bounds)
    sources = " ".join([f"{p}.c", *([f"{p}_weights.c"] if files.weights_source else []), "main.c"])
    sources += "".join(f" {s.name}" for lib in libraries for s in lib.sources)
    io = {
        side: sum(_count(a, sizes) * _bytes(a) for a in args if a.dims is not None)
        for side, args in (("inputs", entry.inputs), ("outputs", entry.outputs))
    }
    weights = f"{p}.weights" if files.weights else f"{p}_weights.o"
    rows = [f"| flash: code | {figures.code} | {p}.o, with its constants |"]
    rows.append(f"| flash: weights | {files.constant_bytes} | {weights} |")
    static = f"the caller's, or a static array of {p}.c"
    rows += [f"| RAM: {area.name} | {area.bytes} | {static} |" for area in files.areas.values()]
    rows += [f"| RAM: {side} | {size} | the caller's |" for side, size in io.items()]
    rows.append(f"| RAM: stack | {figures.stack} | of `{entry.symbol}_run`, at most |")
    table = "\n".join(rows)
    outside = " Functions from outside are not counted." if libraries else ""
    return f"""# {p}

C99 without allocation; it needs `math.h` and `string.h`. `{p}.h` says what `{entry.symbol}_run` takes, `main.c` calls it.

    {" ".join([compiler, *flags, "-O3", "-ffp-contract=off", sources, "-lm", "-o", p])}

or `cmake -B build && cmake --build build`. `./{p} < inputs > outputs` takes the bytes of the inputs, one behind the other.

## Flags that matter

- `-O3` and the processor's instructions ({" ".join(f"`{f}`" for f in flags) or "`-march=native`"}): with `-O2` alone a network
  takes 6 to 11 times as long.
- `-ffp-contract=off`: the code says which products are rounded together with a sum; for the numbers of other targets.
- `-D{m}_NO_WORKSPACE`: no static working memory in `{p}.c`; callers pass it.
- `-D{m}_LAST_ERROR=256`: `{p}_last_error()` keeps the text of an error.

## Memory

| | bytes | |
|---|---|---|
{table}

{figures.how}.{outside}
"""


def _bytes(arg: Field) -> int:
    return 1 if elements_per_byte(arg.dtype) > 1 else numpy_dtype(arg.dtype).itemsize
