"""The planning problem: items with sizes and live ranges, pools with limits; placements; the
bound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Item:
    """Memory that is live from time `first` to time `last`, both inclusive.

    pools: the indices of the pools that it may be placed in, by preference.
    """

    name: str
    size: int
    first: int
    last: int
    alignment: int = 1
    pools: tuple[int, ...] = (0,)

    def meets(self, other: Item) -> bool:
        """Whether the two live ranges overlap."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Pool:
    """Memory of at most `limit` bytes (None: any) with a minimum alignment for its items."""

    name: str = "workspace"
    limit: int | None = None
    alignment: int = 1


@dataclass(frozen=True)
class Problem:
    """Items to place in pools.

    shared: pairs (a, b) of items that may start at the same byte although their live ranges
    overlap: b overwrites a element by element. They must not overlap in any other way.
    """

    items: tuple[Item, ...]
    pools: tuple[Pool, ...] = (Pool(),)
    shared: frozenset[tuple[int, int]] = frozenset()
    neighbours: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    partners: tuple[frozenset[int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        items = self.items
        partners: list[set[int]] = [set() for _ in items]
        for a, b in self.shared:
            partners[a].add(b)
            partners[b].add(a)
        met: list[list[int]] = [[] for _ in items]
        alive: list[int] = []
        for k in sorted(range(len(items)), key=lambda k: items[k].first):
            alive = [a for a in alive if items[a].last >= items[k].first]
            for a in alive:
                met[k].append(a)
                met[a].append(k)
            alive.append(k)
        object.__setattr__(self, "partners", tuple(map(frozenset, partners)))
        object.__setattr__(self, "neighbours", tuple(tuple(sorted(m)) for m in met))

    def alignment(self, k: int, pool: int) -> int:
        """The alignment of an item's offset in a pool."""
        return max(self.items[k].alignment, self.pools[pool].alignment)


@dataclass(frozen=True)
class Placement:
    """The place of each item: (pool, offset), or None if it fits nowhere."""

    places: tuple[tuple[int, int] | None, ...]
    bytes: tuple[int, ...]  # of each pool
    cost: tuple[int, int, int]  # unplaced bytes, bytes weighted by spill distance, all bytes

    @property
    def fits(self) -> bool:
        """Whether every item is placed."""
        return None not in self.places


def placement_of(problem: Problem, slots: Sequence[tuple[int, int] | None]) -> Placement:
    """The sizes of the pools and the cost of a placement (smaller is better)."""
    sizes = [0] * len(problem.pools)
    homeless = spilled = 0
    for item, slot in zip(problem.items, slots, strict=True):
        if slot is None:
            homeless += item.size
            continue
        pool, offset = slot
        sizes[pool] = max(sizes[pool], offset + item.size)
        spilled += item.size * item.pools.index(pool)
    return Placement(tuple(slots), tuple(sizes), (homeless, spilled, sum(sizes)))


def lower_bound(items: Iterable[Item], shared: Iterable[tuple[int, int]] = ()) -> int:
    """A lower bound on any plan: the greatest number of bytes live at one time.

    shared: as in `Problem`; if b starts over a, the smaller of the two is not counted.
    """
    listed = list(items)
    saved = [0] * len(listed)
    for a, b in shared:
        saved[b] = max(saved[b], min(listed[a].size, listed[b].size))
    # An item may be saved only while its partner is live: from its own start on.
    end = {b: max(listed[a].last for a, c in shared if c == b) for _, b in shared}
    change: dict[int, int] = {}
    for k, item in enumerate(listed):
        change[item.first] = change.get(item.first, 0) + item.size - saved[k]
        change[item.last + 1] = change.get(item.last + 1, 0) - item.size
        if saved[k]:
            change[end[k] + 1] = change.get(end[k] + 1, 0) + saved[k]
    most = now = 0
    for time in sorted(change):
        now += change[time]
        most = max(most, now)
    return most


def overlaps(problem: Problem, placement: Placement) -> list[tuple[int, int]]:
    """Pairs of items that overlap in memory and time: none, in a valid placement."""
    wrong = []
    for k, item in enumerate(problem.items):
        for other in problem.neighbours[k]:
            own, rival = placement.places[k], placement.places[other]
            if other < k or own is None or rival is None or own[0] != rival[0]:
                continue
            apart = (
                own[1] + item.size <= rival[1]
                or rival[1] + problem.items[other].size <= own[1]
                or not item.size
                or not problem.items[other].size
            )
            if not apart and not (other in problem.partners[k] and own[1] == rival[1]):
                wrong.append((k, other))
    return wrong
