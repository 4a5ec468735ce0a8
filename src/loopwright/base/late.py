"""Places in a lower layer for what lies above it, filled when they are first asked for.

    PRINTER: Slot[Printer] = Slot("ir.printer")     # in ir
    PRINTER.get().script(node)                      # loads loopwright.script, which lies above

    __getattr__ = late_names(__name__)              # in relax: relax.build, relax.VirtualMachine

What belongs where stands in one table, `TABLE` of the package's composition root; nothing else
names a module above its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class Unready(ImportError):
    """What is asked for is in the middle of its own import."""


class Slot(Generic[V]):
    """A place for one thing. name: its key in the table."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._value: V | None = None

    def get(self) -> V:
        """What fills the slot. Raises Unready in the middle of its import."""
        value = self._value
        if value is None:
            value = self._value = _resolve(self.name)
        return value

    def find(self) -> V | None:
        """What fills the slot; None in the middle of its import."""
        try:
            return self.get()
        except Unready:
            return None


def late_names(module: str) -> Callable[[str], Any]:
    """A module's `__getattr__`: the names that the table has for it, then its submodules."""
    place = module.partition(".")[2]

    def get(name: str) -> Any:
        if not name.startswith("__"):
            try:
                return _resolve(f"{place}.{name}")
            except KeyError:
                pass
        raise AttributeError(f"module {place!r} has no attribute {name!r}")

    return get


def connect(resolve: Callable[[str], Any]) -> None:
    """Give the way from a key to what belongs there (done by the package when it is imported).
    `resolve` raises KeyError for an unknown key, Unready in the middle of an import."""
    global _resolve
    _resolve = resolve


def _unconnected(key: str) -> Any:
    raise KeyError(key)


_resolve: Callable[[str], Any] = _unconnected

__all__ = ["Slot", "Unready", "connect", "late_names"]
