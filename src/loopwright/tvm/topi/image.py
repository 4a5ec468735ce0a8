"""topi's images: resized in one to three dimensions, cropped, sampled on grids, dilated."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import te, tir
from ...base.errors import explain, suggest
from ...ir.dtype import DataType
from ...ir.prim_expr import PrimExpr
from ...ops import OPERATORS
from ...ops.blocks import spatial
from ...ops.common import accumulator
from ...ops.conv import expand_per_axis
from ...ops.resizing import COORDINATE_MODES, EXPRESSIONS, METHODS, ROUNDING, Span, Style
from ...te.tensor import Tensor
from ...tir import layout as layout_of
from ...tir.data_layout import Layout
from .padding import Ints, get_pad_tuple, listed
from .utils import simplify


def _checked(
    what: str, value: str, choices: Sequence[str] | Mapping[str, Callable[..., Any]]
) -> str:
    if value not in choices:
        raise ValueError(
            explain(f"unknown {what}", got=repr(value), instead=suggest(value, choices))
        )
    return value


def _style(method: str, coordinates: str, rounding: str, alpha: float, exclude: int) -> Style:
    # TVM rounds down, except with "align_corners", where it rounds halves up.
    nearest = rounding or ("round_prefer_ceil" if coordinates == "align_corners" else "floor")
    _checked("method", method, METHODS)
    _checked("coordinate_transformation_mode", coordinates, COORDINATE_MODES)
    return Style(
        method, coordinates, _checked("rounding_method", nearest, ROUNDING), alpha, bool(exclude)
    )


def _sampled(
    data: Tensor, plan: Layout, at: dict[str, Any], taps: Sequence[Any], style: Style
) -> Any:
    """The value of the taps, one list of (index, weight) for each spatial axis."""
    letters, value = spatial(plan), None
    for corner in itertools.product(*taps):
        where = {
            **at,
            **{s: coordinate for s, (coordinate, _) in zip(letters, corner, strict=True)},
        }
        picked = data(*(where[n] for n in plan))
        if style.method == "nearest_neighbor":
            return picked
        picked = picked.astype(accumulator(data.dtype))
        for _, weight in corner:
            picked = picked * weight
        value = picked if value is None else value + picked
    return value


def _slack(coordinate: PrimExpr, style: Style) -> Any:
    """The place for the nearest element below or above, which an error of rounding does not change."""
    if style.method != "nearest_neighbor" or style.rounding not in ("floor", "ceil"):
        return coordinate
    return coordinate + te.const(1e-5 if style.rounding == "floor" else -1e-5, coordinate.dtype)


def _resize(rank: int) -> Callable[..., Tensor]:
    plain = f"NC{'DHW'[3 - rank :]}"

    def resize(
        data: Tensor, roi: Sequence[float] | None, size: Ints, layout: str = plain,
        method: str = "linear", coordinate_transformation_mode: str = "half_pixel",
        rounding_method: str = "", bicubic_alpha: float = -0.75, bicubic_exclude: int = 0,
        extrapolation_value: float = 0.0, out_dtype: DataType | str | None = None,
        output_shape: Any = None,
    ) -> Tensor:  # fmt: skip
        plan, mode = layout_of(layout), coordinate_transformation_mode
        letters = spatial(plan)
        style = _style(method, mode, rounding_method, bicubic_alpha, bicubic_exclude)
        sizes = dict(zip(letters, listed(size), strict=True))
        shape = [sizes.get(n, d) for n, d in zip(plan, data.shape, strict=True)]
        have = {n: data.shape[k] for k, n in enumerate(plan) if n in letters}
        bounds = list(roi) if roi is not None and len(roi) else [0.0] * rank + [1.0] * rank

        def cell(*i: PrimExpr) -> Any:
            at = dict(zip(plan, i, strict=True))
            taps, outside = [], []
            for n, s in enumerate(letters):
                extent = have[s].astype("float32")
                ends = (bounds[n], bounds[n + rank])
                coordinate = COORDINATE_MODES[mode](
                    at[s].astype("float32"), Span(EXPRESSIONS, extent, sizes[s], roi=ends)
                )
                outside += [coordinate < 0, coordinate > extent - 1]
                taps.append(style.taps(_slack(coordinate, style), have[s], EXPRESSIONS))
            value = _sampled(data, plan, at, taps, style)
            if mode == "tf_crop_and_resize":
                fill = te.const(extrapolation_value, value.dtype)
                value = tir.if_then_else(tir.any(*outside), fill, value)
            return value.astype(out_dtype or data.dtype)

        return te.compute(output_shape or shape, cell, name="resize", tag="injective")

    resize.__name__ = resize.__qualname__ = f"resize{rank}d"
    resize.__doc__ = (
        "The data in another `size`; see the graph's resize2d for the options. `roi`: the first, then "
        'the last ends of the part that is read, for "tf_crop_and_resize".'
    )
    return resize


resize1d, resize2d, resize3d = map(_resize, (1, 2, 3))


def crop_and_resize(
    data: Tensor, boxes: Tensor, box_indices: Tensor, crop_size: Sequence[int],
    layout: str = "NCHW", method: str = "bilinear", extrapolation_value: float | None = None,
    out_dtype: Any = None,
) -> Tensor:  # fmt: skip
    """The boxes, rows of (top, left, bottom, right) as parts of an image, of the images `box_indices`, in
    the size `crop_size`; elements outside are `extrapolation_value`."""
    plan = layout_of(layout)
    name = {"bilinear": "linear"}.get(method.lower(), method.lower())
    style = _style(name, "tf_crop_and_resize", "round", -0.75, 0)
    sizes = dict(zip("HW", crop_size, strict=True))
    extents = dict(zip(plan, data.shape, strict=True))
    shape = [{"N": box_indices.shape[0], **sizes}.get(n, d) for n, d in extents.items()]

    def cell(*i: PrimExpr) -> Any:
        at = dict(zip(plan, i, strict=True))
        box = at["N"]
        taps, outside = [], []
        for n, s in enumerate("HW"):
            extent = extents[s].astype("float32")
            span = Span(
                EXPRESSIONS,
                extent,
                te.const(sizes[s], "float32"),
                roi=(boxes(box, n), boxes(box, n + 2)),
            )
            coordinate = COORDINATE_MODES["tf_crop_and_resize"](at[s].astype("float32"), span)
            outside += [coordinate < 0, coordinate > extent - 1]
            taps.append(style.taps(coordinate, extents[s], EXPRESSIONS))
        value = _sampled(data, plan, {**at, "N": box_indices(box)}, taps, style)
        fill = te.const(extrapolation_value or 0.0, value.dtype)
        return tir.if_then_else(tir.any(*outside), fill, value).astype(out_dtype or data.dtype)

    return te.compute(shape, cell, name="crop_and_resize", tag="injective")


def affine_grid(data: Tensor, target_shape: Sequence[int]) -> Tensor:
    """The coordinates (x, y), between -1 and 1, of an image's pixels (height, width), transformed
    by matrices (batch, 2, 3)."""
    if len(target_shape) != 2 or min(map(int, target_shape)) < 2:
        what = "affine_grid: target_shape is a height and a width of 2 or more"
        raise ValueError(explain(what, got=str(target_shape)))
    return OPERATORS["relax.image.affine_grid"](data, [int(n) for n in target_shape])


def grid_sample(
    data: Tensor, grid: Tensor, method: str = "bilinear", layout: str = "NCHW",
    padding_mode: str = "zeros", align_corners: bool = True,
) -> Tensor:  # fmt: skip
    """The data (NCHW or NCDHW) at the coordinates of a grid, as the graph's operator."""
    _checked("layout", layout, ("NCHW", "NCDHW"))
    _checked("method", method, ("nearest", "bilinear", "bicubic"))
    _checked("padding_mode", padding_mode, ("zeros", "border", "reflection"))
    options = (method, layout, padding_mode, align_corners)
    return OPERATORS["relax.image.grid_sample"](data, grid, *options)


def _dilation2d(layout: str) -> Callable[..., Tensor]:
    def dilation2d(
        input: Tensor, filter: Tensor, stride: Ints, padding: int, dilations: Ints,
        out_dtype: Any = None,
    ) -> Tensor:  # fmt: skip
        kind = out_dtype or input.dtype
        steps, gaps = (expand_per_axis(listed(v), 2, "stride") for v in (stride, dilations))
        order = [layout.index(n) - (layout.index(n) > 0) for n in "CHW"]  # of the filter, without N
        window = [filter.shape[order[1]], filter.shape[order[2]]]
        dilated = [simplify((k - 1) * g + 1) for k, g in zip(window, gaps, strict=True)]
        pads = get_pad_tuple(padding, dilated)
        k = [te.reduce_axis((0, e), name=n) for e, n in zip(window, ("ry", "rx"), strict=True)]
        axes = [layout.index(n) for n in "HW"]
        shape = list(input.shape)
        for n, a in enumerate(axes):
            shape[a] = simplify((shape[a] + pads[n] + pads[n + 2] - dilated[n]) // steps[n] + 1)
        zero = te.const(0, kind)

        def cell(*i: PrimExpr) -> Any:
            at, sides = list(i), []
            for n, a in enumerate(axes):
                at[a] = i[a] * steps[n] + k[n] * gaps[n] - pads[n]
                sides += [at[a] >= 0, at[a] < input.shape[a]]
            value = tir.if_then_else(tir.all(*sides), input(*at).astype(kind), zero)
            tap = {order[0]: i[layout.index("C")], order[1]: k[0], order[2]: k[1]}
            return te.max(value + filter(*(tap[n] for n in range(3))).astype(kind), axis=k)

        return te.compute(shape, cell, name="dilation2d", tag=f"dilation2d_{layout.lower()}")

    dilation2d.__name__ = dilation2d.__qualname__ = f"dilation2d_{layout.lower()}"
    dilation2d.__doc__ = f"The greatest sum of pixel and filter in each window of an image {layout}; the border is 0."
    return dilation2d


dilation2d_nchw, dilation2d_nhwc = map(_dilation2d, ("NCHW", "NHWC"))
