"""Regions of images in one size: the mean or greatest value of samples or pixels.

Rows of regions are (batch, x, y, x, y). References: Girshick, "Fast R-CNN", 2015; He et al., "Mask
R-CNN", 2017.
"""

from __future__ import annotations

import functools
from contextlib import ExitStack
from typing import Any

import numpy as np

from .. import tir
from ..base.errors import explain
from ..ir.prim_expr import IntImm, PrimExpr
from ..ir.prim_op import cast, const, infimum
from ..tir.expr import BufferLoad
from .core import case, op
from .extents import check_filled, extents_of
from .overlap import rows
from .params import Ints, Tensor
from .statements import long, loops, written


def _plan(data: Any, layout: str) -> tuple[Any, list[Any]]:
    """How an index in NCHW is one of the layout, and the extents in the order NCHW."""
    if layout not in ("NCHW", "NHWC"):
        raise ValueError(explain("the layout is NCHW or NHWC", got=layout))
    extents_of(data, "data", None, None, None, None)
    order = ["NCHW".index(n) for n in layout]
    extents = [data.shape[layout.index(n)] for n in "NCHW"]
    check_filled("the image", *extents[2:])
    return lambda at: tuple(at[n] for n in order), extents


def _image(number: BufferLoad, batch: PrimExpr) -> Any:
    """The number of an image, which must be one of the batch."""
    return tir.checked_index(cast("int64", number), batch)


def _pooled_size(**arguments: Any) -> dict[str, Any]:
    size = arguments["pooled_size"]
    arguments["pooled_size"] = [size, size] if isinstance(size, (int, IntImm)) else list(size)
    return arguments


@op("relax.vision.roi_align", alone=True, choices={"mode": ("avg", "max", "max_taps")})
def roi_align(
    data: Tensor, rois: Tensor, pooled_size: Ints, spatial_scale: float, sample_ratio: int = -1,
    layout: str = "NCHW", mode: str = "avg", aligned: bool = False,
):  # fmt: skip
    """The mean ("avg") or greatest ("max"; "max_taps": of the pixels' shares in them) value of sample_ratio x sample_ratio points in each of
    pooled_size cells of the regions, times `spatial_scale`; without a ratio, a point for each pixel
    of the cell; 0 where there are none. Points are between pixels. aligned: pixels have their
    middle at .5."""
    put, (batch, channels, high, wide) = _plan(data, layout)
    count, _ = extents_of(rois, "rois", None, 5)
    kind, size = rois.dtype, pooled_size
    extents = (high, wide)
    zero, one = const(0, kind), const(1, kind)

    def taps(position, extent):
        """(index, weight) of the pixels around a position, and whether it is inside, which NaN is
        not."""
        last = cast(kind, extent - 1)
        inside = tir.all(position >= -one, position <= cast(kind, extent))
        clamped = tir.min(tir.max(position, zero), last)
        low = cast("int64", tir.floor(clamped))
        part = clamped - cast(kind, low)
        return [(low, one - part), (tir.min(low + 1, extent - 1), part)], inside

    def write(ib, x, regions, out):
        with ExitStack() as stack:
            i, c, *cell = loops(ib, stack, [count, channels, *map(long, size)], parallel=True)
            image = ib.let("image", _image(regions[i, 0], batch))
            start, bins, grid = [], [], []
            for axis, column in ((0, 2), (1, 1)):
                shift = const(0.5 if aligned else 0.0, kind)
                ends = [regions[i, column + n] * const(spatial_scale, kind) - shift for n in (0, 2)]
                length = ends[1] - ends[0] if aligned else tir.max(ends[1] - ends[0], one)
                each = ib.let("each", length / const(size[axis], kind))
                points = cast("int64", tir.ceil(each)) if sample_ratio <= 0 else long(sample_ratio)
                bins.append(each)
                grid.append(ib.let("points", points))
                start.append(ib.let("start", ends[0] + cast(kind, cell[axis]) * each))
            total = ib.allocate(kind, 1, "total")
            total[0] = zero if mode == "avg" else infimum(kind)
            with rows(ib, grid[0], "rh") as rh, rows(ib, grid[1], "rw") as rw:
                taps_of, inside = [], []
                for axis, r in enumerate((rh, rw)):
                    middle = (
                        (cast(kind, r) + const(0.5, kind)) * bins[axis] / cast(kind, grid[axis])
                    )
                    near, clamped = taps(start[axis] + middle, extents[axis])
                    taps_of.append(near)
                    inside.append(clamped)
                shares = [
                    a * b * cast(kind, x[put((image, c, row, column))])
                    for row, a in taps_of[0]
                    for column, b in taps_of[1]
                ]
                value = functools.reduce(
                    tir.max if mode == "max_taps" else lambda a, b: a + b, shares
                )
                value = tir.if_then_else(tir.all(*inside), value, zero)
                total[0] = total[0] + value if mode == "avg" else tir.max(total[0], value)
            whole = tir.max(cast(kind, grid[0] * grid[1]), one)
            some = tir.all(*(n > 0 for n in grid))
            result = total[0] / whole if mode == "avg" else tir.if_then_else(some, total[0], zero)
            out[put((i, c, *cell))] = cast(data.dtype, result)

    shape = put((count, channels, *map(long, size)))
    return written([shape], [data, rois], write, [data.dtype], "roi_align")


def _between(image, y, x, mode):
    """An image (channels, rows, columns) between its pixels, or the greatest of the pixels' shares; 0
    more than 1 outside."""
    _, high, wide = image.shape
    if y < -1 or y > high or x < -1 or x > wide:
        return np.zeros(len(image))
    y, x = min(max(y, 0), high - 1), min(max(x, 0), wide - 1)
    top, left = int(y), int(x)
    down, right = min(top + 1, high - 1), min(left + 1, wide - 1)
    a, b = y - top, x - left
    shares = [
        image[:, row, column] * p * q
        for row, p in ((top, 1 - a), (down, a))
        for column, q in ((left, 1 - b), (right, b))
    ]
    return np.max(shares, 0) if mode == "max_taps" else np.sum(shares, 0)


@roi_align.numpy
def _(
    data, rois, pooled_size, spatial_scale, sample_ratio=-1, layout="NCHW", mode="avg",
    aligned=False,
):  # fmt: skip
    x = (data if layout == "NCHW" else data.transpose(0, 3, 1, 2)).astype(np.float64)
    out = np.zeros((len(rois), x.shape[1], *pooled_size))
    for i, (image, *ends) in enumerate(rois.astype(np.float64)):
        left, top, right, bottom = (e * spatial_scale - 0.5 * aligned for e in ends)
        lengths = [bottom - top, right - left]
        lengths = lengths if aligned else [max(v, 1.0) for v in lengths]
        bins = [v / n for v, n in zip(lengths, pooled_size, strict=True)]
        points = [sample_ratio if sample_ratio > 0 else max(int(np.ceil(b)), 0) for b in bins]
        for at in np.ndindex(*pooled_size):
            first = [s + a * b for s, a, b in zip((top, left), at, bins, strict=True)]
            values = [np.zeros(x.shape[1])] * (0 in points) + [
                _between(
                    x[int(image)],
                    *(
                        f + (r + 0.5) * b / p
                        for f, r, b, p in zip(first, spot, bins, points, strict=True)
                    ),
                    mode,
                )
                for spot in np.ndindex(*points)
            ]
            out[(i, slice(None), *at)] = np.mean(values, 0) if mode == "avg" else np.max(values, 0)
    return (out if layout == "NCHW" else out.transpose(0, 2, 3, 1)).astype(data.dtype)


_ROIS = np.array([[0, 1, 1, 9, 7], [1, 0, 2, 5, 4], [1, 3, 3, 3.5, 12]], np.float32)
_SIZES: dict[str, Any] = {"pooled_size": [2, 3], "spatial_scale": 0.8}
roi_align.build(_pooled_size)
roi_align.samples(
    case((2, 3, 6, 8), _ROIS, **_SIZES),
    case((2, 6, 8, 3), _ROIS, sample_ratio=2, layout="NHWC", **_SIZES),
    case((2, 3, 6, 8), _ROIS, sample_ratio=2, mode="max", aligned=True, **_SIZES),
    case((2, 3, 6, 8), _ROIS, mode="max_taps", **_SIZES),
)


@op("relax.vision.roi_pool", alone=True)
def roi_pool(
    data: Tensor, rois: Tensor, pooled_size: Ints, spatial_scale: float, layout: str = "NCHW"
):
    """The greatest value of the pixels in each of pooled_size cells of the regions, times
    `spatial_scale` and rounded; 0 where there are none."""
    put, (batch, channels, high, wide) = _plan(data, layout)
    count, _ = extents_of(rois, "rois", None, 5)
    kind, size = rois.dtype, pooled_size

    def write(ib, x, regions, out):
        with ExitStack() as stack:
            i, c, *cell = loops(ib, stack, [count, channels, *map(long, size)], parallel=True)
            image = ib.let("image", _image(regions[i, 0], batch))
            spans = []
            for axis, column, extent in ((0, 2, high), (1, 1, wide)):
                first, last = (
                    cast("int64", tir.round(regions[i, column + n] * const(spatial_scale, kind)))
                    for n in (0, 2)
                )
                each = cast(kind, tir.max(last - first + 1, long(1))) / const(size[axis], kind)
                slack = const(1e-5, kind)
                low = tir.floor(cast(kind, cell[axis]) * each + slack)
                high_ = tir.ceil(cast(kind, cell[axis] + 1) * each - slack)
                ends = [
                    tir.min(tir.max(cast("int64", v) + first, long(0)), extent)
                    for v in (low, high_)
                ]
                spans.append([ib.let("end", v) for v in ends])
            some = tir.all(*(low < end for low, end in spans))
            best = ib.allocate(data.dtype, 1, "best")
            best[0] = tir.if_then_else(some, infimum(data.dtype), const(0, data.dtype))
            counts = [tir.max(end - low, long(0)) for low, end in spans]
            with rows(ib, counts[0], "rh") as rh, rows(ib, counts[1], "rw") as rw:
                value = x[put((image, c, spans[0][0] + rh, spans[1][0] + rw))]
                best[0] = tir.max(best[0], value)
            out[put((i, c, *cell))] = best[0]

    shape = put((count, channels, *map(long, size)))
    return written([shape], [data, rois], write, [data.dtype], "roi_pool")


@roi_pool.numpy
def _(data, rois, pooled_size, spatial_scale, layout="NCHW"):
    x = data if layout == "NCHW" else data.transpose(0, 3, 1, 2)
    out = np.zeros((len(rois), x.shape[1], *pooled_size), data.dtype)
    for i, (image, *ends) in enumerate(rois):
        left, top, right, bottom = (int(np.rint(e * np.float32(spatial_scale))) for e in ends)
        for at in np.ndindex(*pooled_size):
            spans = []
            for first, last, n, a, extent in zip(
                (top, left), (bottom, right), pooled_size, at, x.shape[2:], strict=True
            ):
                each = max(last - first + 1, 1) / n
                low, end = np.floor(a * each + 1e-5), np.ceil((a + 1) * each - 1e-5)
                spans.append(slice(*(int(np.clip(v + first, 0, extent)) for v in (low, end))))
            cells = x[(int(image), slice(None), *spans)]
            out[(i, slice(None), *at)] = cells.max((1, 2)) if cells.size else 0
    return out if layout == "NCHW" else np.ascontiguousarray(out.transpose(0, 2, 3, 1))


roi_pool.build(_pooled_size)
roi_pool.samples(
    case((2, 3, 6, 8), _ROIS, **_SIZES), case((2, 6, 8, 3), _ROIS, layout="NHWC", **_SIZES)
)
