"""The tags of tensor expressions: what kind of computation one is."""

from __future__ import annotations

ELEMWISE, BROADCAST, INJECTIVE = "elemwise", "broadcast", "injective"
COMM_REDUCE, COMM_REDUCE_IDX = "comm_reduce", "comm_reduce_idx"


def is_broadcast(tag: str) -> bool:
    """Whether a tag is of an elementwise or broadcasting computation."""
    return tag.startswith((ELEMWISE, BROADCAST))


def is_injective(tag: str) -> bool:
    """Whether a tag is of a computation that reads one element for each one."""
    return is_broadcast(tag) or tag.startswith(INJECTIVE)
