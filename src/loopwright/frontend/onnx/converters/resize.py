"""Resize: each axis apart, as elements picked and weighed. Which elements, and by what, is known
while importing, or is computed at run time from an extent that is symbolic."""

from __future__ import annotations

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
from ....ops.resizing import COORDINATE_MODES, ROUNDING, Style
from ....relax import op
from ....relax.expr import PrimValue, ShapeExpr, StringImm, TupleGetItem
from ....relax.struct_info import TensorStructInfo
from ...graph.context import Context
from ...graph.registry import converter
from ...graph.values import Value, literal
from ..reader import Node

_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
_ROUND = [name for name in ROUNDING if name != "round"]
_SMALL = 1 << 12  # float32 holds the products of extents with such a number exactly


@converter("Upsample")
def upsample_1(cx: Context, node: Node, x: Value) -> Any:
    if x.ndim != 4:
        raise ValueError(explain("an image has 4 dimensions before opset 7", got=str(x.info)))
    scales = [1.0, 1.0, *(node.real(f"{way}_scale") for way in ("height", "width"))]
    return _upsample(cx, node, x, scales)


@converter("Upsample", 7)
def upsample_attribute(cx: Context, node: Node, x: Value) -> Any:
    return _upsample(cx, node, x, node.reals("scales"))


@converter("Upsample", 9)
@converter("Resize", 10)
def upsample(cx: Context, node: Node, x: Value, scales: Value) -> Any:
    known = scales.constant is not None
    return _upsample(cx, node, x, _numbers(scales) if known else scales)


def _upsample(cx: Context, node: Node, x: Value, scales: list[float] | Value) -> Any:
    mode = _chosen(node.text("mode", "nearest"), ("nearest", "linear", "bilinear"), "mode")
    style = Style("nearest_neighbor" if mode == "nearest" else "linear", "asymmetric", "floor")
    axes = list(range(x.ndim))
    if isinstance(scales, Value):
        return _Unknown(cx, x, axes, style).resized(scales, True)
    return _resize(cx, x, axes, scales, None, style)


@converter("Resize", 11)
def resize(
    cx: Context,
    node: Node,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
) -> Any:
    fill = node.real("extrapolation_value", 0.0)
    mode = _chosen(node.text("mode", "nearest"), _METHODS, "mode")
    transform = "coordinate_transformation_mode"
    places = _chosen(node.text(transform, "half_pixel"), COORDINATE_MODES, transform)
    nearest = _chosen(node.text("nearest_mode", "round_prefer_floor"), _ROUND, "nearest_mode")
    style = Style(
        _METHODS[mode],
        places,
        nearest,
        node.real("cubic_coeff_a", -0.75),
        node.flag("exclude_outside"),
    )
    smooth = node.flag("antialias") and mode != "nearest"
    axes = [a % x.ndim for a in node.integers("axes", list(range(x.ndim)))]
    policy = _chosen(
        node.text("keep_aspect_ratio_policy", "stretch"),
        ("stretch", "not_larger", "not_smaller"),
        "keep_aspect_ratio_policy",
    )
    if scales is not None and _is_empty(scales):
        scales = None
    if (scales is None) == (sizes is None or _is_empty(sizes)):
        raise ValueError("it takes either scales or sizes")
    given = scales if scales is not None else sizes
    assert given is not None
    cropped = style.coordinates == "tf_crop_and_resize"
    unknown = given.constant is None if scales is not None else given.elements is None
    if cropped or unknown:
        part = roi if cropped else None
        found = _Unknown(cx, x, axes, style, smooth, policy, part, fill)
        return found.resized(given, scales is not None)
    if scales is not None:
        return _resize(cx, x, axes, _numbers(scales), None, style, smooth)
    wanted = cx.integers(sizes, "sizes", dims=True)
    factors = _by_sizes(cx, x, axes, wanted)
    if policy != "stretch":
        kept = _keeping_aspect(x, axes, factors, policy)
        if kept is None:
            return _Unknown(cx, x, axes, style, smooth, policy).resized(given, False)
        factors, wanted = kept
    return _resize(cx, x, axes, factors, wanted, style, smooth)


def _keeping_aspect(
    x: Value, axes: list[int], factors: list[float | None], policy: str
) -> tuple[list[float | None], list[Any]] | None:
    """(the factor of all axes, the sizes); None where only the run tells them."""
    have = [literal(x.shape[a]) for a in axes]
    numbers = [f for f in factors if f is not None]
    one = (min if policy == "not_larger" else max)(numbers, default=0.0)
    if len(numbers) < len(factors) or not all(isinstance(n, int) or one % 1 == 0 for n in have):
        return None
    wanted = [math.floor(n * one + 0.5) if isinstance(n, int) else n * int(one) for n in have]
    return [one] * len(axes), wanted


def _chosen(value: str, known: Any, name: str) -> str:
    if value not in known:
        what = f"attribute {name} is not supported"
        raise ValueError(explain(what, got=value, instead=f"one of {', '.join(known)}"))
    return value


def _is_empty(value: Value) -> bool:
    return value.ndim == 1 and literal(value.shape[0]) == 0


def _numbers(value: Value) -> list[float]:
    numbers = value.constant
    assert numbers is not None
    return [float(v) for v in numbers.reshape(-1)]


@dataclass
class _Unknown:
    """A Resize of which only the run tells the sizes, the scales, or the part that is read."""

    cx: Context
    x: Value
    axes: list[int]
    style: Style
    smooth: bool = False
    policy: str = "stretch"
    roi: Value | None = None
    fill: float = 0.0

    def resized(self, given: Value, by_scales: bool) -> Any:
        """given: the scales, or the sizes."""
        cx, x, count = self.cx, self.x, len(self.axes)
        if not x.dtype.is_float and self.style.method != "nearest_neighbor":
            self.x = cx.value(op.astype(x.expr, "float32"))
            return op.astype(self.resized(given, by_scales).expr, str(x.dtype))
        dims = ShapeExpr([x.shape[a] for a in self.axes])
        args = [dims, given.expr, PrimValue(by_scales), StringImm(self.policy)]
        args += [] if self.roi is None else [self.roi.expr]
        wanted = cx.read("relax.run.resized_sizes", count, *args, nonnegative=True)
        info = TensorStructInfo([count, 3], "float64")
        placed = op.call_pure_packed("relax.run.resize_places", *args, sinfo_args=info)
        rows = cx.emit(op.split(cx.emit(placed), count, 0)) if count > 1 else None
        out, outside = x, None
        for k, (axis, size) in enumerate(zip(self.axes, wanted, strict=True)):
            row = op.reshape(rows[k] if rows is not None else placed, ShapeExpr([3]))
            out, beside = self.along(out, axis, size, cx.emit(row))
            if beside is not None:
                beside = op.reshape(beside, self.only(size, axis))
                outside = beside if outside is None else op.logical_or(outside, beside)
        if outside is None:
            return out
        return cx.value(op.where(outside, cx.scalar(self.fill, str(x.dtype)), out.expr))

    def along(self, x: Value, axis: int, size: Any, placed: Any) -> tuple[Value, Any]:
        """(x with an axis resized, which of its elements lie outside)"""
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
        found = cx.emit(op.image.resize_taps(have, PrimValue(size), placed, **named))
        crops, count = style.coordinates == "tf_crop_and_resize", style.count
        nearest = style.method == "nearest_neighbor"
        if nearest and not crops:
            return _take(cx, x, axis, found), None
        length = (1 if nearest else 2 * count) + crops
        parts = [cx.emit(TupleGetItem(found, k)) for k in range(length)]
        beside = parts.pop() if crops else None
        if nearest:
            return _take(cx, x, axis, parts[0]), beside
        weights = [op.reshape(w, self.only(size, axis)) for w in parts[count:]]
        return _weighed(cx, x, axis, zip(parts[:count], weights, strict=True)), beside

    def only(self, size: Any, axis: int) -> ShapeExpr:
        """The shape of what varies along an axis only."""
        return ShapeExpr([size if a == axis else 1 for a in range(self.x.ndim)])


def _by_sizes(cx: Context, x: Value, axes: list[int], wanted: list[Any]) -> list[float | None]:
    """The factors of the axes; None for the ratio of what only the run tells."""
    if len(wanted) != len(axes):
        raise ValueError(explain("sizes must hold one number for each axis", got=len(wanted)))
    pairs = [(literal(x.shape[a]), size) for a, size in zip(axes, wanted, strict=True)]
    return [_factor(cx, have, size) for have, size in pairs]


def _factor(cx: Context, have: Any, size: Any) -> float | None:
    if have is size:
        return 1.0
    if isinstance(have, int) and isinstance(size, int):
        return size / have
    if isinstance(have, PrimExpr) and isinstance(size, PrimExpr):
        return next((float(k) for k in range(1, 17) if cx.equal(have * k, size)), None)
    return None


def _resize(
    cx: Context,
    x: Value,
    axes: list[int],
    scales: Sequence[float | None],
    wanted: list[Any] | None,
    style: Style,
    smooth: bool = False,
) -> Any:
    """smooth: where the result is smaller, each element is made of all that it covers."""
    if len(scales) != len(axes):
        raise ValueError(explain("scales must hold one number for each axis", got=len(scales)))
    if any(s is not None and not 0 < s < math.inf for s in scales):
        raise ValueError(explain("scales must be positive", got=scales))
    if not x.dtype.is_float and style.method != "nearest_neighbor":
        real = cx.value(op.astype(x.expr, "float32"))
        out = _resize(cx, real, axes, scales, wanted, style, smooth)
        return op.astype(out.expr, str(x.dtype))
    out = x
    for k, (axis, scale) in enumerate(zip(axes, scales, strict=True)):
        have = literal(x.shape[axis])
        size = _extent(cx, have, scale) if wanted is None else wanted[k]
        if isinstance(have, int) and isinstance(size, int) and scale is not None:
            if size != have or scale != 1.0:
                out = _along(cx, out, axis, have, size, scale, style, smooth)
        elif scale != 1.0:
            out = _at_run_time(cx, out, axis, size, scale, style, smooth)
    return out


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
    """An axis with an extent that only the run tells."""
    if smooth and not (scale is not None and scale >= 1):
        shape = (PrimValue(x.shape[axis]), PrimValue(size), None, scale)
        how = (style.method, style.coordinates, style.cubic_alpha, int(style.exclude))
        return _weighed_by(cx, x, axis, op.image.resize_matrix(*shape, *how))
    if scale is not None and scale % 1 == 0 and _repeats(style, int(scale)):
        return cx.value(op.repeat(x.expr, int(scale), axis))
    found = cx.emit(
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
        return _take(cx, x, axis, found)
    count = style.count
    parts = [cx.emit(TupleGetItem(found, k)) for k in range(2 * count)]
    shape = ShapeExpr([size if a == axis else 1 for a in range(x.ndim)])
    weights = [op.reshape(w, shape) for w in parts[count:]]
    return _weighed(cx, x, axis, zip(parts[:count], weights, strict=True))


def _repeats(style: Style, factor: int) -> bool:
    """Whether each element is repeated `factor` times, as far as the first 8 show it."""
    plain = style.method == "nearest_neighbor" and style.coordinates != "align_corners"
    if not plain or factor > _SMALL:
        return False
    ((taken, _),) = style.array_taps(8, 8 * factor, factor)
    return bool((taken == np.arange(8 * factor) // factor).all())


def _along(
    cx: Context,
    x: Value,
    axis: int,
    have: int,
    size: int,
    scale: float,
    style: Style,
    smooth: bool,
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
    out = None
    for at, weight in taps:
        part = op.multiply(_take(cx, x, axis, at).expr, weight)
        out = part if out is None else op.add(out, part)
    return cx.value(out)


def _weighed_by(cx: Context, x: Value, axis: int, matrix: Any) -> Value:
    """`_weighed_all` of an expression, [size out, size in]."""
    turned = op.permute_dims(cx.emit(matrix), [1, 0])
    return _weighed_all(cx, x, axis, op.astype(turned, str(x.dtype)))


def _weighed_all(cx: Context, x: Value, axis: int, matrix: Any) -> Value:
    """x times a matrix along an axis. matrix: its constant or tensor, [size in, size out]."""
    order = [a for a in range(x.ndim) if a != axis] + [axis]
    moved, right = op.permute_dims(x.expr, order), cx.emit(matrix)
    back = [order.index(a) for a in range(x.ndim)]
    return cx.value(op.permute_dims(op.matmul(moved, right), back))


def _take(cx: Context, x: Value, axis: int, places: Any) -> Value:
    if not isinstance(places, np.ndarray):
        return cx.value(op.take(x.expr, places, axis))
    if len(places) == literal(x.shape[axis]) and (places == np.arange(len(places))).all():
        return x
    return cx.value(op.take(x.expr, cx.constant(places), axis))
