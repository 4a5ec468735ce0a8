"""Places in a lower layer for what lies above it, filled when they are first asked for.

    PRINTER: Slot[Printer] = Slot("ir.printer")     # in ir
    PRINTER.get().script(node)                      # loads loopwright.script, which lies above

    __getattr__ = late_names(__name__)              # in relax: relax.build, relax.VirtualMachine

What belongs where stands in one file, the package's composition root; nothing else names a module
above its own.
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
            value = self._value = _fill(self.name)
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
                return _find_name(f"{place}.{name}")
            except KeyError:
                pass
        raise AttributeError(f"module {place!r} has no attribute {name!r}")

    return get


def connect(fill: Callable[[str], Any], find_name: Callable[[str], Any]) -> None:
    """Say what fills a slot and what a late name is (done by the package when it is imported).
    `fill` raises Unready in the middle of an import, `find_name` KeyError for an unknown name."""
    global _fill, _find_name
    _fill, _find_name = fill, find_name


def _unconnected(key: str) -> Any:
    raise KeyError(key)


_fill: Callable[[str], Any] = _unconnected
_find_name: Callable[[str], Any] = _unconnected

__all__ = ["Slot", "Unready", "connect", "late_names"]
