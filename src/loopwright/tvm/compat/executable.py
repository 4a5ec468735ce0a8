"""TVM's `runtime.Executable`: a built module, ready to call."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

from ...codegen.c.model import CModel
from ...codegen.compiled import CompiledModel


class Executable(metaclass=ABCMeta):  # noqa: B024
    """Wraps the result of `tvm.compile`, which counts as one itself."""

    def __init__(self, mod: Any) -> None:
        self.mod = mod
        self._jitted_mod: Any = None

    def __getitem__(self, name: str) -> Any:
        return self.jit()[name]

    def __call__(self, *args: int, **kwargs: int) -> Any:
        return self.jit()(*args, **kwargs)

    def jit(self, *, force_recompile: bool = False, **options: Any) -> Any:
        """What runs: native code is ready already, C is compiled at its first call."""
        if self._jitted_mod is None or force_recompile:
            again = force_recompile and isinstance(self.mod, CModel)
            self._jitted_mod = self.mod.uncompiled() if again else self.mod
        return self._jitted_mod

    def export_library(self, file_name: str, **options: int) -> Any:
        """Write the code as a shared library."""
        return self.mod.export_library(file_name, **options)


Executable.register(CompiledModel)
