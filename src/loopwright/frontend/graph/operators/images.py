"""Operators on images: resizing each axis separately, as elements picked and weighed.

Which elements, and by what, is known while importing, or is computed at run time from an extent that is
symbolic.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ....base import budget
from ....base.errors import explain
from ....ir.prim_expr import PrimExpr
from ....ir.prim_op import cast, const, floordiv
from ....ops.resizing import Style
from ....relax import op
from ....relax.expr import PrimValue, ShapeExpr, StringImm, TupleGetItem
from ....relax.struct_info import TensorStructInfo
from ..context import Context, in_float32
from ..values import Value, literal
from .table import function

_SMALL = 1 << 12  # float32 holds the products of extents with such a number exactly


@function
def resize(cx: Context, x: Value, lengths: Value, axes: list[int], style: Style) -> Any:
    """x with other extents of some axes."""
    if lengths.elements is None:
        return Resized(cx, x, axes, style).by(lengths, False)
    extents = cx.integers(lengths, "sizes", dims=True)
    return resized(cx, x, axes, factors_of(cx, x, axes, extents), extents, style)


@dataclass
class Resized:
    """A resize whose sizes, scales, or part that is read are known only at run time."""

    cx: Context
    x: Value
    axes: list[int]
    style: Style
    smooth: bool = False
    policy: str = "stretch"
    roi: Value | None = None
    fill: float = 0.0

    def by(self, target: Value, by_scales: bool) -> Any:
        """given: the scales, or the sizes."""
        cx, x, count = self.cx, self.x, len(self.axes)
        if not x.dtype.is_float and self.style.method != "nearest_neighbor":
            self.x = cx.value(op.astype(x.expr, "float32"))
            return op.astype(self.by(target, by_scales).expr, str(x.dtype))
        dims = ShapeExpr([x.shape[a] for a in self.axes])
        args = [dims, target.expr, PrimValue(by_scales), StringImm(self.policy)]
        args += [] if self.roi is None else [self.roi.expr]
        extents = cx.read("relax.run.resized_sizes", count, *args, nonnegative=True)
        info = TensorStructInfo([count, 3], "float64")
        placed = op.call_pure_packed("relax.run.resize_places", *args, sinfo_args=info)
        rows = cx.emit(op.split(cx.emit(placed), count, 0)) if count > 1 else None
        out, outside = x, None
        for k, (axis, size) in enumerate(zip(self.axes, extents, strict=True)):
            row = op.reshape(rows[k] if rows is not None else placed, ShapeExpr([3]))
            out, outer = self.along(out, axis, size, cx.emit(row))
            if outer is not None:
                outer = op.reshape(outer, self.only(size, axis))
                outside = outer if outside is None else op.logical_or(outside, outer)
        if outside is None:
            return out
        return cx.value(op.where(outside, cx.scalar(self.fill, str(x.dtype)), out.expr))

    def along(self, x: Value, axis: int, size: Any, placed: Any) -> tuple[Value, Any]:
        """(x with an axis resized, which of its elements are outside)"""
        cx, style, have = self.cx, self.style, PrimValue(x.shape[axis])
        named = {
            "method": style.method,
            "coordinate_transformation_mode": style.coordinates,
            "cubic_alpha": style.cubic_alpha,
            "cubic_exclude": int(style.exclude),
        }
        if self.smooth:
            matrix = op.image.resize_matrix(have, PrimValue(size), placed, **named)
            return _weighed_by(cx, x, axis, matrix), None
        named |= {"rounding_method": style.rounding, "dtype": str(x.dtype)}
        taps = cx.emit(op.image.resize_taps(have, PrimValue(size), placed, **named))
        crops, count = style.coordinates == "tf_crop_and_resize", style.count
        nearest = style.method == "nearest_neighbor"
        if nearest and not crops:
            return _take(cx, x, axis, taps), None
        length = (1 if nearest else 2 * count) + crops
        parts = [cx.emit(TupleGetItem(taps, k)) for k in range(length)]
        outer = parts.pop() if crops else None
        if nearest:
            return _take(cx, x, axis, parts[0]), outer
        weights = [op.reshape(w, self.only(size, axis)) for w in parts[count:]]
        return _weighed(cx, x, axis, zip(parts[:count], weights, strict=True)), outer

    def only(self, size: Any, axis: int) -> ShapeExpr:
        """The shape of what varies along an axis only."""
        return ShapeExpr([size if a == axis else 1 for a in range(self.x.ndim)])


def factors_of(cx: Context, x: Value, axes: list[int], extents: list[Any]) -> list[float | None]:
    """The factors of the axes; None for the ratio of extents known only at run time."""
    if len(extents) != len(axes):
        raise ValueError(explain("sizes must hold one number for each axis", got=len(extents)))
    pairs = [(literal(x.shape[a]), size) for a, size in zip(axes, extents, strict=True)]
    return [_factor(cx, have, size) for have, size in pairs]


def _factor(cx: Context, have: Any, size: Any) -> float | None:
    if have is size:
        return 1.0
    if isinstance(have, int) and isinstance(size, int):
        return size / have
    if isinstance(have, PrimExpr) and isinstance(size, PrimExpr):
        return next((float(k) for k in range(1, 17) if cx.equal(have * k, size)), None)
    return None


def resized(
    cx: Context,
    x: Value,
    axes: list[int],
    scales: Sequence[float | None],
    extents: list[Any] | None,
    style: Style,
    smooth: bool = False,
) -> Any:
    """x resized by scales or to known extents. smooth: where the result is smaller, each element is a mean
    of all that it covers."""
    if len(scales) != len(axes):
        raise ValueError(explain("scales must hold one number for each axis", got=len(scales)))
    if any(s is not None and not 0 < s < math.inf for s in scales):
        raise ValueError(explain("scales must be positive", got=scales))
    if not x.dtype.is_float and style.method != "nearest_neighbor":
        real = cx.value(op.astype(x.expr, "float32"))
        out = resized(cx, real, axes, scales, extents, style, smooth)
        return op.astype(out.expr, str(x.dtype))
    out = x
    haves = [literal(x.shape[a]) for a in axes]
    sizes = extents or [_extent(cx, h, s) for h, s in zip(haves, scales, strict=True)]
    steps = zip(axes, scales, haves, sizes, strict=True)
    # Gathers along memory cost six times those of rows (225 and 36 us for 16 x 128 x 128): few of them,
    # before other axes grow.
    for axis, scale, have, size in sorted(steps, key=lambda s: _turn(x, *s[:2])):
        if isinstance(have, int) and isinstance(size, int) and scale is not None:
            if size != have or scale != 1.0:
                out = _along(cx, out, axis, have, size, scale, style, smooth)
        elif scale != 1.0:
            out = _at_run_time(cx, out, axis, size, scale, style, smooth)
    return out


def _turn(x: Value, axis: int, scale: float | None) -> int:
    """0 for an axis that does not grow, 1 for the last, 2 for others."""
    return 1 if axis == x.ndim - 1 else 2 * (scale is None or scale > 1)


def _extent(cx: Context, have: Any, scale: Any) -> Any:
    """The extent after scaling, in float32, the type of scales: 10 * 1.3 is 13."""
    if isinstance(have, int):
        return math.floor(np.float32(have) * np.float32(scale))
    ratio = Fraction(float(np.float32(scale)))
    if max(ratio.numerator, ratio.denominator) < _SMALL:
        return cx.simplify(floordiv(have * ratio.numerator, ratio.denominator))
    return cast("int64", cast("float32", have) * const(scale, "float32"))


def _at_run_time(
    cx: Context, x: Value, axis: int, size: Any, scale: float | None, style: Style, smooth: bool
) -> Value:
    """An axis with an extent known only at run time."""
    if smooth and not (scale is not None and scale >= 1):
        shape = (PrimValue(x.shape[axis]), PrimValue(size), None, scale)
        how = (style.method, style.coordinates, style.cubic_alpha, int(style.exclude))
        return _weighed_by(cx, x, axis, op.image.resize_matrix(*shape, *how))
    if scale is not None and scale % 1 == 0 and _repeats(style, int(scale)):
        return cx.value(op.repeat(x.expr, int(scale), axis))
    taps = cx.emit(
        op.image.resize_taps(
            x.shape[axis],
            size,
            None,
            scale,
            style.method,
            style.coordinates,
            style.rounding,
            style.cubic_alpha,
            int(style.exclude),
            str(x.dtype),
        )
    )
    if style.method == "nearest_neighbor":
        return _take(cx, x, axis, taps)
    count = style.count
    parts = [cx.emit(TupleGetItem(taps, k)) for k in range(2 * count)]
    shape = ShapeExpr([size if a == axis else 1 for a in range(x.ndim)])
    weights = [op.reshape(w, shape) for w in parts[count:]]
    return _weighed(cx, x, axis, zip(parts[:count], weights, strict=True))


def _repeats(style: Style, factor: int) -> bool:
    """Whether each element is repeated `factor` times, as far as the first 8 show it."""
    plain = style.method == "nearest_neighbor" and style.coordinates != "align_corners"
    if not plain or factor > _SMALL:
        return False
    ((indices, _),) = style.array_taps(8, 8 * factor, factor)
    return bool((indices == np.arange(8 * factor) // factor).all())


def _along(
    cx: Context, x: Value, axis: int, have: int, size: int, scale: float, style: Style, smooth: bool
) -> Value:
    if size < 1:
        what = f"the result has no elements along axis {axis}"
        raise ValueError(explain(what, got=f"an extent of {have}, a scale of {scale:g}"))
    budget.spend(size=16 * size * style.count)
    if smooth and scale < 1:
        matrix = np.ascontiguousarray(style.matrix(have, size, scale).T)
        return _weighed_all(cx, x, axis, cx.constant(matrix.astype(x.dtype.numpy()), str(x.dtype)))
    taps = style.array_taps(have, size, scale)
    if style.method == "nearest_neighbor":
        return _take(cx, x, axis, taps[0][0])
    shape = [size if a == axis else 1 for a in range(x.ndim)]
    kind = x.dtype.numpy()
    used = [(at, w.reshape(shape).astype(kind)) for at, w in taps if w.any()]
    return _weighed(cx, x, axis, [(at, cx.constant(w, str(x.dtype))) for at, w in used])


def _weighed(cx: Context, x: Value, axis: int, taps: Iterable[tuple[Any, Any]]) -> Value:
    """The sum of the elements at indices along an axis, each with its weight."""
    out: Any = None
    for at, weight in taps:
        part = op.multiply(_take(cx, x, axis, at).expr, weight)
        out = part if out is None else op.add(out, part)
    return cx.value(out)


def _weighed_by(cx: Context, x: Value, axis: int, matrix: Any) -> Value:
    """`_weighed_all` of an expression, [size out, size in]."""
    transposed = op.permute_dims(cx.emit(matrix), [1, 0])
    return _weighed_all(cx, x, axis, op.astype(transposed, str(x.dtype)))


def _weighed_all(cx: Context, x: Value, axis: int, matrix: Any) -> Value:
    """x times a matrix along an axis. matrix: its constant or tensor, [size in, size out]."""
    order = [a for a in range(x.ndim) if a != axis] + [axis]
    moved, right = op.permute_dims(x.expr, order), cx.emit(matrix)
    back = [order.index(a) for a in range(x.ndim)]
    return cx.value(op.permute_dims(op.matmul(moved, right), back))


def _take(cx: Context, x: Value, axis: int, indices: Any) -> Value:
    if not isinstance(indices, np.ndarray):
        return cx.value(op.take(x.expr, indices, axis))
    if len(indices) == literal(x.shape[axis]) and (indices == np.arange(len(indices))).all():
        return x
    return cx.value(op.take(x.expr, cx.constant(indices), axis))


@function
@in_float32
def lrn(cx: Context, x: Value, size: int, alpha: float, beta: float, bias: float) -> Any:
    """x / (bias + alpha / size * the sum of the squares of `size` channels around) ** beta"""
    if size < 1:
        raise ValueError(explain("attribute size must be positive", got=size))
    before, after = (size - 1) // 2, size // 2
    channels = literal(x.shape[1])
    if isinstance(channels, int):  # all beyond the channels is padding
        before, after = (min(side, max(channels, 1) - 1) for side in (before, after))
    budget.spend(nodes=before + after)
    width = [0, 0, before, after] + [0, 0] * (x.ndim - 2)
    squares = cx.emit(op.nn.pad(op.multiply(x.expr, x.expr), width))
    ends = [x.shape[1] + k for k in range(before + after + 1)]
    parts = [
        op.strided_slice(squares, [1], [k], [end], assume_inbound=True)
        for k, end in enumerate(ends)
    ]
    scaled = op.multiply(functools.reduce(op.add, parts), cx.scalar(alpha / size, x.dtype))
    return op.divide(
        x.expr, op.power(op.add(scaled, cx.scalar(bias, x.dtype)), cx.scalar(beta, x.dtype))
    )
