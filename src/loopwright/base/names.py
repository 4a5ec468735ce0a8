"""Names that are free."""

from __future__ import annotations

from collections.abc import Container


def free_name(wanted: str, taken: Container[str], join: str = "_") -> str:
    """`wanted`, where it is taken with the first number that makes it free: add, add_1, add_2."""
    name, number = wanted, 0
    while name in taken:
        number += 1
        name = f"{wanted}{join}{number}"
    return name


__all__ = ["free_name"]
