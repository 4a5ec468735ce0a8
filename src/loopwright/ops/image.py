"""Images: resizing, and channels moved into pixels."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tir
from ..base.errors import explain, suggest
from ..ir.dtype import numpy_dtype
from ..ir.prim_expr import IntImm
from ..ir.prim_op import cast, const, floordiv, floormod, multiply
from ..relax.struct_info import ShapeStructInfo, TensorStructInfo
from ..tir import layout as layout_of
from .blocks import extent, from_plain, to_plain
from .common import compute, simplify, void_or
from .core import case, op
from .params import DType, Shape, Tensor

# Where the element number x of n lies among m of the input, as floats; roi is (first, last) as
# parts of the extent. `choose(condition, a, b)` is an expression's or numpy's.
_PLACES: dict[str, Callable[..., Any]] = {
    "half_pixel": lambda x, m, n, roi, choose: (x + 0.5) * (m / n) - 0.5,
    "asymmetric": lambda x, m, n, roi, choose: x * (m / n),
    "align_corners": lambda x, m, n, roi, choose: choose(n > 1, x * ((m - 1) / (n - 1)), x * 0),
    "pytorch_half_pixel": lambda x, m, n, roi, choose: choose(
        n > 1, (x + 0.5) * (m / n) - 0.5, x * 0
    ),
    "tf_half_pixel_for_nn": lambda x, m, n, roi, choose: (x + 0.5) * (m / n),
    "tf_crop_and_resize": lambda x, m, n, roi, choose: choose(
        n > 1,
        roi[0] * (m - 1) + x * ((roi[1] - roi[0]) * (m - 1) / (n - 1)),
        x * 0 + 0.5 * (roi[0] + roi[1]) * (m - 1),
    ),
}
_METHODS = ("nearest_neighbor", "linear", "cubic")
# By the name: how a place is rounded, with floor, ceil and round given.
_ROUNDING: dict[str, Callable[..., Any]] = {
    "round": lambda x, floor, ceil, rint: rint(x),
    "round_prefer_floor": lambda x, floor, ceil, rint: ceil(x - 0.5),
    "round_prefer_ceil": lambda x, floor, ceil, rint: floor(x + 0.5),
    "floor": lambda x, floor, ceil, rint: floor(x),
    "ceil": lambda x, floor, ceil, rint: ceil(x),
}


def _taps(method: str, place: Any, alpha: float, kit: Any) -> list[tuple[Any, Any]]:
    """(index, weight) of the elements that make one at `place`; kit: floor, ceil, rint, rounding."""
    if method == "nearest_neighbor":
        return [(kit[3](place, *kit[:3]), 1.0)]
    low = kit[0](place)
    t = place - low
    if method == "linear":
        return [(low, 1.0 - t), (low + 1.0, t)]
    # Keys' cubic convolution with the parameter alpha (Keys, 1981).
    a = alpha
    return [
        (low - 1.0, a * (t * t * t - 2.0 * t * t + t)),
        (low, (a + 2.0) * t * t * t - (a + 3.0) * t * t + 1.0),
        (low + 1.0, -(a + 2.0) * t * t * t + (2.0 * a + 3.0) * t * t - a * t),
        (low + 2.0, -a * (t * t * t - t * t)),
    ]


@op("relax.image.resize2d", mixed="follow")
def resize2d(
    data: Tensor,
    size: Shape,
    roi: Any = None,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round",
    cubic_alpha: float = -0.75,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: DType | None = None,
):
    """The image in another size. `method`: "nearest_neighbor" (rounded by `rounding_method`),
    "linear" or "cubic" (with the parameter `cubic_alpha`; `cubic_exclude` leaves out what lies
    outside). `coordinate_transformation_mode` says where pixels lie, as ONNX does; for
    "tf_crop_and_resize" `roi` is [top, left, bottom, right] as parts of the image, and what
    lies outside is `extrapolation_value`."""
    plan = layout_of(layout)
    sizes = dict(zip("HW", size, strict=True))
    shape = [sizes.get(n, d) for n, d in zip(plan, data.shape, strict=True)]
    f32 = lambda v: cast("float32", v)  # noqa: E731
    rounding = _ROUNDING[rounding_method or "round"]
    kit = (tir.floor, tir.ceil, tir.round, rounding)

    def axis_taps(s, v, bounds):
        have, want = extent(plan, data.shape, s), sizes[s]
        m, n = f32(have), f32(want)
        one = isinstance(want, IntImm) and want.value == 1
        choose = lambda _, a, b: b if one else tir.if_then_else(want > 1, a, b)  # noqa: E731
        if isinstance(want, IntImm):
            choose = lambda _, a, b: b if one else a  # noqa: E731
        place = _PLACES[coordinate_transformation_mode](f32(v), m, n, bounds, choose)
        taps = []
        for at, weight in _taps(method, place, cubic_alpha, kit):
            index = cast("int64", at)
            held = tir.max(tir.min(index, have - 1), const(0, "int64"))
            inside = tir.all(index >= 0, index < have)
            if cubic_exclude and method == "cubic":
                weight = tir.if_then_else(inside, weight, const(0, "float32"))
            taps.append((held, f32(weight) if isinstance(weight, float) else weight))
        if cubic_exclude and method == "cubic":
            total = sum((w for _, w in taps), const(0, "float32"))
            taps = [(at, w / total) for at, w in taps]
        outside = tir.any(place < const(0, "float32"), place > m - 1)
        return taps, outside

    def cell(*i):
        at = dict(zip(plan, i, strict=True))
        rows, above = axis_taps("H", at["H"], _bounds(roi, 0))
        cols, beside = axis_taps("W", at["W"], _bounds(roi, 1))
        value: Any = const(0, "float32")
        for (r, a), (c, b) in itertools.product(rows, cols):
            where = {**at, "H": r, "W": c}
            picked = f32(data(*[where[n] for n in plan]))
            value = picked if method == "nearest_neighbor" else value + a * b * picked
        if coordinate_transformation_mode == "tf_crop_and_resize":
            fill = const(extrapolation_value, "float32")
            value = tir.if_then_else(tir.any(above, beside), fill, value)
        return cast(void_or(out_dtype, data.dtype), value)

    return compute(shape, cell, "resize", tag="injective")


def _bounds(roi, axis):
    given = [0.0, 0.0, 1.0, 1.0] if roi is None else [float(v) for v in roi]
    return given[axis], given[axis + 2]


@resize2d.build
def _(**values):
    size = values["size"]
    if isinstance(size, (int, tir.PrimExpr)):
        values["size"] = [size, size]
    roi = values["roi"]
    if roi is not None:
        numbers = [float(getattr(v, "value", v)) for v in (roi if len(roi) else (0.0,) * 4)]
        if len(numbers) not in (4,):
            raise ValueError(explain("relax.image.resize2d: roi has 4 numbers", got=numbers))
        values["roi"] = numbers
    for key, known in (
        ("method", _METHODS),
        ("coordinate_transformation_mode", _PLACES),
        ("rounding_method", (*_ROUNDING, "")),
    ):
        if values[key] not in known:
            what = f"relax.image.resize2d: unknown {key}"
            raise ValueError(explain(what, got=values[key], instead=suggest(values[key], known)))
    return values


@resize2d.infer
def _(data: TensorStructInfo, size: ShapeStructInfo, layout="NCHW", out_dtype=None, **_):
    plan = layout_of(layout)
    if sorted(n for n in plan if n.isupper()) != list("CHNW") or any(n in "hw" for n in plan):
        what = "layout must have the axes NCHW, with channels only in blocks"
        raise ValueError(explain(what, got=layout))
    if data.ndim not in (-1, len(plan)):
        what = f"data of layout {plan} has {len(plan)} axes"
        raise ValueError(explain(what, got=f"rank {data.ndim}"))
    if size.ndim != 2:
        raise ValueError(explain("size must be (height, width)", got=str(size)))
    dtype, shape = out_dtype or data.dtype, data.get_shape()
    if shape is None or size.values is None:
        return TensorStructInfo(dtype=dtype, ndim=len(plan))
    sizes = dict(zip("HW", size.values, strict=True))
    return TensorStructInfo([sizes.get(n, d) for n, d in zip(plan, shape, strict=True)], dtype)


def _numpy_axis(x, axis, n, bounds, attrs):
    """One axis resized: (values, whether a place lies outside)."""
    f, m = np.float32, x.shape[axis]
    choose = lambda condition, a, b: a if condition else b  # noqa: E731
    with np.errstate(all="ignore"):
        roi = tuple(map(f, bounds))
        places = _PLACES[attrs["coordinate_transformation_mode"]](
            np.arange(n, dtype=f), f(m), f(n), roi, choose
        ).astype(f)
    rounding = _ROUNDING[attrs["rounding_method"] or "round"]
    kit = (np.floor, np.ceil, np.rint, rounding)
    exclude = attrs["cubic_exclude"] and attrs["method"] == "cubic"
    taps = []
    for at, weight in _taps(attrs["method"], places, attrs["cubic_alpha"], kit):
        inside = (at >= 0) & (at < m)
        weight = np.broadcast_to(np.float64(weight), at.shape)
        weight = np.where(inside, weight, 0) if exclude else weight
        taps.append((np.clip(at, 0, m - 1).astype(np.int64), weight))
    whole = sum(w for _, w in taps) if exclude else 1.0
    across = [-1 if a == axis else 1 for a in range(x.ndim)]
    total = sum(np.take(x, at, axis) * (w / whole).reshape(across) for at, w in taps)
    return total, (places < 0) | (places > m - 1)


@resize2d.numpy
def _(data, size, roi=None, layout="NCHW", extrapolation_value=0.0, out_dtype=None, **attrs):
    x = to_plain(data, layout, "NCHW").astype(np.float64)
    rows, cols = (int(s) for s in size)
    x, above = _numpy_axis(x, 2, rows, _bounds(roi, 0), attrs)
    x, beside = _numpy_axis(x, 3, cols, _bounds(roi, 1), attrs)
    if attrs["coordinate_transformation_mode"] == "tf_crop_and_resize":
        x = np.where(above[:, None] | beside[None, :], extrapolation_value, x)
    kind = data.dtype if out_dtype is None else numpy_dtype(out_dtype)
    return from_plain(x.astype(kind), layout, "NCHW")


resize2d.samples(
    case((1, 2, 5, 4), [7, 6]),
    case((2, 3, 4, 5), [2, 10], method="nearest_neighbor",
         coordinate_transformation_mode="asymmetric", rounding_method="floor"),
    case((1, 1, 5, 6), [8, 4], method="cubic", coordinate_transformation_mode="align_corners"),
    case((1, 5, 6, 2), [4, 9], layout="NHWC", method="cubic", cubic_exclude=1),
    case((1, 2, 4, 4), [5, 3], coordinate_transformation_mode="tf_crop_and_resize",
         roi=[0.2, -0.3, 0.9, 1.4], extrapolation_value=7.0),
    case(("n", 2, 4, 4), [1, 5], coordinate_transformation_mode="pytorch_half_pixel"),
)  # fmt: skip


@op("relax.nn.pixel_shuffle")
def pixel_shuffle(data: Tensor, upscale_factor: int):
    """(..., channels * r * r, h, w) as (..., channels, h * r, w * r), r the upscale_factor: each
    pixel becomes r x r of them."""
    *lead, channels, high, wide = data.shape
    r = upscale_factor
    shape = [*lead, simplify(floordiv(channels, r * r)), multiply(high, r), multiply(wide, r)]

    def cell(*i):
        *front, c, y, x = i
        source = c * (r * r) + floormod(y, r) * r + floormod(x, r)
        return data(*front, source, floordiv(y, r), floordiv(x, r))

    return compute(shape, cell, "pixel_shuffle", tag="injective")


@pixel_shuffle.infer
def _(data: TensorStructInfo, upscale_factor):
    r = upscale_factor
    if r < 1:
        raise ValueError(explain("upscale_factor must be 1 or more", got=r))
    if data.ndim in (0, 1, 2):
        raise ValueError(explain("data must have 3 axes or more", got=f"rank {data.ndim}"))
    shape = data.get_shape()
    if shape is None:
        return TensorStructInfo(dtype=data.dtype, ndim=data.ndim)
    *lead, channels, high, wide = shape
    if isinstance(channels, IntImm) and channels.value % (r * r):
        what = f"the number of channels must be a multiple of {r * r}"
        raise ValueError(explain(what, got=channels.value))
    few = simplify(floordiv(channels, r * r))
    return TensorStructInfo([*lead, few, multiply(high, r), multiply(wide, r)], data.dtype)


@pixel_shuffle.numpy
def _(data, upscale_factor):
    *lead, channels, high, wide = data.shape
    r, n = upscale_factor, len(lead)
    cut = data.reshape(*lead, channels // (r * r), r, r, high, wide)
    order = [*range(n + 1), n + 3, n + 1, n + 4, n + 2]
    shape = (*lead, channels // (r * r), high * r, wide * r)
    return np.ascontiguousarray(cut.transpose(order)).reshape(shape)


pixel_shuffle.samples(case((2, 8, 3, 2), upscale_factor=2), case(("n", 9, 1, 2), upscale_factor=3))
