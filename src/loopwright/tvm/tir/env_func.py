"""Functions of the runtime's registry as nodes, which attributes hold by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.node import Node
from ...runtime.packed_func import get_global_func


class EnvFunc(Node):
    """The function that is registered under a name; one that is loaded again is looked up again."""

    name: str

    @staticmethod
    def get(name: str) -> EnvFunc:
        """The function of a name. Raises ValueError where none is registered."""
        get_global_func(name)
        return EnvFunc(name)

    @property
    def func(self) -> Callable[..., Any]:
        """The function itself. Raises ValueError where none is registered any more."""
        return get_global_func(self.name)

    def __call__(self, *args: Sequence[Any]) -> Any:
        return self.func(*args)
