"""Slots in a lower layer for objects of the layers above it, filled on first use.

    PRINTER: Slot[Printer] = Slot("ir.printer")     # in ir
    PRINTER.get().script(node)                      # loads loopwright.script, a layer above

    __getattr__ = late_names(__name__)              # in relax: relax.build, relax.VirtualMachine
    __dir__ = public_names(__name__)                # what dir() and completion show

The slots' contents are listed in one file, the package's composition root; nothing else names a
module above its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class Unready(ImportError):
    """The requested object is in the middle of its own import."""


class Slot(Generic[V]):
    """A slot for one object. name: its key in the table."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._value: V | None = None

    def get(self) -> V:
        """The object in the slot. Raises Unready in the middle of its import."""
        value = self._value
        if value is None:
            value = self._value = _fill(self.name)
        return value

    def find(self) -> V | None:
        """The object in the slot; None in the middle of its import."""
        try:
            return self.get()
        except Unready:
            return None


VIEWS: Slot[Any] = Slot("base.views")  # of traces and executables: queries, pages, costs


def late_names(module: str) -> Callable[[str], Any]:
    """A module's `__getattr__`: the names that the table has for it, then its submodules."""
    path = module.partition(".")[2]

    def get(name: str) -> Any:
        if not name.startswith("__"):
            try:
                return _find_name(f"{path}.{name}")
            except KeyError:
                pass
        raise AttributeError(f"module {path!r} has no attribute {name!r}")

    return get


def public_names(module: str) -> Callable[[], list[str]]:
    """A module's `__dir__`: what its `__all__` lists, else what it has without what it took from
    elsewhere for its own use; and its late names."""
    path = module.partition(".")[2]

    def names() -> list[str]:
        namespace = vars(sys.modules[module])
        listed = namespace.get(
            "__all__", [n for n, value in namespace.items() if _is_public(n, value)]
        )
        return sorted({*listed, *_names_of(path), *(n for n in namespace if n.startswith("__"))})

    return names


def own_names(namespace: dict[str, Any], *kinds: type) -> list[str]:
    """For `__all__`: the public names of the classes and functions that a module defines itself."""

    def is_own(name: str, value: Any) -> bool:
        own = isinstance(value, kinds or (type, FunctionType))
        return own and value.__module__ == namespace["__name__"] and not name.startswith("_")

    return sorted(n for n, value in namespace.items() if is_own(n, value))


def _is_public(name: str, value: object) -> bool:
    """Whether a name is public: objects of this package, except the helpers of `base`, and
    constants."""
    if name.startswith("_"):
        return False
    if isinstance(value, ModuleType):
        return value.__name__.startswith(f"{_PACKAGE}.")
    if not isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        return not type(value).__module__.startswith(("typing", "__future__"))
    home = f"{value.__module__}."
    return home.startswith(f"{_PACKAGE}.") and not home.startswith(f"{_PACKAGE}.base.")


def connect(
    fill: Callable[[str], Any],
    find_name: Callable[[str], Any],
    names_of: Callable[[str], list[str]],
) -> None:
    """Set the functions that fill slots, find late names and list those of a module (done by the
    package when it is imported). `fill` raises Unready in the middle of an import, `find_name`
    KeyError for an unknown name."""
    global _fill, _find_name, _names_of
    _fill, _find_name, _names_of = fill, find_name, names_of


def _unconnected(key: str) -> Any:
    raise KeyError(key)


_fill: Callable[[str], Any] = _unconnected
_find_name: Callable[[str], Any] = _unconnected
_names_of: Callable[[str], list[str]] = _unconnected
_PACKAGE = __name__.partition(".")[0]

__all__ = ["Slot", "Unready", "connect", "late_names", "own_names", "public_names"]
