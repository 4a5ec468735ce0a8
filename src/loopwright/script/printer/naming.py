"""Names of variables and buffers: unique while they are visible, free again afterwards."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable
from typing import Any

from ...ir.node import Node
from ...ir.prim_expr import PrimExpr

_STRANGE = re.compile(r"[^0-9A-Za-z_]")
_RESERVED = frozenset(keyword.kwlist)


class Frame:
    """A scope being printed: its statements so far and its definitions.

    node: the node that the scope belongs to. last: whether the statement being printed is the scope's last
    one, so that `with` scopes may be written as plain statements. func_vars: while a Relax
    function's signature is printed, the symbolic variables in it, which print as strings.
    """

    __slots__ = ("alias_used", "defined", "func_vars", "is_func", "last", "mode", "node", "stmts")

    def __init__(self, node: Any, mode: str, is_func: bool = False) -> None:
        self.node = node
        self.mode = mode
        self.is_func = is_func
        self.stmts: list = []
        self.defined: list[Any] = []
        self.last = False
        self.func_vars: set[int] | None = None
        self.alias_used = False


class Names:
    """Texts by which objects are called; an object's text may be no name (`A.data`)."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self.used = set(reserved)
        self.texts: dict[int, str] = {}

    def get(self, obj: Node) -> str | None:
        """How `obj` is called here, or None when it is not defined."""
        return self.texts.get(id(obj))

    def define(self, obj: Node, hint: str, frame: Frame) -> str:
        """A name for `obj` until `frame` ends, made from `hint`."""
        text = self.texts.get(id(obj))
        if text is not None:
            return text
        name = self.unique(hint)
        self.used.add(name)
        self.texts[id(obj)] = name
        frame.defined.append((obj, name))
        return name

    def define_as(self, obj: PrimExpr, text: str, frame: Frame) -> None:
        """Refer to `obj` by a text, not a new name, until `frame` ends."""
        self.texts[id(obj)] = text
        frame.defined.append((obj, None))

    def unique(self, hint: str) -> str:
        """A name that is free, made from `hint`."""
        base = _STRANGE.sub("_", hint)
        if base[:1].isdigit():
            base = "v" + base
        name, i = base, 0
        while name in self.used or name in _RESERVED:
            i += 1
            name = f"{base}_{i}"
        return name

    def leave(self, frame: Frame) -> None:
        """Forget the definitions of `frame`."""
        for obj, name in frame.defined:
            self.texts.pop(id(obj), None)
            self.used.discard(name)
