"""Operators: a name and a table of facts about it (its legalization, its kind, its printer name).

Lower layers ask `Op`; the definitions live above, in `ops/` and in `tir/op.py`.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Callable
from typing import Any, ClassVar

from ..base import customised
from ..base.errors import explain
from ..base.plugins import load_group
from .expr import BaseExpr

_OPS: dict[str, Op] = {}
# Definitions of operators are plug-ins of this layer: the house's own, and those of other packages.
_PLUGINS = ["loopwright.ops"]
_PLUGIN_GROUP = "loopwright.ops"
_ABOVE = ("loopwright.relax", "loopwright.script")  # what the definitions are written in
_WATCHERS: list[Callable[[Op], None]] = []


class Op(BaseExpr):
    """An operator, unique by name: `Op.get("relax.add")`. Compared by identity."""

    name: str
    bound_by_identity: ClassVar[bool] = False
    __slots__ = ("_attrs", "_levels")

    def _derive(self) -> None:
        self._attrs: dict[str, Any] = {}
        self._levels: dict[str, int] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return (Op.get, (self.name,))

    @staticmethod
    def get(name: str) -> Op:
        """The operator of that name. Raises AttributeError when there is none."""
        found = _OPS.get(name)
        if found is None and load_definitions():
            found = _OPS.get(name)
        if found is None:
            close = _close_names(name)
            hint = f"did you mean {close}?" if close else "register it with ir.register_op_attr"
            raise AttributeError(explain("no operator of this name", got=name, instead=hint))
        return found

    @staticmethod
    def find(name: str) -> Op | None:
        """The operator of that name, or None."""
        return _OPS.get(name)

    @staticmethod
    def list_op_names() -> list[str]:
        """All names, sorted."""
        return sorted(_OPS)

    def has_attr(self, key: str) -> bool:
        """Whether a fact is known under `key`."""
        return key in self._attrs

    def get_attr(self, key: str, default: Any = None) -> Any:
        """The fact stored under `key`, or `default`."""
        return self._attrs.get(key, default)

    def level_of(self, key: str) -> int:
        """The level at which a fact was stored."""
        return self._levels.get(key, 10)

    def set_attr(self, key: str, value: Any, plevel: int = 10) -> None:
        """Store a fact; one of a higher level than `plevel` stays."""
        customised.note()
        if plevel >= self._levels.get(key, plevel):
            self._attrs[key], self._levels[key] = value, plevel
            for watch in _WATCHERS:
                watch(self)

    def reset_attr(self, key: str) -> None:
        """Forget a fact."""
        customised.note()
        self._attrs.pop(key, None)
        self._levels.pop(key, None)

    def structural_compare(self, other: Op, comparer: Any, path: str, defining: bool) -> None:
        """Operators are equal when they are the same one."""
        if self is not other:
            comparer.fail(path, self, other, "different operators")

    def structural_hash(self, hasher: Any, defining: bool) -> int:
        """By name."""
        return hash(("Op", self.name))


def _close_names(name: str) -> str:
    return ", ".join(difflib.get_close_matches(name, _OPS, 3))


def register_op(name: str) -> Op:
    """The operator of that name, made when it is new."""
    found = _OPS.get(name)
    if found is None:
        found = _OPS[name] = Op(name)
    return found


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Store a fact about an operator (made when new); without `value`, a decorator."""
    op = register_op(op_name)
    if value is not None:
        op.set_attr(attr_key, value, level)
        return value

    def decorate(fn: Any) -> Any:
        op.set_attr(attr_key, fn, level)
        return fn

    return decorate


def register_intrin_lowering(
    op_name: str, target: str, *, f: Callable[[Any], Any] | None = None, level: int = 10
) -> Any:
    """How calls of an operator are lowered for targets of kind `target`: `f(call)` gives the
    expression in its place. Stored as the fact "<target>.FLowerIntrinsic"; without `f`, a
    decorator."""
    return register_op_attr(op_name, f"{target}.FLowerIntrinsic", f, level)


def load_definitions() -> bool:
    """Import what defines operators: the house's modules and other packages' (their entry points
    of the group `loopwright.ops`). Called where a name is unknown; True when this was the first
    call, so that the name is worth another look."""
    if not _PLUGINS or any(_being_imported(name) for name in _ABOVE):
        return False
    pending = list(_PLUGINS)
    _PLUGINS.clear()
    for name in pending:
        importlib.import_module(name)
    load_group(_PLUGIN_GROUP)
    return True


def _being_imported(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


class Builders(dict):
    """Builders of operators by name; asks for the definitions when one is unknown."""

    def __missing__(self, name: str) -> Any:
        if load_definitions() and name in self:
            return self[name]
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The builder, or `default`."""
        try:
            return self[name]
        except KeyError:
            return default


def watch_op_attrs(fn: Callable[[Op], None]) -> None:
    """Call `fn(op)` after each `set_attr` (caches that depend on the facts)."""
    _WATCHERS.append(fn)
