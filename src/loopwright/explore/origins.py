"""The nodes of the model that a statement, binding or function of a module came from.

Every node of the IR has a span; passes merge the spans of what they fuse, inline or share. Here the
spans are read: a leaf statement has its own origins, or those of its function; a statement around
others has theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..base.span import Span, spans_of
from ..ir.functor import post_order_visit
from ..ir.module import IRModule
from ..ir.node import Node
from ..relax.expr import BindingBlock, Function
from ..tir import stmt as st
from ..tir.function import PrimFunc

Names = tuple[str, ...]
# The fields of statements that have statements in them.
_INNER = ("seq", "body", "init", "block", "then_case", "else_case")


def names_of(span: Span | None) -> Names:
    """The locations of a span as text: "onnx:/conv1", or "file.py:3:5"."""
    return tuple(map(str, spans_of(span)))


def united(parts: Iterable[Names]) -> Names:
    """Names, each once, in order."""
    return tuple(dict.fromkeys(name for part in parts for name in part))


def origins_of(func: Function | PrimFunc) -> dict[int, Names]:
    """The origins of each statement and binding of a function, by `id`."""
    if isinstance(func, PrimFunc):
        return _of_statements(func)
    if isinstance(func, Function):
        return {
            id(node): names_of(node.span or node.value.span)
            for node in _bindings(func)
            if node.span or node.value.span
        }
    return {}


def _bindings(func: Function) -> Iterator[Any]:
    bindings: list[Any] = []
    post_order_visit(
        func,
        lambda node: bindings.extend(node.bindings) if isinstance(node, BindingBlock) else None,
    )
    return iter(bindings)


def _of_statements(func: PrimFunc) -> dict[int, Names]:
    whole = names_of(func.span)
    order: list[Any] = []
    todo: list[Any] = [func.body]
    while todo:  # no recursion: native graph functions nest as deep as the model is long
        node = todo.pop()
        order.append(node)
        todo.extend(inner(node))
    names_at: dict[int, Names] = {}
    for node in reversed(order):
        within = [names_at[id(part)] for part in inner(node)]
        names_at[id(node)] = united(within) if within else names_of(node.span) or whole
    return names_at


def inner(node: st.Stmt) -> list[Any]:
    """The statements directly inside one."""
    values = (getattr(node, name, None) for name in _INNER)
    parts = [part for v in values for part in (v if isinstance(v, tuple) else (v,))]
    return [part for part in parts if isinstance(part, st.Stmt)]


def is_leaf(node: Any) -> bool:
    """Whether a node that begins a line is a binding or a statement without others in it."""
    return node is not None and not any(hasattr(node, name) for name in _INNER)


class Modules:
    """The origins that occur in functions and modules; functions are read once."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[Any, set[str]]] = {}

    def in_function(self, func: Function | PrimFunc) -> set[str]:
        """The origins of a function and of all nodes in it."""
        cached = self._of.get(id(func))
        if cached is None:
            names = set(names_of(func.span))

            def visit(node: Node) -> None:
                span = getattr(node, "span", None)
                if span is not None:
                    names.update(names_of(span))

            post_order_visit(func, visit)
            cached = self._of[id(func)] = func, names
        return cached[1]

    def in_module(self, mod: IRModule) -> set[str]:
        """The origins of all nodes in a module."""
        return set().union(*(self.in_function(func) for func in mod.functions.values()))
