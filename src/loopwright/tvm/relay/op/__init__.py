"""The builders of Relay's operators: `relay.op.add(x, y)`, `relay.op.nn.relu(x)`.

This is a view of `relay.operators`: a builder's place is its operator's name.
"""

from __future__ import annotations

import difflib
import sys
from types import ModuleType
from typing import Any

from ....base.errors import explain
from ....ir.op import Op
from ..expr import Expr
from ..expr import const as const
from ..left_out import LEFT_OUT, refused
from ..operators import ROWS, VIEWS
from ..strategy import OpImplementation, OpSpecialization, OpStrategy
from . import contrib as contrib
from . import registering as _registering
from . import strategy as strategy

_HERE = sys.modules[__name__]


def _unknown(module: str, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    if name in LEFT_OUT:
        raise refused(name)
    same_end = [n for n in VIEWS if n.rpartition(".")[2] == name]
    close = same_end or difflib.get_close_matches(name, VIEWS, 3)
    hint = f"did you mean {', '.join(f'relay.{n}' for n in close)}?" if close else None
    raise AttributeError(explain(f"relay has no operator {name!r}", instead=hint))


class _View(ModuleType):
    """A module of builders with helpful errors for unknown names."""

    def __getattr__(self, name: str) -> Any:
        return _unknown(self.__name__, name)


def _submodule(path: str) -> ModuleType:
    if not path:
        return _HERE
    parent, _, leaf = path.rpartition(".")
    above = _submodule(parent)
    module = vars(above).get(leaf)
    if not isinstance(module, ModuleType):
        full = f"{__name__}.{path}"
        module = _View(full, f"Builders of the operators `{path}.*`.")
        module.__path__ = []
        sys.modules[full] = module
        setattr(above, leaf, module)
    return module


def _fill() -> None:
    for name, builder in VIEWS.items():
        parent, _, leaf = name.rpartition(".")
        setattr(_submodule(parent), leaf, builder)
        if not parent:
            Expr._build[leaf] = builder


_fill()
globals().update({n: f for n, f in vars(_registering).items() if n.startswith(("register", "OpP"))})


def get(op_name: str) -> Op:
    """The operator of that name. Raises AttributeError for an unknown one."""
    return Op.get(op_name)


def __getattr__(name: str) -> Any:
    return _unknown(__name__, name)
