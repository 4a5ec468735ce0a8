"""Resize: each axis apart, as elements picked and weighed by numbers known while importing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....base import budget
from ....base.errors import explain
from ....ir.prim_expr import PrimExpr
from ....relax import op
from ..context import Context
from ..reader import Node
from ..registry import converter
from ..values import Value, literal

# Where the element number x of the result (a float array) lies in the input, by
# (x, scale, size in, size out); ONNX's coordinate_transformation_mode.
_PLACES: dict[str, Callable[..., Any]] = {
    "half_pixel": lambda x, s, n, m: (x + 0.5) / s - 0.5,
    "asymmetric": lambda x, s, n, m: x / s,
    "align_corners": lambda x, s, n, m: x * (n - 1) / (m - 1) if m > 1 else x * 0,
    "pytorch_half_pixel": lambda x, s, n, m: (x + 0.5) / s - 0.5 if m > 1 else x * 0,
    "tf_half_pixel_for_nn": lambda x, s, n, m: (x + 0.5) / s,
    "half_pixel_symmetric": lambda x, s, n, m: n / 2 * (1 - m / (s * n)) + (x + 0.5) / s - 0.5,
}
_ROUND: dict[str, Callable[..., Any]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


@dataclass(frozen=True)
class _Style:
    """How elements between pixels are made."""

    mode: str
    places: Callable[..., Any]
    rounding: Callable[..., Any]
    cubic: float
    exclude: bool
    antialias: bool


@converter("Upsample", 7)
def upsample_attribute(cx: Context, node: Node, x: Value) -> Any:
    return _upsample(cx, node, x, node.reals("scales"))


@converter("Upsample", 9)
@converter("Resize", 10)
def upsample(cx: Context, node: Node, x: Value, scales: Value) -> Any:
    return _upsample(cx, node, x, _numbers(scales, "scales"))


def _upsample(cx: Context, node: Node, x: Value, scales: list[float]) -> Any:
    mode = _chosen(node.text("mode", "nearest"), ("nearest", "linear", "bilinear"), "mode")
    mode = "nearest" if mode == "nearest" else "linear"
    style = _Style(mode, _PLACES["asymmetric"], np.floor, 0.0, False, False)
    return _resize(cx, x, list(range(x.ndim)), scales, None, style)


@converter("Resize", 11)
def resize(
    cx: Context,
    node: Node,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
) -> Any:
    node.skip("extrapolation_value")
    mode = _chosen(node.text("mode", "nearest"), ("nearest", "linear", "cubic"), "mode")
    transform = "coordinate_transformation_mode"
    places = _chosen(node.text(transform, "half_pixel"), _PLACES, transform)
    nearest = _chosen(node.text("nearest_mode", "round_prefer_floor"), _ROUND, "nearest_mode")
    style = _Style(
        mode,
        _PLACES[places],
        _ROUND[nearest],
        node.real("cubic_coeff_a", -0.75),
        node.flag("exclude_outside"),
        node.flag("antialias"),
    )
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
    if scales is not None:
        return _resize(cx, x, axes, _numbers(scales, "scales"), None, style)
    wanted = cx.integers(sizes, "sizes")
    factors = _by_sizes(cx, x, axes, wanted)
    if policy != "stretch":
        one = (min if policy == "not_larger" else max)(factors)
        factors = [one] * len(axes)
        wanted = [math.floor(literal(x.shape[a]) * one + 0.5) for a in axes]
    return _resize(cx, x, axes, factors, wanted, style)


def _chosen(value: str, known: Any, name: str) -> str:
    if value not in known:
        what = f"attribute {name} is not supported"
        raise ValueError(explain(what, got=value, instead=f"one of {', '.join(known)}"))
    return value


def _is_empty(value: Value) -> bool:
    return value.ndim == 1 and literal(value.shape[0]) == 0


def _numbers(value: Value, what: str) -> list[float]:
    numbers = value.constant
    if numbers is None:
        hint = "make it a constant or initializer of the model"
        raise ValueError(explain(f"input {what} must be known", instead=hint))
    return [float(v) for v in numbers.reshape(-1)]


def _by_sizes(cx: Context, x: Value, axes: list[int], wanted: list[Any]) -> list[float]:
    if len(wanted) != len(axes):
        raise ValueError(explain("sizes must hold one number for each axis", got=len(wanted)))
    factors = []
    for axis, size in zip(axes, wanted, strict=True):
        have = literal(x.shape[axis])
        if have is size or (isinstance(have, int) and isinstance(size, int)):
            factors.append(1.0 if have is size else size / have)
        else:
            factors.append(_whole_factor(cx, have, size))
    return factors


def _whole_factor(cx: Context, have: Any, size: Any) -> float:
    """The number that a symbolic size is of a symbolic extent."""
    for factor in range(1, 17):
        if isinstance(have, PrimExpr) and isinstance(size, PrimExpr):
            if cx.equal(have * factor, size):
                return float(factor)
    what = "resizing a symbolic extent needs a whole multiple of it"
    hint = "give the extents by shape_dict"
    raise ValueError(explain(what, got=f"{have} to {size}", instead=hint))


def _resize(
    cx: Context,
    x: Value,
    axes: list[int],
    scales: list[float],
    wanted: list[Any] | None,
    style: _Style,
) -> Any:
    if len(scales) != len(axes):
        raise ValueError(explain("scales must hold one number for each axis", got=len(scales)))
    if any(not 0 < s < math.inf for s in scales):
        raise ValueError(explain("scales must be positive", got=scales))
    out = x
    for k, (axis, scale) in enumerate(zip(axes, scales, strict=True)):
        have = literal(x.shape[axis])
        size = wanted[k] if wanted is not None else None
        if isinstance(have, int):
            if size is None:  # in float32, the type of scales: 10 * 1.3 is 13
                size = math.floor(np.float32(have) * np.float32(scale))
            if size != have or scale != 1.0:
                out = _along(cx, out, axis, have, size, scale, style)
        elif scale != 1.0:
            out = _whole(cx, out, axis, scale, style)
    return out


def _whole(cx: Context, x: Value, axis: int, scale: float, style: _Style) -> Value:
    """A symbolic axis, by a whole factor: the same picture repeats with every element."""
    factor = int(scale)
    # What each of `factor` elements of the result takes, far from the edges.
    taken = style.rounding(style.places(np.arange(factor) + 8.0 * factor, scale, 64, 64 * factor))
    plain = style.mode == "nearest" and style.places is not _PLACES["align_corners"]
    if factor != scale or not plain or not (taken == 8).all():
        what = "this way of resizing a symbolic extent is not supported"
        hint = "give the extents by shape_dict, or use nearest by a whole factor"
        raise ValueError(explain(what, got=f"{style.mode}, scale {scale}", instead=hint))
    return cx.value(op.repeat(x.expr, factor, axis))


def _along(
    cx: Context, x: Value, axis: int, have: int, size: int, scale: float, style: _Style
) -> Value:
    if size < 1:
        what = f"the result has no elements along axis {axis}"
        raise ValueError(explain(what, got=f"an extent of {have}, a scale of {scale:g}"))
    taps = (0,) if style.mode == "nearest" else (0, 1) if style.mode == "linear" else (-1, 0, 1, 2)
    budget.spend(size=16 * size * len(taps))
    # Where places fall on ties, the type decides; onnxruntime computes them in float32.
    kind = np.float32 if style.mode == "nearest" else np.float64
    places = style.places(np.arange(size, dtype=kind), kind(scale), have, size)
    if style.mode == "nearest":
        return _take(cx, x, axis, np.clip(style.rounding(places), 0, have - 1))
    if style.antialias and scale < 1:
        return _weighed_all(cx, x, axis, _antialiased(places, have, scale, style))
    first = np.floor(places)
    weights = [_kernel(first + t - places, style) for t in taps]
    inside = [(first + t >= 0) & (first + t < have) for t in taps]
    if style.exclude:
        weights = [w * i for w, i in zip(weights, inside, strict=True)]
        total = sum(weights)
        weights = [w / total for w in weights]
    out = None
    for tap, weight in zip(taps, weights, strict=True):
        if not weight.any():
            continue
        part = _take(cx, x, axis, np.clip(first + tap, 0, have - 1))
        shape = [1] * x.ndim
        shape[axis] = size
        factor = cx.constant(weight.reshape(shape).astype(x.dtype.numpy()), str(x.dtype))
        part = op.multiply(part.expr, factor)
        out = part if out is None else op.add(out, part)
    return cx.value(out)


def _kernel(distance: Any, style: _Style) -> Any:
    """The weight of a pixel at a distance."""
    d = np.abs(distance)
    if style.mode == "linear":
        return np.clip(1 - d, 0, None)
    a = style.cubic  # Keys, 1981
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _antialiased(places: Any, have: int, scale: float, style: _Style) -> np.ndarray:
    """[size out, size in]: the kernel widened by 1 / scale; edge pixels stand for those outside."""
    reach = math.ceil((1 if style.mode == "linear" else 2) / scale)
    rows, taps = len(places), 2 * reach + 2
    budget.spend(size=8 * rows * (6 * taps + have))  # taps: a few arrays on the way
    pixels = np.floor(places)[:, None] + np.arange(-reach, reach + 2)
    weights = _kernel((pixels - places[:, None]) * scale, style)
    if style.exclude:
        weights = weights * ((pixels >= 0) & (pixels < have))
    weights = weights / weights.sum(axis=1, keepdims=True)
    matrix = np.zeros((rows, have))
    at = np.clip(pixels, 0, have - 1).astype(np.int64)
    np.add.at(matrix, (np.arange(rows)[:, None], at), weights)
    return matrix


def _weighed_all(cx: Context, x: Value, axis: int, matrix: np.ndarray) -> Value:
    """x times a matrix along an axis."""
    order = [a for a in range(x.ndim) if a != axis] + [axis]
    moved = op.permute_dims(x.expr, order)
    right = cx.constant(np.ascontiguousarray(matrix.T).astype(x.dtype.numpy()), str(x.dtype))
    back = [order.index(a) for a in range(x.ndim)]
    return cx.value(op.permute_dims(op.matmul(moved, right), back))


def _take(cx: Context, x: Value, axis: int, places: Any) -> Value:
    places = np.asarray(places, np.int64)
    if len(places) == literal(x.shape[axis]) and (places == np.arange(len(places))).all():
        return x
    return cx.value(op.take(x.expr, cx.constant(places), axis))
