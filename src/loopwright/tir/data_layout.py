"""Layouts of tensors by name: "NCHW", "NCHW16c" (channels in blocks of 16), "OIHW4i16o"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

from ..arith import Analyzer
from ..base.errors import explain
from ..ir.dtype import DataType
from ..ir.node import Node
from ..ir.prim_expr import IterVar, PrimExpr, Range, Var
from ..ir.prim_op import add, ceildiv, const, convert, floordiv, floormod, multiply
from .index_map import IndexMap

if TYPE_CHECKING:
    from ..base.span import Span

_PART = re.compile(r"(\d*)([A-Za-z])")


class Layout(Node):
    """The axes of a tensor in order. An upper-case letter is a whole axis, a lower-case one with a
    factor a block of it: in "NCHW16c" axis C is split into C (outer) and 16c (inner). Of several
    blocks of an axis, "OI16i64o2i", the last one is the innermost."""

    name: str
    dtype: DataType  # of indices

    def __init__(self, name: str, dtype: str = "int32", span: Span | None = None) -> None:
        if dtype not in ("int32", "int64"):
            raise TypeError(explain("indices of a layout are int32 or int64", got=repr(dtype)))
        parts = _PART.findall(name)
        letters = [letter for _, letter in parts]
        whole = [letter for letter in letters if letter.isupper()]
        bad = "".join(f + c for f, c in parts) != name or len(set(whole)) != len(whole)
        for factor, letter in parts:
            inner = letter.islower()
            bad = bad or bool(factor) != inner or (inner and letter.upper() not in letters)
        if bad:
            hint = 'upper-case letters, and lower-case ones with a factor: "NCHW16c"'
            raise ValueError(explain("this is not a layout", got=repr(name), instead=hint))
        self._set(name, DataType(dtype), span)

    @property
    def axes(self) -> tuple[IterVar, ...]:
        """The axes as iterations: a block's extent is its factor, others have `N_shape`."""
        iter_vars = []
        for letter, factor in self.parts:
            extent = Var(f"{letter}_shape", self.dtype) if factor < 0 else const(factor, self.dtype)
            iter_vars.append(IterVar(Range.upto(extent), Var(letter, self.dtype)))
        return tuple(iter_vars)

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """(axis letter, factor) in order; the factor of a whole axis is -1."""
        return _parts(self.name)

    def __str__(self) -> str:
        return self.name

    def __len__(self) -> int:
        return len(self.parts)

    def __contains__(self, axis: str) -> bool:
        return any(letter == axis for letter, _ in self.parts)

    def __getitem__(self, index: int) -> str:
        return self.parts[index][0]

    def __iter__(self) -> Iterator[str]:
        return iter(letter for letter, _ in self.parts)

    def __eq__(self, other: object) -> bool:
        return str(other) == self.name if isinstance(other, (Layout, str)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def index_of(self, axis: str) -> int:
        """The position of an axis, or -1."""
        return next((n for n, letter in enumerate(self) if letter == axis), -1)

    def factor_of(self, axis: str) -> int:
        """The block factor of an axis ("c" or "C" in NCHW16c: 16), of several blocks their product;
        or -1."""
        factors = [f for letter, f in self.parts if letter == axis.lower()]
        return prod(factors) if factors else -1

    def steps(self) -> list[int]:
        """How many elements of its axis the next index of each part is away: in "NC4c2c" a step of
        C is 8, one of 4c is 2."""
        return [
            prod(f for other, f in self.parts[n + 1 :] if other == letter)
            if factor > 0
            else max(self.factor_of(letter), 1)
            for n, (letter, factor) in enumerate(self.parts)
        ]

    def renamed(self, old: str, new: str) -> Layout:
        """The layout with the axes `old` renamed to `new`, letter by letter."""
        return layout(self.name.translate(str.maketrans(old + old.lower(), new + new.lower())))


class BijectiveLayout(Node):
    """A bijection between two layouts of the same axes."""

    src_layout: Layout
    dst_layout: Layout

    def __init__(
        self, src_layout: Layout | str, dst_layout: Layout | str, span: Span | None = None
    ) -> None:
        src, dst = layout(src_layout), layout(dst_layout)
        if not len(src) or {a.upper() for a in src} != {a.upper() for a in dst}:
            what = "two layouts of the same axes are needed"
            raise ValueError(explain(what, got=f"{src} and {dst}"))
        self._set(src, dst, span)

    def forward_index(self, index: Sequence[Any]) -> list[PrimExpr]:
        """The index in the destination of the element at `index` of the source."""
        return _move(self.src_layout, self.dst_layout, index)

    def backward_index(self, index: Sequence[Any]) -> list[PrimExpr]:
        """The index in the source of the element at `index` of the destination."""
        return _move(self.dst_layout, self.src_layout, index)

    def forward_shape(self, shape: Sequence[Any]) -> list[PrimExpr]:
        """The destination's shape; partial blocks count as whole ones."""
        return _reshape(self.src_layout, self.dst_layout, shape)

    def backward_shape(self, shape: Sequence[Any]) -> list[PrimExpr]:
        """The source's shape."""
        return _reshape(self.dst_layout, self.src_layout, shape)

    def index_map(self, index_dtype: str = "int64") -> IndexMap:
        """The mapping as an `IndexMap`."""
        ndim = len(self.src_layout)
        return IndexMap.from_func(
            lambda *i: self.forward_index(i), ndim=ndim, index_dtype=index_dtype
        )


def _move(src: Layout, dst: Layout, index: Sequence[Any]) -> list[PrimExpr]:
    if len(index) != len(src):
        raise ValueError(explain(f"layout {src} has {len(src)} axes", got=f"{len(index)} values"))
    whole: dict[str, PrimExpr] = {}
    parts = list(map(convert, index))
    for (letter, _), part, step in zip(src.parts, parts, src.steps(), strict=True):
        value = multiply(part, step) if step > 1 else part
        at = letter.upper()
        whole[at] = add(whole[at], value) if at in whole else value
    simplify = Analyzer().simplify
    moved = []
    for letter, factor in dst.parts:
        if _blocks(dst, letter) == _blocks(src, letter) and list(dst).count(letter) == 1:
            moved.append(parts[src.index_of(letter)])
            continue
        step = dst.steps()[len(moved)]
        value = whole[letter.upper()]
        value = floordiv(value, step) if step > 1 else value
        moved.append(simplify(floormod(value, factor) if factor > 0 else value))
    return moved


def _blocks(plan: Layout, letter: str) -> list[int]:
    return [f for other, f in plan.parts if other == letter.lower()]


def _reshape(src: Layout, dst: Layout, shape: Sequence[Any]) -> list[PrimExpr]:
    sizes = {letter: convert(v) for letter, v in zip(src, shape, strict=True)}
    whole: dict[str, PrimExpr] = {
        letter: multiply(size, max(src.factor_of(letter), 1))
        for letter, size in sizes.items()
        if letter.isupper()
    }
    simplify = Analyzer().simplify
    dims: list[PrimExpr] = []
    for letter, factor in dst.parts:
        size = whole[letter.upper()]
        if factor > 0:
            dims.append(const(factor, size.dtype))
        elif dst.factor_of(letter) > 0:
            dims.append(simplify(ceildiv(size, dst.factor_of(letter))))
        else:
            dims.append(size)
    return dims


@cache
def _parts(name: str) -> tuple[tuple[str, int], ...]:
    return tuple((letter, int(factor) if factor else -1) for factor, letter in _PART.findall(name))


@cache
def _layout(name: str, dtype: str) -> Layout:
    return Layout(name, dtype)


def layout(layout_str: Layout | str, dtype: str = "int32") -> Layout:
    """The layout of that name, with indices of a type. Raises TypeError for others than int32 and
    int64."""
    return layout_str if isinstance(layout_str, Layout) else _layout(str(layout_str), dtype)


def bijective_layout(src_layout: str, dst_layout: Layout | str) -> BijectiveLayout | None:
    """The bijection from one layout to another; None between layouts of different axes."""
    try:
        return BijectiveLayout(src_layout, dst_layout)
    except ValueError:
        return None
