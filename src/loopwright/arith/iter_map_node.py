"""The nodes of iteration maps, see `iter_affine_map`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from ..ir import prim_op as po
from ..ir.node import Node, as_tuple, field
from ..ir.prim_expr import PrimExpr, ScalarLike


class IterMapLevel(IntEnum):
    """Requirements on a map. Bijective: every iterator is used in full. Surjective: the indices
    cover their ranges. NoCheck: only the form."""

    Bijective = 0
    Surjective = 1
    Injective = 2
    NoCheck = 3

    @staticmethod
    def from_str(name: str) -> IterMapLevel:
        """The level of that name, in any case."""
        for level in IterMapLevel:
            if level.name.lower() == name.lower():
                return level
        raise ValueError(f"unknown level {name!r}; use one of {[x.name for x in IterMapLevel]}")


class IterMapExpr(PrimExpr):
    """Base class of the expressions of iteration maps."""


class IterMark(Node):
    """An iterator from 0 to `extent`: an expression of one loop variable, or a fusion."""

    source: PrimExpr
    extent: PrimExpr


class IterSplitExpr(IterMapExpr):
    """scale * ((source // lower_factor) % extent)"""

    source: IterMark
    lower_factor: PrimExpr
    extent: PrimExpr
    scale: PrimExpr

    def __init__(
        self,
        source: IterMark,
        lower_factor: ScalarLike | None = None,
        extent: ScalarLike | None = None,
        scale: ScalarLike | None = None,
        span: Any = None,
    ) -> None:
        one = po.const(1, source.source.dtype)
        self._set(
            source,
            one if lower_factor is None else po.convert(lower_factor),
            source.extent if extent is None else po.convert(extent),
            one if scale is None else po.convert(scale),
            span,
        )

    def _derive(self) -> None:
        self.dtype = self.source.source.dtype


class IterSumExpr(IterMapExpr):
    """The sum of splits and a base."""

    args: tuple[IterSplitExpr, ...] = field(converter=as_tuple)
    base: PrimExpr = field(converter=po.convert)

    def _derive(self) -> None:
        self.dtype = self.base.dtype


class IterMapResult:
    """The result of `detect_iter_map`: `indices` as sums, or `errors` and no indices."""

    __slots__ = ("errors", "indices", "padding_predicate")

    def __init__(self, indices: Sequence[IterSumExpr], errors: Sequence[str]) -> None:
        self.indices = list(indices)
        self.errors = list(errors)
        self.padding_predicate = po.const(False, "bool")

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, i: int) -> IterSumExpr:
        return self.indices[i]

    def __iter__(self) -> Any:
        return iter(self.indices)
