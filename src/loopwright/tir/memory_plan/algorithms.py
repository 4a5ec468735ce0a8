"""Placing items in pools: greedily in an order, and by hill climbing over orders.

The greedy step puts an item at the lowest offset that is free during its live range, in the first
of its pools that it fits. Orders: by size, by the bytes of conflicting items
(as in Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference",
arXiv:2001.03288). Hill climbing moves the items that reach the top of a pool, and their conflicts,
forward in the order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ...base.errors import explain, suggest
from .problem import Placement, Problem, lower_bound, placement_of

STEPS = 300  # of hill climbing
WORK = 2_000_000  # limit on conflicts examined, so that large problems take seconds
SEEDS = 3  # that `best` climbs from


def place_in_order(problem: Problem, order: Sequence[int]) -> Placement:
    """Place each item of an order at the lowest free offset."""
    slots: list[tuple[int, int] | None] = [None] * len(problem.items)
    for k in order:
        for pool in problem.items[k].pools:
            offset = _lowest(problem, k, pool, slots)
            if offset is not None:
                slots[k] = (pool, offset)
                break
    return placement_of(problem, slots)


def _lowest(
    problem: Problem, k: int, pool: int, slots: Sequence[tuple[int, int] | None]
) -> int | None:
    """The lowest offset in a pool at which an item fits between those already placed."""
    item, partners = problem.items[k], problem.partners[k]
    used, over = [], []
    for other in problem.neighbours[k]:
        slot = slots[other]
        if slot is not None and slot[0] == pool and problem.items[other].size:
            used.append((slot[1], slot[1] + problem.items[other].size, slot[1], other))
            if other in partners:
                over.append(slot[1])
    used.sort()
    align = problem.alignment(k, pool)
    best = 0
    for begin, end, _, _ in used:
        if begin >= best + item.size:
            break
        if end > best:
            best = -(-end // align) * align
    for offset in over:  # over a partner, if nothing else conflicts
        if offset % align == 0:
            clear = (
                end <= offset
                or begin >= offset + item.size
                or (other in partners and begin == offset)
                for begin, end, _, other in used
            )
            if all(clear):
                best = min(best, offset)
    limit = problem.pools[pool].limit
    return best if limit is None or best + item.size <= limit else None


def greedy_by_size(problem: Problem) -> Placement:
    """The largest items first."""
    return place_in_order(problem, order_by_size(problem))


def greedy_by_conflicts(problem: Problem) -> Placement:
    """The items with the most conflicting bytes first."""
    return place_in_order(problem, order_by_conflicts(problem))


def order_by_size(problem: Problem) -> list[int]:
    """Item indices by decreasing size, then by decreasing lifetime."""
    items = problem.items
    span = [i.last - i.first for i in items]
    return sorted(range(len(items)), key=lambda k: (-items[k].size, -span[k], items[k].first, k))


def order_by_conflicts(problem: Problem) -> list[int]:
    """Item indices by decreasing bytes of conflicting items."""
    items = problem.items
    weight = [sum(items[n].size for n in (k, *problem.neighbours[k])) for k in range(len(items))]
    return sorted(range(len(items)), key=lambda k: (-weight[k], -items[k].size, items[k].first, k))


def hill_climb(problem: Problem, steps: int = STEPS, seed: int = 0) -> Placement:
    """The better of the greedy orders, improved by `steps` changes that do not increase the
    cost."""
    starts = [order_by_size(problem), order_by_conflicts(problem)]
    placements = [(place_in_order(problem, o), o) for o in starts]
    least, order = min(placements, key=lambda m: m[0].cost)
    goal = _goal(problem)
    chance = random.Random(seed)
    current = least
    work = sum(1 + len(n) for n in problem.neighbours)
    for _ in range(min(steps, max(WORK // max(work, 1), 10))):
        if least.cost <= goal:
            break
        trial = _changed(problem, order, current, chance)
        placement = place_in_order(problem, trial)
        if placement.cost <= current.cost:
            order, current = trial, placement
            if placement.cost < least.cost:
                least = placement
    return least


def _goal(problem: Problem) -> tuple[int, int, int]:
    """A lower bound of the cost."""
    return (0, 0, lower_bound(problem.items, problem.shared))


def _changed(
    problem: Problem, order: list[int], placement: Placement, chance: random.Random
) -> list[int]:
    """Another order: an item at the top, or one that conflicts with it, is placed earlier."""
    critical = [k for k, slot in enumerate(placement.places) if _at_the_top(problem, placement, k)]
    top = chance.choice(critical)
    chosen = top
    if problem.neighbours[top] and chance.random() < 0.6:
        chosen = chance.choice(problem.neighbours[top])
    changed = list(order)
    here = changed.index(chosen)
    changed.insert(chance.randrange(here + 1), changed.pop(here))
    return changed


def _at_the_top(problem: Problem, placement: Placement, k: int) -> bool:
    """Whether an item determines the cost: unplaced, spilled, or at the end of its pool."""
    slot = placement.places[k]
    if slot is None or problem.items[k].pools[0] != slot[0]:
        return True
    return slot[1] + problem.items[k].size == placement.bytes[slot[0]]


def best(problem: Problem) -> Placement:
    """The best of all algorithms; hill climbing, from several seeds, only if it may help."""
    goal = _goal(problem)
    least = min(greedy_by_size(problem), greedy_by_conflicts(problem), key=lambda p: p.cost)
    for seed in range(SEEDS):
        if least.cost <= goal:
            break
        least = min(least, hill_climb(problem, seed=seed), key=lambda p: p.cost)
    return least


ALGORITHMS: dict[str, Callable[[Problem], Placement]] = {
    "greedy_by_size": greedy_by_size,
    "greedy_by_conflicts": greedy_by_conflicts,
    "hill_climb": hill_climb,
    "best": best,
}


def place(problem: Problem, algorithm: str = "best") -> Placement:
    """Place the items of a problem. Raises ValueError for an unknown algorithm."""
    if algorithm not in ALGORITHMS:
        what = "unknown algorithm of the memory planner"
        raise ValueError(explain(what, got=algorithm, instead=suggest(algorithm, ALGORITHMS)))
    return ALGORITHMS[algorithm](problem)
