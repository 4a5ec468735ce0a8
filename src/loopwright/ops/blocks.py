"""Tensors in a layout such as NCHW16c: extents, shapes and indices by the letters of its axes.

A split axis may be padded: the channels that fill up the last block are zeros and are multiplied
by zero weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import const, floordiv, floormod, multiply
from ..tir import Layout
from ..tir import layout as layout_of
from .extents import simplify


def spatial(layout: Layout) -> str:
    """The letters of the spatial axes, in order."""
    return "".join(letter for letter in layout if letter in "DHW")


def extent(layout: Layout, shape: Sequence[PrimExpr], letter: str) -> PrimExpr:
    """The extent of an axis in a tensor of that shape, including padding; 1 if the layout
    lacks the axis."""
    axis, factor = layout.index_of(letter), layout.factor_of(letter)
    if axis < 0:
        return const(1, "int64")
    return multiply(shape[axis], factor) if factor > 0 else shape[axis]


def index_in(layout: Layout, at: dict[str, Any]) -> list[Any]:
    """The index of an element. `at` maps each letter to its index, or to (outer, inner) for a split
    axis, whose block may be split again: OIHW4i16o4i."""
    indices = []
    for (letter, factor), step in zip(layout.parts, layout.steps(), strict=True):
        index = at[letter.upper()]
        if isinstance(index, tuple):
            outer, inner = index
            inner = floordiv(inner, step) if 1 < step < layout.factor_of(letter) else inner
            if factor * step < layout.factor_of(letter):
                inner = floormod(inner, factor)
            indices.append(inner if factor > 0 else outer)
            continue
        index = floordiv(index, step) if step > 1 else index
        indices.append(floormod(index, factor) if factor > 0 else index)
    return indices


def shape_in(layout: Layout, extents: dict[str, Any]) -> list[Any]:
    """The shape of a tensor of these extents, rounded up to whole blocks."""
    shape = []
    for letter, factor in layout.parts:
        size = layout.factor_of(letter)
        if factor > 0:
            shape.append(const(factor, "int64"))
        elif size > 0:
            shape.append(simplify(floordiv(extents[letter] + (size - 1), size)))
        else:
            shape.append(extents[letter])
    return shape


def to_plain(array: np.ndarray, layout: str, plain: str) -> np.ndarray:
    """numpy: convert an array from `layout` (blocked or permuted) to the plain layout `plain`."""
    parsed = layout_of(layout)
    order, shape = [], []
    for letter in plain:
        axes = [p for p, part in enumerate(parsed) if part.upper() == letter]
        axes.sort(key=lambda p: parsed[p].islower())
        order += axes
        shape.append(int(np.prod([array.shape[p] for p in axes])))
    return array.transpose(order).reshape(shape)


def from_plain(array: np.ndarray, layout: str, plain: str) -> np.ndarray:
    """numpy: convert an array from the plain layout to `layout`, padding blocks with zeros."""
    parsed = layout_of(layout)
    axes, shape, pads = [], [], []
    for letter, size in zip(plain, array.shape, strict=True):
        parts = [(p, f) for p, (part, f) in enumerate(parsed.parts) if part.upper() == letter]
        parts.sort(key=lambda part: part[1] > 0)  # the whole axis is the outermost
        block = max(parsed.factor_of(letter), 1)
        pads.append((0, -size % block))
        axes += [p for p, _ in parts]
        shape += [f if f > 0 else -(-size // block) for _, f in parts]
    padded = np.pad(array, pads) if any(after for _, after in pads) else array
    split = padded.reshape(shape)
    return np.ascontiguousarray(split.transpose(np.argsort(axes)))


def sliding(
    array: np.ndarray, window: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> np.ndarray:
    """numpy: the windows that slide along the last axes of `array`, none along one that is shorter; the
    elements of a window are the last axes of the result."""
    lead = array.ndim - len(window)
    sizes = zip(array.shape[lead:], window, strides, dilation, strict=True)
    counts = [max((n - d * (k - 1) - 1) // s + 1, 0) for n, k, s, d in sizes]
    apart = array.strides[lead:]
    steps = [a * step for by in (strides, dilation) for a, step in zip(apart, by, strict=True)]
    shape = (*array.shape[:lead], *counts, *window)
    return np.lib.stride_tricks.as_strided(
        array, shape, (*array.strides[:lead], *steps), writeable=False
    )
