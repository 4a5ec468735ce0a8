"""Layouts of tensors by name: "NCHW", "NCHW16c" (channels in blocks of 16), "OIHW4i16o"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from ..arith import Analyzer
from ..base.errors import explain
from ..ir.node import Node
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import add, ceildiv, const, convert, floordiv, floormod, multiply
from .index_map import IndexMap

_PART = re.compile(r"(\d*)([A-Za-z])")


class Layout(Node):
    """The axes of a tensor in order. An upper-case letter is a whole axis, a lower-case one with a
    factor a block of it: in "NCHW16c" axis C is split into C (outer) and 16c (inner)."""

    name: str

    def __init__(self, name: str, span: Any = None) -> None:
        parts = _PART.findall(name)
        letters = [letter for _, letter in parts]
        bad = "".join(f + c for f, c in parts) != name or len(set(letters)) != len(letters)
        for factor, letter in parts:
            inner = letter.islower()
            bad = bad or bool(factor) != inner or (inner and letter.upper() not in letters)
        if bad:
            hint = 'upper-case letters, and lower-case ones with a factor: "NCHW16c"'
            raise ValueError(explain("this is not a layout", got=repr(name), instead=hint))
        self._set(name, span)

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
        """The block factor of an axis ("c" or "C" in NCHW16c: 16), or -1."""
        return next((f for letter, f in self.parts if letter == axis.lower()), -1)

    def renamed(self, old: str, new: str) -> Layout:
        """The layout with the axes `old` renamed to `new`, letter by letter."""
        return layout(self.name.translate(str.maketrans(old + old.lower(), new + new.lower())))


class BijectiveLayout(Node):
    """A bijection between two layouts of the same axes."""

    src_layout: Layout
    dst_layout: Layout

    def __init__(self, src_layout: Any, dst_layout: Any, span: Any = None) -> None:
        src, dst = layout(src_layout), layout(dst_layout)
        if {a.upper() for a in src} != {a.upper() for a in dst}:
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


def _axes(src: Layout, values: Sequence[Any]) -> dict[str, PrimExpr]:
    """The value of each whole axis, from those of its parts."""
    if len(values) != len(src):
        raise ValueError(explain(f"layout {src} has {len(src)} axes", got=f"{len(values)} values"))
    parts = {letter: convert(v) for letter, v in zip(src, values, strict=True)}
    return {
        letter: add(multiply(value, src.factor_of(letter)), parts[letter.lower()])
        if src.factor_of(letter) > 0
        else value
        for letter, value in parts.items()
        if letter.isupper()
    }


def _move(src: Layout, dst: Layout, index: Sequence[Any]) -> list[PrimExpr]:
    whole, parts = _axes(src, index), dict(zip(src, map(convert, index), strict=True))
    simplify = Analyzer().simplify
    moved = []
    for letter, factor in dst.parts:
        if dst.factor_of(letter) == src.factor_of(letter):
            moved.append(parts[letter])
            continue
        value = whole[letter.upper()]
        if factor > 0:
            value = floormod(value, factor)
        elif dst.factor_of(letter) > 0:
            value = floordiv(value, dst.factor_of(letter))
        moved.append(simplify(value))
    return moved


def _reshape(src: Layout, dst: Layout, shape: Sequence[Any]) -> list[PrimExpr]:
    sizes = {letter: convert(v) for letter, v in zip(src, shape, strict=True)}
    whole = {
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
def _layout(name: str) -> Layout:
    return Layout(name)


def layout(layout_str: Any, dtype: str = "int32") -> Layout:
    """The layout of that name."""
    return layout_str if isinstance(layout_str, Layout) else _layout(str(layout_str))


def bijective_layout(src_layout: Any, dst_layout: Any) -> BijectiveLayout:
    """The bijection from one layout to another."""
    return BijectiveLayout(src_layout, dst_layout)


__all__ = ["BijectiveLayout", "Layout", "bijective_layout", "layout"]
