"""The graph operators' builders: `relax.op.add(x, y)`, `relax.op.nn.relu(x)`.

This is a view: operators are defined in `ops/`, a higher layer, which fills it through
`register_view`. Only the core operators, which the graph itself needs, are in `base`.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ...base.errors import explain
from ...base.late import public_names as _public_names
from ...ir.op import load_definitions


class _View(ModuleType):
    """A module of builders with helpful errors for unknown names."""

    def __getattr__(self, name: str) -> Any:
        return _unknown(self, name)


def _unknown(module: ModuleType, name: str) -> Any:
    namespace = module.__name__.split(".", 1)[1]
    if not name.startswith("__"):
        if load_definitions() and name in vars(module):
            return vars(module)[name]
        names = [n for n in vars(module) if not n.startswith("_")]
        close = difflib.get_close_matches(name, names, 3)
        hint = f"did you mean {', '.join(close)}?" if close else "dir() lists the operators"
        raise AttributeError(explain(f"{namespace} has no operator {name!r}", instead=hint))
    raise AttributeError(f"module {namespace!r} has no attribute {name!r}")


def __getattr__(name: str) -> Any:
    return _unknown(sys.modules[__name__], name)


__dir__ = _public_names(__name__)


def _submodule(parent: ModuleType, name: str) -> ModuleType:
    member = vars(parent).get(name)
    if isinstance(member, ModuleType):
        return member
    full = f"{parent.__name__}.{name}"
    view = _View(full, f"Builders of the operators `{full.removeprefix(__name__ + '.')}.*`.")
    view.__path__ = []  # `from loopwright.relax.op.nn import relu` looks in sys.modules only
    sys.modules[full] = view
    setattr(parent, name, view)
    return view


def register_view(dotted_name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Make `fn` the builder `relax.op.<dotted_name>`: "add", "nn.relu", "image.resize2d"."""
    *path, leaf = dotted_name.split(".")
    module: ModuleType = sys.modules[__name__]
    for part in path:
        module = _submodule(module, part)
    setattr(module, leaf, fn)
    return fn


# Last, because it registers its builders here (`from . import base` would call __getattr__).
from .base import *  # noqa: E402
from .storage import MEMORY_VIEW as MEMORY_VIEW  # noqa: E402
