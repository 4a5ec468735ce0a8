"""The groups and colours of a model's nodes.

Groups are the scopes of the nodes' names; where a scope has too many parts to look at, blocks that
repeat in it are found by their operators. Colours are numbers, of which the page makes hues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..ir.trace import ModelNode

MOST = 24  # parts of a group, before blocks are looked for in it
_PERIOD, _TWICE = 100, 20  # parts of a block that repeats, and of one that only does so once
_RANGE = 12  # parts of a range, where nothing repeats
_FEWEST = 4  # parts that are worth a group
HUES = 12


class Group(NamedTuple):
    """Nodes under one name; `parts` are groups, and the numbers of nodes."""

    name: str
    parts: list[Group | int]


def grouped(nodes: Sequence[ModelNode], to: Sequence[Sequence[int]]) -> list[Group | int]:
    """The groups of a model. nodes: in the order of the file; to: the numbers of each node's readers."""
    groups = _Groups(nodes, to)
    return [groups.folded(part) for part in groups.split(groups.scopes())]


def label_of(node: ModelNode) -> str:
    """The last part of a node's name."""
    return node.name.removeprefix("onnx:").rstrip("/").rpartition("/")[2] or node.op


class _Groups:
    def __init__(self, nodes: Sequence[ModelNode], to: Sequence[Sequence[int]]) -> None:
        self.nodes = nodes
        self.to = to

    def scopes(self) -> list[Group | int]:
        """Groups by the parts of names before "/", in order of their first node."""
        root = Group("", [])
        at: dict[tuple[str, ...], Group] = {(): root}
        for k, node in enumerate(self.nodes):
            path = tuple(filter(None, node.name.removeprefix("onnx:").split("/")))[:-1]
            for depth in range(1, len(path) + 1):
                if path[:depth] not in at:
                    at[path[:depth]] = Group(path[depth - 1], [])
                    at[path[: depth - 1]].parts.append(at[path[:depth]])
            at[path].parts.append(k)
        return root.parts

    def folded(self, part: Group | int) -> Group | int:
        """A group of which the names of only children are joined, and large levels are split."""
        if isinstance(part, int):
            return part
        name, parts = part
        while len(parts) == 1 and isinstance(parts[0], Group):
            name, parts = f"{name}/{parts[0].name}", parts[0].parts
        return Group(name, [self.folded(inner) for inner in self.split(parts)])

    def split(self, parts: list[Group | int]) -> list[Group | int]:
        """The parts of one level, with blocks that repeat as groups of their own, and ranges of the
        parts that remain."""
        if len(parts) <= MOST:
            return parts
        symbols = [self.symbol(part) for part in parts]
        if len(set(symbols)) == 1:
            return self.ranges(parts)
        fixed = [p for p in parts if isinstance(p, int) and self.nodes[p].op == "Constant"]
        if len(fixed) > 1:  # they are read here and there, and repeat nothing
            others = [p for p in parts if isinstance(p, Group) or self.nodes[p].op != "Constant"]
            return [Group("constants", [*fixed]), *self.split(others)]
        crossings = self.crossings(parts)
        parted: list[Group | int] = []
        for start, period, count in _repeats(symbols, crossings):
            if count == 1:
                parted += self.ranges(parts[start : start + period])
                continue
            ops = self.operators(parts[start : start + period])
            if period == 1:
                parted.append(Group(f"{count} × {ops}", parts[start : start + count]))
                continue
            blocks: list[Group | int] = [
                Group(f"{ops} {k + 1}/{count}", parts[start + k * period :][:period])
                for k in range(count)
            ]
            parted.append(Group(f"{count} × {ops}", blocks))
        return self.ranges(parted) if len(parted) > 3 * MOST else parted

    def ranges(self, parts: list[Group | int]) -> list[Group | int]:
        """Parts in which nothing repeats; many of them as ranges by the names of their ends."""
        if len(parts) <= _RANGE:
            return parts
        size = -(-len(parts) // min(MOST, -(-len(parts) // _RANGE)))
        some = [parts[k : k + size] for k in range(0, len(parts), size)]
        return [Group(f"{self.name(p[0])} … {self.name(p[-1])}", p) for p in some]

    def name(self, part: Group | int) -> str:
        return part.name if isinstance(part, Group) else label_of(self.nodes[part])

    def symbol(self, part: Group | int) -> str:
        """The operators of a part, which are equal in parts of equal structure."""
        return " ".join(self.nodes[k].op for k in members(part))

    def operators(self, parts: list[Group | int]) -> str:
        """The most frequent operators of a block, in order: "Conv, Relu, Add"."""
        ops = [self.nodes[k].op.rpartition(".")[2] for part in parts for k in members(part)]
        among = {op for op, _ in Counter(ops).most_common(3)}
        return ", ".join(op for op in dict.fromkeys(ops) if op in among)

    def crossings(self, parts: list[Group | int]) -> list[int]:
        """The number of values that are made before each part and read in it or after it."""
        part_of = {k: p for p, part in enumerate(parts) for k in members(part)}
        starts, ends = Counter[int](), Counter[int]()
        for k, p in part_of.items():
            last = max((part_of.get(reader, p) for reader in self.to[k]), default=p)
            starts[p + 1] += last > p
            ends[last + 1] += last > p
        counts, live = [], 0
        for p in range(len(parts)):
            live += starts[p] - ends[p]
            counts.append(live)
        return counts


def members(part: Group | int) -> Iterator[int]:
    """The numbers of the nodes in a group."""
    if isinstance(part, int):
        yield part
    else:
        for inner in part.parts:
            yield from members(inner)


def _repeats(symbols: list[str], crossings: list[int]) -> list[tuple[int, int, int]]:
    """(start, period, count) of contiguous runs that cover all symbols: those that repeat, the longest
    found first, and with a count of 1 those between them. A run begins where fewest values cross."""
    best = (0, 0, 0, 0)  # symbols covered, start, period, count
    for period in range(1, min(_PERIOD, len(symbols) // 2) + 1):
        run = 0
        for k in range(len(symbols) - period + 1):
            if k < len(symbols) - period and symbols[k] == symbols[k + period]:
                run += 1
                continue
            count = run // period + 1
            enough = count > 2 if period > _TWICE else count > 1 if period > 1 else count > 3
            if enough and count * period > best[0]:
                starts = range(k - run, k - run + run % period + 1)
                start = min(starts, key=lambda at: crossings[at + period])
                best = (count * period, start, period, count)
            run = 0
    covered, start, period, count = best
    if covered < _FEWEST:
        return [(0, len(symbols), 1)] if symbols else []
    end = start + covered
    before = _repeats(symbols[:start], crossings[:start])
    after = _repeats(symbols[end:], crossings[end:])
    return [*before, (start, period, count), *((end + at, p, n) for at, p, n in after)]


def hues(count: int, together: Iterable[Iterable[int]]) -> list[int]:
    """A colour, 0 to 11, for each node: nodes that are seen together (in a kernel, on an edge) get
    different ones as long as there are some, the next after that of the node before."""
    near: list[set[int]] = [set() for _ in range(count)]
    for members in together:
        for k in (some := list(members)[:HUES]):
            near[k].update(some)
    colours: list[int] = []
    for k in range(count):
        used = {colours[other] for other in near[k] if other < k}
        order = [(k + step) % HUES for step in range(HUES)]
        colours.append(next((hue for hue in order if hue not in used), order[0]))
    return colours
