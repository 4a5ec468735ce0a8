"""How a compiled function is called: one description from the graph to the loaded library.

The graph's lowering and the driver write a `Signature`, the code generators emit entries from it, the
exporter and the cache store it, executables and loaded libraries answer from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from .tensor import Tensor

_TYPED = re.compile(r"\bT\.int(?:32|64)\((-?\d+)\)")  # a number in the text of an expression


@dataclass(frozen=True)
class Argument:
    """An argument or result of a function; a scalar where `dims` is absent (None).

    A dimension is a number or an expression of the signature's symbols; where it is stored or shown,
    the expression's text. over: of a result the parameter whose memory may be its own, by number.
    """

    name: str
    dtype: str
    dims: tuple[Any, ...] | None = None
    over: int = -1

    @property
    def is_tensor(self) -> bool:
        """Whether it is passed as a tensor. One without dimensions is a tensor, too."""
        return self.dims is not None

    def plain(self) -> Argument:
        """The same with numbers and texts as dimensions."""
        return (
            self if self.dims is None else Argument(self.name, self.dtype, self.shape(), self.over)
        )

    def shape(self) -> tuple[int | str, ...]:
        """The dimensions as numbers and texts such as "n * 2"; () for a scalar."""
        dims = map(number, self.dims or ())
        return tuple(d if isinstance(d, int) else _TYPED.sub(r"\1", str(d)) for d in dims)

    def __str__(self) -> str:
        dims = f"[{', '.join(map(str, self.shape()))}]" if self.is_tensor else ""
        return f"{self.name} {self.dtype}{dims}"

    def described(self) -> tuple[str, str, tuple[int | str, ...]]:
        """(name, dtype, shape)"""
        return self.name, self.dtype, self.shape()


@dataclass(frozen=True)
class Signature:
    """Parameters and results of a function in order.

    symbols: the variables that the parameters' shapes bind.
    tree: how results are nested: numbers of them in lists; None where there is one tensor at most.
    """

    params: tuple[Argument, ...]
    results: tuple[Argument, ...] = ()
    symbols: tuple[Any, ...] = ()
    tree: Any = None

    def plain(self) -> Signature:
        """The same with numbers and texts as dimensions, which JSON can hold."""
        params, results = (tuple(a.plain() for a in part) for part in (self.params, self.results))
        return Signature(params, results, (), self.tree)

    def named(self, params: Sequence[str], results: Sequence[str]) -> Signature:
        """The same with other names of parameters and results."""
        inputs = (replace(a, name=n) for a, n in zip(self.params, params, strict=True))
        outputs = (replace(a, name=n) for a, n in zip(self.results, results, strict=True))
        return Signature(tuple(inputs), tuple(outputs), self.symbols, self.tree)

    def leaves(
        self, value: Tensor | np.ndarray | Sequence[Tensor | Sequence[Tensor | Mapping[Any, Any]]]
    ) -> list[Any]:
        """The results of a call, one value for each of `results`: a sequence that is one result
        stays whole. Raises ValueError where it is nested in another way than `tree`."""
        if self.tree is None and len(self.results) > 1:
            return list(value)
        return _opened(value, self.tree)

    def text(self, function: str, most: int = 4) -> str:
        """A function of this signature in one line: main(x float32[n, 8]) -> out float32[n, 4]"""
        results = f" -> {few(self.results, most)}" if self.results else ""
        return f"{function}({few(self.params, most)}){results}"

    def as_lists(self) -> dict[str, Any]:
        """The fields as lists: of an argument [name, dtype], dimensions where it is a tensor, and `over` where it
        is set."""
        lists: dict[str, Any] = {
            "params": [_as_list(p) for p in self.params],
            "results": [_as_list(r) for r in self.results],
            "symbols": list(self.symbols),
        }
        return lists if self.tree is None else {**lists, "tree": self.tree}

    @staticmethod
    def from_lists(lists: Any) -> Signature:
        """The signature for which `as_lists` returns these lists."""
        params, results = (
            tuple(Argument(*a[:2], *(tuple(d) for d in a[2:3]), *a[3:]) for a in lists[kind])
            for kind in ("params", "results")
        )
        return Signature(params, results, tuple(lists["symbols"]), lists.get("tree"))


def _opened(
    value: Tensor | np.ndarray | Sequence[Any], tree: int | Sequence[int] | None
) -> list[Any]:
    if not isinstance(tree, list):
        return [value]
    if len(tree) == 1 and not isinstance(value, (list, tuple)):
        value = [value]  # native code returns the one tensor of a tuple
    return [leaf for part, at in zip(value, tree, strict=True) for leaf in _opened(part, at)]


def few(items: Iterable[object], most: int = 4) -> str:
    """The first items as a text, and how many more there are."""
    texts = [str(item) for item in items]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def number(dim: object) -> Any:
    """A constant expression's number; else the dimension itself."""
    value = getattr(dim, "value", dim)
    return value if isinstance(value, int) else dim


def _as_list(argument: Argument) -> list[Any]:
    dims = [] if argument.dims is None else [[number(d) for d in argument.dims]]
    over = [argument.over] if argument.over >= 0 else []
    return [argument.name, argument.dtype, *dims, *over]
