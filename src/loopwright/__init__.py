"""Loopwright: a tensor compiler in Python.

    import loopwright as lw
    exe = lw.compile("model.onnx")
    y = exe.run({"input": x})

Everything public is reached from here, under TVM's names where it has one. Parts are imported when
they are first asked for, so that `import loopwright` and `import loopwright.runtime` stay light.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from .compat import serve_paths

__version__ = "0.1.0"

# Parts of the package, by the name under which they are reached.
_PARTS = (
    "arith",
    "backend",
    "base",
    "codegen",
    "compat",
    "driver",
    "frontend",
    "ir",
    "ops",
    "relax",
    "runtime",
    "sched",
    "script",
    "te",
    "testing",
    "tir",
    "topi",
)

# Names that are another module's: name -> (module, attribute; "" for the module itself).
_NAMES: dict[str, tuple[str, str]] = {
    "Arena": ("runtime", "Arena"),
    "DataType": ("ir.dtype", "DataType"),
    "Device": ("runtime", "Device"),
    "DiagnosticError": ("base.errors", "DiagnosticError"),
    "ExternLibrary": ("runtime", "ExternLibrary"),
    "GlobalVar": ("ir.expr", "GlobalVar"),
    "IRModule": ("ir.module", "IRModule"),
    "LoopwrightError": ("base.errors", "LoopwrightError"),
    "Module": ("runtime", "Module"),
    "Op": ("ir.op", "Op"),
    "Span": ("base.span", "Span"),
    "TVMError": ("base.errors", "TVMError"),
    "Target": ("ir.target", "Target"),
    "Tensor": ("runtime", "Tensor"),
    "build": ("driver.older", "build"),
    "compile": ("driver", "compile"),
    "cpu": ("runtime", "cpu"),
    "cuda": ("runtime", "cuda"),
    "device": ("runtime", "device"),
    "error": ("base.errors", ""),
    "get_global_func": ("runtime", "get_global_func"),
    "instrument": ("ir.instrument", ""),
    "lower": ("driver.older", "lower"),
    "nd": ("runtime", ""),
    "opencl": ("runtime", "opencl"),
    "register_func": ("runtime", "register_func"),
    "register_global_func": ("runtime", "register_func"),
    "register_legalize": ("relax", "register_legalize"),
    "target": ("ir.target", ""),
    "trace": ("ir.trace", "trace"),
    "transform": ("ir.transform", ""),
}

# With the graph level come its operators, which lie above it and fill its namespaces.
_NEEDS_OPERATORS = {"relax", "script", "topi"}


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        found = _import(name)
        if found is None:
            raise AttributeError(f"this build of loopwright has no part {name!r}")
        if name in _NEEDS_OPERATORS:
            importlib.import_module(f"{__name__}.ops")
        return found
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    part, attribute = _NAMES[name]
    module = importlib.import_module(f"{__name__}.{part}")
    made = getattr(module, attribute) if attribute else module
    setattr(sys.modules[__name__], name, made)
    return made


def _import(part: str) -> ModuleType | None:
    full = f"{__name__}.{part}"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as err:
        if err.name == full:
            return None
        raise


def __dir__() -> list[str]:
    return sorted({*globals(), *_PARTS, *_NAMES})


serve_paths()
