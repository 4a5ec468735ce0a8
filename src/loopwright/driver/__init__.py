"""The front door: lower, compile, run."""

from __future__ import annotations

import importlib
from typing import Any

from ..codegen.llvm.executable import Executable
from .front import compile

# What takes the compiler, by the module it is in: imported when it is first asked for.
_LATER = {"lower": ".build", "relax_build": ".build", "VirtualMachine": "..codegen.llvm.vm"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = getattr(importlib.import_module(_LATER[name], __name__), name)
    globals()[name] = made
    return made


__all__ = ["Executable", "VirtualMachine", "compile", "lower", "relax_build"]
