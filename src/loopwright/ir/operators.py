"""Python's operators on whole tensors, of te and of the graph, by the operators' names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Method = Callable[[Any, Any], Any]


def operator(name: str) -> tuple[Method, Method]:
    """The methods of an operator: of its left operand, and of its right one."""

    def of_left(self: Any, other: Any) -> Any:
        return self._binary(name, self, other)

    def of_right(self: Any, other: Any) -> Any:
        return self._binary(name, other, self)

    return of_left, of_right


class TensorOperators:
    """`a + b` is `self._binary("add", a, b)`; what that builds is the class's own."""

    __slots__ = ()

    def _binary(self, name: str, a: Any, b: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no operators")

    __add__, __radd__ = operator("add")
    __sub__, __rsub__ = operator("subtract")
    __mul__, __rmul__ = operator("multiply")
    __truediv__, __rtruediv__ = operator("divide")
    __floordiv__, __rfloordiv__ = operator("floor_divide")
    __mod__, __rmod__ = operator("mod")
    __pow__, __rpow__ = operator("power")
    __lt__, _ = operator("less")
    __le__, _ = operator("less_equal")
    __gt__, _ = operator("greater")
    __ge__, _ = operator("greater_equal")
