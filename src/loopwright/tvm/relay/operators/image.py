"""Operators on images: resized, cropped, sampled on grids, dilated."""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ....ops.core import INJECTIVE
from ....relax.expr import Var
from ...topi import image as topi_image
from ..expr import Expr
from . import layouts
from .common import LETTERS, dims_in, per_axis, whole, windows
from .core import Input, InputFloat32, InputInt64, Options, R, Row, kernel, numbers, op, same

# ---------------------------------------------------------------------- resizing


def _resized(data: Var | Input, size: list[Any], roi: Any, **options: Any) -> Any:
    """The data in another size, by Relax's operator where it computes the same: the nearest
    element depends on the last bit of a coordinate."""
    options["out_dtype"] = options["out_dtype"] or None
    linear = options["method"] != "nearest_neighbor"
    cropped = options["coordinate_transformation_mode"] == "tf_crop_and_resize"
    if len(size) == 2 and linear:
        options["rounding_method"] = "round"
        return R.image.resize2d(data, size, list(roi) if cropped else None, **options)
    for name in ("alpha", "exclude"):
        options[f"bicubic_{name}"] = options.pop(f"cubic_{name}")
    ends = [float(getattr(v, "value", v)) for v in roi] if cropped else None
    return kernel(getattr(topi_image, f"resize{len(size)}d"), data, ends, size, **options)


def _options(rank: int) -> Options:
    return {
        "layout": f"NC{LETTERS[rank]}",
        "method": "linear",
        "coordinate_transformation_mode": "half_pixel",
        "rounding_method": "",
        "cubic_alpha": -0.5,
        "cubic_exclude": 0,
        "extrapolation_value": 0.0,
        "out_dtype": None,
    }


def _resize(rank: int) -> Row:
    @op(f"image.resize{rank}d", attrs=f"Resize{rank}DAttrs", options=_options(rank), kind=INJECTIVE,
        mixed="follow" if rank == 2 else "", layout=layouts.permuting_image)  # fmt: skip
    def resize(data: Input, size: Any, roi: Any = None, **options: Any) -> Any:
        """The spatial axes of a batch of images in another size, which may be an expression."""
        return _resized(data, [whole(s) for s in size], roi, **options)

    @resize.build
    def _(size: Any, roi: Any, **options: Any) -> dict[str, Any]:
        size, roi = numbers(size), (0.0,) * (2 * rank) if roi is None else numbers(roi)
        if rank != 2 and (isinstance(size, Expr) or isinstance(roi, Expr)):
            what = f"resize{rank}d takes a size of numbers"
            raise NotImplementedError(explain(what, got="an expression", instead="resize2d"))
        listed = isinstance(size, (list, tuple, Expr))
        return {"size": size if listed else per_axis(size, rank), "roi": roi, **options}

    return resize


resize1d, resize2d, resize3d = map(_resize, LETTERS)


@op("dyn.image.resize2d", attrs="Resize2DAttrs", static=resize2d, options=_options(2))
def dyn_resize2d(data: Input, size: InputInt64, roi: InputFloat32, **options: Any) -> Any:
    """`image.resize2d` to a size of run time."""
    if options["coordinate_transformation_mode"] == "tf_crop_and_resize":
        what = "a region of run time is not known to the resize operators"
        raise ValueError(explain(what, instead="relay.image.crop_and_resize"))
    return _resized(data, dims_in(size, 2), None, **options)


@op("image.crop_and_resize", attrs="CropAndResizeAttrs")
def crop_and_resize(
    data: Input, boxes: Input, box_indices: Input, crop_size: Any, layout: str,
    method: str = "bilinear", extrapolation_value: float = 0, out_dtype: Any = None,
) -> Any:  # fmt: skip
    """Boxes of images, rows of (top, left, bottom, right) as parts of an image, in one size."""
    size = [int(s) for s in crop_size]
    return kernel(
        topi_image.crop_and_resize, data, boxes, box_indices, size, layout, method,
        float(extrapolation_value), out_dtype or None,
    )  # fmt: skip


# ---------------------------------------------------------------------- grids


@op("image.affine_grid", attrs="AffineGridAttrs")
def affine_grid(data: Input, target_shape: Any = None) -> Any:
    """The coordinates, from -1 to 1, of an image's pixels, transformed by matrices (batch, 2,
    3)."""
    return kernel(topi_image.affine_grid, data, [int(d) for d in target_shape])


same("image.grid_sample", attrs="GridSampleAttrs")


# ---------------------------------------------------------------------- dilation


@op("image.dilation2d", attrs="Dilation2DAttrs", layout=layouts.conv)
def dilation2d(
    data: Input, weight: Input, strides: Any = (1, 1), padding: Any = (0, 0),
    dilations: Any = (1, 1), data_layout: str = "NCHW", kernel_layout: str = "IHW",
    out_dtype: str = "",
) -> Any:  # fmt: skip
    """The greatest sum of pixel and filter in each window."""
    fitting = {"NCHW": "IHW", "NHWC": "HWI"}
    if fitting.get(data_layout) != kernel_layout:
        what = "dilation2d takes data NCHW with a filter IHW, or NHWC with HWI"
        raise ValueError(explain(what, got=f"{data_layout} and {kernel_layout}"))
    fn = getattr(topi_image, f"dilation2d_{data_layout.lower()}")
    return kernel(
        fn, data, weight, list(strides), list(padding), list(dilations), out_dtype or None
    )


@dilation2d.build
def _(data_layout: str, **attrs: Any) -> dict[str, Any]:
    for name in ("strides", "dilations"):
        if isinstance(attrs[name], (list, tuple)) and len(attrs[name]) == 4:  # of all axes
            steps = dict(zip(data_layout, attrs[name], strict=True))
            if steps.pop("N") != 1 or steps.pop("C") != 1:
                what = f"dilation2d: {name} of N and C are 1"
                raise ValueError(explain(what, got=f"{list(attrs[name])} of {data_layout}"))
            attrs[name] = list(steps.values())
    return windows({"data_layout": data_layout, **attrs}, 2, "strides", "dilations")
