"""Images: resizing, and channels moved into pixels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .. import tir
from ..base.errors import explain, suggest
from ..ir.dtype import numpy_dtype
from ..ir.prim_expr import IntImm
from ..ir.prim_op import cast, const, floordiv, floormod, multiply
from ..relax.expr import Call
from ..relax.layout import LayoutPlan, LayoutQuery
from ..relax.struct_info import ShapeStructInfo, TensorStructInfo
from ..tir import layout as layout_of
from .blocks import extent, from_plain, to_plain
from .common import compute, void_or
from .core import case, op
from .extents import simplify
from .flow import image
from .params import DType, Prim, Shape, Tensor
from .resizing import ARRAYS, EXPRESSIONS, METHODS, PLACES, ROUNDING, Span, Style


def _style(
    method: str,
    coordinate_transformation_mode: str,
    rounding_method: str,
    cubic_alpha: float,
    cubic_exclude: int,
) -> Style:
    rounding = rounding_method or "round"
    return Style(method, coordinate_transformation_mode, rounding, cubic_alpha, bool(cubic_exclude))


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
    places = coordinate_transformation_mode
    style = _style(method, places, rounding_method, cubic_alpha, cubic_exclude)

    def axis_taps(s, v, bounds):
        have = extent(plan, data.shape, s)
        span = Span(EXPRESSIONS, f32(have), sizes[s], roi=bounds)
        place = PLACES[places](f32(v), span)
        outside = tir.any(place < const(0, "float32"), place > span.have - 1)
        return style.taps(place, have, EXPRESSIONS), outside

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
        values["roi"] = numbers if any(numbers) else None  # none is given as zeros, too
    return _known_styles("resize2d", values)


def _known_styles(name, values):
    for key, known in (
        ("method", METHODS),
        ("coordinate_transformation_mode", PLACES),
        ("rounding_method", (*ROUNDING, "")),
    ):
        if values[key] not in known:
            what = f"relax.image.{name}: unknown {key}"
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


def _numpy_axis(x, axis, n, bounds, style):
    """One axis resized: (values, whether a place lies outside)."""
    f, m = np.float32, x.shape[axis]
    with np.errstate(all="ignore"):
        span = Span(ARRAYS, f(m), f(n), roi=tuple(map(f, bounds)))
        places = PLACES[style.places](np.arange(n, dtype=f), span).astype(f)
        taps = style.taps(places, m, ARRAYS)
    return _picked(x, axis, taps), (places < 0) | (places > m - 1)


def _picked(x, axis, taps) -> Any:
    """The sum of the elements at (index, weight) along an axis."""
    across = [-1 if a == axis else 1 for a in range(x.ndim)]
    return sum(np.take(x, at, axis) * w.reshape(across) for at, w in taps)


@resize2d.layout
def _(call: Call, query: LayoutQuery) -> LayoutPlan | None:
    given = query.given[0]
    if query.block or not (given is None or str(given).isupper()):
        return None
    return image("layout")(call, query)


@resize2d.numpy
def _(data, size, roi=None, layout="NCHW", extrapolation_value=0.0, out_dtype=None, **attrs):
    x = to_plain(data, layout, "NCHW").astype(np.float64)
    rows, cols = (int(s) for s in size)
    style = _style(**attrs)
    x, above = _numpy_axis(x, 2, rows, _bounds(roi, 0), style)
    x, beside = _numpy_axis(x, 3, cols, _bounds(roi, 1), style)
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


@op("relax.image.resize_taps", alone=True)  # else computed again for every element that uses it
def resize_taps(
    have: Prim,
    want: Prim,
    scale: float | None = None,
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round_prefer_floor",
    cubic_alpha: float = -0.75,
    cubic_exclude: int = 0,
    dtype: DType = "float32",
):
    """What the elements of an axis of extent `want` are made of when one of extent `have` is
    resized as ONNX's Resize does it: the indices of the elements picked, then their weights of type
    `dtype`, a vector of each for every tap; the indices only of nearest ones. `scale`, the factor
    that places are computed with, is by default the ratio of the extents; the other attributes are
    those of `resize2d`."""
    places = coordinate_transformation_mode
    style = _style(method, places, rounding_method, cubic_alpha, cubic_exclude)
    f = lambda v: cast(style.dtype, v)  # noqa: E731
    factor = f(want) / f(have) if scale is None else const(scale, style.dtype)
    span = Span(EXPRESSIONS, f(have), f(want), factor)

    def vector(tap, part, kind):
        def cell(i):
            place = PLACES[places](f(i), span)
            return cast(kind, style.taps(place, have, EXPRESSIONS)[tap][part])

        return compute([want], cell, "taps", tag="injective")

    if method == "nearest_neighbor":
        return vector(0, 0, "int64")
    indices = [vector(t, 0, "int64") for t in range(style.count)]
    return indices + [vector(t, 1, dtype) for t in range(style.count)]


@resize_taps.build
def _(**values):
    return _known_styles("resize_taps", values)


@resize_taps.numpy
def _(have, want, scale=None, dtype="float32", **attrs):
    taps = _style(**attrs).array_taps(int(have), int(want), scale)
    if len(taps) == 1:
        return taps[0][0]
    return (*(at for at, _ in taps), *(w.astype(numpy_dtype(dtype)) for _, w in taps))


resize_taps.samples(
    case(5, 7, method="nearest_neighbor"),
    case(5, 4, dtype="float64"),
    case(8, 10, scale=1.3, method="cubic", cubic_exclude=1),
)


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
