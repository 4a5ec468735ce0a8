"""Visiting and rewriting any node, from its field table.

`Visitor` and `Rewriter` dispatch on the node's class name: a subclass defines `visit_For`,
`visit_Call`, or a base class's name (`visit_PrimExpr`); other nodes are passed to `visit_default`,
which visits or rebuilds the fields. The dispatch table is a dict keyed by type.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from .node import Node

if TYPE_CHECKING:
    from .prim_expr import PointerType

N = TypeVar("N", bound=Node)
_DEEPEST = 50_000  # frames; Python's default of 1000 is too few for a statement per allocation


def allow_deep_programs() -> None:
    """Let Python's calls nest as deeply as programs do: a statement for each allocation and value.

    Calls from Python to Python take no stack of C. The limit stays: another thread may need it.
    """
    if sys.getrecursionlimit() < _DEEPEST:
        sys.setrecursionlimit(_DEEPEST)


class _Methods(dict[type, Callable[..., Any]]):
    """The methods of a class of visitors, by the type of the visited object; looked up on first
    use."""

    def __init__(self, cls: type[_Dispatching]) -> None:
        self.cls = cls

    def __missing__(self, kind: type) -> Callable[..., Any]:
        method = self[kind] = self.cls._handler(kind)
        return method


class _Own(_Methods):
    """For a class that has its own `visit`: all children of a node are passed to it."""

    def __missing__(self, kind: type) -> Callable[..., Any]:
        method = self[kind] = self.cls.visit
        return method


class _Dispatching:
    _table: _Methods
    _parts: _Methods  # for the fields of a node and the items of a list

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._table = _Methods(cls)
        cls._parts = cls._table if cls.visit is _Dispatching.visit else _Own(cls)

    def visit_default(self, node: Node) -> Any:
        raise NotImplementedError

    @classmethod
    def _handler(cls, kind: type) -> Callable[..., Any]:
        """The method that visits values of a type."""
        if not issubclass(kind, Node):
            return cls._of_plain(kind)
        names = (f"visit_{base.__name__}" for base in kind.__mro__)
        methods = (getattr(cls, name, None) for name in names)
        method = next((m for m in methods if m is not None), cls.visit_default)
        walker = _DEFAULTS.get(method)
        return method if walker is None else _walkers_of(kind)[walker]

    @classmethod
    def _of_plain(cls, kind: type) -> Callable[..., Any]:
        """The method that visits values of a type that is not a node's."""
        raise NotImplementedError

    def visit(self, node: Any) -> Any:
        """Dispatch on the type of `node`; lists, tuples and dicts are gone through."""
        return self._table[type(node)](self, node)


def _leaf(visitor: Rewriter | Visitor | _Dispatching, value: Any) -> Any:
    return value


class Visitor(_Dispatching):
    """Walks a tree; methods return nothing of interest."""

    @classmethod
    def _of_plain(cls, kind: type) -> Callable[..., Any]:
        if issubclass(kind, (tuple, list)):
            return Visitor._visit_items
        return Visitor._visit_dict if issubclass(kind, dict) else _leaf

    def _visit_items(self, value: PointerType | Sequence[Node | None]) -> None:
        parts = self._parts
        for item in value:
            parts[type(item)](self, item)

    def _visit_dict(self, value: dict[Any, Any]) -> None:
        for key, item in value.items():
            self.visit(key)
            self.visit(item)

    def visit_default(self, node: Node) -> None:
        _walkers_of(type(node))[0](self, node)


def _walk_of(cls: type[Node]) -> tuple[list[str], list[str], list[str]]:
    """(names, lines that look the values up, lines that visit them) of the fields of a class."""
    names = [f.name for f in cls.__fields__ if not f.plain]
    old = [" parts = self._parts", *(f" {n}_0 = node.{n}" for n in names)]
    walk = [f" if {n}_0 is not None: parts[type({n}_0)](self, {n}_0)" for n in names]
    return names, old, walk


@cache
def _walkers_of(cls: type[Node]) -> tuple[Callable[..., None], Callable[..., Any]]:
    """(visit the fields, rewrite the fields) of a class as straight-line code, made on first use:
    three times as fast as a loop over the field table. Visitors without a method for a class have
    these in their tables."""
    names, old, walk = _walk_of(cls)
    new = [f" {n}_1 = parts[type({n}_0)](self, {n}_0)" for n in names]
    same = " and ".join(f"{n}_1 is {n}_0" for n in names) or "True"
    args = "".join(f"node.{f.name}, " if f.plain else f"{f.name}_1, " for f in cls.__fields__)
    lines = ["def visit_fields(self, node):", *old, *walk]
    lines += ["def rewrite_fields(self, node):", *old, *new]
    lines += [f" return node if {same} else make({args}span=node.span)"]
    scope: dict[str, Any] = {"make": cls._make}
    exec("\n".join(lines), scope)
    return scope["visit_fields"], scope["rewrite_fields"]


class Rewriter(_Dispatching):
    """Rebuilds a tree; a node none of whose fields changed comes back as the same object."""

    @classmethod
    def _of_plain(cls, kind: type) -> Callable[..., Any]:
        if issubclass(kind, (tuple, list)):
            return Rewriter._visit_items
        return Rewriter._visit_dict if issubclass(kind, dict) else _leaf

    def _visit_items(self, value: PointerType | Sequence[Any]) -> Any:
        parts = self._parts
        items, changed = [], False
        for item in value:
            new = parts[type(item)](self, item)
            changed = changed or new is not item
            items.append(new)
        return type(value)(items) if changed else value

    def _visit_dict(self, value: dict[Any, Any]) -> Any:
        if not value:
            return value
        pairs = [(self.visit(k), self.visit(v)) for k, v in value.items()]
        same = all(
            k is k0 and v is v0 for (k, v), (k0, v0) in zip(pairs, value.items(), strict=True)
        )
        return value if same else dict(pairs)

    def visit_default(self, node: Node) -> Any:
        return _walkers_of(type(node))[1](self, node)


_DEFAULTS = {Visitor.visit_default: 0, Rewriter.visit_default: 1}  # the walker that each calls


class _Found(Exception):
    """Ends the search of `any_node`."""


class _FnVisitor(Visitor):
    """Calls a function on each object once. What visits a class's nodes is made of straight-line
    code, as in `_walkers_of`, around the walk."""

    before: ClassVar[tuple[str, ...]] = ()  # the lines in front of the walk and behind it
    behind: ClassVar[tuple[str, ...]] = ()

    def __init__(self, fn: Callable[[Any], Any] | None = None) -> None:
        self.fn = fn
        self.seen: set[int] = set()

    @classmethod
    def _handler(cls, kind: type) -> Callable[..., Any]:
        if not issubclass(kind, Node):
            return cls._of_plain(kind)
        _, old, walk = _walk_of(kind)
        once = [" key = id(node)", " if key in self.seen: return", " self.seen.add(key)"]
        lines = ["def visit_node(self, node):", *once, *cls.before, *old, *walk, *cls.behind]
        scope: dict[str, Any] = {}
        exec("\n".join(lines), scope)
        return scope["visit_node"]


class _PostOrder(_FnVisitor):
    behind = (" self.fn(node)",)


class _PreOrder(_FnVisitor):
    before = (" if self.fn(node) is False: return",)


class _Search(_FnVisitor):
    before = (" if self.fn(node): raise self.end", " if isinstance(node, self.skip): return")

    def __init__(self, test: Callable[[Any], Any], skip: type | tuple[type, ...]) -> None:
        super().__init__(test)
        self.skip = skip
        self.end = _Found


class _Collector(_FnVisitor):
    behind = (" if isinstance(node, self.kinds): self.nodes.append(node)",)

    def __init__(self, kinds: tuple[type[Node], ...]) -> None:
        super().__init__()
        self.kinds = kinds
        self.nodes: list[Any] = []


def post_order_visit(stmt: Any, fvisit: Callable[[Any], Any]) -> None:
    """Call `fvisit` on every node below and including `stmt`, a node of any kind, children first,
    each object once."""
    _PostOrder(fvisit).visit(stmt)


def nodes_of(node: Any, *kinds: type[N]) -> list[N]:
    """The nodes of some classes below and including `node`, children first, each object once."""
    collector = _Collector(kinds)
    collector.visit(node)
    return collector.nodes


def pre_order_visit(stmt: Node, fvisit: Callable[[Any], Any]) -> None:
    """Call `fvisit` on every node below and including `stmt`, parents first; where it returns
    False, its children are skipped."""
    _PreOrder(fvisit).visit(stmt)


def any_node(node: Any, test: Callable[[Any], Any], skip: type | tuple[type, ...] = ()) -> bool:
    """Whether `test` holds for a node below and including `node`; nodes of the classes `skip`
    are tested, the nodes below them are not."""

    try:
        _Search(test, skip).visit(node)
    except _Found:
        return True
    return False


class _FnRewriter(Rewriter):
    def __init__(self, post: Callable[[Any], Any] | None, pre: Callable[[Any], Any] | None) -> None:
        self.post = post
        self.pre = pre
        self.memo: dict[int, tuple[Any, Any]] = {}  # keeps the key's node alive

    def visit_Node(self, node: Node) -> Any:
        cached = self.memo.get(id(node))
        if cached is not None:
            return cached[1]
        new = self.pre(node) if self.pre is not None else None
        if new is None:
            new = _walkers_of(type(node))[1](self, node)
            if self.post is not None:
                result = self.post(new)
                new = new if result is None else result
        self.memo[id(node)] = (node, new)
        return new


def rewrite(
    node: Node | Sequence[Node | Sequence[Node]],
    post: Callable[[Any], Any] | dict[type, Callable[[Any], Any]] | None,
    pre: Callable[[Any], Any] | None = None,
) -> Any:
    """Rebuild `node` bottom-up: `post` gets each rebuilt node and returns its replacement, or
    None to keep it. `post` may be a dict from type to function. `pre` is called before the children
    are visited; its result, unless None, replaces the node without a look inside.

    A node that occurs several times (a DAG) is rewritten once.
    """
    return _FnRewriter(_by_type(post) if isinstance(post, dict) else post, pre).visit(node)


def _by_type(table: dict[type, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def post(node: Node) -> Any:
        fn = table.get(type(node))
        return fn(node) if fn is not None else None

    return post
