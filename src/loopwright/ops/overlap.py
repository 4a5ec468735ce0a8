"""Shared by operators on boxes: their overlap, and the greedy choice of those that do not overlap.

A box is two opposite corners, (x, y, x, y) or (y, x, y, x).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import te, tir
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, const
from ..te.tensor import Tensor
from ..tir.ir_builder import BufferVar, IRBuilder
from .extents import extents_of
from .statements import long


def tensors_of(*values: PrimExpr | Tensor) -> list[te.Tensor]:
    """Those that are tensors, which must be scalars; others are literals."""
    tensors = [v for v in values if isinstance(v, te.Tensor)]
    for tensor in tensors:
        extents_of(tensor, "a limit")
    return tensors


def numbers_of(values: tuple[Any, ...], buffers: list[Any]) -> list[Any]:
    """The numbers that are scalars or literals; the buffers are those of the tensors."""
    left = iter(buffers)
    return [next(left)[()] if isinstance(v, te.Tensor) else v for v in values]


def overlap(a: list[Any], b: list[Any], grown: float = 0.0, kit: Any = None) -> Any:
    """The intersection over union of two boxes; `grown`: added to the difference of the ends of a
    side. kit: `Loops` (by default) or `Numbers`."""
    kit = kit or Loops
    (al, at, ar, ab), (bl, bt, br, bb) = a, b
    width = kit.max(kit.min(ar, br) - kit.max(al, bl) + grown, kit.zero(ar))
    height = kit.max(kit.min(ab, bb) - kit.max(at, bt) + grown, kit.zero(ar))
    both = width * height
    sizes = [(r - l + grown) * (d - t + grown) for l, t, r, d in (a, b)]
    union = sizes[0] + sizes[1] - both
    return kit.select(union > 0, both / union, kit.zero(ar))


class Loops:
    """The functions of `overlap` for expressions."""

    max, min = staticmethod(tir.max), staticmethod(tir.min)
    zero = staticmethod(lambda v: const(0, v.dtype))
    select = staticmethod(tir.Select)


class Numbers:
    """The same for numbers."""

    max, min = staticmethod(np.maximum), staticmethod(np.minimum)
    zero = staticmethod(lambda v: type(v)(0))
    select = staticmethod(lambda c, a, b: a if c else b)


def corners(read: Callable[[int], Any], kit: Any = None) -> list[Any]:
    """The ends of a box along each axis, the lower ones first."""
    kit = kit or Loops
    pairs = [(read(n), read(n + 2)) for n in (0, 1)]
    return [*(kit.min(*p) for p in pairs), *(kit.max(*p) for p in pairs)]


def bound_box(ib: IRBuilder, ends: list[Any]) -> list[Any]:
    """The ends of a box as variables."""
    return [ib.let(f"end{n}", end) for n, end in enumerate(ends)]


def rows(ib: IRBuilder, extent: PrimExpr, name: str) -> Any:
    """A loop."""
    return ib.for_range(long(0), extent, name, dtype="int64")


def fill(
    ib: IRBuilder, out: BufferVar, at: tuple[Any, ...], count: PrimExpr, value: PrimExpr
) -> None:
    """Write a value to the last axis of a row."""
    with rows(ib, count, "f") as f:
        out[(*at, f)] = value


def greedy(
    ib: IRBuilder, count: Sequence[PrimExpr], most: PrimExpr, box: Callable[[Any], Any],
    far: Callable[[Any], Any], keep: Callable[[Any, Any], None], grown: float = 0.0,
    good: Callable[[Any], Any] = lambda j: tir.const(True, "bool"),
) -> Any:  # fmt: skip
    """Choose of candidates, the best first, at most `most` that do not overlap one chosen before.
    count: their number, and its upper bound. box(j) returns the corners, far(shared) whether an
    overlap is allowed, good(j) whether it may be chosen at all (a score of NaN may not, wherever it
    is sorted); keep(j, n) writes the chosen one number n. Returns the buffer of the number chosen."""
    total = ib.allocate("int64", 1, "found")
    alive = ib.allocate("int32", count[1], "alive")
    total[0] = long(0)
    with rows(ib, count[0], "j") as j:
        alive[j] = cast("int32", good(j))
    with rows(ib, count[0], "j") as j, ib.if_scope(tir.all(alive[j] > 0, total[0] < most)):
        keep(j, total[0])
        total[0] = total[0] + 1
        chosen = bound_box(ib, box(j))
        with rows(ib, count[0] - j - 1, "k") as k:
            rival = j + 1 + k
            with ib.if_scope(tir.Not(far(overlap(chosen, bound_box(ib, box(rival)), grown)))):
                alive[rival] = const(0, "int32")
    return total


def some_boxes(*shape: int) -> np.ndarray:
    """Boxes that overlap here and there, the same ones each time, for samples."""
    rng = np.random.default_rng(3)
    ends = rng.integers(0, 8, (*shape, 2)).astype(np.float32) / 8
    return np.concatenate([ends, ends + rng.integers(1, 5, (*shape, 2)) / 8], -1, dtype=np.float32)
