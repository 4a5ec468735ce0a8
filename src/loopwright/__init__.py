"""Loopwright: a tensor compiler in Python.

    import loopwright as lw
    exe = lw.compile("model.onnx")
    y = exe.run({"input": x})

Everything public is reached from here, under TVM's names where it has one. Parts are imported when
they are first used, so that `import loopwright` and `import loopwright.runtime` stay light.
"""

from __future__ import annotations

import sys
from typing import Any

from .base import __version__ as __version__
from .base import late as _late
from .base.doors import open_doors as _open_doors
from .composition import NAMES as _NAMES
from .composition import fill as _fill
from .composition import find_module as _find_module
from .composition import find_name as _find_name
from .composition import names_of as _names_of

# Parts of the package, by the name under which they are reached.
_PARTS = """
    arith backend base codegen compat driver frontend ir llm ops relax runtime sched script te
    testing tir topi
""".split()  # noqa: SIM905

# With the graph level come its operators, which are a layer above it and fill its namespaces.
_NEEDS_OPERATORS = {"relax", "script", "topi"}


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        part = _find_module(name)
        if part is None:
            raise AttributeError(f"this build of loopwright has no part {name!r}")
        if name in _NEEDS_OPERATORS:
            _find_module("ops")
        return part
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = _find_name(name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return sorted({*(n for n in globals() if n.startswith("__")), *_PARTS, *_names_of("")})


_late.connect(_fill, _find_name, _names_of)
_open_doors()
