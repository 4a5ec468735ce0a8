"""Which calls of a graph become one kernel: groups around an anchor, by post-dominators.

A call joins the group of what uses it when all paths to its immediate post-dominator may be computed
element by element with it. Reference: Chen et al., "TVM: An Automated End-to-End Optimizing Compiler for
Deep Learning", OSDI 2018, section 3; Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ....ir.op import Op
from ....ir.prim_expr import IntImm
from ....ops.core import BROADCAST, ELEMENTWISE, FUSABLE, INJECTIVE, OPAQUE, REDUCTION, TUPLE
from ..expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from ..operators.core import kind_of
from ..types import TensorType, TupleType, same_type
from ..walk import post_order

_SCALARS = ("int32", "int64", "float32", "float64", "bool")


@dataclass(eq=False)
class Node:
    """An expression in the graph of uses. outputs: (user, kind of the edge)."""

    expr: Any
    index: int
    kind: int = OPAQUE
    outside: bool = False  # its value is used where no group can take it
    outputs: list[tuple[Node, int]] = field(default_factory=list)


@dataclass(eq=False)
class Group:
    """Nodes that become one kernel. The root of the union-find has the facts."""

    root: Any
    kind: int
    parent: Group | None = None
    anchor: Any = None
    count: int = 1

    def find(self) -> Group:
        """The group that this one is part of."""
        at = self
        while at.parent is not None:
            at = at.parent
        step = self
        while step.parent is not None and step is not at:
            step.parent, step = at, step.parent
        return at


class Uses:
    """The graph of uses of a function, in post order. link_params: constants are computed where they
    are used."""

    def __init__(self, func: Function, link_params: bool = False) -> None:
        self.link_params = link_params
        self.nodes: list[Node] = []
        self.by_id: dict[int, Node] = {}
        order = [n for n in post_order(func, lambda n: not _primitive(n)) if not isinstance(n, Op)]
        for expr in order:
            node = Node(expr, len(self.nodes))
            self.nodes.append(node)
            self.by_id[id(expr)] = node
        for node in self.nodes:
            self._connect(node)
        last = self.by_id[id(func)]
        last.outside = True

    def _connect(self, node: Node) -> None:
        expr = node.expr
        if isinstance(expr, Call) and isinstance(expr.op, Op):
            node.kind = kind_of(expr.op)
            for arg in expr.args:
                edge = node.kind
                if edge == BROADCAST and _same(arg, expr):
                    edge = ELEMENTWISE
                self._use(arg, node, edge)
        elif isinstance(expr, Tuple):
            node.kind = TUPLE
            for item in expr.fields:
                tensor = isinstance(item.checked_type_, TensorType)
                self._use(item, node if tensor else None, INJECTIVE)
        elif isinstance(expr, TupleGetItem):
            whole = expr.tuple_value.checked_type_
            tensors = isinstance(whole, TupleType) and all(
                isinstance(f, TensorType) for f in whole.fields
            )
            node.kind = INJECTIVE if tensors else OPAQUE
            self._use(expr.tuple_value, node if tensors else None, INJECTIVE)
        elif isinstance(expr, Constant):
            simple = expr.data.shape == () and str(expr.data.dtype) in _SCALARS
            node.kind = ELEMENTWISE if simple or self.link_params else OPAQUE
        else:
            self._opaque(node)

    def _opaque(self, node: Node) -> None:
        expr = node.expr
        for name in ("op", "args", "var", "value", "body", "cond", "true_branch", "false_branch"):
            value = getattr(expr, name, ())
            if isinstance(expr, Function) and (_primitive(expr) or name != "body"):
                continue
            for item in value if isinstance(value, tuple) else (value,):
                self._use(item, None, OPAQUE)

    def _use(self, child: Expr, user: Node | None, edge: int) -> None:
        node = self.by_id[id(child)]
        if user is None:
            node.outside = True
        else:
            node.outputs.append((user, edge))


def _primitive(node: Op | Expr) -> bool:
    return isinstance(node, Function) and bool(node.attrs.get("Primitive"))


def _same(arg: Expr, call: Call) -> bool:
    a, b = arg.checked_type_, call.checked_type_
    are_tensors = isinstance(a, TensorType) and isinstance(b, TensorType)
    if not are_tensors or len(a.shape) != len(b.shape):
        return False
    return same_type(a.replace(dtype=b.dtype), b) and all(isinstance(d, IntImm) for d in a.shape)


@dataclass(eq=False)
class Dominator:
    """The immediate post-dominator of a node, and the greatest kind of edge on the way to it."""

    node: Node
    parent: Dominator | None
    depth: int
    kind: int


def post_dominators(nodes: list[Node]) -> list[Dominator]:
    """One for each node."""
    tree: list[Any] = [None] * len(nodes)
    for node in reversed(nodes):
        parent, kind = _common(node, tree)
        tree[node.index] = Dominator(node, parent, parent.depth + 1 if parent else 1, kind)
    return tree


def _common(node: Node, tree: list[Any]) -> tuple[Dominator | None, int]:
    """The least common ancestor of all users, and the greatest kind on the way."""
    if node.outside or not node.outputs:
        return None, OPAQUE
    parent, kind = None, ELEMENTWISE
    for i, (user, edge) in enumerate(node.outputs):
        other = tree[user.index]
        kind = max(kind, edge)
        if i == 0:
            parent = other
            continue
        while parent is not other:
            if parent is None or other is None:
                return None, kind
            if parent.depth < other.depth:
                kind, other = max(kind, other.kind), other.parent
            elif other.depth < parent.depth:
                kind, parent = max(kind, parent.kind), parent.parent
            else:
                kind = max(kind, parent.kind, other.kind)
                parent, other = parent.parent, other.parent
    return parent, kind


class Partition:
    """The groups of a function's nodes. most: of one group; link_params: constants are nodes too."""

    def __init__(
        self, func: Function, level: int, most: int = 256, link_params: bool = False
    ) -> None:
        self.uses = Uses(func, link_params)
        self.most = most
        nodes = self.uses.nodes
        self.groups = [
            Group(n.expr, n.kind, anchor=n.expr if n.kind == FUSABLE else None) for n in nodes
        ]
        if level > 0:
            tree = post_dominators(nodes)
            for phase in range(3):
                for node in nodes:
                    self._fuse(node, tree[node.index], phase)

    def of(self, expr: Expr) -> Group:
        """The group of an expression."""
        return self.groups[self.uses.by_id[id(expr)].index].find()

    def _fuse(self, node: Node, dominator: Dominator, phase: int) -> None:
        group = self.groups[node.index]
        if group.kind == OPAQUE or dominator.parent is None:
            return
        sink = dominator.parent.node
        target = self.groups[sink.index]
        if phase == 2:
            if group.kind <= INJECTIVE and target.kind == TUPLE and target.find().kind != TUPLE:
                small = target.find().kind <= INJECTIVE
                if small and self._path(node, sink, lambda kind, last: kind <= INJECTIVE):
                    self._merge(node, sink)
            return
        if group.find() is target.find() or target.kind == TUPLE:
            return
        if self._allowed(group.kind, dominator, phase) is not None:
            if self._path(node, sink, self._allowed(group.kind, dominator, phase)):
                self._merge(node, sink)

    def _allowed(self, kind: int, dominator: Dominator, phase: int) -> Any:
        """What nodes on the way may be, as f(kind, whether it is the last); None: no fusion."""
        if kind == FUSABLE:
            if phase == 0 and dominator.kind == ELEMENTWISE:
                return lambda k, last: k <= BROADCAST
            return None
        if kind <= BROADCAST:
            if dominator.kind <= INJECTIVE or dominator.kind == REDUCTION:
                last_kinds = (ELEMENTWISE, BROADCAST, REDUCTION, INJECTIVE, FUSABLE)
                return lambda k, last: k in last_kinds if last else k <= INJECTIVE
            return None
        if kind in (INJECTIVE, TUPLE) and phase == 1:
            return lambda k, last: k <= INJECTIVE
        return None

    def _path(self, source: Node, sink: Node, allowed: Callable[[int, bool], bool]) -> bool:
        """Whether all nodes on the ways from `source` to `sink` are allowed."""
        seen: set[int] = set()
        waiting = [user for user, _ in source.outputs]
        while waiting:
            node = waiting.pop()
            if node.index in seen:
                continue
            seen.add(node.index)
            if not allowed(self.groups[node.index].find().kind, node is sink):
                return False
            if node is not sink:
                waiting += [user for user, _ in node.outputs]
        return True

    def _merge(self, source: Node, sink: Node) -> None:
        """All nodes on the ways from `source` to `sink` into the group of `sink`, if they are not too
        many."""
        target = self.groups[sink.index].find()
        targets = {sink.index: target}
        waiting = [source]
        while waiting:
            node = waiting.pop()
            if node.index not in targets:
                targets[node.index] = self.groups[node.index].find()
                waiting += [user for user, _ in node.outputs]
        groups = {id(group): group for group in targets.values()}
        if sum(group.count for group in groups.values()) <= self.most:
            for group in groups.values():
                self._join(group, target)

    def _join(self, child: Group, parent: Group) -> None:
        if child is parent:
            return
        parent.count += child.count
        child.parent = parent
        if child.anchor is not None:
            parent.anchor = child.anchor
            parent.kind = max(child.kind, parent.kind)
