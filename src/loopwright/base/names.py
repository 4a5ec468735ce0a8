"""Names that are free, and the name of this package in texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def free_name(hint: str, used: Container[str], join: str = "_") -> str:
    """`hint`, or with the first number that makes it free: add, add_1, add_2."""
    name, number = hint, 0
    while name in used:
        number += 1
        name = f"{hint}{join}{number}"
    return name


def as_identifier(name: str) -> str:
    """A name with underscores for all but letters, digits and underscores: fc1.weight is
    fc1_weight."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def named(function: F, name: str, doc: str | None = None) -> F:
    """A function that another one made, under its own name."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


class Served:
    """The name by which scripts import this package; printed programs have it in their header."""

    name = __name__.partition(".")[0]
