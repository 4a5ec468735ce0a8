"""The matcher's plan: the parts of a pattern that also occur elsewhere in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..relations import tir_vars_in_struct_info
from .nodes import DFPattern, StructInfoPattern, topological


class Plan:
    """The open patterns of each non-leaf pattern below some roots."""

    def __init__(self, roots: Sequence[DFPattern]) -> None:
        self.open = _open_patterns(topological(roots), roots)


def plan_of(pattern: DFPattern) -> Plan:
    """The plan of a pattern, computed once."""
    plan = getattr(pattern, "_plan", None)
    if plan is None:
        plan = pattern._plan = Plan([pattern])
    return plan


def _open_patterns(
    order: list[DFPattern], roots: Sequence[DFPattern]
) -> dict[DFPattern, tuple[Any, ...]]:
    """For each pattern, the inner patterns reachable without it (that it does not dominate)."""
    # Immediate dominators, computed in topological order; None is the common root.
    above: dict[Any, Any] = dict.fromkeys(roots)
    depth: dict[Any, int] = {None: 0}
    for pattern in order:
        depth[pattern] = depth[above[pattern]] + 1
        for part in pattern.parts():
            owner = above.get(part, part)
            above[part] = pattern if owner is part else _meet(owner, pattern, above, depth)
    below: dict[Any, list[DFPattern]] = {}
    for pattern, dominator in above.items():
        below.setdefault(dominator, []).append(pattern)
    first, last = _intervals(below)
    open_below: dict[DFPattern, dict[Any, None]] = {}
    for pattern in reversed(order):
        open_here: dict[Any, None] = {}
        for part in pattern.parts():
            for inner in (part, *open_below[part]):
                inside = inner in first and first[pattern] < first[inner] <= last[pattern]
                if not inside:
                    open_here[inner] = None
        if isinstance(pattern, StructInfoPattern):
            open_here.update(dict.fromkeys(tir_vars_in_struct_info(pattern.struct_info)))
        open_below[pattern] = open_here
    return {p: tuple(inner) for p, inner in open_below.items() if p.parts()}


def _intervals(below: dict[Any, list[DFPattern]]) -> tuple[dict[Any, int], dict[Any, int]]:
    """For a tree rooted at None: the preorder number of each node, and the last number below it."""
    first: dict[Any, int] = {}
    last: dict[Any, int] = {}
    work: list[tuple[Any, bool]] = [(None, False)]
    while work:
        node, left = work.pop()
        if left:
            last[node] = len(first) - 1
            continue
        first[node] = len(first)
        work.append((node, True))
        work += [(inner, False) for inner in below.get(node, ())]
    return first, last


def _meet(a: DFPattern | None, b: DFPattern, above: dict[Any, Any], depth: dict[Any, int]) -> Any:
    while a is not b:
        if depth[a] >= depth[b]:
            a = above[a]
        else:
            b = above[b]
    return a
