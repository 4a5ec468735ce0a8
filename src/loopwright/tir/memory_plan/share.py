"""Sharing whole allocations: assigns items with disjoint live ranges to one piece of memory.

If offsets are known at compile time, `place` packs tighter. Here pieces are not divided, so sizes
may be symbolic, and each piece may come from an allocator.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from .problem import Item


@dataclass
class _Free:
    """Free pieces by size; among those of one size, the first freed comes first."""

    sizes: list[int] = field(default_factory=list)
    pieces: list[int] = field(default_factory=list)

    def take(self, size: int, window: int | None) -> int | None:
        """The smallest piece that is large enough, else the largest smaller one."""
        at = bisect_left(self.sizes, size)
        if at == bisect_right(self.sizes, size * window if window else float("inf")):
            if at == bisect_left(self.sizes, size // window if window else 0):
                return None
            at -= 1
        self.sizes.pop(at)
        return self.pieces.pop(at)

    def give(self, piece: int, size: int) -> None:
        at = bisect_right(self.sizes, size)
        self.sizes.insert(at, size)
        self.pieces.insert(at, piece)


def share(items: Sequence[Item], kinds: Sequence[Hashable], window: int | None = None) -> list[int]:
    """The index of the piece that each item gets; a piece is as large as the largest of its items.

    kinds: only items of the same kind share. A symbolic size is part of the kind; the item has size
    0.
    window: a piece is not reused for sizes that differ by more than this factor.
    """
    chosen = [0] * len(items)
    sizes: list[int] = []
    free: dict[Hashable, _Free] = {}
    alive: list[tuple[int, int, int]] = []  # last use, order of allocation, item
    for n, k in enumerate(sorted(range(len(items)), key=lambda k: items[k].first)):
        while alive and alive[0][0] < items[k].first:
            ended = heappop(alive)[2]
            free.setdefault(kinds[ended], _Free()).give(chosen[ended], sizes[chosen[ended]])
        size = items[k].size
        piece = free[kinds[k]].take(size, window) if kinds[k] in free else None
        if piece is None:
            piece = len(sizes)
            sizes.append(0)
        chosen[k] = piece
        sizes[piece] = max(sizes[piece], size)
        heappush(alive, (items[k].last, n, k))
    return chosen
