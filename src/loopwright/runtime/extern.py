"""External C functions: their names, declarations and libraries.

    lib = ExternLibrary("toy", ["int dense(const float* x, const float* w, float* out, int64_t n)"],
                        sources=["toy.c"])

Kernels call them by bare pointers (`T.call_extern("int32", "dense", X.data, W.data, Y.data, n)`); a
module that lists the library in its attribute "external_mods" is compiled against it: the
declarations are checked, LLVM code is bound to the functions, C code is written with the prototypes
and the sources next to it, an exported library is linked with it.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopwright.base.errors import LoopwrightError, explain
from loopwright.runtime.c_compiler import compile_c

EXTERNAL_MODS = "external_mods"  # the module attribute that lists external libraries and modules

# C's types, as the dtypes of values that are passed for them.
_SCALARS = {
    "void": "void",
    "bool": "bool",
    "_Bool": "bool",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "long long": "int64",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "unsigned char": "uint8",
    "unsigned short": "uint16",
    "unsigned long": "uint64",
    "unsigned long long": "uint64",
    "size_t": "uint64",
    "ssize_t": "int64",
    "ptrdiff_t": "int64",
    "float": "float32",
    "double": "float64",
    **{f"{u}int{b}_t": f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)},
}
_PROTOTYPE = re.compile(
    r"^\s*(?P<result>.+?)\s*(?P<name>[A-Za-z_]\w*)\s*\((?P<params>.*)\)\s*;?\s*$", re.S
)


@dataclass(frozen=True)
class CType:
    """A parameter's type: a dtype, or a pointer to one ("void": to anything)."""

    dtype: str
    pointer: bool = False
    const: bool = False

    def __str__(self) -> str:
        return f"{'const ' if self.const else ''}{self.dtype}{'*' if self.pointer else ''}"


@dataclass(frozen=True)
class Prototype:
    """A C function's name and types. `text` is its declaration without the semicolon."""

    name: str
    result: CType
    params: tuple[CType, ...]
    text: str

    @staticmethod
    def parse(text: str) -> Prototype:
        """Read a declaration such as "int f(const float* x, int64_t n)". Raises ValueError."""
        match = _PROTOTYPE.match(text)
        if match is None:
            what = "this is not a C declaration of a function"
            raise ValueError(explain(what, got=text, instead='"int f(const float* x, int n)"'))
        listed = match["params"].strip()
        parts = [] if listed in ("", "void") else listed.split(",")
        params = tuple(_read_type(part, text, named=True) for part in parts)
        result = _read_type(match["result"], text, named=False)
        return Prototype(match["name"], result, params, " ".join(text.split()).rstrip("; "))


def _read_type(text: str, whole: str, named: bool) -> CType:
    stars = text.count("*") + ("[" in text)
    words = re.sub(r"\[[^]]*\]|[*]|\brestrict\b|\b__restrict__\b|\bextern\b", " ", text).split()
    const = "const" in words
    words = [w for w in words if w not in ("const", "signed", "struct", "enum")]
    for count in (len(words), len(words) - 1) if named else (len(words),):
        dtype = _SCALARS.get(" ".join(words[:count])) if count > 0 else None
        if dtype is not None and stars < 2:
            return CType(dtype, bool(stars), const)
    if stars:  # a pointer to something of the library's own
        return CType("void", True, const)
    hint = f"one of {', '.join(sorted(_SCALARS))}, or a pointer"
    what = f"a type in {whole!r} is not understood"
    raise ValueError(explain(what, got=text.strip(), instead=hint))


def _include(header: str | Path) -> str:
    """The line that includes a header."""
    text = str(header).strip()
    if text.startswith("#"):
        return text
    if text[:1] in ("<", '"'):
        return f"#include {text}"
    return f'#include "{Path(text).name if Path(text).is_file() else text}"'


class ExternLibrary:
    """C functions that kernels call.

    name: what messages call it.
    prototypes: C declarations of the functions.
    library: the shared library that has them (a path, or a name for the system's loader).
    sources: C files that define them; compiled by the system's C compiler where they are needed.
    headers: what C code that calls them includes, instead of declaring the prototypes: a file's path or name
        ("toy.h", "<toy.h>"), or the whole line '#include "toy.h"'.
    include_dirs: where the headers and the sources' includes are.
    flags: the compiler's for the sources, behind -O2 ("-mcpu=cortex-m7"); those for generated code are not used.
    link: flags for the linker.
    addresses: functions of this process, by name; such a library cannot be exported.

    >>> lw.ExternLibrary("libm", ["double cbrt(double x)"], library="libm.so.6").name
    'libm'
    """

    def __init__(
        self, name: str, prototypes: Iterable[str], *, library: str | Path | None = None,
        sources: Iterable[str | Path] = (), headers: Iterable[str | Path] = (),
        include_dirs: Iterable[str | Path] = (), flags: Iterable[str] = (),
        link: Iterable[str] = (), addresses: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        parsed = [Prototype.parse(text) for text in prototypes]
        self.prototypes = {p.name: p for p in parsed}
        self.library = library
        self.sources = tuple(Path(s) for s in sources)
        headers = list(headers)
        named = [Path(h) for h in headers if Path(h).is_file()]
        self.headers = tuple(map(_include, headers))
        self.include_dirs = tuple(
            dict.fromkeys([*map(Path, include_dirs), *(h.parent for h in named)])
        )
        self.flags = tuple(flags)
        self.link = tuple(link)
        self.addresses = dict(addresses or {})
        self._loaded: Any = None

    def __repr__(self) -> str:
        return f"ExternLibrary({self.name!r}: {', '.join(self.prototypes)})"

    def symbols(self) -> dict[str, int]:
        """The address of each function in this process; loads the library, or compiles the sources.

        Raises LoopwrightError for a function that is not there, a library that cannot be loaded.
        """
        addresses = dict(self.addresses)
        missing = [name for name in self.prototypes if name not in addresses]
        if not missing:
            return addresses
        handle = self._open()
        for name in missing:
            try:
                addresses[name] = ctypes.cast(getattr(handle, name), ctypes.c_void_p).value or 0
            except AttributeError:
                where = self.library or ", ".join(map(str, self.sources)) or "this process"
                what = f"external library {self.name} has no function {name}"
                hint = "give its library= or the sources= that define it"
                raise LoopwrightError(explain(what, got=str(where), instead=hint)) from None
        return addresses

    def _open(self) -> Any:
        if self._loaded is not None:
            return self._loaded
        with tempfile.TemporaryDirectory(prefix="loopwright-extern-") as folder:
            path: str | None = None
            if self.library is not None:
                there = Path(self.library).is_file()
                path = str(Path(self.library).resolve() if there else self.library)
            elif self.sources:
                path = str(self._compile(Path(folder)))
            try:
                self._loaded = ctypes.CDLL(path)  # which needs the file no longer
            except OSError as err:
                what = f"external library {self.name} cannot be loaded"
                raise LoopwrightError(explain(what, got=str(err))) from None
        return self._loaded

    def _compile(self, folder: Path) -> Path:
        """The sources as a shared library in a folder."""
        out = folder / "library.so"
        self._run_compiler(self.sources, out, ["-shared"], self.link)
        return out

    def objects(self, compiler: str | None = None) -> list[bytes]:
        """The sources as position-independent objects, by the system's C compiler or another.

        Raises LoopwrightError for a missing source or compiler, and with the compiler's words.
        """
        compiled = []
        with tempfile.TemporaryDirectory(prefix="loopwright-extern-") as folder:
            for k, source in enumerate(self.sources):
                out = Path(folder, f"{k}.o")
                self._run_compiler([source], out, ["-c"], compiler=compiler)
                compiled.append(out.read_bytes())
        return compiled

    def linker_flags(self) -> list[str]:
        """The linker's flags for the shared library and those of `link`."""
        if self.library is None:
            return list(self.link)
        path = Path(self.library)
        flags = [str(path), f"-Wl,-rpath,{path.resolve().parent}"]
        return [*self.link, *(flags if path.is_file() else [f"-l{path}"])]

    def _run_compiler(
        self,
        sources: Iterable[Path],
        out: Path,
        flags: Iterable[str],
        more: Iterable[str] = (),
        compiler: str | None = None,
    ) -> None:
        self._check_sources()
        includes = [f"-I{d}" for d in self.include_dirs]
        try:
            flags = ["-O2", "-fPIC", *self.flags, *flags, *includes]
            compile_c([*sources], out, flags, [*more], compiler)
        except LoopwrightError as err:
            what = f"could not compile the sources of external library {self.name}"
            raise LoopwrightError(explain(what, got=str(err))) from None

    def _check_sources(self) -> None:
        missing = [str(s) for s in self.sources if not s.is_file()]
        if missing:
            what = f"external library {self.name}: no such source file"
            raise LoopwrightError(explain(what, got=", ".join(missing)))

    def digest(self) -> str:
        """A hash of the library's sources and flags. Raises LoopwrightError where a source is gone."""
        self._check_sources()
        hasher = hashlib.sha256()
        for p in self.prototypes.values():
            hasher.update(p.text.encode())
        for source in self.sources:
            hasher.update(source.read_bytes())
        hasher.update(str((self.library, self.flags)).encode())
        return hasher.hexdigest()
