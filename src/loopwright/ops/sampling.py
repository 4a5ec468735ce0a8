"""Images read between their pixels: on grids, and under convolutions with offsets.

References: Jaderberg et al., "Spatial Transformer Networks", 2015; Dai et al., "Deformable Convolutional
Networks", 2017; Zhu et al., "Deformable ConvNets v2", 2018.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.dtype import DataType, numpy_dtype
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, const, floordiv
from ..tir.buffer import DataProducer
from .common import accumulator, compute, rounded
from .core import case, op
from .extents import check_filled, check_multiple, extents_of, simplify
from .overlap import rows
from .params import Ints, Shape, Tensor
from .resizing import ARRAYS, EXPRESSIONS, Kit, Style
from .statements import long, loops, written

_STYLES = {"nearest": "nearest_neighbor", "bilinear": "linear", "bicubic": "cubic"}
_CHOICES = {
    "method": _STYLES,
    "layout": ("NCHW", "NCDHW"),
    "padding_mode": ("zeros", "border", "reflection"),
}
Keep = Callable[[Any, str], Any]


def _mirrored(x: Any, extent: Any, corners: bool, kit: Kit) -> Any:
    """A position mirrored at the ends of an axis until it is inside."""
    first, length = (0.0, extent - 1) if corners else (-0.5, extent)
    # In one period of two lengths; an axis of one pixel whose ends are that pixel has no length.
    period = kit.choose(length > 0, length * 2, extent)
    distance = x - first
    rest = distance - kit.floor(distance / period) * period
    back = kit.choose(rest > length, length * 2 - rest, rest)
    return kit.choose(length > 0, back, x * 0) + first


def _reflected(
    x: PrimExpr | np.ndarray[Any, Any], extent: Any, corners: bool, kit: Kit, keep: Keep
) -> Any:
    """A position that is inside unchanged, any other one mirrored."""
    x = keep(x, "place")
    first, last = (0.0, extent - 1) if corners else (-0.5, extent - 0.5)
    inside = keep(_mirrored(x, extent, corners, kit), "mirrored")
    return kit.choose(x < first, inside, kit.choose(x > last, inside, x))


def _taps(
    x: PrimExpr | np.ndarray[Any, Any],
    extent: Any,
    style: Style,
    padding: str,
    corners: bool,
    kit: Kit,
    keep: Keep,
) -> list[tuple[Any, Any, Any]]:
    """(index, weight, whether it is inside) of the pixels of an axis that a position is interpolated
    from. extent: a float; keep(value, name): the value, computed once."""
    x = kit.rint(x) if style.method == "nearest_neighbor" else x
    if padding == "reflection":
        x = _reflected(x, extent, corners, kit, keep)
    else:  # far outside all results are equal; a clamped position fits an integer
        x = keep(x, "place")
        x = keep(kit.choose(x < -8, x * 0 - 8, x), "place")
        x = kit.choose(x > extent + 8, x * 0 + (extent + 8), x)
    x, pixels = keep(x, "at"), []
    for at, weight in style._around(x, kit):
        if padding == "reflection":
            at = _reflected(at, extent, corners, kit, keep)
        index = keep(kit.index(at), "index")
        within = kit.inside(index, kit.index(extent))
        pixel = keep(kit.clamp(index, kit.index(extent)), "tap")
        pixels.append((pixel, keep(kit.weight(weight, x), "weight"), within))
    return pixels


@op("relax.image.grid_sample", alone=True, choices=_CHOICES)
def grid_sample(
    data: Tensor,
    grid: Tensor,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
):
    """The data (NCHW or NCDHW) at the positions of a grid: x, y (and z) from -1 to 1 on its axis 1, which
    are the first and last pixels' middles with `align_corners`, else their sides. `method`: "nearest",
    "bilinear" or "bicubic"; `padding_mode`, for positions outside: "zeros", "border" or "reflection".
    """
    rank = _rank(data, grid, method, layout)
    check_filled("the image", *data.shape[2:])
    style, wide = Style(_STYLES[method], "half_pixel"), _wide(data.dtype)
    extents = data.shape[2:]

    def write(ib, x, positions, out):
        keep = lambda value, name: ib.let(name, value)  # noqa: E731
        with ExitStack() as stack:
            n, *i = loops(ib, stack, [data.shape[0], *grid.shape[2:]], parallel=True)
            taps = []
            for k, extent in enumerate(extents):
                size, value = cast(wide, extent), cast(wide, positions[(n, rank - 1 - k, *i)])
                middle = _denormalized(value, size, align_corners)
                options = (middle, size, style, padding_mode, align_corners, EXPRESSIONS, keep)
                taps.append(_taps(*options))
            with rows(ib, data.shape[1], "c") as c:
                read = lambda *at: x[(n, c, *at)]  # noqa: E731
                if method == "nearest":
                    total = _read(read, [axis[0] for axis in taps], padding_mode, data.dtype)
                else:
                    total = const(0, wide)
                    for corner in itertools.product(*taps):
                        total = total + _share(read, corner, padding_mode, wide)
                out[(n, c, *i)] = cast(data.dtype, total)

    shape = (*data.shape[:2], *grid.shape[2:])
    return written([shape], [data, grid], write, [data.dtype], "grid_sample")


def _wide(dtype: DataType | str) -> Any:
    """The type of positions and weights."""
    return accumulator(dtype) if DataType(dtype).is_float else DataType("float32")


def _read(read: Callable[..., Any], taps: Sequence[Any], padding: str, dtype: DataType) -> Any:
    """The pixel of a tap for each axis; 0 where it is padding."""
    value = read(*(index for index, _, _ in taps))
    if padding != "zeros":
        return value
    return tir.if_then_else(tir.all(*(within for *_, within in taps)), value, const(0, dtype))


def _share(read: Callable[..., Any], taps: Sequence[Any], padding: str, dtype: DataType) -> Any:
    """The term of the pixel of a tap for each axis in the value interpolated between pixels."""
    value = _read(lambda *at: cast(dtype, read(*at)), taps, padding, dtype)
    for _, weight, _ in taps:
        value = value * weight
    return value


def _denormalized(value: np.ndarray[Any, Any] | PrimExpr, size: Any, corners: bool) -> Any:
    return (value + 1) * ((size - 1) * 0.5) if corners else ((value + 1) * size - 1) * 0.5


def _rank(data: Any, grid: DataProducer, method: str, layout: str) -> int:
    rank = len(layout) - 2
    extents_of(data, "data", *[None] * (rank + 2))
    extents_of(grid, "grid", data.shape[0], rank, *[None] * rank)
    if rank == 3 and method == "bicubic":
        hint = '"bilinear" or "nearest"'
        raise ValueError(explain('"bicubic" is for images', got=layout, instead=hint))
    return rank


@grid_sample.numpy
def _(
    data, grid, method="bilinear", layout="NCHW", padding_mode="zeros", align_corners=True
):  # fmt: skip
    rank, style = len(layout) - 2, Style(_STYLES[method], "half_pixel")
    wide = numpy_dtype(_wide(str(data.dtype))).type
    taps = []
    for k, extent in enumerate(data.shape[2:]):
        size = wide(extent)
        middle = _denormalized(grid[:, rank - 1 - k].astype(wide), size, align_corners)
        options = (middle, size, style, padding_mode, align_corners, ARRAYS, lambda v, _: v)
        taps.append(_taps(*options))
    batch = np.arange(len(data)).reshape(-1, *[1] * rank)
    total: Any = 0
    for corner in itertools.product(*taps):
        value = data[(batch, slice(None), *(index for index, _, _ in corner))]
        value = value.astype(wide)
        for _, weight, within in corner:
            inside = within if padding_mode == "zeros" else True
            weight = weight if method != "nearest" else np.ones_like(weight)
            value = np.where(np.expand_dims(inside, -1), value * np.expand_dims(weight, -1), 0)
        total = total + value
    return np.ascontiguousarray(np.moveaxis(total, -1, 1).astype(data.dtype))


_GRID = np.random.default_rng(5).uniform(-1.6, 1.6, (2, 2, 3, 5)).astype(np.float32)
_GRID_3D = np.random.default_rng(6).uniform(-1.6, 1.6, (1, 3, 2, 3, 2)).astype(np.float32)
grid_sample.samples(
    *(
        case((2, 3, 5, 6), _GRID, method=method, padding_mode=padding, align_corners=corners)
        for method in _STYLES
        for padding, corners in zip(("zeros", "border", "reflection"), (True, False, False))
    ),
    case((1, 2, 3, 4, 5), _GRID_3D, layout="NCDHW", padding_mode="reflection"),
    case(("n", 2, "h", "w"), ("n", 2, "c", "m"), align_corners=False),
)


@op("relax.image.affine_grid")
def affine_grid(data: Tensor, size: Shape, align_corners: bool = True):
    """The positions x, y (and z), between -1 and 1, of the pixels of an image of a `size` (height, width)
    or (depth, height, width), moved by matrices (batch, rank, rank + 1): (batch, rank, *size), as
    `grid_sample` takes them. With `align_corners` -1 and 1 are the middles of the outer pixels, else
    their sides."""
    rank = len(size)
    if rank not in (2, 3):
        raise ValueError(explain("size has 2 or 3 extents", got=rank))
    extents_of(data, "data", None, rank, rank + 1)
    wide = accumulator(data.dtype)

    def cell(*indices):
        n, axis, *i = indices
        total = cast(wide, data(n, axis, rank))
        for k, (v, extent) in enumerate(zip(i, size, strict=True)):
            have, at = cast(wide, extent), cast(wide, v)
            spot = at * 2 / (have - 1) - 1 if align_corners else (at * 2 + 1) / have - 1
            if align_corners:  # a single pixel is at the first end
                spot = tir.Select(have > 1, spot, const(-1, wide))
            total = total + cast(wide, data(n, axis, rank - 1 - k)) * spot
        return cast(data.dtype, total)

    return compute(
        (data.shape[0], const(rank, "int64"), *size), cell, "affine_grid", tag="injective"
    )


@affine_grid.numpy
def _(data, size, align_corners=True):
    rank, wide = len(size), accumulator(str(data.dtype)).numpy()
    spots = []
    for extent in size:
        at = np.arange(extent, dtype=wide)
        spot = at * 2 / max(extent - 1, 1) - 1 if align_corners else (at * 2 + 1) / extent - 1
        spots.append(spot.astype(wide))
    mesh = np.stack(np.meshgrid(*spots, indexing="ij")[::-1]).reshape(rank, -1)
    out = data[:, :, :rank].astype(wide) @ mesh + data[:, :, rank:].astype(wide)
    return out.reshape(len(data), rank, *size).astype(data.dtype)


affine_grid.samples(
    case((2, 2, 3), [4, 5]),
    case((2, 2, 3), [4, 1], align_corners=False),
    case(("n", 3, 4), [2, 1, 3], align_corners=True),
)


@op("relax.nn.deform_conv2d", alone=True)
def deform_conv2d(
    data: Tensor, offset: Tensor, weight: Tensor, mask: Tensor | None = None,
    strides: Ints = (1, 1), padding: Ints = (0, 0, 0, 0), dilation: Ints = (1, 1), groups: int = 1,
    offset_groups: int = 1,
):  # fmt: skip
    """A convolution of data (NCHW) by a weight (OIHW) whose taps read moved positions, between pixels; 0
    outside. offset: (batch, 2 * offset_groups * taps, rows, columns), a distance down and one to the
    right for each tap; mask (batch, offset_groups * taps, rows, columns): factors of the taps.
    padding: top, left, bottom, right."""
    batch, channels, *extents = extents_of(data, "data", None, None, None, None)
    outer, inner, *kernel = extents_of(weight, "weight", None, None, None, None)
    check_multiple(outer, long(groups), "the number of results")
    for count in (groups, offset_groups):
        check_multiple(channels, long(count), "the number of channels")
    taps = simplify(kernel[0] * kernel[1])
    spots = _windows(extents, kernel, strides, padding, dilation)
    options = (batch, simplify(taps * (2 * offset_groups)), *spots)
    extents_of(offset, "offset", *options)
    if mask is not None:
        extents_of(mask, "mask", batch, simplify(taps * offset_groups), *spots)
    extents_of(weight, "weight", None, simplify(channels // groups), None, None)
    wide = accumulator(data.dtype)
    style = Style("linear", "half_pixel")

    def write(ib, x, moves, *others):
        factors, out = others if mask is not None else (None, *others)
        keep = lambda value, name: ib.let(name, value)  # noqa: E731
        with ExitStack() as stack:
            dims = [batch, long(offset_groups), *kernel, *spots]
            n, group, u, v, *spot = loops(ib, stack, dims, parallel=True)
            tap = group * taps + u * kernel[1] + v
            at = []
            for k, j in enumerate((u, v)):
                start = cast(wide, spot[k] * strides[k] - padding[k] + j * dilation[k])
                point = start + cast(wide, moves[(n, tap * 2 + k, *spot)])
                options = (point, cast(wide, extents[k]), style, "zeros", True, EXPRESSIONS, keep)
                at.append(_taps(*options))
            each = floordiv(channels, offset_groups)
            with rows(ib, each, "c") as c:
                channel = group * each + c
                total: Any = const(0, wide)
                for corner in itertools.product(*at):
                    read = lambda *point: x[(n, channel, *point)]  # noqa: E731
                    total = total + _share(read, corner, "zeros", wide)
                if factors is not None:
                    total = total * cast(wide, factors[(n, tap, *spot)])
                out[(n, channel, u, v, *spot)] = total

    shape = (batch, channels, *kernel, *spots)
    options = [data, offset, *([] if mask is None else [mask])]
    columns = written([shape], options, write, [str(wide)], "deform_columns")
    spans = [
        te.reduce_axis((const(0, "int64"), e), name=f"k{k}") for k, e in enumerate((inner, *kernel))
    ]

    def product(*i):
        n, o, y, x = i
        c = o // (outer // groups) * inner + spans[0]
        picked = columns(n, c, spans[1], spans[2], y, x)
        return te.sum(picked * cast(wide, weight(o, *spans)), axis=spans)

    return rounded(compute((batch, outer, *spots), product, "deform_conv2d"), data.dtype)


def _windows(
    extents: Sequence[Any],
    kernel: Sequence[Any],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[Any]:
    """The number of positions of a window along each axis."""
    return [
        simplify(
            (e + padding[k] + padding[k + 2] - dilation[k] * (kernel[k] - 1) - 1) // strides[k] + 1
        )
        for k, e in enumerate(extents)
    ]


@deform_conv2d.numpy
def _(
    data, offset, weight, mask=None, strides=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), groups=1,
    offset_groups=1,
):  # fmt: skip
    batch, channels, *extents = data.shape
    outer, inner, *kernel = weight.shape
    spots = [int(s) for s in _windows(extents, kernel, strides, padding, dilation)]
    x = data.astype(np.float64)
    x = x.reshape(batch, offset_groups, channels // offset_groups, *extents)
    moves = offset.astype(np.float64).reshape(batch, offset_groups, *kernel, 2, *spots)
    factors = 1.0
    if mask is not None:
        factors = mask.astype(np.float64).reshape(batch, offset_groups, *kernel, *spots)
    grid = np.indices((*kernel, *spots))
    point = [
        grid[2 + k] * strides[k] - padding[k] + grid[k] * dilation[k] + moves[:, :, :, :, k]
        for k in (0, 1)
    ]
    # Far outside all results are equal, and NaN is outside.
    point = [np.nan_to_num(np.clip(p, -2, e + 1), nan=-2) for p, e in zip(point, extents)]
    low = [np.floor(p).astype(np.int64) for p in point]
    n, g, *_ = np.ogrid[:batch, :offset_groups, :1, :1, :1, :1]
    columns = np.zeros((*point[0].shape, x.shape[2]))
    for corner in itertools.product((0, 1), repeat=2) if x.size else ():
        here = [a + b for a, b in zip(low, corner, strict=True)]
        inside = [(h >= 0) & (h < e) for h, e in zip(here, extents, strict=True)]
        share = [1 - np.abs(p - h) for p, h in zip(point, here, strict=True)]
        near = [np.clip(h, 0, e - 1) for h, e in zip(here, extents, strict=True)]
        value = x[n, g, :, near[0], near[1]] * np.expand_dims(share[0] * share[1] * factors, -1)
        columns += np.where(np.expand_dims(inside[0] & inside[1], -1), value, 0)
    columns = np.moveaxis(columns, -1, 2)
    parts = columns.reshape(batch, groups, inner, *kernel, *spots)
    kernels = weight.astype(np.float64).reshape(groups, outer // groups, inner, *kernel)
    out = np.einsum("ngcuvyx,gocuv->ngoyx", parts, kernels)
    return out.reshape(batch, outer, *spots).astype(data.dtype)


_TWO: dict[str, Any] = {"strides": [2, 2], "padding": [1, 1, 2, 1], "dilation": [2, 1]}
deform_conv2d.samples(
    case((1, 2, 4, 5), (1, 8, 3, 4), (3, 2, 2, 2)),
    case(
        (1, 4, 4, 5), (1, 16, 3, 3), (4, 2, 2, 2), (1, 8, 3, 3), groups=2, offset_groups=2, **_TWO
    ),
    case(("n", 2, "h", 5), ("n", 8, "h", 4), (3, 2, 2, 2), padding=[0, 0, 1, 0]),
)
