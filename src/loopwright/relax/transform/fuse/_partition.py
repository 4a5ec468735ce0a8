"""Partitions a dataflow graph into groups: fusion along post-dominators.

A node may be fused with its immediate post-dominator (the first node that all paths from it pass
through) if the kinds on all paths between them allow it. The method is that of
Chen et al., "TVM: An Automated End-to-End Optimizing Compiler for Deep Learning" (OSDI 2018),
section 3, with post-dominators computed as lowest common ancestors.
"""

from __future__ import annotations

from collections.abc import Callable

from ....tir.analysis.op_pattern import OpPattern

_BROADCAST, _INJECTIVE = OpPattern.BROADCAST, OpPattern.INJECTIVE
_REDUCE, _FUSABLE = OpPattern.COMM_REDUCE, OpPattern.OUT_EWISE_FUSABLE
_TUPLE, _OPAQUE = OpPattern.TUPLE, OpPattern.OPAQUE

Condition = Callable[[int, bool], bool]


class Graph:
    """Numbered nodes, in topological order. `kinds`: each node's fusion kind;
    `users`: (user, kind of the edge); `escapes`: nodes whose value is used outside; `targets`: the
    targets of nodes ("": any); nodes with different targets do not share a group; `gathers`: see
    `op_pattern.gathers`."""

    def __init__(self) -> None:
        self.kinds: list[int] = []
        self.users: list[list[tuple[int, int]]] = []
        self.escapes: list[bool] = []
        self.targets: list[str] = []
        self.gathers: list[int] = []

    def add(self, escapes: bool) -> int:
        """Add a node, opaque until its kind is set; return its number."""
        self.kinds.append(_OPAQUE)
        self.users.append([])
        self.escapes.append(escapes)
        self.targets.append("")
        self.gathers.append(0)
        return len(self.kinds) - 1


class Partition:
    """Groups of nodes (a disjoint-set forest). After `run`, `root(n)` is n's group, and
    `why[n]` is the reason why n was not fused with its users."""

    def __init__(self, graph: Graph, max_depth: int) -> None:
        count = len(graph.kinds)
        self.graph = graph
        self.max_depth = max_depth
        self.parent = list(range(count))
        self.kind = list(graph.kinds)
        self.target = list(graph.targets)
        self.size = [1] * count
        self.why: dict[int, str] = {}
        self.dominator: list[int] = [-1] * count
        self.dominator_kind: list[int] = [_OPAQUE] * count
        self.depth: list[int] = [1] * count
        self._find_dominators()
        self.stored = self._gathered_again()

    # ------------------------------------------------------------------ dominators

    def _find_dominators(self) -> None:
        for node in reversed(range(len(self.parent))):
            users = self.graph.users[node]
            if self.graph.escapes[node] or not users:
                continue
            common, kind = users[0]
            for user, edge in users[1:]:
                common, on_path = self._common(common, user)
                kind = max(kind, edge, on_path)
                if common < 0:
                    break
            self.dominator[node] = common
            self.dominator_kind[node] = kind if common >= 0 else _OPAQUE
            self.depth[node] = 1 if common < 0 else self.depth[common] + 1

    def _common(self, a: int, b: int) -> tuple[int, int]:
        """The lowest common ancestor in the dominator tree (-1: none), and the most complex
        edge on the way."""
        kind = 0
        while a != b:
            if a < 0 or b < 0:
                return -1, _OPAQUE
            if self.depth[a] > self.depth[b]:
                a, b = b, a
            kind = max(kind, self.dominator_kind[b])
            b = self.dominator[b]
        return a, kind

    def _gathered_again(self) -> set[int]:
        """The nodes that gather, with what would be fused into them, and that several gathers read: each
        would gather again (of both axes of an image, 2 * 2 elements instead of 2 + 2). Where all are
        contiguous this costs less than to store them."""
        graph, stored = self.graph, set()
        within = list(graph.gathers)
        for node, users in enumerate(graph.users):
            readers = [graph.gathers[user] for user, _ in users]
            if len(readers) > 1 and within[node] and all(readers):
                if max(within[node], *readers) > 1:
                    stored.add(node)
                    continue
            for user, _ in users:
                if max(graph.kinds[node], graph.kinds[user]) <= _INJECTIVE:
                    within[user] = max(within[user], within[node])
        return stored

    # ------------------------------------------------------------------ groups

    def root(self, node: int) -> int:
        """The group of a node."""
        while self.parent[node] != node:
            self.parent[node] = self.parent[self.parent[node]]
            node = self.parent[node]
        return node

    def _merge(self, child: int, into: int) -> None:
        child, into = self.root(child), self.root(into)
        if child != into:
            self.parent[child] = into
            self.size[into] += self.size[child]
            self.kind[into] = max(self.kind[into], self.kind[child])
            self.target[into] = self.target[into] or self.target[child]

    def _between(self, source: int, sink: int) -> list[int]:
        """The nodes on the paths from source to sink, both included."""
        seen, stack = {source}, [source]
        while stack:
            for user, _ in self.graph.users[stack.pop()]:
                if user not in seen:
                    seen.add(user)
                    if user != sink:
                        stack.append(user)
        return sorted(seen)

    def _allowed(self, source: int, sink: int, condition: Condition) -> list[int] | None:
        """The nodes between, if the kinds of their groups meet the condition, else None."""
        nodes = self._between(source, sink)
        for node in nodes:
            if node != sink and node in self.stored:
                return None
            if node != source and not condition(self.kind[self.root(node)], node == sink):
                return None
        return nodes

    # ------------------------------------------------------------------ the algorithm

    def run(self) -> None:
        """Fuse in two phases: reductions with elementwise epilogues, and elementwise chains;
        injective chains."""
        for phase in range(2):
            for node in range(len(self.parent)):
                self._try(node, phase)

    def _try(self, node: int, phase: int) -> None:
        kind = self.kind[node]
        if kind == _OPAQUE:
            self.why[node] = "opaque"
            return
        sink = self.dominator[node]
        if sink < 0:
            why = "is a result" if self.graph.escapes[node] else "its users do not meet again"
            self.why.setdefault(node, why)
            return
        if self.root(node) == self.root(sink) or self.kind[sink] == _TUPLE:
            return
        edge = self.dominator_kind[node]
        if kind == _FUSABLE:
            fits = phase == 0 and edge == OpPattern.ELEMWISE
            condition: Condition = _all_broadcast
        elif kind <= _BROADCAST:
            fits = edge <= _INJECTIVE or edge == _REDUCE
            condition = _elementwise_into
        elif kind in (_INJECTIVE, _TUPLE):
            fits, condition = phase == 1, _all_injective
        else:
            fits, condition = False, _all_injective
        if not fits:
            if phase == 0 or kind in (_INJECTIVE, _TUPLE):
                self.why[node] = f"{_name(kind)} cannot be fused with {_name(edge)} use"
            return
        nodes = self._allowed(node, sink, condition)
        if nodes is None:
            again = node in self.stored
            self.why[node] = (
                "each of its users would gather its elements again"
                if again
                else f"the part after {_name(kind)} is too complex"
            )
            return
        self._commit(node, sink, nodes)

    def _commit(self, node: int, sink: int, nodes: list[int]) -> None:
        groups = {self.root(n) for n in nodes}
        if sum(self.size[g] for g in groups) > self.max_depth:
            self.why[node] = f"the group would have more than {self.max_depth} operators"
            return
        if len({self.target[g] for g in groups} - {""}) > 1:
            self.why[node] = "its users are for another target"
            return
        self.why.pop(node, None)
        for between in nodes:
            if between != sink:
                self._merge(between, sink)


def _name(kind: int) -> str:
    name = OpPattern(kind).name.lower().replace("_", " ")
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _all_broadcast(kind: int, is_sink: bool) -> bool:
    return kind <= _BROADCAST


def _all_injective(kind: int, is_sink: bool) -> bool:
    return kind <= _INJECTIVE


def _elementwise_into(kind: int, is_sink: bool) -> bool:
    return kind <= (_FUSABLE if is_sink else _INJECTIVE)
