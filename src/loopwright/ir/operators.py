"""Python's operators on whole tensors, of te and of the graph, by the operators' names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .node import Node


class TensorOperators:
    """`a + b` is `self._binary("add", a, b)`; what that builds is the class's own."""

    __slots__ = ()

    def _binary(self, name: str, a: Any, b: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no operators")

    def __add__(self, other: object) -> Any:
        return self._binary("add", self, other)

    def __radd__(self, other: Node | float) -> Any:
        return self._binary("add", other, self)

    def __sub__(self, other: object) -> Any:
        return self._binary("subtract", self, other)

    def __rsub__(self, other: float) -> Any:
        return self._binary("subtract", other, self)

    def __mul__(self, other: object) -> Any:
        return self._binary("multiply", self, other)

    def __rmul__(self, other: Node | float) -> Any:
        return self._binary("multiply", other, self)

    def __truediv__(self, other: object) -> Any:
        return self._binary("divide", self, other)

    def __rtruediv__(self, other: float) -> Any:
        return self._binary("divide", other, self)

    def __floordiv__(self, other: Node | float) -> Any:
        return self._binary("floor_divide", self, other)

    def __rfloordiv__(self, other: float) -> Any:
        return self._binary("floor_divide", other, self)

    def __mod__(self, other: Node | float) -> Any:
        return self._binary("mod", self, other)

    def __rmod__(self, other: float) -> Any:
        return self._binary("mod", other, self)

    def __pow__(self, other: Node | float) -> Any:
        return self._binary("power", self, other)

    def __rpow__(self, other: float) -> Any:
        return self._binary("power", other, self)

    def __lt__(self, other: Node) -> Any:
        return self._binary("less", self, other)

    def __le__(self, other: Node) -> Any:
        return self._binary("less_equal", self, other)

    def __gt__(self, other: Node) -> Any:
        return self._binary("greater", self, other)

    def __ge__(self, other: Node) -> Any:
        return self._binary("greater_equal", self, other)
