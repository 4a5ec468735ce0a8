"""Exported libraries whose LLVM text (kernels, support code, thread pool) a sanitizer watches.

The text is ours, instrumented by LLVM's `opt` (14 or newer), compiled by its `llc` and linked with gcc's
runtime library of the sanitizer. A process of its own, in which that library is loaded first, calls it.
"""

from __future__ import annotations

import os
import pickle
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from loopwright.base.host import host
from loopwright.codegen.llvm import abi
from loopwright.codegen.llvm.executable import Executable
from loopwright.codegen.llvm.export import library_modules
from loopwright.codegen.llvm.library import public_text
from loopwright.codegen.llvm.machine import host_triple

ROOT = Path(__file__).parents[2]
SECONDS = 300  # that the calls of a library may take
# What ends up in the libraries without sanitizers, too, so far as LLVM 14 runs it on opaque pointers.
_FIRST = "always-inline,function(sroa,instcombine,simplifycfg,dce)"


@dataclass(frozen=True)
class Sanitizer:
    """attribute: marks functions to be watched; runtime: gcc's library; passes: of `opt`, old: of
    LLVM 14; width: of vectors, where the pass overlooks wider ones."""

    name: str
    attribute: str
    runtime: str
    passes: str
    old: str
    options: str
    width: str = ""

    def target(self) -> str:
        """The processor to compile for: what both this machine and an old LLVM know."""
        level = "v4" if {"avx512vl", "avx512bw"} <= host().record.features else "v3"
        cpu = f"x86-64-{level}" if platform.machine() == "x86_64" else "generic"
        return f"llvm -mcpu={cpu}{self.width}"


_ADDRESS = Sanitizer(
    name="address",
    attribute="sanitize_address",
    runtime="asan",
    passes="asan",
    old="asan-pipeline",
    options="ASAN_OPTIONS=detect_leaks=0:allow_user_segv_handler=0",  # Python leaks
)
_THREAD = Sanitizer(
    name="thread",
    attribute="sanitize_thread",
    runtime="tsan",
    passes="tsan-module,function(tsan)",
    old="tsan-module,function(tsan)",
    options="TSAN_OPTIONS=halt_on_error=1",
    width=" -vector-width=128",
)
SANITIZERS = {s.name: s for s in (_ADDRESS, _THREAD)}


class Missing(Exception):
    """A tool that is not here, and how to get it."""


class Refused(Exception):
    """LLVM's tools or the linker do not take the text; what they said."""


def _run(error: type[Exception], *command: Any, **options: Any) -> bytes:
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False, **options)
    if done.returncode:
        said = done.stderr.decode(errors="replace")
        last = (said.strip() or f"status {done.returncode}").splitlines()[-1]
        raise error(f"{Path(str(command[0])).name}: {last}\n{said[:4000]}\n{said[4000:][-1000:]}")
    return done.stdout


@cache
def runtime_of(sanitizer: Sanitizer) -> str:
    """The path of a sanitizer's runtime library. Raises Missing where a tool is not here."""
    for tool, package in (("opt", "llvm"), ("llc", "llvm"), ("gcc", "gcc")):
        if shutil.which(tool) is None:
            raise Missing(f"there is no {tool} on PATH; apt install {package}")
    if _version() < 14:
        raise Missing(f"opt is of LLVM {_version()}; LLVM 14 or newer reads our text")
    name = f"lib{sanitizer.runtime}.so"
    path = _run(Missing, "gcc", f"-print-file-name={name}").decode().strip()
    if not Path(path).is_absolute():
        raise Missing(f"gcc has no {name}; apt install {name[:-3]}")
    _run(Missing, sys.executable, "-c", "", env=_environment(sanitizer, path))
    return path


@cache
def _version() -> int:
    found = re.search(r"LLVM version (\d+)", _run(Missing, "opt", "--version").decode())
    return int(found[1]) if found else 0


def _environment(sanitizer: Sanitizer, path: str) -> dict[str, str]:
    name, _, value = sanitizer.options.partition("=")
    return {**os.environ, "LD_PRELOAD": path, name: value}


_SPLAT = re.compile(r"splat \(([^()]*)\)")
_VECTOR = re.compile(r"<(\d+) x ")


def watched(text: str, attribute: str) -> str:
    """The module's text with all functions marked, in the words of LLVM 14: it wants intrinsics
    declared, and has no `splat`."""
    for function in llvm.parse_assembly(text).functions:
        name = re.escape(function.name)
        if name.startswith("llvm") and not re.search(rf"^declare .*@{name}\(", text, re.M):
            result, _, parameters = str(function.global_value_type).partition(" (")
            text += f"declare {result} @{function.name}({parameters}\n"

    def spelled(match: re.Match[str]) -> str:
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        return f"<{', '.join([match[1]] * int(_VECTOR.findall(line)[-1]))}>"

    text = re.sub(r"^.*@llvm\.fake\.use\(.*\n", "", text, flags=re.M)  # which LLVM 14 would call
    text = _SPLAT.sub(spelled, text)
    return re.sub(r"^(define .*)\{$", rf"\1{attribute} {{", text, flags=re.M)


# Each block of the workspace becomes one of the heap's, and it and results have no bytes to spare.
_APART = (
    ("%new = call ptr @lw.arena_new()", "%new = inttoptr i64 0 to ptr"),
    ("%b63 = add i64 %bytes, 127\n  %size = and i64 %b63, -64", "%size = add i64 %bytes, 64"),
    ("%all1 = add i64 %all0, 63\n  %all = and i64 %all1, -64", "%all = add i64 %all0, 0"),
    ("ptr @aligned_alloc(", "ptr @memalign("),
)


def _blocks_apart(texts: list[str]) -> list[str]:
    for old, new in _APART:
        assert any(old in text for text in texts), old
        texts = [text.replace(old, new) for text in texts]
    return texts


def build(exe: Executable, sanitizer: Sanitizer, folder: Path, apart: bool = False) -> Path:
    """An instrumented library of a compiled model. Raises Missing, Refused.

    apart: blocks of the workspace are not neighbours: what leaves one is noticed."""
    runtime_of(sanitizer)
    program, triple, prefix = exe.program, host_triple(), "model"
    public = public_text(exe, prefix, True)
    texts = library_modules(list(program.texts.values()), program.constants, prefix, public, triple)
    texts = _blocks_apart(texts) if apart else texts
    # As LLVM's own globals constants get borders, too.
    texts.append(
        "".join(
            abi.constant_bytes(f"{prefix}.{name}", data.tobytes(), 64)
            for name, data in program.constants.items()
        )
    )
    return link(texts, sanitizer, folder)


def link(texts: list[str], sanitizer: Sanitizer, folder: Path) -> Path:
    """A library of modules, with all of them watched."""
    objects, library = [], folder / "model.so"
    for number, text in enumerate(texts):
        objects.append(folder / f"{number}.o")
        objects[-1].write_bytes(_object(text, sanitizer))
    flag = f"-fsanitize={sanitizer.name}"
    _run(Refused, "gcc", "-shared", flag, "-o", library, *objects, "-lm")
    return library


@lru_cache(32)  # the support code is the same for each model
def _object(text: str, sanitizer: Sanitizer) -> bytes:
    old = _version() < 15
    common = ["-o", "-", f"-mtriple={host_triple()}", *["-opaque-pointers"] * old]
    passes = f"-passes={_FIRST},{sanitizer.old if old else sanitizer.passes}"
    cpu = re.findall(r"-mcpu=\S+", sanitizer.target())
    given = watched(text, sanitizer.attribute).encode()
    bitcode = _run(Refused, "opt", *common, passes, input=given)
    kind = ("-relocation-model=pic", "-filetype=obj")
    return _run(Refused, "llc", *common, *cpu, *kind, input=bitcode)


class Report(Exception):
    """What the sanitizer said, its summary first."""


def call(library: Path, function: str, feeds: list[np.ndarray], sanitizer: Sanitizer) -> list[Any]:
    """The results of some calls, each a list of arrays, from a process that the sanitizer watches.
    Raises Report where it objects, Refused where the call raises."""
    given, made = library.with_name("feeds"), library.with_name("results")
    given.write_bytes(pickle.dumps((function, feeds)))
    command = [sys.executable, "-m", "tools.fuzz.call_library", library, given, made]
    try:
        environment = _environment(sanitizer, runtime_of(sanitizer))
        _run(Refused, *command, env=environment, cwd=ROOT, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise Report(f"the process hangs: it has run for {SECONDS} s") from None
    except Refused as error:
        found = re.search(r"SUMMARY: (\w+: [\w -]+).*?(?: in (\S+))?$", str(error), re.M)
        if found is None and "Traceback (most recent" in str(error):
            raise
        words = f"{found[1].strip()} in {found[2]}" if found else "the process ended"
        raise Report(f"{words}\n{error}") from None
    return pickle.loads(made.read_bytes())
