"""Modules that become part of the library of the module that imports them: objects and C sources.

library = runtime.load_static_library("kernels.o", ["scale"])
exe.import_module(library)
exe.export_library("model.so")           # has `scale`, too
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from loopwright.base.errors import LoopwrightError, explain

from .c_compiler import compile_c
from .module import Module


class LinkedModule(Module):
    """Code that is linked where it is exported; its functions cannot be called before."""

    is_dso_exportable = True
    is_runnable = False

    def __init__(self, kind: str, func_names: Sequence[str], source: str = "") -> None:
        sources = {kind: source} if source else None
        super().__init__({n: _unlinked(n) for n in func_names}, kind=kind, sources=sources)

    def object(self, compiler: str | None) -> bytes:
        """The object file. compiler: the C compiler, None for this machine's."""
        raise NotImplementedError


def _unlinked(name: str) -> Callable[..., Any]:
    def call(*args: object) -> None:
        what = f"{name} is not linked yet"
        raise LoopwrightError(explain(what, instead="export the module that imports it, load that"))

    return call


class StaticLibrary(LinkedModule):
    """An object file with functions of tvm-ffi's convention (`__tvm_ffi_NAME`)."""

    def __init__(self, path: str | Path, func_names: Sequence[str]) -> None:
        super().__init__("static_library", func_names)
        self._data = Path(path).read_bytes()

    def object(self, compiler: str | None) -> bytes:
        return self._data


load_static_library = StaticLibrary


class CSource(LinkedModule):
    """C source with functions of tvm-ffi's convention (`__tvm_ffi_NAME`)."""

    is_binary_serializable = True

    def __init__(
        self, code: str, fmt: str = "c", func_names: Sequence[str] = (), const_vars: object = None
    ) -> None:
        super().__init__(fmt, func_names, code)
        self._code = code

    def object(self, compiler: str | None) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            source, out = Path(folder, "source.c"), Path(folder, "source.o")
            source.write_text(self._code, encoding="utf-8")
            compile_c([source], out, ["-O3", "-fPIC", "-c"], (), compiler)
            return out.read_bytes()
