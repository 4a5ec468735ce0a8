"""Resize and Upsample."""

from __future__ import annotations

import math
from typing import Any

from ....base.errors import explain
from ....ops.resizing import COORDINATE_MODES, ROUNDING, Style
from ...graph.operators.images import Resized, factors_of, resized
from ...graph.values import Value, literal
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter, define

_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
_ROUND = [name for name in ROUNDING if name != "round"]


@converter("Upsample")
def upsample_1(cx: Context, node: Node, x: Value) -> Any:
    if x.ndim != 4:
        raise ValueError(explain("an image has 4 dimensions before opset 7", got=str(x.info)))
    scales = [1.0, 1.0, *(node.real(f"{side}_scale") for side in ("height", "width"))]
    return _upsample(cx, node, x, scales)


define("Upsample", lambda cx, node, x: _upsample(cx, node, x, node.reals("scales")), 7)


@converter("Upsample", 9)
@converter("Resize", 10)
def upsample(cx: Context, node: Node, x: Value, scales: Value) -> Any:
    constant = scales.constant is not None
    return _upsample(cx, node, x, _numbers(scales) if constant else scales)


def _upsample(cx: Context, node: Node, x: Value, scales: list[float] | Value) -> Any:
    mode = node.choice("mode", ("nearest", "linear", "bilinear"))
    style = Style("nearest_neighbor" if mode == "nearest" else "linear", "asymmetric", "floor")
    axes = list(range(x.ndim))
    if isinstance(scales, Value):
        return Resized(cx, x, axes, style).by(scales, True)
    return resized(cx, x, axes, scales, None, style)


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
    mode = node.choice("mode", _METHODS, "nearest")
    coordinates = node.choice("coordinate_transformation_mode", COORDINATE_MODES, "half_pixel")
    nearest = node.choice("nearest_mode", _ROUND, "round_prefer_floor")
    style = Style(
        _METHODS[mode],
        coordinates,
        nearest,
        node.real("cubic_coeff_a", -0.75),
        node.flag("exclude_outside"),
    )
    smooth = node.flag("antialias") and mode != "nearest"
    axes = [a % x.ndim for a in node.integers("axes", list(range(x.ndim)))]
    policy = node.choice("keep_aspect_ratio_policy", ("stretch", "not_larger", "not_smaller"))
    if scales is not None and _is_empty(scales):
        scales = None
    if (scales is None) == (sizes is None or _is_empty(sizes)):
        raise ValueError(explain("it takes either scales or sizes"))
    spec = scales if scales is not None else sizes
    assert spec is not None
    cropped = style.coordinates == "tf_crop_and_resize"
    unknown = spec.constant is None if scales is not None else spec.elements is None
    if cropped or unknown:
        part = roi if cropped else None
        result = Resized(cx, x, axes, style, smooth, policy, part, fill)
        return result.by(spec, scales is not None)
    if scales is not None:
        return resized(cx, x, axes, _numbers(scales), None, style, smooth)
    targets = cx.integers(sizes, "sizes", dims=True)
    factors = factors_of(cx, x, axes, targets)
    if policy != "stretch":
        scaled = _keeping_aspect(x, axes, factors, policy)
        if scaled is None:
            return Resized(cx, x, axes, style, smooth, policy).by(spec, False)
        factors, targets = scaled
    return resized(cx, x, axes, factors, targets, style, smooth)


def _keeping_aspect(
    x: Value, axes: list[int], factors: list[float | None], policy: str
) -> tuple[list[float | None], list[Any]] | None:
    """(the factor of all axes, the sizes); None where they are known only at run time."""
    have = [literal(x.shape[a]) for a in axes]
    numbers = [f for f in factors if f is not None]
    one = (min if policy == "not_larger" else max)(numbers, default=0.0)
    if len(numbers) < len(factors) or not all(isinstance(n, int) or one % 1 == 0 for n in have):
        return None
    targets = [math.floor(n * one + 0.5) if isinstance(n, int) else n * int(one) for n in have]
    return [one] * len(axes), targets


def _is_empty(value: Value) -> bool:
    return value.ndim == 1 and literal(value.shape[0]) == 0


def _numbers(value: Value) -> list[float]:
    numbers = value.constant
    assert numbers is not None
    return [float(v) for v in numbers.reshape(-1)]
