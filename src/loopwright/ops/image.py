"""Images: resizing, and channels moved into pixels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .. import relax, te, tir
from ..base.errors import explain
from ..ir.dtype import numpy_dtype
from ..ir.literals import int_value
from ..ir.prim_op import cast, const, floordiv, floormod, multiply
from ..ir.serialize import save_json
from ..relax.expr import Call, StringImm
from ..relax.layout import LayoutPlan, LayoutQuery
from ..relax.struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from ..tir import layout as layout_of
from .blocks import extent, from_plain, to_plain
from .common import compute, product, void_or
from .core import case, op
from .extents import check_filled, check_multiple, extents_of, simplify
from .layout_rules import image
from .params import DType, Ints, Prim, Shape, Tensor
from .resizing import ARRAYS, COORDINATE_MODES, EXPRESSIONS, METHODS, ROUNDING, Span, Style


def _style(
    method: str,
    coordinate_transformation_mode: str,
    rounding_method: str,
    cubic_alpha: float,
    cubic_exclude: int,
) -> Style:
    rounding = rounding_method or "round"
    return Style(method, coordinate_transformation_mode, rounding, cubic_alpha, bool(cubic_exclude))


_STYLES = {
    "method": METHODS,
    "coordinate_transformation_mode": COORDINATE_MODES,
    "rounding_method": (*ROUNDING, ""),
}


@op("relax.image.resize2d", mixed="follow", choices=_STYLES)
def resize2d(
    data: Tensor, size: Shape, roi: Any = None, layout: str = "NCHW", method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel", rounding_method: str = "round",
    cubic_alpha: float = -0.75, cubic_exclude: int = 0, extrapolation_value: float = 0.0,
    out_dtype: DType | None = None,
):  # fmt: skip
    """The image in another size. `method`: "nearest_neighbor" (rounded by `rounding_method`),
    "linear" or "cubic" (with the parameter `cubic_alpha`; `cubic_exclude` leaves out pixels
    outside). `coordinate_transformation_mode` maps coordinates as ONNX does; for
    "tf_crop_and_resize" `roi` is [top, left, bottom, right] as parts of the image, and pixels
    outside are `extrapolation_value`."""
    plan = layout_of(layout)
    sizes = dict(zip("HW", size, strict=True))
    shape = [sizes.get(n, d) for n, d in zip(plan, data.shape, strict=True)]
    f32 = lambda v: cast("float32", v)  # noqa: E731
    mode = coordinate_transformation_mode
    style = _style(method, mode, rounding_method, cubic_alpha, cubic_exclude)

    def axis_taps(s, v, bounds):
        have = extent(plan, data.shape, s)
        span = Span(EXPRESSIONS, f32(have), sizes[s], roi=bounds)
        x = COORDINATE_MODES[mode](f32(v), span)
        outside = tir.any(x < const(0, "float32"), x > span.have - 1)
        return style.taps(x, have, EXPRESSIONS), outside

    def cell(*i):
        at = dict(zip(plan, i, strict=True))
        rows, above = axis_taps("H", at["H"], _bounds(roi, 0))
        cols, outside_columns = axis_taps("W", at["W"], _bounds(roi, 1))
        value: Any = const(0, "float32")
        for (r, a), (c, b) in itertools.product(rows, cols):
            where = {**at, "H": r, "W": c}
            picked = f32(data(*[where[n] for n in plan]))
            value = picked if method == "nearest_neighbor" else value + a * b * picked
        if coordinate_transformation_mode == "tf_crop_and_resize":
            fill = const(extrapolation_value, "float32")
            value = tir.if_then_else(tir.any(above, outside_columns), fill, value)
        return cast(void_or(out_dtype, data.dtype), value)

    return compute(shape, cell, "resize", tag="injective")


def _bounds(roi, axis):
    box = [0.0, 0.0, 1.0, 1.0] if roi is None else [float(v) for v in roi]
    return box[axis], box[axis + 2]


@resize2d.build
def _(**arguments):
    size = arguments["size"]
    if isinstance(size, (int, tir.PrimExpr)):
        arguments["size"] = [size, size]
    roi = arguments["roi"]
    if roi is not None:
        numbers = [float(getattr(v, "value", v)) for v in (roi if len(roi) else (0.0,) * 4)]
        if len(numbers) not in (4,):
            raise ValueError(explain("relax.image.resize2d: roi has 4 numbers", got=numbers))
        arguments["roi"] = numbers if any(numbers) else None  # none is given as zeros, too
    return arguments


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
    for axis, extent_out in sizes.items():
        if int_value(extent_out):
            check_filled("an image's axis", extent(plan, shape, axis))
    return TensorStructInfo([sizes.get(n, d) for n, d in zip(plan, shape, strict=True)], dtype)


def _numpy_axis(x, axis, n, bounds, style):
    """One axis resized: (values, whether a position is outside)."""
    f, m = np.float32, x.shape[axis]
    with np.errstate(all="ignore"):
        span = Span(ARRAYS, f(m), f(n), roi=tuple(map(f, bounds)))
        at = COORDINATE_MODES[style.coordinates](np.arange(n, dtype=f), span).astype(f)
        taps = style.taps(at, m, ARRAYS)
    return _picked(x, axis, taps), (at < 0) | (at > m - 1)


def _picked(x, axis, taps) -> Any:
    """The sum of the elements at (index, weight) along an axis."""
    across = [-1 if a == axis else 1 for a in range(x.ndim)]
    return sum(np.take(x, at, axis) * w.reshape(across) for at, w in taps)


@resize2d.layout
def _(call: Call, query: LayoutQuery) -> LayoutPlan | None:
    layout = query.inputs[0]
    if query.block or not (layout is None or str(layout).isupper()):
        return None
    return image("layout")(call, query)


@resize2d.numpy
def _(data, size, roi=None, layout="NCHW", extrapolation_value=0.0, out_dtype=None, **attrs):
    x = to_plain(data, layout, "NCHW").astype(np.float64)
    rows, cols = (int(s) for s in size)
    style = _style(**attrs)
    x, above = _numpy_axis(x, 2, rows, _bounds(roi, 0), style)
    x, outside_columns = _numpy_axis(x, 3, cols, _bounds(roi, 1), style)
    if attrs["coordinate_transformation_mode"] == "tf_crop_and_resize":
        x = np.where(above[:, None] | outside_columns[None, :], extrapolation_value, x)
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


@op(
    "relax.image.resize_taps", alone=True, choices=_STYLES
)  # else computed again for every element that uses it
def resize_taps(
    have: Prim, want: Prim, placed: Tensor | None = None, scale: float | None = None,
    method: str = "linear", coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round_prefer_floor", cubic_alpha: float = -0.75, cubic_exclude: int = 0,
    dtype: DType = "float32",
):  # fmt: skip
    """The taps of an axis of extent `have` resized to extent `want` as ONNX's Resize does it:
    the indices of the elements picked, then their weights of type
    `dtype`, a vector of each for every tap; the indices only of nearest ones. `scale`, the factor
    of the coordinates, is by default the ratio of the extents; the other attributes are
    those of `resize2d`. placed: the factor, then the part of the axis that is read (first, last),
    known only at run time; "tf_crop_and_resize" also returns which elements are outside the axis."""
    mode = coordinate_transformation_mode
    style = _style(method, mode, rounding_method, cubic_alpha, cubic_exclude)
    f = lambda v: cast(style.dtype, v)  # noqa: E731
    if placed is not None:
        extents_of(placed, "placed", 3)
        factor, *roi = (f(placed(const(k, "int64"))) for k in range(3))
    else:
        roi = [const(v, style.dtype) for v in (0.0, 1.0)]
        factor = f(want) / f(have) if scale is None else const(scale, style.dtype)
    span = Span(EXPRESSIONS, f(have), f(want), factor, roi)

    def is_outside(i):
        x = COORDINATE_MODES[mode](f(i), span)
        return tir.any(x < const(0, x.dtype), x > span.have - const(1, x.dtype))

    def vector(tap, part, kind):
        def cell(i):
            x = COORDINATE_MODES[mode](f(i), span)
            return cast(kind, style.taps(x, have, EXPRESSIONS)[tap][part])

        return compute([want], cell, "taps", tag="injective")

    parts = [vector(t, 0, "int64") for t in range(style.count)]
    if method != "nearest_neighbor":
        parts += [vector(t, 1, dtype) for t in range(style.count)]
    if mode == "tf_crop_and_resize":
        parts.append(compute([want], is_outside, "outside", tag="injective"))
    return parts if len(parts) > 1 else parts[0]


@resize_taps.numpy
def _(have, want, placed=None, scale=None, dtype="float32", **attrs):
    style = _style(**attrs)
    factor, first, last = (scale, 0.0, 1.0) if placed is None else map(float, placed)
    positions = style.array_positions(int(have), int(want), factor, (first, last))
    taps = style.taps(positions, int(have), ARRAYS)
    parts = [at for at, _ in taps]
    if len(taps) > 1:
        parts += [w.astype(numpy_dtype(dtype)) for _, w in taps]
    if style.coordinates == "tf_crop_and_resize":
        parts.append((positions < 0) | (positions > int(have) - 1))
    return tuple(parts) if len(parts) > 1 else parts[0]


resize_taps.samples(
    case(5, 7, method="nearest_neighbor"),
    case(5, 4, dtype="float64"),
    case(8, 10, scale=1.3, method="cubic", cubic_exclude=1),
    case(8, 10, np.array([1.3, 0, 1])),
    case(8, 5, np.array([1, 0.1, 1.2]), coordinate_transformation_mode="tf_crop_and_resize"),
)


@op("relax.image.resize_matrix")
def resize_matrix(
    have: Prim, want: Prim, placed: Tensor | None = None, scale: float | None = None,
    method: str = "linear", coordinate_transformation_mode: str = "half_pixel",
    cubic_alpha: float = -0.75, cubic_exclude: int = 0,
):  # fmt: skip
    """[want, have], float32: the weights of an axis resized with antialiasing whose extents are known only
    at run time, or its factor, the first element of `placed`; attributes as in `resize_taps`."""


@resize_matrix.infer
def _(have: PrimStructInfo, want: PrimStructInfo, *_, **__):
    return TensorStructInfo([want.value, have.value], "float32")


@resize_matrix.numpy
def _(have, want, placed=None, scale=None, **attrs):
    style = _style(rounding_method="", **attrs)
    if placed is not None:
        scale = placed[0]
    elif scale is None:
        scale = want / have if have else 1.0  # of an axis without elements nothing is made
    return style.matrix(int(have), int(want), float(scale)).astype(np.float32)


@resize_matrix.legalize
def _(bb, call):
    leading = [StringImm(call.op.name), StringImm(save_json(dict(call.attrs.items())))]
    info = call.struct_info
    return relax.op.call_pure_packed("relax.run.operator", *leading, *call.args, sinfo_args=info)


resize_matrix.samples(
    case(8, 4, np.array([0.5])), case(8, 5, scale=0.6, method="cubic", cubic_exclude=1), case(8, 5)
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
    check_multiple(channels, const(r * r, "int64"), "the number of channels")
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


@op("relax.image.col2im")
def col2im(data: Tensor, size: Shape, window: Shape, strides: Ints, padding: Ints, dilation: Ints):
    """The image (batch, channels, *size) of which data (batch, channels * product of `window`, positions)
    are the windows: each pixel is the sum of the elements of the windows over it. padding: the widths that
    are cut off, all before and then all after."""
    rank, taps = len(window), simplify(product(window))
    counts = _window_counts(size, window, strides, padding, dilation)
    extents_of(data, "data", None, None, simplify(product(counts)))
    check_multiple(data.shape[1], taps, "axis 1 of data")
    channels = simplify(floordiv(data.shape[1], taps))
    spans = [te.reduce_axis((const(0, "int64"), k), name=f"k{n}") for n, k in enumerate(window)]

    def cell(*i):
        n, c, *at = i
        position, tap, covered = const(0, "int64"), const(0, "int64"), []
        for k in range(rank):
            start = at[k] + padding[k] - spans[k] * dilation[k]
            index = floordiv(start, strides[k])
            covered += [floormod(start, strides[k]).equal(0), index >= 0, index < counts[k]]
            position, tap = position * counts[k] + index, tap * window[k] + spans[k]
        value = data(n, c * taps + tap, position)
        return te.sum(tir.if_then_else(tir.all(*covered), value, const(0, data.dtype)), axis=spans)

    return compute((data.shape[0], channels, *size), cell, "col2im")


def _window_counts(size, window, strides, padding, dilation):
    """The number of positions of the window along each axis."""
    rank = len(window)
    return [
        simplify(
            (e + (padding[k] + padding[rank + k] - dilation[k] * (window[k] - 1) - 1)) // strides[k]
            + 1
        )
        for k, e in enumerate(size)
    ]


@col2im.numpy
def _(data, size, window, strides, padding, dilation):
    rank, counts = len(window), _window_counts(size, window, strides, padding, dilation)
    batch, channels = len(data), data.shape[1] // int(np.prod(window))
    x = data.reshape(batch, channels, *window, *(int(n) for n in counts))
    out = np.zeros((batch, channels, *size), data.dtype)
    for at in np.ndindex(*window, *x.shape[2 + rank :]):
        tap, position = at[:rank], at[rank:]
        here = [
            p * s + t * d - b
            for p, s, t, d, b in zip(position, strides, tap, dilation, padding, strict=False)
        ]
        if all(0 <= h < e for h, e in zip(here, size, strict=True)):
            out[(slice(None), slice(None), *here)] += x[(slice(None), slice(None), *at)]
    return out


_ONES: dict[str, Any] = {"strides": [1, 1], "dilation": [1, 1]}
_WIDE: dict[str, Any] = {"strides": [2, 2], "padding": [1, 0, 0, 1], "dilation": [1, 2]}
_LINE: dict[str, Any] = {"strides": [1], "padding": [1, 0], "dilation": [1]}
col2im.samples(
    case((1, 6, 9), [4, 5], [2, 3], padding=[0, 0, 0, 0], **_ONES),
    case((2, 4, 9), [5, 6], [2, 2], **_WIDE),
    case((2, 4, "n"), ["n"], [2], **_LINE),
)


# A reshape fused with it would divide indices, element by element.
@op("relax.image.im2col", alone=True)
def im2col(data: Tensor, window: Shape, strides: Ints, dilation: Ints):
    """The windows of an image (batch, channels, *size) as columns: (channels, *window, batch, *positions)."""
    rank, (batch, channels, *size) = len(window), data.shape
    counts = _window_counts(size, window, strides, [0] * 2 * rank, dilation)

    def cell(*i):
        (c, *taps), (n, *positions) = i[: rank + 1], i[rank + 1 :]
        rows = zip(positions, strides, taps, dilation, strict=True)
        return data(n, c, *(p * s + t * d for p, s, t, d in rows))

    return compute((channels, *window, batch, *counts), cell, "im2col", axes="i")


@im2col.numpy
def _(data, window, strides, dilation):
    rank, (batch, channels, *size) = len(window), data.shape
    counts = _window_counts(size, window, strides, [0] * 2 * rank, dilation)
    out = np.zeros((channels, *window, batch, *map(int, counts)), data.dtype)
    for tap in np.ndindex(*window):
        rows = zip(tap, dilation, out.shape[rank + 2 :], strides, strict=True)
        part = data[(..., *(slice(t * d, t * d + n * s, s) for t, d, n, s in rows))]
        out[(slice(None), *tap)] = part.swapaxes(0, 1)
    return out


im2col.samples(
    case((1, 3, 4, 5), [2, 3], strides=[1, 1], dilation=[1, 1]),
    case((2, 2, 5, 6), [2, 2], strides=[2, 1], dilation=[1, 2]),
    case(("n", 2, 7), [3], strides=[1], dilation=[1]),
)
